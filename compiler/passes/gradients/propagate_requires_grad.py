"""Say of each tensor whether a gradient may be asked for, given that of the inputs.

Before:
    graph f(%x : Tensor[requires_grad=True], %y : Tensor[requires_grad=False], %c : bool):
      %1 : Tensor = prim::If(%c)
        block():
          %2 : Tensor = aten::mul.Tensor(%x, %y)
          return (%2)
        block():
          %3 : Tensor = aten::exp(%y)
          return (%3)
      %4 : Tensor = aten::detach(%1)
      return (%1, %4)
After:
    graph f(%x : Tensor[requires_grad=True], %y : Tensor[requires_grad=False], %c : bool):
      %1 : Tensor[requires_grad=True] = prim::If(%c)
        block():
          %2 : Tensor[requires_grad=True] = aten::mul.Tensor(%x, %y)
          return (%2)
        block():
          %3 : Tensor[requires_grad=False] = aten::exp(%y)
          return (%3)
      %4 : Tensor[requires_grad=False] = aten::detach(%1)
      return (%1, %4)

A result needs a gradient if an operand does; one of a branch, if that of either side does; one of a loop, if it does
in any round. Comparisons, `detach` and other ops without a
derivative give tensors that need none, and no tensor of another dtype than a floating one ever does.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....lang.light_dataclasses import replace
from ...analysis.dataflow import Dataflow
from ...ir.graph import Graph
from ...ir.kinds import KindTrait, has, own_parameters
from ...ir.node import Node, Value
from ...ops.registry import OPS, Trait
from ...types.types import TensorType, Type, can_require_grad

_NO, _UNKNOWN, _YES = range(3)
"""Ordered: what flows together is the greatest of them."""
_STATES = {False: _NO, None: _UNKNOWN, True: _YES}
_FLAGS = (False, None, True)
_VIEW = "aten::_unrecorded_view"
"""It has no derivative, and says what its base says."""
_GIVEN_ONLY = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def propagate_requires_grad(graph: Graph) -> bool:
    """Fill in `requires_grad` of tensor types, the inputs' own aside."""
    changed = False
    inputs = set(graph.inputs)
    for value, state in _Needs(graph).solve().items():
        if value in inputs or not isinstance(value.type, TensorType) or value.type.requires_grad is _FLAGS[state]:
            continue
        value.type = replace(value.type, requires_grad=_FLAGS[state])
        changed = True
    return changed


class _Needs(Dataflow[int]):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.states.update({value: _declared(value.type) for value in graph.inputs})

    def made(self, node: Node) -> Iterable[tuple[Value, int]]:
        if self.hands_on(node):
            return [(value, _NO) for block in node.blocks for value in own_parameters(block)]
        given = [self.states.get(value, _NO) for value in node.inputs]
        inner = [pair for block in node.blocks for pair in zip(block.inputs, given, strict=False)]
        if has(node, KindTrait.PART):
            # The type of what they take from says nothing of gradients, and theirs cannot promise more.
            return [*inner, *((value, _UNKNOWN) for value in node.outputs)]
        is_constant = OPS.has(node.schema, _GIVEN_ONLY) and node.kind != _VIEW
        needed = _NO if is_constant else max(given, default=_NO)
        return [*inner, *((value, needed) for value in node.outputs)]

    def joined(self, value: Value, before: int | None, found: int) -> int:
        """A state only ever rises; a value that can have no gradient stays as it is."""
        return max(before or _NO, found if can_require_grad(value.type) else _NO)


def _declared(type: Type) -> int:
    """What a type says of its own: nothing without a floating tensor in it needs a gradient."""
    if not can_require_grad(type):
        return _NO
    return _STATES[type.requires_grad] if isinstance(type, TensorType) else _UNKNOWN
