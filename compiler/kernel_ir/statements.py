"""What statements of a kernel use, and rewriting them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...lang.light_dataclasses import replace
from .index import Index, ValueAtom, value
from .kernel import (
    Cast,
    Compute,
    Condition,
    Definition,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
    Total,
    Uniform,
)


def operands(statement: Statement) -> tuple[Operand, ...]:
    """The operands of a statement, literals among them; not the values in its indices."""
    match statement:
        case Compute():
            return statement.operands
        case Cast() | Reduce() | Store():
            return (statement.operand,)
        case Uniform():
            return (statement.seed,)
    return ()


def conditions(statement: Statement) -> tuple[Condition, ...]:
    return statement.conditions if isinstance(statement, Load | Store) else ()


def indices(statement: Statement) -> list[Index]:
    """Every index in a statement, those of its conditions too."""
    found = [condition.index for condition in conditions(statement)]
    match statement:
        case Load() | Store() | Position():
            return [statement.index, *found]
        case Uniform():
            return [statement.counter]
    return found


def used_names(statement: Statement) -> list[str]:
    """The values and parameters that a statement uses, as operands or in indices; one that is used twice, twice."""
    # Most statements by far are these.
    if type(statement) is Compute:
        return [operand for operand in statement.operands if type(operand) is str]
    if type(statement) is Cast or type(statement) is Reduce:
        return [statement.operand] if type(statement.operand) is str else []
    names = [operand for operand in operands(statement) if isinstance(operand, str)]
    for index in indices(statement):
        names += [atom.name for atom in index.atoms() if isinstance(atom, ValueAtom)]
    return names


def with_indices(statement: Statement, change: Callable[[Index], Index]) -> Statement:
    """The statement with every index changed."""
    match statement:
        case Load() | Store():
            changed = tuple(replace(c, index=change(c.index)) for c in statement.conditions)
            return replace(statement, index=change(statement.index), conditions=changed)
        case Position():
            return replace(statement, index=change(statement.index))
        case Uniform():
            return replace(statement, counter=change(statement.counter))
    return statement


def with_operands(statement: Statement, names: Mapping[str, Operand]) -> Statement:
    """The statement with operands replaced by others; in an index, a name by a name."""

    def of(operand: Operand) -> Operand:
        return names.get(operand, operand) if isinstance(operand, str) else operand

    match statement:
        case Compute():
            statement = replace(statement, operands=tuple(map(of, statement.operands)))
        case Cast() | Reduce() | Store():
            statement = replace(statement, operand=of(statement.operand))
        case Uniform():
            statement = replace(statement, seed=of(statement.seed))
    # Of the names of a whole body few stand in an index.
    used = {name for index in indices(statement) for name in index.values}
    renamed = {old: value(new) for old in used if isinstance(new := names.get(old), str)}
    if not renamed:
        return statement
    return with_indices(
        statement,
        lambda index: index.substitute(lambda a: renamed.get(a.name) if isinstance(a, ValueAtom) else None, {}),
    )


def with_sizes_of(statement: Statement, names: Mapping[str, str]) -> Statement:
    """The statement with axes that were cut into chunks called otherwise, where it has their sizes."""

    def of(operand: Operand) -> Operand:
        return replace(operand, size_of=names[operand.size_of]) if isinstance(operand, Total) else operand

    if isinstance(statement, Compute):
        statement = replace(statement, operands=tuple(map(of, statement.operands)))
    if isinstance(statement, Load | Store):
        renamed = [replace(c, size_of=names[c.size_of]) if c.size_of else c for c in statement.conditions]
        statement = replace(statement, conditions=tuple(renamed))
    return statement


def slice_of(body: Iterable[Statement], wanted: Iterable[str]) -> list[Statement]:
    """The definitions that `wanted` values depend on, themselves included, in the order of the body."""
    needed = set(wanted)
    kept: list[Statement] = []
    for statement in reversed(list(body)):
        if isinstance(statement, Definition) and statement.name in needed:
            kept.append(statement)
            needed.update(used_names(statement))
    return kept[::-1]


def without_unused(body: Iterable[Statement]) -> list[Statement]:
    """The stores and what they depend on."""
    statements = list(body)
    wanted = [name for statement in statements if isinstance(statement, Store) for name in used_names(statement)]
    needed = {id(statement) for statement in slice_of(statements, wanted)}
    return [s for s in statements if isinstance(s, Store) or id(s) in needed]


def with_axes_found(body: Iterable[Statement]) -> list[Statement]:
    """The body with the axes of each value found anew: an index that was changed may walk along fewer than before."""
    axes: dict[str, frozenset[str]] = {}
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Definition):
            along = frozenset[str]().union(*(index.axes for index in indices(statement)))
            along = along.union(*(axes.get(name, frozenset()) for name in used_names(statement)))
            axes[statement.name] = along - statement.over if isinstance(statement, Reduce) else along
            statement = replace(statement, axes=axes[statement.name])
        found.append(statement)
    return found
