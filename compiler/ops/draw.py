"""Where `gs::seed` takes its seeds from: the generator of a runtime, which puts itself in `Draw.source`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar


class Draw:
    """The one thing that ops know of random state."""

    source: ClassVar[Callable[[], int] | None] = None


def draw_seed() -> int:
    """The next seed of the generator in force. RuntimeError where no runtime is loaded."""
    if Draw.source is None:
        raise RuntimeError("gs::seed draws from a generator: no runtime is loaded that has one")
    return Draw.source()
