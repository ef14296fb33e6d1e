"""Stages over whole vectors: where a piece ends within one, what it reads and writes lies in arrays that do not.

    const int64_t i_whole = i_start + ((i_stop - i_start + 15) & -16);
    float x_edge[256], y_edge[256];
    const float *x_here = gs_at_edge(x_edge, x_ptr + i_start, sizeof(float) * (i_stop - i_start), …);
    float *y_here = i_whole == i_stop ? y_ptr + i_start : y_edge;
    for (int64_t i = i_start; i < i_whole; ++i) y_here[i - i_start] = … x_here[i - i_start] …;
    if (i_whole != i_stop) __builtin_memcpy(y_ptr + i_start, y_edge, sizeof(float) * (i_stop - i_start));

What lies apart in memory, or the other way round, is brought together there before the first stage in any case.

What is left behind the last whole vector would have a text of its own in each loop, point by point: it takes a compiler
almost as long as the loop does, and fifteen points of several functions as long as a hundred side by side.
"""

from __future__ import annotations

from collections.abc import Collection

from ...kernel_ir.kernel import Compute, Kernel, Load, Store
from ...kernel_ir.statements import used_names
from ...scheduling.nest import AxisLoop, Evaluate, Nest, Put
from .lanes import LEAST_LANES

REGISTER = 64
"""Bytes of the widest vectors."""
MOST = 24
"""Arrays of edges, for they are of the stack."""
_DIVIDING = frozenset(("floordiv", "truncdiv", "remainder", "fmod"))
"""Of integers, what processors stop at where there is no divisor."""


def moved_of(
    loop: AxisLoop, nest: Nest, elsewhere: Collection[int], with_room: Collection[int] = ()
) -> list[Load | Store]:
    """What a loop in stages reads and writes along its axis; none where it keeps to its points.

    `elsewhere` are stores, by their identity, whose places are told already; those `with_room` are in arrays that have
    some behind the last point.
    """
    found: list[Load | Store] = []
    inside = {item.statement.name for item in loop.body if isinstance(item, Evaluate)}
    for item in loop.body:
        if not isinstance(item, Evaluate | Put):
            return []
        statement = item.statement
        if any(name in nest.arrays for name in used_names(statement) if name not in inside):
            return []
        if id(statement) in with_room:
            continue
        if isinstance(statement, Load | Store):
            index = statement.index
            if statement.conditions or not index.is_affine() or id(statement) in elsewhere:
                return []
            if loop.axis in index.axes:
                found.append(statement)
            elif isinstance(statement, Store):
                return []
        elif isinstance(statement, Compute) and statement.primitive in _DIVIDING and not statement.dtype.is_floating:
            return []
    return found if len(found) <= MOST else []


def is_apart(moved: Load | Store, axis: str) -> bool:
    """Whether neighbours along an axis lie apart in memory, or the other way round."""
    return moved.index.coefficient(axis) != 1


def points_of_vector(kernel: Kernel, moved: Collection[Load | Store]) -> int:
    """How many points a loop takes at once at most."""
    return max(REGISTER // min(kernel.buffer(s.buffer).dtype.itemsize for s in moved), LEAST_LANES)
