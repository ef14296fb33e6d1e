"""One form for what can be written in several, so that equal graphs get equal text.

Before:
    graph f(%x : Tensor, %y : Tensor, %c : bool):
      %1 : Tensor = aten::mul.Tensor(%y, %x)
      %2 : bool = aten::__not__.bool(%c)
      %3 : Tensor = prim::If(%2)
        block():
          return (%1)
        block():
          return (%x)
      return (%3)
After:
    graph f(%x : Tensor, %y : Tensor, %c : bool):
      %1 : Tensor = aten::mul.Tensor(%x, %y)
      %2 : bool = aten::__not__.bool(%c)
      %3 : Tensor = prim::If(%c)
        block():
          return (%x)
        block():
          return (%1)
      return (%3)

Operands of a commutative op stand in the order of their definition; a branch asks the condition, not its opposite.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import is_commutative, program_order


def canonicalize(graph: Graph) -> bool:
    """Order the operands of commutative ops and the branches of negated conditions."""
    numbers: dict[Value, int] = {}
    changed = False
    for node in program_order(graph):
        for value in node.outputs:
            numbers[value] = len(numbers)
        if node.kind == "prim::If":
            changed |= _ask_directly(node)
        elif is_commutative(node) and numbers[node.inputs[0]] > numbers[node.inputs[1]]:
            left, right = node.inputs[:2]
            node.set_input(0, right)
            node.set_input(1, left)
            changed = True
    return changed


def _ask_directly(node: Node) -> bool:
    asked = node.inputs[0].node
    if asked.kind != "aten::__not__.bool":
        return False
    node.set_input(0, asked.inputs[0])
    node.blocks.reverse()
    return True
