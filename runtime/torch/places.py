"""Values taken apart: the tensors in a row, and a layout that says where each of them stands.

A torch.autograd.Function takes and returns tensors in a row; programs take lists of tensors too, and values that are
no tensors. A layout is the values with a Place for each tensor. Lists nest as deep as types in source, so what walks
them recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

NestedPlaces: TypeAlias = Any
"""A Place, a list of layouts, or a value that is no tensor."""


class TensorPlace(int):
    """The position of a tensor in a row."""

    __slots__ = ()


def take_apart(values: Sequence[Any], tensors: list[Any]) -> list[NestedPlaces]:
    """The layouts of values, whose tensors are added to the row."""
    layouts: list[NestedPlaces] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            layouts.append(TensorPlace(len(tensors)))
            tensors.append(value)
        else:
            layouts.append(take_apart(value, tensors) if type(value) is list else value)
    return layouts


def put_together(layouts: Sequence[NestedPlaces], tensors: Sequence[Any]) -> list[Any]:
    """The inverse of `take_apart`."""
    return [
        tensors[layout]
        if type(layout) is TensorPlace
        else (put_together(layout, tensors) if type(layout) is list else layout)
        for layout in layouts
    ]


def moved(layouts: Sequence[NestedPlaces], tensors: Sequence[Any], row: list[Any]) -> list[NestedPlaces]:
    """The same layouts in another row, to which their tensors are added."""
    found: list[NestedPlaces] = []
    for layout in layouts:
        if type(layout) is TensorPlace:
            found.append(TensorPlace(len(row)))
            row.append(tensors[layout])
        else:
            found.append(moved(layout, tensors, row) if type(layout) is list else layout)
    return found


def places(layouts: Sequence[NestedPlaces]) -> Iterator[TensorPlace]:
    """The places in layouts, in order."""
    for layout in layouts:
        if type(layout) is TensorPlace:
            yield layout
        elif type(layout) is list:
            yield from places(layout)


def leaves_of(values: Sequence[Any]) -> list[Any]:
    """The values in a row, lists taken apart."""
    found: list[Any] = []
    for value in values:
        if type(value) is list:
            found += leaves_of(value)
        else:
            found.append(value)
    return found


def each(values: Sequence[Any], convert: Callable[[Any], Any]) -> list[Any]:
    """The values converted; of lists and tuples, what is in them."""
    return [
        type(value)(each(value, convert)) if type(value) is list or type(value) is tuple else convert(value)
        for value in values
    ]
