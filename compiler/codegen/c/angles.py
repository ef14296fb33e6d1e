"""Sines of angles that are not large, at half the cost: loops are written for these, and strips with others run again.

    for (int64_t i_start = i_first; i_start < i_end; i_start += 1024) {
        int is_far = 0;
        for (…) { is_far |= gs_is_far_f32(x); y[i] = gs_near_sin_f32(x); }
        if (is_far) for (…) y[i] = gs_sin_f32(x);
    }

Both give a small angle the same sine, so that no element depends on those beside it.
"""

from __future__ import annotations

from ....lang.light_dataclasses import replace
from ...kernel_ir.in_place import shares_memory
from ...kernel_ir.kernel import Compute, Definition, Kernel
from ...scheduling.nest import Accumulate, AxisLoop, Evaluate, Put
from .primitives import CSpelling

OF_ANGLES = frozenset(("sin", "cos", "tan"))


def is_of_angle(statement: Definition) -> bool:
    """Whether it is a function with a quicker form for angles that are not large."""
    return (
        isinstance(statement, Compute)
        and statement.primitive in OF_ANGLES
        and statement.dtype.is_floating
        and isinstance(statement.operands[0], str)
    )


def near(spelling: CSpelling) -> CSpelling:
    """The spelling of the form for angles that are not large."""
    helper = spelling.helper.replace("gs_", "gs_near_", 1)
    return replace(spelling, template=spelling.template.replace(spelling.helper, helper), helper=helper)


def is_of_angles(loop: AxisLoop, kernel: Kernel) -> bool:
    """Whether the points of a loop are of such functions, and may be computed again: none reads what another writes."""
    stores = [item.statement for item in loop.body if isinstance(item, Put)]
    return (
        any(isinstance(item, Evaluate) and is_of_angle(item.statement) for item in loop.body)
        and not any(isinstance(item, Accumulate) for item in loop.body)
        and not any(shares_memory(kernel, kernel.buffer(store.buffer)) for store in stores)
    )
