"""What a kernel costs at least: bytes moved and arithmetic done."""

from __future__ import annotations

from math import prod

from .kernel import Compute, Kernel, Reduce, Uniform

PHILOX = 100
"""Operations for one random number: ten rounds of two products with their high halves, and exclusive ors."""


def bytes_read(kernel: Kernel) -> int:
    """Bytes of the inputs, each distinct element once."""
    return sum(buffer.nbytes for buffer in kernel.inputs)


def bytes_written(kernel: Kernel) -> int:
    return sum(buffer.nbytes for buffer in kernel.outputs)


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
