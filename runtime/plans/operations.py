"""The structural nodes that compute something, evaluated on values. None is an undefined gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ...compiler.ir.node import Node
from ...compiler.ops.arrays import Array, numpy_dtype
from ...compiler.ops.registry import OPS

Evaluate = Callable[..., Any]


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


def _list(*values: Any) -> list[Any]:
    return list(values)


def _same(values: Sequence[Any]) -> Sequence[Any]:
    return values


def _unpack_tuple(node: Node) -> Evaluate:
    return itemgetter(0) if len(node.outputs) == 1 else _same


def _unpack_list(node: Node) -> Evaluate:
    count = len(node.outputs)

    def unpack(values: Sequence[Any] | None) -> Any:
        if values is None:
            # An undefined gradient, or what a branch that was not taken left uninitialized.
            return None if count == 1 else (None,) * count
        if len(values) != count:
            raise ValueError(f"{count} values are needed to unpack, and the list has {len(values)}")
        return values[0] if count == 1 else values

    return unpack


def _add_gradients(left: Any, right: Any) -> Any:
    """The sum of two gradients, of which either may be undefined, as may be their elements if they are lists."""
    if left is None or right is None:
        return right if left is None else left
    if not isinstance(left, list):
        return OPS.named("aten::add.Tensor").evaluate(left, right)
    if len(left) != len(right):
        raise ValueError(f"a gradient of {len(left)} tensors is added to one of {len(right)}")
    return [_add_gradients(a, b) for a, b in zip(left, right, strict=True)]


def _materialize(grad: Array | None, size: Sequence[int], dtype: int) -> Array:
    return np.zeros(tuple(size), numpy_dtype(dtype)) if grad is None else grad


STRUCTURAL: dict[str, Callable[[Node], Evaluate]] = {
    "prim::TupleConstruct": lambda node: _tuple,
    "prim::ListConstruct": lambda node: _list,
    "prim::TupleUnpack": _unpack_tuple,
    "prim::ListUnpack": _unpack_list,
    "prim::TupleIndex": lambda node: itemgetter(node.attr("index")),
    "prim::AutogradAdd": lambda node: _add_gradients,
    "prim::MaterializeGrad": lambda node: _materialize,
}
"""From a node to the function of its inputs: one result as it is, several as a sequence."""
