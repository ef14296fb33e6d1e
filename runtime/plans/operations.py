"""The structural nodes that compute something, evaluated on values. None is an undefined gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ...compiler.ir.node import Node
from ...compiler.ops.arrays import Array, numpy_dtype
from ...compiler.ops.families.language.control import (
    add_item_in_place,
    add_select_in_place,
    add_slice_in_place,
    added_gradients,
)
from ...compiler.ops.families.linalg.batches import add_product_in_place
from ...compiler.ops.registry import OPS

NodeFunction = Callable[..., Any]


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


def _list(*values: Any) -> list[Any]:
    return list(values)


def _same(values: Sequence[Any]) -> Sequence[Any]:
    return values


def _unpack_tuple(node: Node) -> NodeFunction:
    return itemgetter(0) if len(node.outputs) == 1 else _same


def _unpack_list(node: Node) -> NodeFunction:
    count = len(node.outputs)

    def unpack(values: Sequence[Any] | None) -> Any:
        if values is None:
            # An undefined gradient, or what a branch that was not taken left uninitialized.
            return None if count == 1 else (None,) * count
        if len(values) != count:
            raise ValueError(f"{count} values are needed to unpack, and the list has {len(values)}")
        return values[0] if count == 1 else values

    return unpack


def _materialize(grad: Array | None, size: Sequence[int], dtype: int) -> Array:
    return np.zeros(tuple(size), numpy_dtype(dtype)) if grad is None else grad


STRUCTURAL: dict[str, Callable[[Node], NodeFunction]] = {
    "prim::TupleConstruct": lambda node: _tuple,
    "prim::ListConstruct": lambda node: _list if node.inputs else list,
    "prim::TupleUnpack": _unpack_tuple,
    "prim::ListUnpack": _unpack_list,
    "prim::TupleIndex": lambda node: itemgetter(node.attr("index")),
    "prim::AutogradAdd": lambda node: added_gradients,
    "prim::MaterializeGrad": lambda node: _materialize,
}
"""From a node to the function of its inputs: one result as it is, several as a sequence."""


def _append_in_place(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def own_copy(value: Any) -> Any:
    """A list or an array that nobody else has."""
    if isinstance(value, list):
        return [*value]
    return value.copy() if isinstance(value, np.ndarray) else value


class CopiedView:
    """What gives a copy of what a function gives: a view of what is written into later."""

    __slots__ = ("_copy", "_function")

    def __init__(self, function: NodeFunction, copy: Callable[[Any], Any]) -> None:
        self._function = function
        self._copy = copy

    def __call__(self, *values: Any) -> Any:
        return self._copy(self._function(*values))


def _select_in_place(whole: Any, part: Any, dim: int, index: int) -> Any:
    """As `select_scatter`, into the array itself; what does not fit, that tells."""
    if _has_dim(whole, dim) and -whole.shape[dim] <= index < whole.shape[dim]:
        place = whole[(*(slice(None),) * (dim % whole.ndim), index, ...)]
        if _is_put(place, part):
            return whole
    return OPS.named("aten::select_scatter").evaluate(whole, part, dim, index)


def _slice_in_place(whole: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """As `slice_scatter`, into the array itself."""
    if _has_dim(whole, dim) and step > 0:
        place = whole[(*(slice(None),) * (dim % whole.ndim), slice(start, end, step))]
        if _is_put(place, part):
            return whole
    return OPS.named("aten::slice_scatter").evaluate(whole, part, dim, start, end, step)


def _has_dim(whole: Any, dim: int) -> bool:
    return type(whole) is np.ndarray and whole.flags.writeable and -whole.ndim <= dim < whole.ndim


def _is_put(place: Array, part: Any) -> bool:
    """Whether a part has been put where it belongs: it fits."""
    if type(part) is not np.ndarray or part.shape != place.shape or part.dtype != place.dtype:
        return False
    place[...] = part
    return True


WRITES: dict[str, NodeFunction] = {
    "aten::select_scatter": _select_in_place,
    "aten::slice_scatter": _slice_in_place,
    "aten::append.t": _append_in_place,
    "prim::grad_add_item": add_item_in_place,
    "prim::grad_add_select": add_select_in_place,
    "prim::grad_add_slice": add_slice_in_place,
    "prim::grad_add_product": add_product_in_place,
}
"""What nodes come to that may write into their first operand."""
