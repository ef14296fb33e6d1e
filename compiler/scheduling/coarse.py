"""Which values may be a little off, for nobody sees it: what is rounded to a half when it is stored, or summed up.

    %3 : float32 = exp(%2)          coarse: only %5 depends on it
    %5 : float32 = mul(%3, %x)
    store %result[i], %5            (bfloat16)

A half has 8 or 11 bits of precision, so that an error of 2^-16 does not show. It would where a value decides something,
in a comparison, an index or a rounding to integers, or where it is kept in float32.

Terms of a sum of what was computed from halves may be coarse wherever it goes: partial sums of halves are kept in
float32 on their way to a half, and a sum is no more off than its terms are.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..kernel_ir.kernel import POSITIONS, Buffer, Cast, Compute, Definition, Kernel, Load, Reduce, Statement, Store
from ..kernel_ir.statements import indices, operands, used_names
from ..ops.scalar import PRIMITIVES
from ..types.dtypes import FLOAT32

JUMPS = frozenset(
    ("floor", "ceil", "round", "trunc", "sign", "floordiv", "truncdiv", "remainder", "fmod", "nextafter", "copysign")
)
"""Primitives from numbers to numbers whose results leap where operands hardly change."""


def coarse_values(kernel: Kernel) -> frozenset[str]:
    """The float32 values of a kernel that an error of 2^-16 does not spoil."""
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    loads = [s for s in kernel.body if isinstance(s, Load) and s.dtype.is_floating]
    exact: set[str] = set()
    for statement in reversed(kernel.body):
        exact.update(_asked(statement, exact, buffers, loads))
    return frozenset(
        s.name for s in kernel.body if isinstance(s, Definition) and s.dtype == FLOAT32 and s.name not in exact
    )


def _asked(statement: Statement, exact: set[str], buffers: dict[str, Buffer], loads: list[Load]) -> Iterable[str]:
    """The names among what a statement uses that have to be as exact as they can be."""
    if _hides(statement, exact, buffers, loads):
        chosen = operands(statement)
        return [name for index in indices(statement) for name in index.values if name not in chosen]
    return used_names(statement)


def _hides(statement: Statement, exact: set[str], buffers: dict[str, Buffer], loads: list[Load]) -> bool:
    """Whether nobody sees from a statement that its operands are a little off."""
    match statement:
        case Store():
            return buffers[statement.buffer].dtype.is_half
        case Reduce(combine="sum") if _is_of_halves(statement, loads):
            return True
        case Reduce():
            return statement.combine not in POSITIONS and statement.name not in exact
        case Cast():
            return (statement.dtype.is_half or statement.dtype == FLOAT32) and statement.name not in exact
        case Compute():
            leaps = PRIMITIVES[statement.primitive].result == "bool" or statement.primitive in JUMPS
            return not leaps and statement.name not in exact
    return False


def _is_of_halves(reduction: Reduce, loads: list[Load]) -> bool:
    """Whether what is read along the axes of a reduction is halves, as far as it is floating."""
    along = [load for load in loads if load.axes & reduction.over]
    return bool(along) and all(load.dtype.is_half for load in along)
