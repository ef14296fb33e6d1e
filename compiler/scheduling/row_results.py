"""Two kernels in place of one, of which the first stores what the second needs of it as a whole.

Rows that no program can hold, and reductions across them: what these need of a row, such as its mean, the first stores.
Reductions across programs of which one needs another's result: the results are stored between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...lang.light_dataclasses import replace
from ..kernel_ir.index import Index, axis
from ..kernel_ir.kernel import Axis, Buffer, Definition, Kernel, Load, Reduce, Statement, Store
from ..kernel_ir.layout import contiguous_strides
from ..kernel_ir.queries import restricted, statement_axes, with_dependents
from ..kernel_ir.statements import slice_of, used_names, without_unused


def rows_apart(kernel: Kernel, across: frozenset[str], finals: list[Reduce]) -> tuple[Kernel, Kernel]:
    """A kernel of what is stored along the rows, which may be nothing, and one of the reductions across them."""
    after = with_dependents(kernel, finals)
    rows = [s for s in kernel.body if s not in after]
    handed = _row_results(kernel, after, frozenset(a.name for a in kernel.with_role("reduction")))
    needed = [s for s in slice_of(kernel.body, [n for s in after for n in used_names(s)]) if s not in after]
    axes = [replace(a, role="reduction" if a.name in across else "parallel") for a in kernel.axes]
    ordered = [*(a for a in axes if a.role == "parallel"), *(a for a in axes if a.role == "reduction")]
    first = _rows_kernel(kernel, rows, handed, "rows")
    return first, _reading(kernel, ordered, needed, after, handed, "across")


def sums_apart(kernel: Kernel, finals: Sequence[Reduce]) -> tuple[Kernel, Kernel] | None:
    """A kernel of what rows are reduced to, and one of all else, whose rows are columns that need no row as a whole:
    what lies along them is read once beside the reductions across them, and not by a kernel each.

    None where rows have to be gone through more often before that is known, or nothing is stored along them.
    """
    row = frozenset(a.name for a in kernel.with_role("reduction"))
    sums = [s for s in kernel.body if isinstance(s, Reduce) and s not in finals]
    names = [name for s in sums for name in used_names(s)]
    if not sums or any(s.over != row for s in sums) or any(isinstance(s, Reduce) for s in slice_of(kernel.body, names)):
        return None
    axes_of = statement_axes(kernel)
    along = [s for s in kernel.body if axes_of(s) & row or s in finals]
    late = with_dependents(kernel, list(finals))
    if not any(isinstance(s, Store) and s not in late for s in along):
        return None
    handed = _row_results(kernel, along, row)
    after = [s for s in kernel.body if isinstance(s, Store) and s not in along and s not in late]
    first = slice_of(kernel.body, [s.name for s in handed] + [n for s in after for n in used_names(s)])
    rest = [s for s in kernel.body if s not in handed and s not in after]
    axes = [replace(a, role="parallel") if a.name in row else a for a in kernel.axes]
    second = _reading(kernel, axes, list(handed), rest, handed, "rest")
    if any(isinstance(s, Reduce) and s.over & row for s in second.body):
        return None
    return _rows_kernel(kernel, [*first, *after], handed, "sums"), second


def in_turn(kernel: Kernel, across: frozenset[str], finals: list[Reduce]) -> tuple[Kernel, Kernel] | None:
    """A kernel of the reductions across programs that need no result of one, and one of the others and what follows
    from them; None where no reduction needs another's result."""
    results = {s.name for s in with_dependents(kernel, finals) if isinstance(s, Definition)}
    later = [final for final in finals if results & set(used_names(final))]
    if not later:
        return None
    after = with_dependents(kernel, later)
    before = [s for s in kernel.body if s not in after]
    handed = _row_results(kernel, after, across)
    needed = [s for s in slice_of(kernel.body, [n for s in after for n in used_names(s)]) if s not in after]
    first = _rows_kernel(kernel, before, handed, "first")
    return first, _reading(kernel, kernel.axes, needed, after, handed, "then")


def others_apart(kernel: Kernel, across: frozenset[str], finals: list[Reduce]) -> tuple[Kernel, Kernel] | None:
    """A kernel of reductions along rows alone whose results what follows from those across programs needs, and one of
    all else; None where there are none.

    Each kernel that finishes chunks would reduce them again, along axes that are programs there, and be cut for it.
    """
    after = [s for s in with_dependents(kernel, finals) if s not in finals]
    handed = _row_results(kernel, after, across, but=finals)
    if not handed:
        return None
    first = slice_of(kernel.body, [s.name for s in handed])
    over = {name for s in first if isinstance(s, Reduce) for name in s.over}
    if any(s.axes & over for s in handed):
        return None
    rest = [s for s in kernel.body if s not in handed]
    needed: list[Statement] = list(handed)
    return _rows_kernel(kernel, first, handed, "others"), _reading(kernel, kernel.axes, needed, rest, handed, "rest")


def _row_results(
    kernel: Kernel, after: list[Statement], along: frozenset[str], but: Sequence[Statement] = ()
) -> list[Definition]:
    """What the statements in `after` need of what is reduced along axes, `but` some: the last of what is known without
    these axes."""
    reduced: set[str] = set()
    for statement in kernel.body:
        if not isinstance(statement, Definition) or statement.axes & along or statement in but:
            continue
        if isinstance(statement, Reduce) or reduced & set(used_names(statement)):
            reduced.add(statement.name)
    wanted = {name for statement in after for name in used_names(statement)}
    results: list[Definition] = []
    for statement in reversed(kernel.body):
        if isinstance(statement, Definition) and statement.name in wanted and statement not in after:
            if statement.name in reduced:
                results.append(statement)
            else:
                wanted.update(used_names(statement))
    return results[::-1]


def _handed(kernel: Kernel, result: Definition, is_output: bool) -> tuple[Buffer, Index]:
    axes = [a for a in kernel.axes if a.name in result.axes]
    shape = tuple(a.size for a in axes)
    strides = contiguous_strides(shape)
    index = Index()
    for a, stride in zip(axes, strides, strict=True):
        index = index + axis(a.name) * stride
    name = f"row_{result.name.removeprefix('row_')}"
    while any(buffer.name == name for buffer in kernel.buffers):
        name = f"row_{name}"
    return Buffer(name, result.dtype, shape, strides, is_output), index


def _rows_kernel(kernel: Kernel, rows: list[Statement], handed: list[Definition], suffix: str) -> Kernel:
    buffers = list(kernel.buffers)
    body = list(rows)
    for result in handed:
        buffer, index = _handed(kernel, result, True)
        buffers.append(buffer)
        body.append(Store(buffer.name, index, result.name))
    return restricted(kernel, f"{kernel.name}_{suffix}", kernel.axes, buffers, without_unused(body))


def _reading(
    kernel: Kernel,
    axes: Iterable[Axis],
    needed: list[Statement],
    after: list[Statement],
    handed: list[Definition],
    suffix: str,
) -> Kernel:
    """The kernel of the statements in `after`, and of those that they need, which reads what it is handed."""
    buffers = list(kernel.buffers)
    body: list[Statement] = []
    for statement in [*needed, *(s for s in kernel.body if s in after)]:
        if statement not in handed:
            body.append(statement)
            continue
        assert isinstance(statement, Definition)
        buffer, index = _handed(kernel, statement, False)
        buffers.append(buffer)
        body.append(Load(statement.name, statement.dtype, statement.axes, buffer.name, index))
    return restricted(kernel, f"{kernel.name}_{suffix}", axes, buffers, without_unused(body))
