"""Fewer axes for the same kernel: none of size 1, and neighbours that every index walks as one merged.

    axes i < 64 parallel, j < 128 parallel          axes ij < 8192 parallel
      %1 = load %x[128*i + j]                 →       %1 = load %x[ij]
      store %result[128*i + j], %1                    store %result[ij], %1

A contiguous pointwise kernel of any rank is one-dimensional then. A broadcast operand keeps the axes apart along which
it is repeated.
"""

from __future__ import annotations

from ...lang.light_dataclasses import replace
from ..kernel_ir.index import Atom, AxisAtom, Index, Quotient, Remainder, SizeValues, axis, constant
from ..kernel_ir.kernel import (
    POSITIONS,
    Axis,
    Cast,
    Definition,
    Kernel,
    KernelConstant,
    Operand,
    Reduce,
    Statement,
    Store,
)
from ..kernel_ir.statements import indices, with_axes_found, with_indices, with_operands
from ..types.dtypes import INT64


def collapse_axes(kernel: Kernel) -> Kernel:
    """The kernel with axes of size 1 dropped, parallel axes in the order of memory, and neighbours merged."""
    kernel = _in_memory_order(_without_ones(kernel))
    position = 0
    while position + 1 < len(kernel.axes):
        merged = _merged(kernel, kernel.axes[position], kernel.axes[position + 1])
        if merged is None:
            position += 1
        else:
            kernel, position = merged, max(position - 1, 0)
    return kernel


def _without_ones(kernel: Kernel) -> Kernel:
    dropped = frozenset(a.name for a in kernel.axes if a.size == 1 and not a.dynamic)
    if not dropped:
        return kernel
    kept = tuple(a for a in kernel.axes if a.name not in dropped)
    sizes = {a.name: a.size for a in kept}

    def first(atom: Atom) -> Index | None:
        return constant(0) if isinstance(atom, AxisAtom) and atom.name in dropped else None

    body: list[Statement] = []
    renamed: dict[str, Operand] = {}
    for old in kernel.body:
        statement = with_operands(old, renamed)
        if isinstance(statement, Definition):
            statement = replace(statement, axes=statement.axes - dropped)
        statement = with_indices(statement, lambda index: index.substitute(first, sizes))
        if isinstance(statement, Reduce):
            statement = replace(statement, over=statement.over - dropped)
            if not statement.over:
                statement = _of_one_element(statement)
        body.append(statement)
    return replace(kernel, axes=kept, body=tuple(with_axes_found(body)))


def _of_one_element(statement: Reduce) -> Definition:
    """A reduction over a single element: the element."""
    operand: Operand = KernelConstant(0) if statement.combine in POSITIONS else statement.operand
    dtype = INT64 if statement.combine in POSITIONS else statement.dtype
    return Cast(statement.name, dtype, statement.axes, operand)


def _in_memory_order(kernel: Kernel) -> Kernel:
    """Parallel axes by falling stride of the first store, so that neighbouring elements are neighbours in memory."""
    store = next((s for s in kernel.body if isinstance(s, Store)), None)
    if store is None or not store.index.is_affine():
        return kernel
    ordered = iter(sorted(kernel.with_role("parallel"), key=lambda a: -abs(store.index.coefficient(a.name))))
    axes = tuple(next(ordered) if a.role == "parallel" else a for a in kernel.axes)
    return replace(kernel, axes=axes)


def _merged(kernel: Kernel, outer: Axis, inner: Axis) -> Kernel | None:
    """The kernel with two neighbouring axes as one; None where an index or a value does not allow it."""
    if outer.role != inner.role or inner.dynamic or not inner.size:
        return None
    pair = {outer.name, inner.name}
    for statement in kernel.body:
        if not all(_walks_as_one(index, outer, inner) for index in indices(statement)):
            return None
        if isinstance(statement, Definition) and len(statement.axes & pair) == 1:
            return None
        if isinstance(statement, Reduce) and not _reduces_as_one(statement, pair):
            return None
    name = _merged_name(kernel, outer, inner)
    new = Axis(name, outer.size * inner.size, outer.role, outer.dynamic)
    axes = tuple(new if a == outer else a for a in kernel.axes if a != inner)
    sizes = {a.name: a.size for a in axes}
    body = [_renamed(statement, outer.name, inner.name, name, sizes) for statement in kernel.body]
    return replace(kernel, axes=axes, body=tuple(with_axes_found(body)))


def _reduces_as_one(statement: Reduce, pair: set[str]) -> bool:
    shared = len(statement.over & pair)
    return shared == 0 or (shared == 2 and statement.combine not in POSITIONS)


def _walks_as_one(index: Index, outer: Axis, inner: Axis) -> bool:
    """Whether the axes occur as a multiple of `outer * size of inner + inner` only."""
    pending = [index]
    while pending:
        current = pending.pop()
        if current.coefficient(outer.name) != current.coefficient(inner.name) * inner.size:
            return False
        pending += [atom.index for _, atom in current.terms if isinstance(atom, Quotient | Remainder)]
    return True


def _renamed(statement: Statement, outer: str, inner: str, name: str, sizes: SizeValues) -> Statement:
    def merged(atom: Atom) -> Index | None:
        if not isinstance(atom, AxisAtom):
            return None
        return constant(0) if atom.name == outer else axis(name) if atom.name == inner else None

    def names(axes: frozenset[str]) -> frozenset[str]:
        return axes - {outer, inner} | {name} if inner in axes else axes

    statement = with_indices(statement, lambda index: index.substitute(merged, sizes))
    if isinstance(statement, Definition):
        statement = replace(statement, axes=names(statement.axes))
    if isinstance(statement, Reduce):
        statement = replace(statement, over=names(statement.over))
    return statement


def _merged_name(kernel: Kernel, outer: Axis, inner: Axis) -> str:
    taken = {a.name for a in kernel.axes} | {s.name for s in kernel.body if isinstance(s, Definition)}
    name = outer.name + inner.name
    while name in taken:
        name += "_"
    return name
