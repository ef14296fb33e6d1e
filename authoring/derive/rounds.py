"""What a loop keeps of each round, where the backward can have it otherwise: sizes, lengths, items of lists.

for x in xs:                                        for x in xs:
    kept_x = torch.append(kept_x, x)                    ...
    ...                                     ─▶
def backward(grad):                                 def backward(grad):
    ... kept_x[i] ...                                   ... xs[i] ...
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ...compiler.analysis.captures import captures
from ...compiler.ir.kinds import Carried, carried, is_loop
from ...compiler.ir.node import PARAM, Block, Node, Value, copy_node, walk
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import is_tensor

_ITEM = "aten::__getitem__.t"
_WRITES = frozenset(("aten::_set_item.t", "aten::_set_slice.t", "aten::_without.t"))
_DEEPEST = 4
"""Computations in each other that are made again for one item."""


def kept_of(value: Value) -> Value | None:
    """What each round adds to a list that a loop gives, one item in every round; None for what is no such list."""
    place = _place(value)
    return place.result.node.inputs[1] if place is not None else None


def _place(value: Value) -> Carried | None:
    if not is_loop(value.node):
        return None
    place = carried(value.node)[value.index]
    added, begun = place.result.node, place.initial.node
    is_list = added.kind == "aten::append.t" and added.inputs[0] is place.parameter
    is_alone = is_list and added.owner is value.node.blocks[0] and place.parameter.use_count == 1
    return place if is_alone and begun.kind == "prim::ListConstruct" and not begun.inputs else None


def keep_early(closure: Block) -> None:
    """Keep what a round keeps as soon as it is there, so that names may take their next value behind that.

    The lists begin before it is asked how often the loop runs: `for x in xs` is one line.

    Before:
        def f(x, n: int):
            kept: List[Tensor] = []
            for i in range(n):
                y = torch.sin(x)
                x = x * y
                kept.append(y)
            def backward(g):
                for i in range(n):
                    g = g * kept[n - 1 - i]
                return g, None
            return x, backward
    After:
        def f(x, n: int):
            kept: List[Tensor] = []
            for i in range(n):
                y = torch.sin(x)
                kept = torch.append(kept, y)
                x = x * y
            def backward(g):
                for i_1 in range(n):
                    g = g * kept[n - 1 - i_1]
                return g, None
            return x, backward
    """
    for value in captures(closure):
        if is_loop(value.node) and _is_count(carried(value.node)[value.index]):
            block = value.node.blocks[0]
            carried(value.node)[value.index].result.node.unlink().insert_after(_opening(block))
        place = _place(value)
        item = kept_of(value)
        if place is None or item is None:
            continue
        loop, added = value.node, place.result.node
        block = loop.blocks[0]
        begun = place.initial.node
        if begun.owner is loop.owner and place.initial.use_count == 1:
            begun.unlink().insert_before(_header(loop))
        if item.node.owner is not block:
            continue
        behind = item.node if item.node.kind != PARAM else _opening(block)
        if _is_free(item.node) and item.use_count == 1 and all(_is_early(v, block) for v in item.node.inputs):
            behind = item.node.unlink().insert_after(_opening(block))
        added.unlink().insert_after(behind)


def take_early(closure: Block) -> None:
    """Take what is kept of a list before an element of that is written, so that the list may keep its name.

    Before:
        def f(x):
            ys = [x, x * 2]
            zs = torch._set_item(ys, 0, x * 3)
            y = ys[0]
            def backward(g):
                return g * y
            return zs[0] * y, backward
    After:
        def f(x):
            ys = [x, x * 2]
            value = x * 3
            y = ys[0]
            zs = torch._set_item(ys, 0, value)
            def backward(g):
                return g * y
            return zs[0] * y, backward
    """
    for value in captures(closure):
        taken, block = value.node, value.node.owner
        if taken.kind not in (_ITEM, "aten::slice.t") or block is None:
            continue
        written = [use.user for use in taken.inputs[0].uses if use.user.kind in _WRITES and use.index == 0]
        for writer in written:
            made = {given.node for given in taken.inputs[1:] if given.node.kind != "prim::Constant"}
            if writer.owner is block and made <= {given.node for given in writer.inputs} and precedes(writer, taken):
                for given in taken.inputs[1:]:
                    if given.node.kind == "prim::Constant" and given.node.owner is block:
                        given.node.unlink().insert_before(writer)
                taken.unlink().insert_before(writer)
                taken.inputs[0].name_hint = taken.inputs[0].name_hint or writer.output.name_hint


def precedes(first: Node, second: Node) -> bool:
    """Whether one node of a block stands before another."""
    node: Node | None = first
    while node is not None and node is not second:
        node = node.next
    return node is second


def _is_count(place: Carried) -> bool:
    """Whether a loop counts its rounds there, in a number that nothing else reads."""
    node = place.result.node
    return node.kind == "aten::add.int" and node.inputs[0] is place.parameter and place.parameter.use_count == 1


def _header(loop: Node) -> Node:
    """The first of what a loop's header says."""
    trips, test = (value.node for value in loop.inputs[:2])
    for asked in (trips, test):
        is_said = asked.kind != "prim::Constant" and not asked.blocks and asked.owner is loop.owner
        if is_said and len(asked.outputs) == 1 and asked.output.use_count == 1 and not is_tensor(asked.output.type):
            return asked
    return loop


def _opening(block: Block) -> Node:
    """What a round begins with: taking its item of the list that the loop goes through."""
    first = block.param.next
    while first is not None and first.kind == "prim::Constant":
        first = first.next
    is_item = first is not None and first.kind == _ITEM and first.inputs[1] is block.inputs[0]
    return first if is_item and first is not None else block.param


def _is_early(value: Value, block: Block) -> bool:
    return value.node is block.param or value.node.owner is not block


def ask_again(closure: Block) -> bool:
    """Have items of lists from what is there anyway; what nothing asks of a loop any more goes with dead code.

    Before:
        def f(xs: List[Tensor], y):
            kept: List[Tensor] = []
            for x in xs:
                kept.append(x)
                y = y * x
            def backward(g):
                for i in range(len(xs)):
                    g = g * kept[i]
                return None, g
            return y, backward
    After:
        def f(xs: List[Tensor], y):
            for x in xs:
                y = y * x
            def backward(g):
                for x_1 in xs:
                    g = g * x_1
                return None, g
            return y, backward
    """
    own = [value for node in closure.nodes if is_loop(node) for value in node.outputs]
    lists = {value: item for value in (*captures(closure), *own) if (item := kept_of(value)) is not None}
    changed = False
    for node in [node for node in walk(closure.nodes) if node.kind == _ITEM and node.inputs[0] in lists]:
        kept, at = node.inputs
        loop = kept.node
        known = {item: other for other, item in lists.items() if other.node is loop and other is not kept}
        found = _Again(loop, at, known, node).made(lists[kept], _DEEPEST)
        if found is not None:
            node.output.replace_uses_with(found)
            node.destroy()
            changed = True
    return changed


class _Again:
    """Values of one round of a loop, computed where a backward stands in that round."""

    def __init__(self, loop: Node, at: Value, known: Mapping[Value, Value], before: Node) -> None:
        self._block = loop.blocks[0]
        self._at = at
        self._known = known
        self._before = before

    def made(self, value: Value, depth: int) -> Value | None:
        """The value, if it costs nothing of what is outside of the loop, of which round it is, and of what is kept."""
        if value is self._block.inputs[0]:
            return self._at
        if value.node.owner is not self._block:
            return value if self._is_outside(value) else None
        node = value.node
        if not depth or node.kind == PARAM or not _is_free(node):
            return None
        env: dict[Value, Value] = {}
        for given in node.inputs:
            again = self._item(given) or self.made(given, depth - 1)
            if again is None:
                return None
            env[given] = again
        copy_node(node, env, partial(_put_before, self._before))
        return env[value]

    def _item(self, value: Value) -> Value | None:
        """The item that is kept of it."""
        kept = self._known.get(value)
        if kept is None:
            return None
        env = {self._before.inputs[0]: kept}
        copy_node(self._before, env, partial(_put_before, self._before))
        return env[self._before.output]

    def _is_outside(self, value: Value) -> bool:
        """Whether a value is there before the loop begins, and not only inside another block."""
        owner = value.node.owner
        loop = self._block.node
        return loop is not None and owner is loop.owner


def _is_free(node: Node) -> bool:
    is_size = OPS.has(node.schema, Trait.SHAPE_ONLY)
    is_number = node.kind in ("prim::Constant", "aten::len.t", _ITEM)
    return len(node.outputs) == 1 and (is_number or (is_size and not is_tensor(node.output.type)))


def _put_before(node: Node, made: Node) -> Node:
    return made.insert_before(node)
