"""The few largest elements of rows are found by a kernel that has the row: the largest, the largest of what is left, ….

What routes tokens to experts takes 2 or 8 of 64 probabilities. The library reads them from memory, where a kernel has
computed them, and writes what a kernel reads again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...types.dtypes import INT32

MOST = 8
"""That are sought: each is two reductions."""
MAX_COLUMNS = 4096
"""Of a row, which a program holds from one to the next."""
_NEVER = float("-inf")


def find_few_largest(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Replace what asks for few of the largest along rows. `known` is what `settle_shapes` gives for the graph.

    Before:
        graph f(%x : Tensor):
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=-1]()
          %3 : bool = prim::Constant[value=True]()
          %4 : Tensor, %5 : Tensor = aten::topk(%x, %1, %2, %3, %3)
          return (%4, %5)
    After:
        graph f(%x : Tensor):
          %1 : Tensor[bool] = aten::ne.Tensor(%x, %x)
          %2 : List[int] = prim::Constant[value=[-1]]()
          %3 : bool = prim::Constant[value=False]()
          %4 : Tensor = aten::amax(%x, %2, %3)
          %5 : int = prim::Constant[value=-1]()
          %6 : Tensor = aten::unsqueeze(%4, %5)
          %7 : Tensor[bool] = aten::eq.Tensor(%x, %6)
          %8 : Tensor[bool] = aten::logical_or(%7, %1)
          %9 : int = prim::Constant[value=3]()
          %10 : bool = prim::Constant[value=False]()
          %11 : bool = prim::Constant[value=False]()
          %12 : None = prim::Constant[value=None]()
          %13 : Tensor = aten::to.dtype(%8, %9, %10, %11, %12)
          %14 : int = prim::Constant[value=-1]()
          %15 : bool = prim::Constant[value=False]()
          %16 : Tensor[int64] = aten::argmax(%13, %14, %15)
          %17 : List[Tensor] = prim::ListConstruct(%4)
          %18 : int = prim::Constant[value=-1]()
          %19 : Tensor = aten::stack(%17, %18)
          %20 : List[Tensor[int64]] = prim::ListConstruct(%16)
          %21 : int = prim::Constant[value=-1]()
          %22 : Tensor = aten::stack(%20, %21)
          return (%19, %22)
    """
    changed = False
    for node in list(graph.nodes):
        if node.kind == "aten::topk" and _is_of_short_rows(node, known):
            replace_node(node, _few_largest(node, known))
            changed = True
    return changed


def _is_of_short_rows(node: Node, known: Mapping[Value, Any]) -> bool:
    """Halves are left alone: kernels do not round them, and what is alike where it is rounded is not before."""
    x, count, dim, is_largest = (known.get(value) for value in node.inputs[:4])
    if not isinstance(x, Meta) or not x.rank or not x.dtype.is_floating or x.dtype.is_half:
        return False
    if type(count) is not int or type(dim) is not int or is_largest is not True:
        return False
    columns = x.shape[-1]
    is_row = wrap_dim(dim, x.rank) == x.rank - 1 and type(columns) is int
    return is_row and 0 < count <= min(columns, MOST) and columns <= MAX_COLUMNS


def _few_largest(node: Node, known: Mapping[Value, Any]) -> list[Value]:
    """Values and places. Of equal ones the first is found first; what is no number is larger than any."""
    builder, x = Builder.in_front_of(node), node.inputs[0]
    places = builder.op("aten::arange", known[x].shape[-1])
    is_no_number = builder.op("aten::ne.Tensor", x, x)
    taken: Value | None = None
    values, found = list[Value](), list[Value]()
    for _ in range(known[node.inputs[1]]):
        left = x if taken is None else builder.op("aten::where.ScalarSelf", taken, _NEVER, x)
        largest = builder.op("aten::amax", left, [-1], False)
        is_it = builder.op("aten::eq.Tensor", x, builder.op("aten::unsqueeze", largest, -1))
        fits = builder.op("aten::logical_or", is_it, is_no_number)
        if taken is not None:
            fits = builder.op("aten::logical_and", fits, builder.op("aten::logical_not", taken))
        place = builder.op("aten::argmax", builder.op("aten::to.dtype", fits, INT32.code), -1, False)
        here = builder.op("aten::eq.Tensor", places, builder.op("aten::unsqueeze", place, -1))
        taken = here if taken is None else builder.op("aten::logical_or", taken, here)
        values.append(largest)
        found.append(place)
    results = [builder.op("aten::stack", builder.list(parts), -1) for parts in (values, found)]
    for result, output in zip(results, node.outputs, strict=True):
        result.type, result.name_hint = output.type, output.name_hint
    return results
