"""Questions about kernels, and kernels of a part of one's statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from ..types.dtypes import DType
from .kernel import Axis, Buffer, Definition, Kernel, Load, Reduce, Statement, Store
from .statements import indices, used_names


def statement_axes(kernel: Kernel) -> Callable[[Statement], frozenset[str]]:
    """What tells along which axes a statement of a kernel runs, to be asked of many: it takes as long to make as one
    look at all of them."""
    defined = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}

    def axes_of(statement: Statement) -> frozenset[str]:
        found = frozenset(name for index in indices(statement) for name in index.axes)
        return found.union(*(defined.get(name, frozenset()) for name in used_names(statement)))

    return axes_of


def reduced_dtype(kernel: Kernel, statement: Reduce) -> DType:
    return defined(kernel, statement.operand).dtype if isinstance(statement.operand, str) else statement.dtype


def defined(kernel: Kernel, name: str) -> Definition:
    return next(s for s in kernel.body if isinstance(s, Definition) and s.name == name)


def names_of(kernel: Kernel) -> set[str]:
    """The names that no new value or axis may have."""
    values = {s.name for s in kernel.body if isinstance(s, Definition)}
    return values | {a.name for a in kernel.axes} | {p.name for p in kernel.parameters}


def fresh(wanted: str, taken: set[str]) -> str:
    """A name that is not taken: a number follows where it is, and always where there is no name but `v`."""
    names = (f"{wanted}{number}" if number or wanted == "v" else wanted for number in count())
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def with_dependents(kernel: Kernel, finals: list[Reduce]) -> list[Statement]:
    """The final reductions and whatever depends on them."""
    names = {final.name for final in finals}
    found: list[Statement] = list(finals)
    for statement in kernel.body:
        if statement not in finals and names & set(used_names(statement)):
            found.append(statement)
            if isinstance(statement, Definition):
                names.add(statement.name)
    return found


def inputs_first(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    return tuple(sorted(buffers, key=lambda b: b.is_output))


def uses_buffer(body: Iterable[Statement], buffer: str) -> bool:
    return any(isinstance(s, Load | Store) and s.buffer == buffer for s in body)


def mentions(body: Iterable[Statement], name: str) -> bool:
    return any(name in used_names(s) for s in body)


def restricted(kernel: Kernel, name: str, axes: Iterable[Axis], buffers: list[Buffer], body: list[Statement]) -> Kernel:
    """A kernel of those axes, buffers and parameters that a body uses: also axes along which nothing but a sum goes."""
    used = frozenset(n for s in body if isinstance(s, Definition) for n in s.axes)
    used |= {n for s in body if isinstance(s, Reduce) for n in s.over}
    used |= {n for s in body for index in indices(s) for n in index.axes}
    return Kernel(
        name,
        tuple(a for a in axes if a.name in used),
        inputs_first(b for b in buffers if uses_buffer(body, b.name)),
        tuple(p for p in kernel.parameters if mentions(body, p.name)),
        tuple(body),
        kernel.sources,
    )
