"""What a kernel costs at least: bytes moved and arithmetic done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import prod
from typing import TypeAlias

from ..kernel_ir.bounds import positions_within
from ..kernel_ir.index import Index
from ..kernel_ir.kernel import Buffer, Compute, Condition, Definition, Kernel, Load, Reduce, Store, Uniform

Access: TypeAlias = tuple[Index, tuple[Condition, ...]]
PHILOX = 25
"""Operations for a random number: of the four that ten rounds of products with high halves and exclusive ors give."""


def bytes_read(kernel: Kernel) -> int:
    """Bytes of the inputs, each distinct element that is read once."""
    moved = bytes_moved(kernel)
    return sum(moved[buffer.name] for buffer in kernel.inputs)


def bytes_written(kernel: Kernel) -> int:
    """Bytes of the outputs, each element that is written once."""
    moved = bytes_moved(kernel)
    return sum(moved[buffer.name] for buffer in kernel.outputs)


def bytes_moved(kernel: Kernel) -> dict[str, int]:
    """Bytes of the elements of each buffer that a kernel asks for: all of them, or fewer where it has fewer points.

    So a row is counted for each index into a table, and of a tensor that is put together the part that is stored.
    """
    accesses: defaultdict[str, set[Access]] = defaultdict(set)
    for statement in kernel.body:
        if isinstance(statement, Load | Store):
            accesses[statement.buffer].add((statement.index, statement.conditions))
    return {buffer.name: _moved(kernel, buffer, accesses[buffer.name]) for buffer in kernel.buffers}


def _moved(kernel: Kernel, buffer: Buffer, accesses: Iterable[Access]) -> int:
    points = sum(_points(kernel, index, conditions) for index, conditions in accesses)
    return min(buffer.nbytes, points * buffer.dtype.itemsize)


def _points(kernel: Kernel, index: Index, conditions: tuple[Condition, ...]) -> int:
    """Of how many elements an index may be, where the conditions hold."""
    ranges = positions_within(kernel.sizes, conditions)
    if ranges is None:
        return 0
    axes = index.axes
    if index.values:
        varies = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}
        axes = axes.union(*(varies.get(name, frozenset()) for name in index.values))
    return prod(high - low + 1 for low, high in (ranges[axis] for axis in axes))


def flops(kernel: Kernel) -> int:
    """One for each primitive at each point of its axes, and one for each element reduced."""
    sizes = kernel.sizes
    total = 0
    for statement in kernel.body:
        if isinstance(statement, Compute):
            total += prod(sizes[axis] for axis in statement.axes)
        elif isinstance(statement, Reduce):
            total += prod(sizes[axis] for axis in statement.axes | statement.over)
        elif isinstance(statement, Uniform):
            total += PHILOX * prod(sizes[axis] for axis in statement.axes)
    return total
