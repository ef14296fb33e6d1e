"""The gradient of a list as its author would write it: a list of zeros in which items are added to.

    gs.autograd_add(grad_xs, torch._set_item(torch.no_grads([g], n), i, g))     ─▶     grad_xs[i] = grad_xs[i] + g

The derivative has a list of which most is missing for each item that is taken; source has no such lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir.builder import Builder
from ...compiler.ir.kinds import handed_to, open_flow_of, sources
from ...compiler.ir.node import PARAM, RETURN, Block, Node, Value
from ...compiler.ir.rewrite import replace_node
from ...compiler.types.types import INT, TENSOR, ListType

_SET = "aten::_set_item.t"
_TENSORS = ListType(TENSOR)


def write_lists(parameters: Sequence[Value], closure: Block) -> None:
    """Write the gradients that a closure returns of parameters that are lists of tensors."""
    for place, parameter in enumerate(parameters):
        if parameter.type == _TENSORS and closure.outputs[place].type == _TENSORS:
            _write(parameter, place, closure)


def _write(parameter: Value, place: int, closure: Block) -> None:
    found = _made_of(closure.outputs[place])
    if not all(_is_only(value, found, closure, place) for value in found if value.node.kind != "prim::AutogradZero"):
        return
    missing = [value for value in found if value.node.kind in ("prim::AutogradZero", "prim::no_grads")]
    sums = [value.node for value in found if value.node.kind == "prim::AutogradAdd"]
    if not missing and not sums:
        return
    zeros = _zeros(parameter, closure)
    for value in missing:
        for use in [use for use in value.uses if _hands(use.user, use.index, found)]:
            use.user.set_input(use.index, zeros)
    for value in found:
        value.type = _TENSORS if value.node.kind != "prim::AutogradZero" else value.type
    for node in sums:
        assert node.owner is not None
        replace_node(node, [_sum(Builder(node.owner, node, node.span), zeros, *node.inputs)])


def _made_of(value: Value) -> dict[Value, None]:
    """What a list of gradients is made of: sums, and lists in which one item is there, through branches and loops."""
    found, waiting = {value: None}, [value]
    while waiting:
        current = waiting.pop()
        node = current.node
        if node.kind == PARAM or open_flow_of(node) is not None:
            following = sources(current)
        elif node.kind == "prim::AutogradAdd":
            following = list(node.inputs)
        else:
            following = [node.inputs[0]] if node.kind == _SET else []
        waiting += [v for v in following if v not in found]
        found |= dict.fromkeys(following)
    return found


def _is_only(value: Value, found: dict[Value, None], closure: Block, place: int) -> bool:
    """Whether a value is used for nothing but the gradient that it is a part of."""
    if value.node.kind == "prim::GradOf":
        return False
    uses = [(use.user, use.index) for use in value.uses]
    return all((user is closure.ret and index == place) or _hands(user, index, found) for user, index in uses)


def _hands(user: Node, index: int, found: dict[Value, None]) -> bool:
    """Whether what a node is given becomes, or is added to, one of these values."""
    if user.kind in ("prim::AutogradAdd", _SET):
        return user.output in found and (user.kind != _SET or index == 0)
    is_handed = user.kind == RETURN or open_flow_of(user) is not None
    handed = handed_to(user, index) if is_handed else []
    return bool(handed) and all(value in found for value in handed)


def _zeros(parameter: Value, closure: Block) -> Value:
    """Zeros like each item of a list."""
    first = closure.param.next
    b = Builder(closure, first, first.span if first is not None else closure.ret.span)
    trips, empty = b.op("aten::len.t", parameter), b.list([], TENSOR)
    loop = b.node("prim::Loop", [trips, b.constant(True), empty], [_TENSORS], blocks=1)
    (block,) = loop.blocks
    index, made = block.add_input(INT), block.add_input(_TENSORS)
    inner = Builder(block, span=loop.span)
    item = inner.op("aten::__getitem__.t", parameter, index)
    block.ret.add_input(inner.constant(True))
    block.ret.add_input(inner.op("aten::append.t", made, inner.op("aten::zeros_like", item)))
    return loop.output


def _sum(b: Builder, zeros: Value, left: Value, right: Value) -> Value:
    """The sum of two lists: where one of them has one item that is there, that is added to the other's."""
    for whole, single in ((left, right), (right, left)):
        node = single.node
        if node.kind == _SET and node.inputs[0] is zeros and single.use_count == 1:
            _, index, item = node.inputs
            if whole is zeros:
                return single
            return b.op(_SET, whole, index, b.op("aten::add.Tensor", b.op("aten::__getitem__.t", whole, index), item))
    loop = b.node("prim::Loop", [b.op("aten::len.t", left), b.constant(True), b.list([], TENSOR)], [_TENSORS], blocks=1)
    (block,) = loop.blocks
    index, made = block.add_input(INT), block.add_input(_TENSORS)
    inner = Builder(block, span=loop.span)
    items = [inner.op("aten::__getitem__.t", each, index) for each in (left, right)]
    block.ret.add_input(inner.constant(True))
    block.ret.add_input(inner.op("aten::append.t", made, inner.op("aten::add.Tensor", *items)))
    return loop.output
