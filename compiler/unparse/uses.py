"""Where things stand: program-order positions of nodes, and the positions at which values are used."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ..ir.kinds import own_inputs, parameters
from ..ir.node import PARAM, RETURN, Block, Node, Value

STEP = 2
"""Between two positions: a loop's header reads its values half a step after the body's parameters are set."""


class Uses:
    """Positions in one function, and each value's uses in order.

    Values that are one variable in source are one here, the `root`: an optional and its unwrapped self, a value
    that a loop hands on unchanged.
    """

    def __init__(self, body: Block) -> None:
        self.body = body
        self.at: dict[Node, int] = {}
        self.end: dict[Node, int] = {}
        self._alias: dict[Value, Value] = {}
        self._uses: dict[Value, list[int]] = {}
        self._users: dict[Value, list[Node]] = {}
        self._number(body)

    def root(self, value: Value) -> Value:
        while value in self._alias:
            value = self._alias[value]
        return value

    def alias(self, value: Value, to: Value) -> None:
        """Let `value` be the same variable as `to`, whose single use in this region it is."""
        to = self.root(to)
        self._alias[value] = to
        for position, user in zip(self._uses.pop(value, ()), self._users.pop(value, ()), strict=True):
            self.note(to, position, user)

    def note(self, value: Value, position: int, user: Node) -> None:
        """Enter a use that is not an input's, such as one by an expression that is written later."""
        value = self.root(value)
        positions = self._uses.setdefault(value, [])
        index = bisect_right(positions, position)
        positions.insert(index, position)
        self._users.setdefault(value, []).insert(index, user)

    def range(self, block: Block) -> tuple[int, int]:
        return self.at[block.param], self.at[block.ret]

    def used_within(self, value: Value, after: int, until: int) -> list[Node]:
        """Users at positions in (after, until]."""
        positions = self._uses.get(value, [])
        return self._users.get(value, [])[bisect_right(positions, after) : bisect_right(positions, until)]

    def is_used_within(self, value: Value, after: int, until: int) -> bool:
        positions = self._uses.get(value, [])
        first = bisect_right(positions, after)
        return first < len(positions) and positions[first] <= until

    def needed_until(self, value: Value) -> int:
        """The last position at which the value may be needed: its last use, or the end of the loop around that."""
        if not self._uses.get(value):
            return -1
        until, block = self._uses[value][-1], self._users[value][-1].owner
        home = value.node.owner
        while block is not None and block is not home and block.node is not None:
            if block.node.kind == "prim::Loop":
                until = max(until, self.end[block.node])
            block = block.node.owner
        return until

    def defined_at(self, value: Value) -> int:
        """Where the value comes to be: a block's parameter where the block begins, a branch's result where it ends."""
        return self.at[value.node] if value.node.kind == PARAM else self.end[value.node]

    def is_live_after(self, value: Value, point: int, block: Block) -> bool:
        """Whether a use of `value` can follow `point`, a position in `block`."""
        home = value.node.owner
        while True:
            first, last = self.range(block)
            if self.is_used_within(value, point, last):
                return True
            node = block.node
            if block is home or node is None or node.owner is None:
                return False
            if node.kind == "prim::Loop" and self.is_used_within(value, first, last):
                return True
            point, block = self.end[node], node.owner

    def _number(self, body: Block) -> None:
        counter = 0
        stack: list[Iterator[Node | Block]] = [_content(body)]
        open_nodes: list[Node | None] = [None]
        while stack:
            item = next(stack[-1], None)
            counter += STEP
            if item is None:
                stack.pop()
                node = open_nodes.pop()
                if node is not None:
                    self.end[node] = counter
            elif isinstance(item, Block):
                stack.append(_content(item))
                open_nodes.append(None)
            else:
                self._place(item, counter)
                if item.blocks:
                    stack.append(iter(item.blocks))
                    open_nodes.append(item)

    def _place(self, node: Node, position: int) -> None:
        self.at[node] = self.end[node] = position
        loop = node.holder
        inside_loop = loop is not None and loop.kind == "prim::Loop"
        if node.kind == PARAM and inside_loop:
            assert loop is not None
            for value in own_inputs(loop):
                self._use(value, position + 1, loop)
        skipped = 2 if node.kind == "prim::Loop" else 0
        for index, value in enumerate(node.inputs):
            if index >= skipped and not _is_unchanged(node, index):
                self._use(value, position, node)

    def _use(self, value: Value, position: int, user: Node) -> None:
        if value.node.kind == "prim::Constant":
            return
        self._uses.setdefault(value, []).append(position)
        self._users.setdefault(value, []).append(user)

    def capture(self, value: Value, function: Node) -> None:
        """A closure holds the value: nothing may take its name before the function ends."""
        block = function.owner
        assert block is not None
        self.note(value, self.at[block.ret], function)


def unchanged(loop: Node) -> Iterator[int]:
    """Which of the carried values every round hands on as they are."""
    (block,) = loop.blocks
    for k, param in enumerate(parameters(block)):
        if block.outputs[k + 1] is param and loop.inputs[k + 2].type == param.type:
            yield k


def _is_unchanged(node: Node, index: int) -> bool:
    """Whether an input only hands on what a loop never changes."""
    if node.kind == "prim::Loop":
        return index - 2 in unchanged(node)
    loop = node.holder
    if node.kind != RETURN or loop is None or loop.kind != "prim::Loop" or not index:
        return False
    return index - 1 in unchanged(loop)


def _content(block: Block) -> Iterator[Node]:
    yield block.param
    yield from block.nodes
    yield block.ret
