"""Graphs in which gradients may be undefined, made ready to run: specialised on which are there, and settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Graph
from ...compiler.ops.arrays import dtype_of
from ...compiler.ops.meta import Abstract
from ...compiler.pipeline import run_recipe
from ...compiler.shapes.propagate import ShapeError
from ...compiler.specialize.settle import settle_shapes
from ...compiler.types.types import UNDEFINED, Type, is_tensor
from ..failures.failed_node import misfit_failure


def can_have_gradient(value: Any) -> bool:
    """Whether a value can have a gradient: a floating array, or a list with one in it."""
    if isinstance(value, list):
        return any(can_have_gradient(item) for item in value)
    return isinstance(value, np.ndarray) and dtype_of(value).is_floating


def ones_of(output: Any) -> Any:
    """Gradients of ones for what of an output can have one, None in the place of the rest."""
    if isinstance(output, list):
        return [ones_of(item) for item in output]
    return np.ones_like(output) if can_have_gradient(output) else None


def specialized(df: Graph, types: Sequence[Type]) -> Graph:
    """A copy of a backward for gradients of known types, one for each that it takes: UNDEFINED for one that is not
    there. A list keeps the type that it has.

    Before, where the second is not there:
        graph df(%g : Tensor, %h : Tensor, %x : Tensor):
          %1 : Tensor = aten::mul.Tensor(%g, %x)
          %2 : Tensor = prim::AutogradAdd(%1, %h)
          return (%2)
    After:
        graph df(%g : Tensor, %h : Tensor, %x : Tensor):
          %1 : Undefined = prim::AutogradZero()
          %2 : Tensor = aten::mul.Tensor(%g, %x)
          %3 : Tensor = prim::AutogradAdd(%2, %1)
          return (%3)
    """
    graph = df.copy()
    builder = Builder(graph, before=graph.body.param.next)
    for value, type in zip(graph.inputs, types, strict=False):
        if type == UNDEFINED:
            value.replace_uses_with(builder.undefined())
        elif is_tensor(value.type):
            value.type = type
    return graph


def settled(graph: Graph) -> Graph:
    """A copy for execution of a graph in which gradients may be undefined: what they make undefined is not there."""
    copied = graph.copy()
    run_recipe(copied, "settle_gradients")
    run_recipe(copied, "run")
    return copied


def settle_for_shapes(graph: Graph, known: Sequence[Abstract]) -> None:
    """Write into a graph that is to run on inputs of these abstract values alone what follows from them.

    Before, for g of 2 × 3 and x of 3:
        graph df(%g : Tensor, %x : Tensor):
          %size : List[int] = aten::size(%x)
          %1 : Tensor = aten::sum_to_size(%g, %size)
          return (%1)
    After:
        graph df(%g : Tensor[float32, rank=2], %x : Tensor[float32, rank=1]):
          %size : List[int] = prim::Constant[value=[3]]()
          %1 : Tensor[float32, rank=1] = aten::sum_to_size(%g, %size)
          return (%1)
    """
    run_recipe(graph, "settle_gradients")
    try:
        settle_shapes(graph, known, unroll=False)
    except ShapeError as error:
        raise misfit_failure(error) from error
