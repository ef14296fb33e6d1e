"""What is planned, its kernels built, or a notice why there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ....compiler.codegen.text import Unsupported
from ....compiler.fusion.refusals import Unsettled
from ....compiler.fusion.straight import Unfusable
from ....compiler.shapes.propagate import ShapeError
from ..failure import KernelFailure
from ..notices import tell
from .compiler import has_compiler

P = TypeVar("P")


def loaded(plan: Callable[[], P], refused: Callable[[Exception], Any]) -> P | None:
    """What is planned, its kernels built; None where there are none to be had, of which one notice says why.

    `refused` is told why there are none for such values in particular.
    """
    if not has_compiler():
        return None
    try:
        return plan()
    except (ShapeError, Unsettled):
        # What the data has wrong is told by the ops themselves, run one by one.
        return None
    except (Unfusable, Unsupported) as error:
        refused(error)
        return None
    except KernelFailure as error:
        tell(f"kernels in C cannot be built, so functions run op by op: {error}", of="kernels in C")
        return None
