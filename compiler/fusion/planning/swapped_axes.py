"""Axes of one size of a tile that take each other's place.

    %left : float32[n, 16, 1] = aten::sum(%pairs, [2], True)       %left [i, j] = reduce sum %pairs over k
    %right : float32[n, 1, 16] = aten::sum(%pairs, [1], True)      %right [i, j] = reduce sum %pairs1 over k
    %both : float32[n, 16] = …  %left + %right                     %both [i, j] = add(%left, %right)

Here `%pairs1 [i, j, k]` is `%pairs [i, k, j]`: of what pairs consist a program has all, and may go through it along
either axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from ...kernel_ir.index import Atom, AxisAtom, Index, axis
from ..elements.rule import ElementPlace


def swapped_axes(
    place: ElementPlace, other: ElementPlace, tile: Set[str], sizes: Mapping[str, int]
) -> dict[str, str] | None:
    """The axes of a tile that take each other's place between two places; None where it takes more than that."""
    swapped: dict[str, str] = {}
    for index, moved in zip(place, other, strict=True):
        if index == moved:
            continue
        mine, theirs = _lone_axis(index), _lone_axis(moved)
        if mine not in tile or theirs not in tile or sizes[mine] != sizes[theirs]:
            return None
        if swapped.get(mine, theirs) != theirs or swapped.get(theirs, mine) != mine:
            return None
        swapped |= {mine: theirs, theirs: mine}
    kept = frozenset[str]().union(*(i.axes for i, moved in zip(place, other, strict=True) if i == moved))
    return swapped if kept.isdisjoint(swapped) else None


def with_axes_swapped(place: ElementPlace, swapped: Mapping[str, str], sizes: Mapping[str, int]) -> ElementPlace:
    """A place with some axes in the place of others."""
    moved: dict[Atom, Index] = {AxisAtom(mine): axis(theirs) for mine, theirs in swapped.items()}
    return tuple(index.substitute(moved.get, sizes) for index in place)


def _lone_axis(index: Index) -> str:
    """The axis along which an index runs one by one, from the axis' beginning; no name where there is none."""
    return next((name for name in index.axes if index == axis(name)), "")
