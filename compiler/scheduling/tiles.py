"""What a program holds at once of a kernel: a row, or a tile of several axes that are reduced apart from each other."""

from __future__ import annotations

from math import prod

from ..kernel_ir.kernel import Kernel, Reduce
from .strides import extent, next_power


def is_tiled(kernel: Kernel) -> bool:
    """Whether a program reduces over some of its reduction axes, and not over the others."""
    held = frozenset(axis.name for axis in kernel.with_role("reduction"))
    return any(isinstance(s, Reduce) and s.over & held and not held <= s.over for s in kernel.body)


def held_points(kernel: Kernel) -> int:
    """Points of the reduction axes, padded to powers of two: of a tile, each axis is."""
    axes = kernel.with_role("reduction")
    return prod(next_power(axis.size) for axis in axes) if is_tiled(kernel) else next_power(extent(axes))
