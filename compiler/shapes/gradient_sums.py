"""Sums of gradients on abstract values: one that is missing (None) adds nothing."""

from __future__ import annotations

from functools import partial

from ..ops.meta import UNKNOWN, Abstract, Meta, OpenList, for_each, for_pairs, join
from ..ops.shapes import broadcast
from ..types.dtypes import promote
from .open_lists import added_lists, length_of, repeated


def abstract_sum(left: Abstract, right: Abstract) -> Abstract:
    """The sum of two, of which lists are added element by element. Raises RuntimeError where shapes do not fit."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, Meta) and isinstance(right, Meta):
        if left == right:
            return left
        return Meta(broadcast(left.shape, right.shape), promote(left.dtype, right.dtype))
    if type(left) is OpenList:
        return added_lists(left, right, abstract_sum)
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return for_pairs(left, right, abstract_sum)
    return UNKNOWN


def sum_with_item(gradients: Abstract, gradient: Abstract, index: Abstract, count: Abstract) -> Abstract:
    """The gradients of a list of so many, with one more for one of them, where it may not be known for which.

    Raises IndexError where there is none of that index.
    """
    if gradients is UNKNOWN or count is UNKNOWN:
        return UNKNOWN
    items = repeated(None, count) if gradients is None else gradients
    if length_of(items) != count:
        return UNKNOWN
    perhaps = partial(_perhaps_added, gradient)
    if type(items) is OpenList:
        return OpenList(perhaps(items.item), items.length)
    if index is UNKNOWN:
        return for_each(items, perhaps)
    found = list(items)
    found[index] = abstract_sum(found[index], gradient)
    return found


def _perhaps_added(gradient: Abstract, item: Abstract) -> Abstract:
    return join(item, abstract_sum(item, gradient))
