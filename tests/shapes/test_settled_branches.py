"""What branches that data decides give is settled too, where either way gives the same, or only one gives anything."""

from __future__ import annotations

import gradscript as gs
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ops.meta import UNKNOWN, Meta
from gradscript.compiler.specialize.settle import settle_shapes
from gradscript.compiler.types.dtypes import FLOAT64

BRANCH = """
graph f(%x : Tensor, %chosen : bool):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %y : Tensor, %rank : int, %size : List[int], %flat : bool = prim::If(%chosen)
    block():
      %1 : Tensor = aten::exp(%x)
      %2 : int = aten::dim(%1)
      %3 : List[int] = aten::size(%1)
      %4 : bool = aten::eq.int(%2, %one)
      return (%1, %2, %3, %4)
    block():
{otherwise}
      return (%x, %5, %6, %7)
  %z : Tensor = prim::If(%flat)
    block():
      return (%y)
    block():
      %8 : Tensor = aten::sum_to_size(%y, %size)
      return (%8)
  return (%z, %rank)
"""
UNREAD = """      %5 : int = prim::Uninitialized()
      %6 : List[int] = prim::Uninitialized()
      %7 : bool = prim::Uninitialized()"""
ALIKE = """      %5 : int = aten::dim(%x)
      %6 : List[int] = aten::size(%x)
      %7 : bool = aten::eq.int(%5, %one)"""
OTHER = """      %9 : Tensor = aten::unsqueeze(%x, %one)
      %5 : int = aten::dim(%9)
      %6 : List[int] = aten::size(%9)
      %7 : bool = aten::gt.int(%5, %two)"""


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.all_nodes() if node.kind != "prim::Constant"]


@pytest.mark.parametrize("otherwise", [UNREAD, ALIKE])
def test_what_branches_say_alike_is_settled(otherwise: str) -> None:
    graph = gs.parse_ir(BRANCH.format(otherwise=otherwise))
    settle_shapes(graph, [Meta((2, 3), FLOAT64), UNKNOWN])
    assert kinds(graph) == ["prim::If", "aten::exp", "aten::sum_to_size"]
    rank = graph.outputs[1].node
    assert rank.kind == "prim::Constant" and rank.attr("value") == 2


def test_what_they_say_differently_is_not() -> None:
    graph = gs.parse_ir(BRANCH.format(otherwise=OTHER))
    settle_shapes(graph, [Meta((2, 3), FLOAT64), UNKNOWN])
    assert kinds(graph).count("prim::If") == 2
    assert graph.outputs[1].node.kind == "prim::If"
