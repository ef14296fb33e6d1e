"""The order of a body that a program walks row by row: the one in which the fewest values are alive at once.

    %g = load …                                 %u = uniform …
    %g1 = mul(%g, %weight)                      %x = load …
    %s = reduce sum %g1 over j                  %n = mul(%x, %u)
    %u = uniform …                       →      %g = load …
    %x = load …                                 %grad_bias = reduce sum %g over r
    %n = mul(%x, %u)                            %g1 = mul(%g, %weight)
    %2 = mul(%g1, %n)                           %2 = mul(%g1, %n)
    %t = reduce sum %2 over j                   %t = reduce sum %2 over j
    …                                           %s = reduce sum %g1 over j
    %grad_bias = reduce sum %g over r           …

Of operands, and of reductions that need none of each other, those come first that take the most registers while they
are computed, while the least is held beside them: Sethi and Ullman 1970, "The generation of optimal code for arithmetic
expressions". What is accumulated along a serial axis has its registers from the first row to the last, so it is added
as soon as it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..kernel_ir.kernel import Cast, Definition, Load, Reduce, Statement, Uniform
from ..kernel_ir.statements import slice_of, used_names

DRAWING = 1
"""32-bit words that each of four random numbers takes until they are known, besides its own."""
BLOCK = 4
"""Numbers that are drawn at once: while nothing else waits, so draws come first."""


def frugal_order(body: Sequence[Statement], row: frozenset[str], serial: frozenset[str]) -> list[Statement]:
    """The statements of a body that is reduced along the axes of a row, and accumulated along serial axes."""
    return _accumulated_early(_heaviest_first(body, row), serial)


def with_early_loads(body: Sequence[Statement]) -> list[Statement]:
    """The statements with loads, and what they are cast to, before all that does not tell them their place."""
    early: dict[str, Statement] = {}
    for statement in body:
        is_early = isinstance(statement, Load) or (isinstance(statement, Cast) and statement.operand in early)
        if is_early and isinstance(statement, Definition) and all(name in early for name in used_names(statement)):
            early[statement.name] = statement
    return [*early.values(), *(s for s in body if not (isinstance(s, Definition) and s.name in early))]


def with_late_loads(body: Sequence[Statement], row: frozenset[str]) -> list[Statement]:
    """The statements with loads along a row that no reduction of it needs where they are first used: a row that is held
    waits for its reductions by itself."""
    reduced = [name for s in body if isinstance(s, Reduce) and s.over & row for name in used_names(s)]
    early = {s.name for s in slice_of(body, reduced) if isinstance(s, Load)}
    waiting = {s.name: s for s in body if isinstance(s, Load) and s.axes & row and s.name not in early}
    ordered: list[Statement] = []
    for statement in body:
        if isinstance(statement, Load) and statement.name in waiting:
            continue
        pending = [name for name in used_names(statement) if name in waiting]
        for name in pending:
            # And what tells it its place.
            pending += [inner for inner in used_names(waiting[name]) if inner in waiting]
        ordered += [waiting.pop(name) for name in [*waiting] if name in pending]
        ordered.append(statement)
    return ordered


def _heaviest_first(body: Sequence[Statement], row: frozenset[str]) -> list[Statement]:
    needs, levels = _needs(body), _levels(body, row)
    roots = [s for s in body if isinstance(s, Reduce) and s.over & row]
    roots.sort(key=lambda s: (levels[s.name], -needs[s.name]))
    defined = {s.name: s for s in body if isinstance(s, Definition)}
    ordered: dict[int, Statement] = {}
    for root in [*roots, *body]:
        _append(root, defined, needs, ordered)
    return list(ordered.values())


def _append(
    root: Statement, defined: Mapping[str, Definition], needs: Mapping[str, int], ordered: dict[int, Statement]
) -> None:
    """Append a statement after what it uses, in order of descending need."""
    pending = [root]
    while pending:
        statement = pending[-1]
        missing = [defined[name] for name in used_names(statement) if name in defined]
        missing = [s for s in missing if id(s) not in ordered]
        if missing and id(statement) not in ordered:
            pending.append(max(missing, key=lambda s: needs[s.name]))
            continue
        pending.pop()
        ordered.setdefault(id(statement), statement)


def _needs(body: Sequence[Statement]) -> dict[str, int]:
    """Values by name → how many are alive at once while they are computed, of those that no reduction has left."""
    found: dict[str, int] = {}
    for statement in body:
        if not isinstance(statement, Definition):
            continue
        operands = sorted({name: found.get(name, 0) for name in used_names(statement)}.values(), reverse=True)
        own = BLOCK if isinstance(statement, Uniform) else 1
        found[statement.name] = max([own, *(need + held for held, need in enumerate(operands))])
    return found


def _levels(body: Sequence[Statement], row: frozenset[str]) -> dict[str, int]:
    """Values by name → how many reductions of the row come one after the other before them."""
    found: dict[str, int] = {}
    for statement in body:
        if isinstance(statement, Definition):
            level = max((found.get(name, 0) for name in used_names(statement)), default=0)
            found[statement.name] = level + (isinstance(statement, Reduce) and bool(statement.over & row))
    return found


def _accumulated_early(body: Sequence[Statement], serial: frozenset[str]) -> list[Statement]:
    """The statements with reductions over serial axes, and what is computed for these alone, as soon as they can be."""
    early = _only_accumulated(body, serial)
    unknown = {s.name for s in body if isinstance(s, Definition)}
    pending = [s for s in body if isinstance(s, Definition) and s.name in early]
    ordered: list[Statement] = []

    def append(statement: Statement) -> None:
        ordered.append(statement)
        if isinstance(statement, Definition):
            unknown.discard(statement.name)

    for statement in body:
        if isinstance(statement, Definition) and statement.name in early:
            continue
        append(statement)
        for waiting in list(pending):
            if unknown.isdisjoint(used_names(waiting)):
                pending.remove(waiting)
                append(waiting)
    return [*ordered, *pending]


def _only_accumulated(body: Sequence[Statement], serial: frozenset[str]) -> frozenset[str]:
    """Reductions over serial axes, and the values that nothing but these needs."""
    found: set[str] = set()
    needed: set[str] = set()
    for statement in reversed(body):
        is_sum = isinstance(statement, Reduce) and bool(statement.over & serial)
        is_needed = not isinstance(statement, Definition) or isinstance(statement, Load) or statement.name in needed
        if isinstance(statement, Definition) and (is_sum or not is_needed):
            found.add(statement.name)
        else:
            needed.update(used_names(statement))
    return frozenset(found)
