"""An axis cut into chunks: position = chunk * length + step, where the last chunk may be short.

How many chunks there are, how long they are and where the last one ends are sizes that texts have by name. So the end
is asked for wherever chunks are, also where they come out even.
"""

from __future__ import annotations

from ...lang.light_dataclasses import replace
from ..kernel_ir.index import Atom, AxisAtom, Index, SizeValues, axis
from ..kernel_ir.kernel import (
    Axis,
    Compute,
    Condition,
    Definition,
    Kernel,
    KernelConstant,
    Load,
    Position,
    Reduce,
    Statement,
    Store,
    Total,
)
from ..kernel_ir.queries import defined, fresh, names_of, reduced_dtype, statement_axes, with_dependents
from ..kernel_ir.statements import conditions, slice_of, used_names, with_axes_found, with_indices
from ..types.dtypes import BOOL, INT64
from ..types.open_sizes import at_hand
from .padding import choose_others, identity, needs_mask, outside
from .partials import Partials


def chunked(kernel: Kernel, cut: str, chunk: int, finals: list[Reduce], *, wide: bool) -> list[Kernel]:
    """The two kernels; one where a single chunk holds everything. Partial sums are added up in float64 if `wide`: a
    single one is what it was, so that two kernels made for several chunks serve few rows too."""
    size = kernel.axis(cut).size
    count = -(-size // chunk)
    if not (wide and at_hand(count) > 1) and count <= 1:
        return [kernel]
    rest = [s for s in with_dependents(kernel, finals) if s not in finals]
    first = _needed([s for s in kernel.body if s not in rest], finals)
    taken = names_of(kernel)
    chunks = Axis(_repeated("c", taken), count, dynamic=True)
    step = Axis(_repeated("r", taken), chunk, kernel.axis(cut).role, dynamic=True)
    position = axis(chunks.name) * chunk + axis(step.name)
    partials = Partials(kernel, chunks, finals, wide)
    cut_kernel = _cut(kernel, first, cut, chunks, step, position)
    cut_kernel = _within(cut_kernel, step.name, chunks.name, Condition(position, 0, size, cut))
    return [partials.stored_by(cut_kernel, position, step.name), partials.finished(rest)]


def _needed(body: list[Statement], finals: list[Reduce]) -> list[Statement]:
    """The stores, the final reductions, and what they depend on."""
    wanted = [name for s in body if isinstance(s, Store) for name in used_names(s)]
    found = {id(s) for s in slice_of(body, [*wanted, *(final.name for final in finals)])}
    return [s for s in body if isinstance(s, Store) or id(s) in found]


def _repeated(letter: str, taken: set[str]) -> str:
    name = letter
    while name in taken:
        name += letter
    taken.add(name)
    return name


def _cut(kernel: Kernel, body: list[Statement], cut: str, chunks: Axis, step: Axis, position: Index) -> Kernel:
    """The statements with a position made of chunk and step for an axis."""
    axes = [chunks]
    for old in kernel.axes:
        axes.append(step if old.name == cut else old)
    sizes = {a.name: a.size for a in axes}
    changed = [_along(statement, cut, chunks.name, step.name, position, sizes) for statement in body]
    return replace(kernel, axes=tuple(axes), body=tuple(with_axes_found(changed)))


def _along(statement: Statement, cut: str, chunks: str, step: str, position: Index, sizes: SizeValues) -> Statement:
    def moved(atom: Atom) -> Index | None:
        return position if isinstance(atom, AxisAtom) and atom.name == cut else None

    statement = with_indices(statement, lambda index: index.substitute(moved, sizes))
    if isinstance(statement, Reduce) and cut in statement.over:
        statement = replace(statement, over=statement.over - {cut} | {step}, axes=statement.axes | {chunks})
    elif isinstance(statement, Definition) and cut in statement.axes:
        statement = replace(statement, axes=statement.axes - {cut} | {chunks, step})
    return statement


def _within(kernel: Kernel, step: str, chunks: str, condition: Condition) -> Kernel:
    """The kernel whose last chunk is short: nothing is read or written past the end, and reductions see identities."""
    body: list[Statement] = []
    axes_of = statement_axes(kernel)
    for statement in kernel.body:
        if isinstance(statement, Load | Store) and step in axes_of(statement):
            statement = replace(statement, conditions=(*conditions(statement), condition))
        body.append(statement)
    names = frozenset({step})
    body = choose_others(_unconditional(body, condition), [names])
    known = outside(body, names)
    result: list[Statement] = []
    taken, inside = names_of(kernel), ""
    for statement in _conditional(body, kernel, step, condition):
        if isinstance(statement, Reduce) and step in statement.over and needs_mask(statement, known):
            if not inside:
                tests = _tests(statement.name, frozenset((chunks, step)), condition, taken)
                result += tests
                inside = tests[-1].name
            result += _masked(statement, kernel, frozenset((chunks, step)), inside, taken)
        else:
            result.append(statement)
    return kernel.with_body(with_axes_found(result))


def _tests(name: str, varies: frozenset[str], condition: Condition, taken: set[str]) -> list[Definition]:
    """Whether a condition, which varies along some axes, holds: the last of them says so."""
    at, inside = (fresh(f"{name}_{part}", taken) for part in ("at", "inside"))
    return [
        Position(at, INT64, varies, condition.index),
        Compute(inside, BOOL, varies, "lt", (at, Total(condition.high, condition.size_of))),
    ]


def _unconditional(body: list[Statement], condition: Condition) -> list[Statement]:
    """The body with loads that have the chunk's condition alone without it: what they give outside can be chosen."""
    return [replace(s, conditions=()) if isinstance(s, Load) and s.conditions == (condition,) else s for s in body]


def _conditional(body: list[Statement], kernel: Kernel, step: str, condition: Condition) -> list[Statement]:
    axes_of = statement_axes(kernel)
    return [
        replace(s, conditions=(condition,)) if isinstance(s, Load) and not s.conditions and step in axes_of(s) else s
        for s in body
    ]


def _masked(statement: Reduce, kernel: Kernel, varies: frozenset[str], inside: str, taken: set[str]) -> list[Statement]:
    """A reduction of what is inside, and of identities outside; `varies` are the axes along which `inside` does."""
    operand, masked = statement.operand, fresh(f"{statement.name}_masked", taken)
    dtype = reduced_dtype(kernel, statement)
    axes = varies | (defined(kernel, operand).axes if isinstance(operand, str) else frozenset())
    neutral = KernelConstant(identity(statement.combine, dtype))
    return [
        Compute(masked, dtype, axes, "where", (inside, operand, neutral)),
        replace(statement, operand=masked),
    ]
