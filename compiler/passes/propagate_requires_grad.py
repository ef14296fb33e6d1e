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
in any round, for which the graph is gone through until nothing changes. Comparisons, `detach` and other ops without a
derivative give tensors that need none, and no tensor of another dtype than a floating one ever does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..ir.graph import Graph
from ..ir.kinds import KindTrait, handed_on, has, open_flow_of
from ..ir.node import PARAM, RETURN, Node, Value
from ..ir.rewrite import program_order
from ..ops.registry import OPS, Trait
from ..types.types import ListType, OptionalType, TensorType, TupleType, Type

_State = int
_NO, _UNKNOWN, _YES = range(3)
"""Ordered: what flows together is the greatest of them."""
_STATES = {False: _NO, None: _UNKNOWN, True: _YES}
_FLAGS = (False, None, True)
_VIEW = "aten::_unrecorded_view"
"""It has no derivative, and says what its base says."""
_GIVEN_ONLY = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def propagate_requires_grad(graph: Graph) -> bool:
    """Fill in `requires_grad` of tensor types, the inputs' own aside."""
    states: dict[Value, _State] = {value: _declared(value.type) for value in graph.inputs}
    nodes = [node for node in program_order(graph) if node.kind not in (PARAM, RETURN)]
    while sum(_visit(node, states) for node in nodes):
        pass
    changed = False
    inputs = set(graph.inputs)
    for value, state in states.items():
        if value in inputs or not isinstance(value.type, TensorType) or value.type.requires_grad is _FLAGS[state]:
            continue
        value.type = replace(value.type, requires_grad=_FLAGS[state])
        changed = True
    return changed


def _declared(type: Type) -> _State:
    """What a type says of its own: nothing without a floating tensor in it needs a gradient."""
    if not _can_have_gradient(type):
        return _NO
    return _STATES[type.requires_grad] if isinstance(type, TensorType) else _UNKNOWN


def _visit(node: Node, states: dict[Value, _State]) -> bool:
    """Take in what flows to a node's results, and to the parameters of its blocks; True if a state rose."""
    changed = False
    if open_flow_of(node) is not None:
        for value, given in handed_on(node):
            changed |= _raise(states, value, given)
        return changed
    for block in node.blocks:
        for inner, outer in zip(block.inputs, node.inputs, strict=False):
            changed |= _raise(states, inner, (outer,))
    if has(node, KindTrait.PART):
        # The type of what they take from says nothing of gradients, and theirs cannot promise more.
        given = [value for value in node.outputs if _can_have_gradient(value.type)]
        return sum(_set(states, value, _UNKNOWN) for value in given) > 0
    op = OPS.of(node.schema)
    is_constant = op is not None and op.has(_GIVEN_ONLY) and node.kind != _VIEW
    sources = () if is_constant else node.inputs
    for value in node.outputs:
        changed |= _raise(states, value, sources)
    return changed


def _raise(states: dict[Value, _State], value: Value, sources: Iterable[Value]) -> bool:
    """Let states flow into a value's, which only ever rises; a value that can have no gradient stays as it is."""
    after = max((states.get(source, _NO) for source in sources), default=_NO)
    return _set(states, value, after if _can_have_gradient(value.type) else _NO)


def _set(states: dict[Value, _State], value: Value, state: _State) -> bool:
    before = states.get(value, _NO)
    states[value] = max(before, state)
    return state > before


def _can_have_gradient(type: Type) -> bool:
    """Whether a floating tensor may be in it. Types are shallow, so this recurses."""
    if isinstance(type, OptionalType | ListType):
        return _can_have_gradient(type.element)
    if isinstance(type, TupleType):
        return any(_can_have_gradient(element) for element in type.elements)
    return isinstance(type, TensorType) and (type.dtype is None or type.dtype.is_floating)
