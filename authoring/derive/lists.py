"""The gradient of a list as its author would write it: a list of zeros in which items are added to.

    gs.autograd_add(grad_xs, torch._set_item(torch.no_grads([g], len(xs)), i, g))     ─▶     grad_xs[i] = grad_xs[i] + g

The derivative has a list of which most is missing for each item that is taken; source has no such lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir.builder import Builder
from ...compiler.ir.kinds import Carried, carried, handed_to, is_loop, open_flow_of, sources
from ...compiler.ir.node import PARAM, RETURN, Block, Node, Use, Value, walk
from ...compiler.ir.rewrite import ITEM, SET_ITEM, constant_of, replace_node, with_item_added
from ...compiler.types.types import INT, TENSOR, ListType

_ADD, _MISSING, _ZERO, _FILLED = "prim::AutogradAdd", "prim::no_grads", "prim::AutogradZero", "prim::grad_list"
_TENSORS = ListType(TENSOR)
_Part = dict[Value, None]
"""Lists that become each other, through sums, branches and loops."""


def write_lists(parameters: Sequence[Value], closure: Block, there: set[Value]) -> bool:
    """Write one gradient of a list in which some may be missing, parameters' last; False where there is none.

    Of those that are `there` none is missing.

    Before:
        def f(xs: List[Tensor], i: int):
            return xs[i] * xs[0]
    After:
        def f(xs: List[Tensor], i: int):
            item = xs[i]
            item_1 = xs[0]

            def backward(grad_output):
                value = [torch.zeros_like(item_2) for item_2 in xs]
                value[0] = (grad_output * item).sum_to_size(item_1.size())
                grad = (grad_output * item_1).sum_to_size(item.size())
                value[i] = value[i] + grad
                return value, None

            return item * item_1, backward
    """
    returned = dict(zip(closure.outputs, parameters, strict=True))
    starts = [node.output for node in walk(closure.nodes) if node.kind == _MISSING and node.output.use_count]
    starts += [value for value in closure.outputs if value.type == _TENSORS]
    parts = [_part_of(start, closure, there) for start in starts if start not in there]
    parts.sort(key=lambda part: any(value in returned for value in part))
    for part in parts:
        of = _primal(part, returned)
        waits = any(_is_of_others(value) for value in part if value not in there)
        if of is None or not _is_around(of, closure) or waits:
            continue
        if _write(part, of, closure):
            return True
    return False


def write_zeros(closure: Block) -> None:
    """Write zeros for what is left out of a list: like that element, or like each of several.

    Before:
        def f(xs: List[Tensor]):
            return torch.stack(xs[1:])
    After:
        def f(xs: List[Tensor]):
            def backward(grad_output):
                value = [torch.zeros_like(item) for item in xs]
                return torch._set_slice(value, grad_output.unbind(), 1)

            return torch.stack(xs[1:]), backward
    """
    for node in [node for node in walk(closure.nodes) if node.kind == "prim::grad_zeros"]:
        b = Builder.in_front_of(node)
        (given,) = node.inputs
        if given.node.kind == "prim::ListConstruct" and len(given.node.inputs) == 1 and given.type == _TENSORS:
            zeros = b.op("aten::zeros_like", *given.node.inputs)
            for use in [use for use in node.output.uses if use.user.kind == ITEM]:
                replace_node(use.user, [zeros])
        elif given.type == _TENSORS:
            primal = given.node.inputs[0] if given.node.kind == "prim::grad_shapes" else given
            replace_node(node, [_listed(b, [primal], "aten::zeros_like")])


def take_by_index(closure: Block) -> None:
    """Take items by their places, last one first: `grads[-1 - i]` for the end of a list that gets shorter.

    Before:
        def f(x):
            def backward(g):
                rest = [g, g * 2]
                for i in range(2):
                    g = g * rest[-1]
                    rest = rest[:-1]
                return g
            return x * x, backward
    After:
        def f(x):
            def backward(g):
                rest = [g, g * 2]
                for i in range(2):
                    g = g * rest[-1 - i]
                return g
            return x * x, backward
    """
    for loop in [node for node in walk(closure.nodes) if is_loop(node)]:
        for place in carried(loop):
            if not _is_taken_apart(place):
                continue
            index = loop.blocks[0].inputs[0]
            for use in list(place.parameter.uses):
                if use.user.kind == ITEM:
                    b = Builder.in_front_of(use.user)
                    use.user.replace_inputs([place.initial, b.op("aten::sub.int", b.constant(-1), index)])


def _is_taken_apart(place: Carried) -> bool:
    """Whether a list is handed on without its last item, and nothing but that item is taken of it."""
    rest = place.result.node
    if rest.kind != "aten::slice.t" or rest.inputs[0] is not place.parameter or place.result.use_count != 1:
        return False
    if [constant_of(bound) for bound in rest.inputs[1:]] != [None, -1, 1] or place.output.use_count:
        return False
    others = [use.user for use in place.parameter.uses if use.user is not rest]
    return all(user.kind == ITEM and constant_of(user.inputs[1]) == -1 for user in others)


def _part_of(start: Value, closure: Block, there: set[Value]) -> _Part:
    found: _Part = {start: None}
    waiting = [start]
    while waiting:
        value = waiting.pop()
        following = [] if value in there else [*_made_of(value), *_becomes(value, closure)]
        waiting += [v for v in following if v not in found]
        found |= dict.fromkeys(following)
    return found


def _is_of_lists(value: Value) -> bool:
    """Whether it is made of lists in a way that may change how long they are."""
    node = value.node
    is_same = node.kind in (_ADD, SET_ITEM, _MISSING, PARAM) or open_flow_of(node) is not None
    return not is_same and any(isinstance(given.type, ListType) for given in node.inputs)


def _is_of_others(value: Value) -> bool:
    """Whether it is made of the gradient of another list, be it on one side of a branch."""
    sides, seen = [value], {value}
    while sides:
        side = sides.pop()
        if _is_filled(side.node) or not _stays_whole(side) or (side.node.kind != "prim::If" and _is_of_lists(side)):
            return True
        following = [v for v in sources(side) if v not in seen] if side.node.kind == "prim::If" else []
        sides += following
        seen.update(following)
    return False


def _made_of(value: Value) -> list[Value]:
    node = value.node
    if _is_of_others(value):
        return []
    if node.kind == PARAM or open_flow_of(node) is not None:
        return sources(value) if _stays_whole(value) else []
    return _added_to(node)


def _added_to(node: Node) -> list[Value]:
    """The lists that one is more than: of which it is the sum, or of which an item was added to."""
    return [*node.inputs] if node.kind == _ADD else [node.inputs[0]] if node.kind == SET_ITEM else []


def _is_filled(node: Node) -> bool:
    """Whether zeros are written over one gradient, as that of another list has them: what was there was replaced."""
    is_set = node.kind == SET_ITEM and node.inputs[0].node.kind != _MISSING
    return is_set and node.inputs[2].node.kind == "aten::zeros_like"


def _becomes(value: Value, closure: Block) -> list[Value]:
    """What is the same list, or one with more in it. That nothing is there may become the gradient of anything."""
    if value.node.kind == _ZERO:
        return []
    return [found for use in value.uses for found in _handed(use.user, use.index, closure)]


def _handed(user: Node, index: int, closure: Block) -> list[Value]:
    if user.kind == _ADD or (user.kind == SET_ITEM and index == 0):
        return [] if _is_filled(user) else [user.output]
    is_flow = user.kind == RETURN or open_flow_of(user) is not None
    handed = handed_to(user, index) if is_flow and user is not closure.ret else []
    return handed if all(_stays_whole(v) and not _is_of_others(v) for v in handed) else []


def _stays_whole(value: Value) -> bool:
    """Whether a list that a loop carries is as long in every round."""
    holder = value.node.holder if value.node.kind == PARAM else value.node
    if holder is None or not is_loop(holder):
        return True
    place = next(place for place in carried(holder) if value in (place.parameter, place.output))
    waiting, seen = [place.result], {place.result}
    while waiting:
        made = waiting.pop()
        if _is_of_lists(made) or _is_filled(made.node):
            return False
        following = sources(made) if made.node.kind == "prim::If" else _added_to(made.node)
        waiting += [v for v in following if v not in seen]
        seen.update(following)
    return True


def _primal(part: _Part, returned: dict[Value, Value]) -> Value | None:
    """The list whose gradient it is: it is returned for it, filled up for it, or as long."""
    found: _Part = {returned[value]: None for value in part if value in returned}
    for value in part:
        found |= {use.user.inputs[1]: None for use in value.uses if use.user.kind == _FILLED and use.index == 0}
        count = value.node.inputs[1].node if value.node.kind == _MISSING else None
        found |= {count.inputs[0]: None} if count is not None and count.kind == "aten::len.t" else {}
    lists = list(dict.fromkeys(_copied(value) for value in found if value.type == _TENSORS))
    return lists[0] if len(lists) == 1 else None


def _copied(value: Value) -> Value:
    """The list that one is a copy of."""
    while value.node.kind in ("aten::list.t", "aten::copy.t"):
        value = value.node.inputs[0]
    return value


def _is_around(value: Value, closure: Block) -> bool:
    """Whether it is there at the closure's outermost level."""
    block: Block | None = closure
    while block is not None and block is not value.node.owner:
        holder = block.node
        block = holder.owner if holder is not None else None
    return block is not None


def _write(part: _Part, of: Value, closure: Block) -> bool:
    missing = [(use.user, use.index) for value in part for use in value.uses if _is_missing(value, use, part, closure)]
    sums = [value.node for value in part if value.node.kind == _ADD]
    if not missing and not sums:
        return False
    zeros = _zeros(of, closure)
    for user, index in missing:
        user.set_input(index, zeros)
    for value in part:
        value.type = value.type if value.node.kind == _ZERO else _TENSORS
    for node in sums:
        replace_node(node, [_sum(Builder.in_front_of(node), zeros, *node.inputs)])
    for node in [node for node in walk(closure.nodes) if node.kind == _FILLED and node.inputs[1] is of]:
        if node.inputs[0].type == _TENSORS:
            replace_node(node, [node.inputs[0]])
    return True


def _is_missing(value: Value, use: Use, part: _Part, closure: Block) -> bool:
    """Whether a list of nothing, or nothing at all, becomes one of these lists."""
    if value.node.kind not in (_ZERO, _MISSING):
        return False
    is_returned = use.user is closure.ret and value.node.kind == _MISSING
    return is_returned or any(v in part for v in _handed(use.user, use.index, closure))


def _zeros(of: Value, closure: Block) -> Value:
    """Zeros like each item of a list."""
    before = of.node.next if of.node.owner is closure else closure.param.next
    return _listed(Builder(closure, before, closure.ret.span), [of], "aten::zeros_like")


def _listed(b: Builder, lists: Sequence[Value], op: str) -> Value:
    """The list of what an op gives for each item of a list, or of several together."""
    trips = b.op("aten::len.t", lists[0])
    loop = b.node("prim::Loop", [trips, b.constant(True), b.list([], TENSOR)], [_TENSORS], blocks=1)
    (block,) = loop.blocks
    index, made = block.add_input(INT), block.add_input(_TENSORS)
    inner = Builder(block, span=loop.span)
    items = [inner.op(ITEM, each, index) for each in lists]
    block.ret.add_input(inner.constant(True))
    block.ret.add_input(inner.op("aten::append.t", made, inner.op(op, *items)))
    return loop.output


def _sum(b: Builder, zeros: Value, left: Value, right: Value) -> Value:
    """The sum of two lists: where one of them has one item that is not zero, that is added to the other's."""
    for whole, single in ((left, right), (right, left)):
        if single.node.kind == SET_ITEM and single.node.inputs[0] is zeros and single.use_count == 1:
            return single if whole is zeros else with_item_added(b, whole, single)
    return _listed(b, [left, right], "aten::add.Tensor")
