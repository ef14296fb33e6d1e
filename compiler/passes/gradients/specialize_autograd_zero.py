"""Follow gradients that are not there, and remove what they would have fed.

Before:
    graph backward(%g : Tensor[float32], %y : Tensor):
      %zero : Undefined = prim::AutogradZero()
      %a : Tensor = prim::GradOf[name="aten::exp"](%zero)
        block():
          %1 : Tensor = aten::mul.Tensor(%zero, %y)
          return (%1)
      %b : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
        block():
          %2 : Tensor = aten::mul.Tensor(%g, %y)
          return (%2)
      %c : Tensor = prim::AutogradAdd(%a, %b)
      return (%c)
After:
    graph backward(%g : Tensor[float32], %y : Tensor):
      %zero : Undefined = prim::AutogradZero()
      %a : Undefined = prim::AutogradZero()
      %b : Tensor = aten::mul.Tensor(%g, %y)
      return (%b)

A GradOf of zeros alone becomes zeros, one with a known gradient its content; an AutogradAdd with a zero is the
other operand, one of two known gradients an add; MaterializeGrad of a known gradient is that gradient, and grad_list of
a list of them that list; whether a known gradient is there is a constant.
"""

from __future__ import annotations

from collections.abc import Callable

from ...analysis.definedness import Definedness, State, given_to, post_order
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Block, Node, Value
from ...ir.rewrite import replace_by_constant, replace_node, splice
from ...types.types import UNDEFINED, TensorType


def specialize_autograd_zero(graph: Graph) -> bool:
    """Decide what the lattice of zero, nonzero and unknown gradients decides."""
    if not any(node.kind in _RULES for node in graph.all_nodes()):
        return False
    states = Definedness(graph)
    changed = False
    for node in post_order(graph):
        states.visit(node)
        rule = _RULES.get(node.kind)
        changed |= rule is not None and rule(node, states)
    return changed


def _builder(node: Node) -> Builder:
    block: Block | None = node.owner
    assert block is not None
    return Builder(block, node, node.span)


def _grad_of(node: Node, states: Definedness) -> bool:
    given = given_to(node, states.__getitem__)
    if given is State.NONZERO:
        splice(node, node.blocks[0])
        return True
    if given is State.ZERO:
        builder = _builder(node)
        for value in node.outputs:
            _undefine(value, builder.undefined())
        node.destroy()
        return True
    return False


def _grad_item(node: Node, states: Definedness) -> bool:
    """No gradient of a list is none of its elements."""
    if states[node.inputs[0]] is not State.ZERO:
        return False
    _undefine(node.output, _builder(node).undefined())
    node.destroy()
    return True


def _grad_list(node: Node, states: Definedness) -> bool:
    """A list of gradients that are all there needs no zeros, and what it is the gradient of need not be kept."""
    given = node.inputs[0]
    if given.node.kind != "prim::ListConstruct" or any(states[v] is not State.NONZERO for v in given.node.inputs):
        return False
    replace_node(node, [given])
    return True


def _undefine(value: Value, zero: Value) -> None:
    """Make users of a gradient use one that is not there."""
    zero.name_hint = zero.name_hint or value.name_hint
    value.replace_uses_with(zero)


def _autograd_add(node: Node, states: Definedness) -> bool:
    left, right = node.inputs
    if State.ZERO in (states[left], states[right]):
        other = right if states[left] is State.ZERO else left
        if other.type != UNDEFINED:
            replace_node(node, [other])
            return True
        _undefine(node.output, other)
        node.destroy()
        return True
    if states[left] is states[right] is State.NONZERO and isinstance(node.output.type, TensorType):
        total = _builder(node).op("aten::add.Tensor", left, right)
        states.visit(total.node)
        replace_node(node, [total])
        return True
    return False


def _materialize(node: Node, states: Definedness) -> bool:
    grad, size, dtype = node.inputs
    if states[grad] is State.UNKNOWN:
        return False
    value = grad
    if states[grad] is State.ZERO:
        value = _builder(node).op("aten::zeros", size, dtype=dtype)
        states.visit(value.node)
    replace_node(node, [value])
    return True


def _grad_defined(node: Node, states: Definedness) -> bool:
    state = states[node.inputs[0]]
    if state is State.UNKNOWN:
        return False
    replace_by_constant(node, state is State.NONZERO)
    return True


_RULES: dict[str, Callable[[Node, Definedness], bool]] = {
    "prim::GradOf": _grad_of,
    "prim::AutogradAdd": _autograd_add,
    "prim::grad_item": _grad_item,
    "prim::grad_list": _grad_list,
    "prim::MaterializeGrad": _materialize,
    "prim::grad_defined": _grad_defined,
}
