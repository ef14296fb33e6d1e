"""Arguments that kernels take as they come: what is known of them before anything is planned."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import Any

from ..ops.meta import UNKNOWN

_LARGEST = 3.3895313892515355e38
"""Of bfloat16, which is the least of those with the range of float32."""


def is_unasked(value: float, settled: bool) -> bool:
    """Whether kernels take any float in the place of this one.

    What is beyond float32 an op may refuse, and where all are `settled` each has kernels of its own.
    """
    return not settled and not _LARGEST < abs(value) < inf


def planned_for(value: Any, settled: bool) -> Any:
    """What of a value that is no tensor a plan depends on: UNKNOWN in the place of a float of which it does not."""
    return UNKNOWN if isinstance(value, float) and is_unasked(value, settled) else value


def float_key(value: float, settled: bool) -> tuple[Any, ...]:
    """What tells a float from others in the key of a plan."""
    return (float, None if is_unasked(value, settled) else value.hex())


def open_seeds(values: Sequence[Any], seeds: Collection[int]) -> Sequence[Any]:
    """The values, with UNKNOWN in the places of seeds: each call has its own."""
    return [UNKNOWN if i in seeds else value for i, value in enumerate(values)] if seeds else values
