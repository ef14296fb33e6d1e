"""What passes share: visiting nodes while changing them, replacing values, and moving the content of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..ops.registry import OPS, Trait
from ..types.types import FLOAT, NUMBER, Type, is_subtype
from .builder import Builder, constant_type
from .graph import Graph
from .node import RETURN, Block, Node, Value
from .structure import constant_fits

CONSTANT = "prim::Constant"
ITEM = "aten::__getitem__.t"
SET_ITEM = "aten::_set_item.t"


class NotConstant:
    """The type of NOT_CONSTANT, which stands for the absence of a constant (None is one)."""


NOT_CONSTANT = NotConstant()

NodeRewrite = Callable[[Node], Node | None]
"""Looks at a node and may rewrite it: then it returns the node at which to go on, else None."""


def rewrite_nodes(graph: Graph, rule: NodeRewrite) -> bool:
    """Apply a rule to every node in program order, outer before inner; True if it changed anything.

    A rule may remove the node it is given and insert nodes in front of it. What it returns is visited next, so
    a rule that returns the node itself is asked again.
    """
    changed = False
    stack = [graph.body.param.next]
    while stack:
        node = stack.pop()
        while node is not None and node.kind != RETURN:
            resume = rule(node)
            if resume is not None:
                changed = True
                node = resume
            elif node.blocks:
                stack.append(node.next)
                stack += [block.param.next for block in reversed(node.blocks)]
                break
            else:
                node = node.next
    return changed


def program_order(graph: Graph) -> Iterator[Node]:
    """Every node, the Param and Return of every block included, in program order."""
    stack: list[Node | None] = [graph.body.param]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        yield node
        stack.append(node.next)
        stack += [block.param for block in reversed(node.blocks)]


def replace_value(value: Value, by: Value, before: Node) -> None:
    """Make users of `value` use `by`; where `by` is known less precisely, through a cast made before a node."""
    if not is_subtype(by.type, value.type):
        by = Builder.in_front_of(before).cast(by, value.type)
    if not by.name_hint:
        by.name_hint = value.name_hint
    value.replace_uses_with(by)


def replace_node(node: Node, values: Sequence[Value]) -> Node:
    """Put values in the place of a node's outputs and remove the node; returns the node after it."""
    following = node.next
    assert following is not None
    for output, value in zip(node.outputs, values, strict=True):
        replace_value(output, value, node)
    node.destroy()
    return following


def splice(node: Node, block: Block) -> Node:
    """Put the nodes of one of the node's blocks (without parameters) in its place; returns where to go on."""
    first = block.param.next
    moved = list(block.nodes)
    for inner in moved:
        inner.unlink().insert_before(node)
    following = replace_node(node, list(block.outputs))
    return first if moved and first is not None else following


def constant_of(value: Value) -> Any:
    """The Python value of a prim::Constant, else NOT_CONSTANT."""
    return value.node.attrs["value"] if value.node.kind == CONSTANT else NOT_CONSTANT


def precise_type(value: Any, declared: Type) -> Type:
    """The type that a constant of a declared type has: its own where that says more."""
    try:
        own = constant_type(value)
    except ValueError:
        return declared
    return own if is_subtype(own, declared) and constant_fits(value, own) else declared


def replace_by_constant(node: Node, value: Any) -> Node:
    """Put a prim::Constant in the place of a node with one output; returns the node after it."""
    builder = Builder.in_front_of(node)
    return replace_node(node, [builder.constant(value, precise_type(value, node.output.type))])


def is_commutative(node: Node) -> bool:
    """Whether the first two inputs may change places: the others, such as `alpha`, must be as the schema defaults."""
    if node.kind == "prim::AutogradAdd":
        return True
    op = OPS.of(node.schema)
    if op is None or not op.has(Trait.COMMUTATIVE) or op.schema.arguments[0].type != op.schema.arguments[1].type:
        return False
    # Which of nan and a number, or of two zeros, Python's min and max give depends on their order.
    if any(value.type in (FLOAT, NUMBER) for value in node.inputs[:2]):
        return False
    rest = zip(op.schema.arguments[2:], node.inputs[2:], strict=True)
    return all(constant_of(value) == argument.default for argument, value in rest)


def with_item_added(b: Builder, whole: Value, single: Value) -> Value:
    """A list of tensors in which an item is more by what another list, of that one item, sets."""
    _, index, item = single.node.inputs
    return b.op(SET_ITEM, whole, index, b.op("aten::add.Tensor", b.op(ITEM, whole, index), item))
