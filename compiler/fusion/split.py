"""Reductions that one program cannot do alone, in two kernels: partial results of chunks, and a kernel that finishes.

    axes i < 4096 parallel, j < 768 reduction            axes c < 256 parallel, r < 16 serial, j < 768 reduction
      …                                                    …                                       with 16*c + r for i
      %w [j] = reduce sum %1 over i                →       %w [c, j] = reduce sum %1 over r
      store %grad_weight[j], %w                            store %partial_grad_weight[768*c + j], %w

                                                         axes j < 768 parallel, c < 256 reduction
                                                           %2 [c, j] = load %partial_grad_weight[768*c + j]
                                                           %w [j] = reduce sum %2 over c
                                                           store %grad_weight[j], %w

What is reduced over a parallel axis is reduced over chunks of it; a reduction over so many points that one program for
each result would leave the device idle is cut likewise. There are no atomics, and chunks follow from the sizes alone:
results are the same at each run, on each device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from ..dtypes import BOOL, INT64, DType
from .index import Atom, AxisAtom, Index, Sizes, axis, value
from .kernel import (
    Axis,
    Buffer,
    Compute,
    Condition,
    Constant,
    Definition,
    Kernel,
    Load,
    Position,
    Reduce,
    Role,
    Statement,
    Store,
)
from .padding import choose_others, identity, needs_mask, outside
from .schedule import fits_in_registers, next_power
from .statements import conditions, indices, slice_of, used_names, with_indices, without_unused


class Unsplittable(Exception):
    """A kernel that reduces over parallel axes what it uses along them: it needs a kernel before."""


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The table by which chunks are chosen."""

    programs: int = 256
    """Programs that keep any device busy."""
    rows: int = 8
    """Rows of a chunk at least, so that partial results are few beside what they are of."""
    lanes: int = 64
    """Columns that one program reduces side by side."""
    column_rows: int = 64
    """Rows of a chunk at least where rows are reduced side by side."""
    elements: int = 8192
    """Elements of a chunk at least where all lie in a row."""
    most: int = 1024
    """Chunks at most, so that one program can finish."""


LIMITS = ChunkLimits()


def split_reductions(kernel: Kernel, limits: ChunkLimits = LIMITS) -> list[Kernel]:
    """The kernels to run, in order, in place of one. Partial results are outputs of the first and inputs of the last.

    Raises: Unsplittable.
    """
    across = _axes_across(kernel)
    if not across:
        return _split_long_rows(kernel, limits)
    across_set = frozenset(a.name for a in across)
    finals = [s for s in kernel.body if isinstance(s, Reduce) and s.over & across_set]
    if any(not across_set <= s.over for s in finals):
        raise Unsplittable(f"{kernel.name} reduces over different parallel axes")
    if not kernel.with_role("reduction"):
        return _side_by_side(kernel, across, finals, limits)
    columns = prod(a.size for a in kernel.with_role("reduction"))
    if not fits_in_registers(kernel, columns):
        return _apart(kernel, across_set, finals, limits)
    cut = max(across, key=lambda a: a.size)
    chunk = _rows_of_chunk(cut.size, limits.programs, limits.rows)
    roles = {a.name: replace(a, role="serial") for a in across}
    return _chunked(_with_axes(kernel, roles), cut.name, chunk, finals)


def _axes_across(kernel: Kernel) -> list[Axis]:
    over = {name for s in kernel.body if isinstance(s, Reduce) for name in s.over}
    return [a for a in kernel.with_role("parallel") if a.name in over]


def _with_axes(kernel: Kernel, changed: dict[str, Axis]) -> Kernel:
    return replace(kernel, axes=tuple(changed.get(a.name, a) for a in kernel.axes))


def _rows_of_chunk(size: int, programs: int, least: int) -> int:
    """A power of two, so that blocks of any smaller power divide it."""
    return max(next_power(-(-size // max(programs, 1))), least)


def _side_by_side(kernel: Kernel, across: list[Axis], finals: list[Reduce], limits: ChunkLimits) -> list[Kernel]:
    """Column sums: reduced in chunks; what is stored along the way, in the same pass."""
    stores = _stores_along(kernel, frozenset(a.name for a in across))
    role: Role = "serial" if stores else "reduction"
    kernel = _with_axes(kernel, {a.name: replace(a, role=role) for a in across})
    if not stores:
        return _split_long_rows(kernel, limits)
    cut = max(across, key=lambda a: a.size)
    return _chunked(kernel, cut.name, _chunk_of_rows(kernel, tuple(across), limits), finals)


def _stores_along(kernel: Kernel, axes: frozenset[str]) -> bool:
    return any(isinstance(s, Store) and _axes_of(kernel, s) & axes for s in kernel.body)


def _axes_of(kernel: Kernel, statement: Statement) -> frozenset[str]:
    defined = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}
    found = frozenset(name for index in indices(statement) for name in index.axes)
    return found.union(*(defined.get(name, frozenset()) for name in used_names(statement)))


def _split_long_rows(kernel: Kernel, limits: ChunkLimits) -> list[Kernel]:
    """A kernel of few and long rows that are only reduced, and once: each row in chunks."""
    reduction = kernel.with_role("reduction")
    finals = [s for s in kernel.body if isinstance(s, Reduce)]
    names = frozenset(a.name for a in reduction)
    if not finals or kernel.with_role("serial") or any(a.dynamic for a in reduction):
        return [kernel]
    if any(s.over != names for s in finals) or _stores_along(kernel, names) or _depends(kernel, finals):
        return [kernel]
    chunk = _chunk_of_rows(kernel, reduction, limits)
    cut = max(reduction, key=lambda a: a.size)
    return _chunked(kernel, cut.name, chunk, finals)


def _chunk_of_rows(kernel: Kernel, reduction: tuple[Axis, ...], limits: ChunkLimits) -> int:
    """Points of the longest reduction axis in one chunk."""
    cut = max(reduction, key=lambda a: a.size)
    others = prod(a.size for a in reduction if a != cut)
    rows = prod(a.size for a in kernel.with_role("parallel"))
    is_across = rows > 1 and any(
        isinstance(s, Load) and abs(s.index.coefficient(a.name)) == 1
        for s in kernel.body
        for a in kernel.with_role("parallel")
    )
    if is_across:
        programs, least = 2 * limits.programs // -(-rows // limits.lanes), limits.column_rows
    else:
        programs, least = limits.programs * 4 // max(rows, 1), -(-limits.elements // max(others, 1))
    return _rows_of_chunk(cut.size, min(programs, limits.most), next_power(least))


def _depends(kernel: Kernel, finals: Iterable[Reduce]) -> bool:
    """Whether one reduction needs another one's result."""
    names = [name for final in finals for name in used_names(final)]
    return any(isinstance(s, Reduce) for s in slice_of(kernel.body, names))


# --- chunks ---


def _chunked(kernel: Kernel, cut: str, chunk: int, finals: list[Reduce]) -> list[Kernel]:
    """The two kernels; one where a single chunk holds everything."""
    size = kernel.axis(cut).size
    count = -(-size // chunk)
    finals = [s for s in kernel.body if s in finals]
    if count <= 1:
        return [kernel]
    rest = [s for s in _after(kernel, finals) if s not in finals]
    first = [s for s in kernel.body if s not in rest]
    taken = {a.name for a in kernel.axes} | {s.name for s in kernel.body if isinstance(s, Definition)}
    chunks = Axis(_fresh("c", taken), count)
    step = Axis(_fresh("r", taken), min(chunk, size), kernel.axis(cut).role)
    position = axis(chunks.name) * chunk + axis(step.name)
    partials = _Partials(kernel, chunks, finals)
    cut_kernel = _cut(kernel, first, cut, chunks, step, position)
    is_ragged = size % chunk != 0
    if is_ragged:
        cut_kernel = _within(cut_kernel, step.name, chunks.name, Condition(position, 0, size))
    return [partials.stored_by(cut_kernel, position, step.name), partials.finished(rest)]


def _fresh(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name += wanted
    taken.add(name)
    return name


def _after(kernel: Kernel, finals: list[Reduce]) -> list[Statement]:
    """The final reductions and whatever depends on them."""
    names = {final.name for final in finals}
    found: list[Statement] = list(finals)
    for statement in kernel.body:
        if statement not in finals and names & set(used_names(statement)):
            found.append(statement)
            if isinstance(statement, Definition):
                names.add(statement.name)
    return found


def _cut(kernel: Kernel, body: list[Statement], cut: str, chunks: Axis, step: Axis, position: Index) -> Kernel:
    """The statements with a position made of chunk and step for an axis."""
    axes = [chunks]
    for old in kernel.axes:
        axes.append(step if old.name == cut else old)
    sizes = {a.name: a.size for a in axes}
    changed = [_along(statement, cut, chunks.name, step.name, position, sizes) for statement in body]
    return replace(kernel, axes=tuple(axes), body=tuple(changed))


def _along(statement: Statement, cut: str, chunks: str, step: str, position: Index, sizes: Sizes) -> Statement:
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
    for statement in kernel.body:
        if isinstance(statement, Load | Store) and _axes_of(kernel, statement) & {step}:
            statement = replace(statement, conditions=(*conditions(statement), condition))
        body.append(statement)
    names = frozenset({step})
    body = choose_others(_unconditional(body, condition), [names])
    known = outside(body, names)
    result: list[Statement] = []
    for statement in _conditional(body, kernel, step, condition):
        if isinstance(statement, Reduce) and step in statement.over and needs_mask(statement, known):
            result += _masked(statement, kernel, chunks, step, condition)
        else:
            result.append(statement)
    return kernel.with_body(result)


def _unconditional(body: list[Statement], condition: Condition) -> list[Statement]:
    """The body with loads that have the chunk's condition alone without it: what they give outside can be chosen."""
    return [replace(s, conditions=()) if isinstance(s, Load) and s.conditions == (condition,) else s for s in body]


def _conditional(body: list[Statement], kernel: Kernel, step: str, condition: Condition) -> list[Statement]:
    return [
        replace(s, conditions=(condition,))
        if isinstance(s, Load) and not s.conditions and _axes_of(kernel, s) & {step}
        else s
        for s in body
    ]


def _masked(statement: Reduce, kernel: Kernel, chunks: str, step: str, condition: Condition) -> list[Statement]:
    """A reduction of what is inside, and of identities outside."""
    name = statement.name
    varies = frozenset({chunks, step})
    dtype = _operand_dtype(kernel, statement)
    inside, masked = f"{name}_inside", f"{name}_masked"
    at = f"{name}_at"
    operand = statement.operand
    axes = varies | (_defined(kernel, operand).axes if isinstance(operand, str) else frozenset())
    neutral = Constant(identity(statement.combine, dtype))
    return [
        Position(at, INT64, varies, condition.index),
        Compute(inside, BOOL, varies, "lt", (at, Constant(condition.high))),
        Compute(masked, dtype, axes, "where", (inside, operand, neutral)),
        replace(statement, operand=masked),
    ]


def _operand_dtype(kernel: Kernel, statement: Reduce) -> DType:
    return _defined(kernel, statement.operand).dtype if isinstance(statement.operand, str) else statement.dtype


def _defined(kernel: Kernel, name: str) -> Definition:
    return next(s for s in kernel.body if isinstance(s, Definition) and s.name == name)


# --- partial results ---


@dataclass(frozen=True)
class _Partials:
    """The partial results of the final reductions: where the first kernel stores them and the second one loads them."""

    kernel: Kernel
    chunks: Axis
    finals: list[Reduce]

    def _axes(self, final: Reduce) -> list[Axis]:
        return [self.chunks, *(a for a in self.kernel.axes if a.name in final.axes)]

    def _buffer(self, final: Reduce, suffix: str = "", dtype: DType | None = None) -> Buffer:
        shape = tuple(a.size for a in self._axes(final))
        strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
        name = f"partial_{self._stored_name(final)}{suffix}"
        return Buffer(name, dtype or final.dtype, shape, strides, True)

    def _stored_name(self, final: Reduce) -> str:
        """That of the output which the reduction alone goes into, else its own."""
        stored = [s.buffer for s in self.kernel.body if isinstance(s, Store) and s.operand == final.name]
        return stored[0] if stored else final.name

    def _index(self, final: Reduce) -> Index:
        total = Index()
        for a, stride in zip(self._axes(final), self._buffer(final).strides, strict=True):
            total = total + axis(a.name) * stride
        return total

    def stored_by(self, kernel: Kernel, position: Index, step: str) -> Kernel:
        """The kernel of the chunks, with stores of the partial results."""
        body = list(kernel.body)
        buffers = [b for b in kernel.buffers if _uses(body, b.name)]
        for final in self.finals:
            buffers.append(self._buffer(final, dtype=self._value_dtype(final)))
            if final.combine in ("argmax", "argmin"):
                body += self._position_of(kernel, final, position, step)
                buffers.append(self._buffer(final, "_at"))
            else:
                body.append(Store(buffers[-1].name, self._index(final), final.name))
        return replace(
            kernel,
            name=f"{kernel.name}_partial",
            buffers=_inputs_first(buffers),
            parameters=tuple(p for p in kernel.parameters if _mentions(body, p.name)),
            body=tuple(body),
        )

    def _value_dtype(self, final: Reduce) -> DType:
        return _operand_dtype(self.kernel, final) if final.combine in ("argmax", "argmin") else final.dtype

    def _position_of(self, kernel: Kernel, final: Reduce, position: Index, step: str) -> list[Statement]:
        """Where in the whole axis the best of a chunk is, and how good it is."""
        found = _defined(kernel, final.name)
        assert isinstance(found, Reduce)
        moved = position.substitute(lambda a: value(final.name) if a == AxisAtom(step) else None, kernel.sizes)
        best = replace(
            found,
            name=f"{final.name}_best",
            combine="max" if final.combine == "argmax" else "min",
            dtype=self._value_dtype(final),
        )
        at = Position(f"{final.name}_at", INT64, found.axes, moved)
        index = self._index(final)
        return [
            best,
            at,
            Store(self._buffer(final).name, index, best.name),
            Store(self._buffer(final, "_at").name, index, at.name),
        ]

    def finished(self, rest: list[Statement]) -> Kernel:
        """The kernel that reduces the partial results and does what follows."""
        kernel = self.kernel
        body: list[Statement] = []
        buffers: list[Buffer] = []
        for final in self.finals:
            axes = final.axes | {self.chunks.name}
            buffer = replace(self._buffer(final, dtype=self._value_dtype(final)), is_output=False)
            load = Load(f"{final.name}_partial", buffer.dtype, axes, buffer.name, self._index(final))
            buffers.append(buffer)
            over = frozenset({self.chunks.name})
            if final.combine not in ("argmax", "argmin"):
                body += [load, replace(final, operand=load.name, over=over)]
                continue
            where = replace(self._buffer(final, "_at"), is_output=False)
            buffers.append(where)
            chosen = replace(final, name=f"{final.name}_chunk", operand=load.name, over=over)
            body += [load, chosen, self._chosen(final, where, chosen.name)]
        defined = {s.name for s in [*body, *rest] if isinstance(s, Definition)}
        needed = [n for s in rest for n in used_names(s) if n not in defined]
        before = slice_of(kernel.body, needed)
        body = [*before, *body, *rest]
        varying = frozenset(a for s in body if isinstance(s, Definition) for a in s.axes)
        if any(a.name in varying for a in kernel.axes if a.role == "serial" or self._is_reduced(a)):
            raise Unsplittable(f"{kernel.name} uses what it reduces over a parallel axis along that axis")
        axes = [replace(a, role="parallel") for a in kernel.axes if a.name in varying]
        used = [b for b in kernel.buffers if _uses(body, b.name)]
        return Kernel(
            f"{kernel.name}_finish",
            (*axes, replace(self.chunks, role="reduction")),
            _inputs_first([*buffers, *used]),
            tuple(p for p in kernel.parameters if _mentions(body, p.name)),
            tuple(body),
            kernel.sources,
        )

    def _is_reduced(self, a: Axis) -> bool:
        return any(a.name in final.over for final in self.finals)

    def _chosen(self, final: Reduce, where: Buffer, chunk: str) -> Statement:
        index = self._index(final).substitute(
            lambda a: value(chunk) if a == AxisAtom(self.chunks.name) else None, self.kernel.sizes
        )
        return Load(final.name, INT64, final.axes, where.name, index)


def _inputs_first(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    return tuple(sorted(buffers, key=lambda b: b.is_output))


def _uses(body: Iterable[Statement], buffer: str) -> bool:
    return any(isinstance(s, Load | Store) and s.buffer == buffer for s in body)


def _mentions(body: Iterable[Statement], name: str) -> bool:
    return any(name in used_names(s) for s in body)


# --- rows that do not fit ---


def _apart(kernel: Kernel, across: frozenset[str], finals: list[Reduce], limits: ChunkLimits) -> list[Kernel]:
    """Two kernels in place of one pass: what is stored along the rows, and the reductions across them.

    What the latter need of a row as a whole, such as its mean, the former stores.
    """
    after = _after(kernel, finals)
    rows = [s for s in kernel.body if s not in after]
    handed = _row_results(kernel, finals)
    needed = slice_of(kernel.body, [name for final in finals for name in used_names(final)])
    first = _rows_kernel(kernel, rows, handed)
    second = _across_kernel(kernel, across, needed, after, handed)
    kernels = split_reductions(second, limits)
    return [first, *kernels] if first.body else kernels


def _row_results(kernel: Kernel, finals: list[Reduce]) -> list[Definition]:
    """What the final reductions need of a row as a whole, once it is reduced: the last of what is known of it."""
    along = frozenset(a.name for a in kernel.with_role("reduction"))
    reduced: set[str] = set()
    for statement in kernel.body:
        if not isinstance(statement, Definition) or statement.axes & along:
            continue
        if isinstance(statement, Reduce) or reduced & set(used_names(statement)):
            reduced.add(statement.name)
    wanted = {name for final in finals for name in used_names(final)}
    results: list[Definition] = []
    for statement in reversed(kernel.body):
        if isinstance(statement, Definition) and statement.name in wanted:
            if statement.name in reduced:
                results.append(statement)
            else:
                wanted.update(used_names(statement))
    return results[::-1]


def _handed(kernel: Kernel, result: Definition, is_output: bool) -> tuple[Buffer, Index]:
    axes = [a for a in kernel.axes if a.name in result.axes]
    shape = tuple(a.size for a in axes)
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    index = Index()
    for a, stride in zip(axes, strides, strict=True):
        index = index + axis(a.name) * stride
    return Buffer(f"row_{result.name.removeprefix('row_')}", result.dtype, shape, strides, is_output), index


def _rows_kernel(kernel: Kernel, rows: list[Statement], handed: list[Definition]) -> Kernel:
    buffers = list(kernel.buffers)
    body = list(rows)
    for result in handed:
        buffer, index = _handed(kernel, result, True)
        buffers.append(buffer)
        body.append(Store(buffer.name, index, result.name))
    return _restricted(kernel, f"{kernel.name}_rows", kernel.axes, buffers, without_unused(body))


def _across_kernel(
    kernel: Kernel, across: frozenset[str], needed: list[Statement], after: list[Statement], handed: list[Definition]
) -> Kernel:
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
    axes = [replace(a, role="reduction" if a.name in across else "parallel") for a in kernel.axes]
    ordered = [*(a for a in axes if a.role == "parallel"), *(a for a in axes if a.role == "reduction")]
    return _restricted(kernel, f"{kernel.name}_across", ordered, buffers, without_unused(body))


def _restricted(
    kernel: Kernel, name: str, axes: Iterable[Axis], buffers: list[Buffer], body: list[Statement]
) -> Kernel:
    """A kernel of those axes, buffers and parameters that a body uses."""
    used = frozenset(n for s in body if isinstance(s, Definition) for n in s.axes)
    used |= {n for s in body for index in indices(s) for n in index.axes}
    return Kernel(
        name,
        tuple(a for a in axes if a.name in used),
        _inputs_first(b for b in buffers if _uses(body, b.name)),
        tuple(p for p in kernel.parameters if _mentions(body, p.name)),
        tuple(body),
        kernel.sources,
    )
