"""Along which axes memory is walked without gaps, and how far axes reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..kernel_ir.kernel import Axis, Kernel, Load, Store
from ..types.open_sizes import next_power

__all__ = ["axes_across", "extent", "is_across", "next_power", "strides_along"]


def extent(axes: Iterable[Axis]) -> int:
    return prod(axis.size for axis in axes)


def strides_along(kernel: Kernel, first: Iterable[Axis], second: Iterable[Axis]) -> tuple[int, int]:
    """The least distances between neighbours along one of each of two sets of axes, in what varies along both.

    What has fewer elements than another, such as numbers of rows beside the rows themselves, is left out.
    """
    mine, others = [axis.name for axis in first], [axis.name for axis in second]
    found: dict[int, tuple[list[int], list[int]]] = {}
    for statement in kernel.body:
        if isinstance(statement, Load | Store):
            here = [abs(statement.index.coefficient(name)) for name in mine]
            there = [abs(statement.index.coefficient(name)) for name in others]
            if any(here) and any(there):
                points = extent(axis for axis in kernel.axes if statement.index.coefficient(axis.name))
                strides = found.setdefault(points, ([], []))
                strides[0].extend(stride for stride in here if stride)
                strides[1].extend(stride for stride in there if stride)
    largest = found[max(found)] if found else ([], [])
    return min(largest[0], default=0), min(largest[1], default=0)


def is_across(kernel: Kernel, first: Iterable[Axis], second: Iterable[Axis]) -> bool:
    """Whether memory is walked without gaps along the first set of axes, and not along the second."""
    mine, others = strides_along(kernel, first, second)
    return 0 < mine < others


def axes_across(kernel: Kernel, first: Sequence[Axis], second: Sequence[Axis]) -> tuple[Axis, ...]:
    """Those of the first along which memory is walked without gaps; none where it is not along the second."""
    if not is_across(kernel, first, second):
        return ()
    mine, _ = strides_along(kernel, first, second)
    return tuple(axis for axis in first if strides_along(kernel, [axis], second)[0] == mine)
