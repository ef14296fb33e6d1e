"""Values taken apart: the tensors in a row, and a layout that says where each of them stands.

A torch.autograd.Function takes and returns tensors in a row; programs take lists of tensors too, and values that are
no tensors. A layout is the values with a Place for each tensor. Lists nest as deep as types in source, so what walks
them recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

Layout: TypeAlias = Any
"""A Place, a list of layouts, or a value that is no tensor."""


class Place(int):
    """The position of a tensor in a row."""

    __slots__ = ()


def take_apart(value: Any, tensors: list[Any]) -> Layout:
    """The layout of a value, whose tensors are added to the row."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return Place(len(tensors) - 1)
    return [take_apart(item, tensors) for item in value] if isinstance(value, list) else value


def put_together(layout: Layout, tensors: Sequence[Any]) -> Any:
    """The inverse of `take_apart`."""
    if type(layout) is Place:
        return tensors[layout]
    return [put_together(item, tensors) for item in layout] if isinstance(layout, list) else layout


def places(layout: Layout) -> Iterator[Place]:
    """The places in a layout, in order."""
    if type(layout) is Place:
        yield layout
    elif isinstance(layout, list):
        for item in layout:
            yield from places(item)


def each(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The value converted; of a list or a tuple, what is in it."""
    return type(value)([each(item, convert) for item in value]) if isinstance(value, list | tuple) else convert(value)
