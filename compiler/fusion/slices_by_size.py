"""Gradients of slices lie where their own sizes say, not where numbers do that only a run can tell.

A group is planned for the shapes that it meets, so that what follows from shapes is a part of one. Of `x[:, :-step]`
the gradient is as long as the slice was, and begins where that began: a kernel adds it to what else there is of the
gradient of `x`, in the place of zeros, an op that fills in the slice, and a sum.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import KindTrait, has
from ..ir.node import Node
from ..ir.rewrite import constant_of
from ..ir.structure import AS_LONG

_FROM_THE_START = (None, 0)


def place_by_size(graph: Graph) -> bool:
    """Say by the size of what is put in where the gradient of a slice ends, where no constant says so.

    Before:
        graph f(%zeros : Tensor, %g : Tensor, %end : int):
          %1 : None = prim::Constant[value=None]()
          %2 : int = prim::Constant[value=1]()
          %3 : Tensor = aten::slice_scatter[as_long=True](%zeros, %g, %2, %1, %end, %2)
          return (%3)
    After:
        graph f(%zeros : Tensor, %g : Tensor, %end : int):
          %1 : None = prim::Constant[value=None]()
          %2 : int = prim::Constant[value=1]()
          %3 : int = aten::size.int(%g, %2)
          %4 : Tensor = aten::slice_scatter[as_long=True](%zeros, %g, %2, %1, %3, %2)
          return (%4)
    """
    found = [node for node in graph.all_nodes() if node.kind == "aten::slice_scatter" and _ends_where_it_ends(node)]
    for node in found:
        node.set_input(4, Builder.in_front_of(node).op("aten::size.int", node.inputs[1], node.inputs[2]))
    return bool(found)


def _ends_where_it_ends(node: Node) -> bool:
    """Whether a slice begins at the start, has every element from there on, and ends where a number says."""
    _, source, _, start, end, step = node.inputs
    if AS_LONG not in node.attrs or constant_of(start) not in _FROM_THE_START or constant_of(step) != 1:
        return False
    is_told = end.node.kind == "aten::size.int" and end.node.inputs[0] is source
    return not is_told and not has(end.node, KindTrait.KNOWN)
