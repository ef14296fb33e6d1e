"""A body in the order in which loops allow it: straight code, a loop, straight code, another loop, ….

    loop 0   s = sum of x over j                       mean
             mean = s / 1000
    loop 1   q = sum of (x - mean)**2 over j           variance
             rstd = rsqrt(q / 1000 + eps)
    loop 2   store (x - mean) * rstd

What is reduced along the loop is known after it, so values along it are computed again in each loop that needs them. A
maximum m of x and the sum of exp(x - m) come from one loop: the sum is rescaled as the maximum grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...lang.light_dataclasses import dataclass, field
from ..kernel_ir.kernel import Compute, Definition, Reduce, Statement, Store
from ..kernel_ir.statements import slice_of, used_names
from .padding import is_shifted


@dataclass
class Phase:
    """Straight code, then a loop; the last phase has no loop."""

    straight: list[Statement] = field(default_factory=list)
    loop: list[Statement] = field(default_factory=list)


@dataclass(frozen=True)
class Online:
    """The sums of `exponent`, `exp(x - m)`, that are rescaled in the loop that finds the maximum m."""

    maximum: Reduce
    sums: tuple[Reduce, ...]


def online_sums(body: Sequence[Statement], along: frozenset[str]) -> dict[str, Online]:
    """Maxima along a loop, by name → the sums of exponentials that are taken along with them."""
    defined: dict[str, Statement] = {s.name: s for s in body if isinstance(s, Definition)}
    found: dict[str, list[Reduce]] = {}
    for statement in body:
        maximum = _rescaled_by(statement, defined, along)
        if maximum is not None:
            assert isinstance(statement, Reduce)
            found.setdefault(maximum, []).append(statement)
    result = {}
    for name, sums in found.items():
        maximum_statement = defined[name]
        assert isinstance(maximum_statement, Reduce)
        result[name] = Online(maximum_statement, tuple(sums))
    return result


def _rescaled_by(statement: Statement, defined: Mapping[str, Statement], along: frozenset[str]) -> str | None:
    """The maximum m if the statement is a sum of exp(x - m) along the loop."""
    if not (isinstance(statement, Reduce) and statement.combine == "sum" and statement.over == along):
        return None
    exponential = defined.get(str(statement.operand))
    if not isinstance(exponential, Compute) or exponential.primitive != "exp":
        return None
    shifted = defined.get(str(exponential.operands[0]))
    if not isinstance(shifted, Compute) or not is_shifted(shifted, defined, along):
        return None
    maximum = defined[str(shifted.operands[1])]
    same = isinstance(maximum, Reduce) and maximum.over == along and isinstance(maximum.operand, str)
    return str(shifted.operands[1]) if same else None


def phases_of(body: Sequence[Statement], along: frozenset[str], *, rescaled: bool = True) -> list[Phase]:
    """The body cut at the reductions along the axes of a loop; without axes, one phase.

    Unless sums are to be `rescaled`, they wait for the maximum.
    """
    fused = _fused(body, along) if rescaled else {}
    phases = _cut(body, along, fused)
    for phase in phases:
        phase.loop = _with_inner(body, phase.loop, along, fused)
    while len(phases) > 1 and not phases[-1].straight and not phases[-1].loop:
        phases.pop()
    if phases[-1].loop:
        phases.append(Phase())
    return phases


def is_read_once(body: Sequence[Statement], along: frozenset[str]) -> bool:
    """Whether one loop along axes does: nothing along them is needed again once it is reduced."""
    # What each loop needs besides is of no matter here, and finding it takes the square of how many there are.
    return sum(bool(phase.loop) for phase in _cut(body, along, _fused(body, along))) <= 1


def _fused(body: Sequence[Statement], along: frozenset[str]) -> dict[str, Online]:
    """The sums that are rescaled, by name."""
    return {total.name: found for found in online_sums(body, along).values() for total in found.sums} if along else {}


def _cut(body: Sequence[Statement], along: frozenset[str], fused: Mapping[str, Online]) -> list[Phase]:
    """The phases with what each loop is for: its reductions and stores, without what these need along it."""
    level = _levels(body, along, fused)
    phases = [Phase() for _ in range(max(level.values(), default=0) + 2)]
    for position, statement in enumerate(body):
        turn = level[position]
        if isinstance(statement, Reduce) and statement.over & along:
            phases[turn - 1].loop.append(statement)
        elif isinstance(statement, Definition):
            if not statement.axes & along:
                phases[turn].straight.append(statement)
        elif isinstance(statement, Store):
            inner = statement.index.axes & along or _varies(statement, body, along)
            (phases[turn].loop if inner else phases[turn].straight).append(statement)
    return phases


def _levels(body: Sequence[Statement], along: frozenset[str], fused: Mapping[str, Online]) -> dict[int, int]:
    """The statements by position → how many loops have to be over before them."""
    of_value: dict[str, int] = {}
    levels: dict[int, int] = {}
    for position, statement in enumerate(body):
        level = max((of_value.get(name, 0) for name in used_names(statement)), default=0)
        if isinstance(statement, Reduce) and statement.over & along:
            online = fused.get(statement.name)
            level = of_value[online.maximum.name] if online is not None else level + 1
        levels[position] = level
        if isinstance(statement, Definition):
            of_value[statement.name] = level
    return levels


def _varies(statement: Store, body: Sequence[Statement], along: frozenset[str]) -> bool:
    names = set(used_names(statement))
    return any(isinstance(s, Definition) and s.name in names and bool(s.axes & along) for s in body)


def _with_inner(
    body: Sequence[Statement], wanted: list[Statement], along: frozenset[str], fused: Mapping[str, Online]
) -> list[Statement]:
    """The statements of one loop, and the values along it that they need, in the order of the body."""
    names: list[str] = []
    for statement in wanted:
        online = fused.get(statement.name) if isinstance(statement, Reduce) else None
        names += used_names(online.maximum if online is not None else statement)
    inner = [s for s in body if isinstance(s, Definition) and s.axes & along]
    kept = {id(s) for s in [*slice_of(inner, names), *wanted]}
    return [s for s in body if id(s) in kept]
