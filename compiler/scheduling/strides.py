"""Along which axes memory is walked without gaps, and how far axes reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..kernel_ir.kernel import Axis, Kernel, Load, Store
from ..types.open_sizes import next_power

__all__ = ["axes_across", "extent", "is_across", "next_power", "power_of_four", "side_by_side", "strides_along"]


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


def side_by_side(kernel: Kernel, rows: Sequence[Axis], segment: int) -> int:
    """Of rows that lie across some of memory, how many make up so many bytes side by side; 1 where all lie along it."""
    if not rows:
        return 1
    along, last = [axis.name for axis in kernel.with_role("reduction")], rows[-1]
    found = [
        segment // kernel.buffer(s.buffer).dtype.itemsize
        for s in kernel.body
        if isinstance(s, Load | Store)
        and abs(s.index.coefficient(last.name)) == 1
        and min((abs(s.index.coefficient(name)) for name in along), default=0) > 1
    ]
    return max(found, default=1) if last.dynamic else min(max(found, default=1), next_power(last.size))


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


def power_of_four(number: int, most: int) -> int:
    """The greatest that is not above a number, and 1 at least: few of them serve all numbers of rows.

    Of a number that may be open, no more is asked than decides on one up to `most`.
    """
    found = 1
    while found < most and number >= 4 * found:
        found *= 4
    return max(min(found, most), 1)
