"""Sums of which one term counts: of a number that stands where a position equals an index, and zeros elsewhere.

    %p : int64 [j] = position j                     %v0 : bool [i] = ge(%t, 0)
    %hit : bool [i, j] = eq(%p, %t)           →     %v1 : bool [i] = lt(%t, 1000)
    %g : float32 [i, j] = where(%hit, %x, 0)        %t_inside : bool [i] = and(%v0, %v1)
    %s : float32 [i] = reduce sum %g over j         %s : float32 [i] = where(%t_inside, %x, 0)

The gradient of what was picked out of a row is such a number among zeros, and that of a softmax before it asks for the
sum of the row: without this, a pass over all columns adds zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...lang.light_dataclasses import dataclass
from ..kernel_ir.index import axis
from ..kernel_ir.kernel import Cast, Compute, Definition, Kernel, KernelConstant, Operand, Position, Reduce, Statement
from ..kernel_ir.parts import fresh, names_of
from ..kernel_ir.statements import without_unused
from ..types.dtypes import BOOL, DType


@dataclass(frozen=True, slots=True)
class _Single:
    """A value that is `number`, rounded by `casts`, where the position along an axis is `at`, and 0 elsewhere."""

    number: Operand
    at: str
    casts: tuple[DType, ...]


def pick_single_terms(kernel: Kernel) -> Kernel:
    """The kernel with sums of single terms in place of reductions."""
    defined = {s.name: s for s in kernel.body if isinstance(s, Definition)}
    taken = names_of(kernel)
    body: list[Statement] = []
    for statement in kernel.body:
        single = _single(statement, defined)
        if single is None:
            body.append(statement)
            continue
        assert isinstance(statement, Reduce)
        body += _picked(statement, single, kernel, taken)
    return kernel if len(body) == len(kernel.body) else kernel.with_body(without_unused(body))


def _single(statement: Statement, defined: Mapping[str, Definition]) -> _Single | None:
    """What a sum over one axis comes to, if it is one of single terms."""
    if not (isinstance(statement, Reduce) and statement.combine == "sum" and len(statement.over) == 1):
        return None
    (along,) = statement.over
    chosen, casts = defined.get(str(statement.operand)), []
    while isinstance(chosen, Cast) and chosen.dtype.is_floating:
        casts.append(chosen.dtype)
        chosen = defined.get(str(chosen.operand))
    if not isinstance(chosen, Compute) or chosen.primitive != "where" or chosen.operands[2] != KernelConstant(0):
        return None
    condition, number, _ = chosen.operands
    hit = defined.get(str(condition))
    if _varies(number, along, defined) or not isinstance(hit, Compute) or hit.primitive != "eq":
        return None
    for position, at in (hit.operands, hit.operands[::-1]):
        found = defined.get(str(position))
        if isinstance(found, Position) and found.index == axis(along) and isinstance(at, str) and at in defined:
            return None if _varies(at, along, defined) else _Single(number, at, tuple(casts[::-1]))
    return None


def _varies(operand: Operand, along: str, defined: Mapping[str, Definition]) -> bool:
    return isinstance(operand, str) and operand in defined and along in defined[operand].axes


def _picked(statement: Reduce, single: _Single, kernel: Kernel, taken: set[str]) -> list[Statement]:
    (along,) = statement.over
    low, high, inside = (fresh("v", taken), fresh("v", taken), fresh(f"{single.at}_inside", taken))
    axes = next(s.axes for s in kernel.body if isinstance(s, Definition) and s.name == single.at)
    size = KernelConstant(kernel.axis(along).size)
    number, rounded = single.number, []
    for dtype in single.casts:
        rounded.append(Cast(fresh("v", taken), dtype, statement.axes, number))
        number = rounded[-1].name
    return [
        *rounded,
        Compute(low, BOOL, axes, "ge", (single.at, KernelConstant(0))),
        Compute(high, BOOL, axes, "lt", (single.at, size)),
        Compute(inside, BOOL, axes, "and", (low, high)),
        Compute(statement.name, statement.dtype, statement.axes, "where", (inside, number, KernelConstant(0))),
    ]
