"""How long the statements of a closure are, in operations, while terms of them become statements of their own."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ...compiler.ir.node import RETURN, Block, Node, walk
from ...compiler.types.types import is_tensor


def is_statement(node: Node) -> bool:
    """Whether a node is one in the text, and no part of another."""
    if node.kind == "prim::Constant":
        return False
    return len(node.outputs) != 1 or bool(node.blocks) or node.output.use_count > 1 or bool(node.output.name_hint)


class Statements:
    """The statements of a closure by their lengths. A term that is named is taken out of its own alone."""

    def __init__(self, closure: Block) -> None:
        inside = list(walk(closure.nodes))
        ends = [*(block.ret for holder in inside for block in holder.blocks), closure.ret]
        self._places = {node: place for place, node in enumerate([*inside, *ends])}
        self._measure()

    def _measure(self) -> None:
        self.sizes: dict[Node, int] = {}
        for node in self._places:
            inner = [v.node for v in node.inputs if v.node in self.sizes and not is_statement(v.node)]
            self.sizes[node] = 1 + sum(self.sizes[n] for n in inner)
        # The longest first; of equals, that which stands first.
        roots = [node for node in self._places if node.kind == RETURN or is_statement(node)]
        self._roots = [(-self._length(node), self._places[node]) for node in roots]
        self._nodes = [*self._places]
        heapify(self._roots)

    def _length(self, root: Node) -> int:
        """Operations of a statement; of a `return`, those of its longest expression."""
        return (
            max(map(self.sizes.__getitem__, self._inner(root)), default=0) if root.kind == RETURN else self.sizes[root]
        )

    def _inner(self, node: Node) -> list[Node]:
        return [v.node for v in node.inputs if v.node in self.sizes and not is_statement(v.node)]

    def longest(self) -> tuple[int, Node]:
        """How long the longest is, and where it ends."""
        while True:
            length, place = self._roots[0]
            if -length == self._length(self._nodes[place]):
                return -length, self._nodes[place]
            heappop(self._roots)

    def terms(self, root: Node) -> list[Node]:
        """The operations on tensors that a statement is made of."""
        found, waiting = [], [root]
        while waiting:
            inner = self._inner(waiting.pop())
            found += [n for n in inner if is_tensor(n.output.type) and n.kind != "aten::zeros_like"]
            waiting += inner
        return found

    def part(self, term: Node) -> None:
        """A term has been given a name."""
        heappush(self._roots, (-self.sizes[term], self._places[term]))
        node = term
        while node is term or not is_statement(node):
            users = [use.user for use in node.output.uses if use.user in self.sizes]
            if len(users) != 1:
                self._measure()
                return
            (node,) = users
            self.sizes[node] -= self.sizes[term]
            if node.kind == RETURN:
                break
        heappush(self._roots, (-self._length(node), self._places[node]))
