"""The rules of valid IR, checked.

Every pass takes and leaves valid IR; the pipeline calls `verify` between passes. The rules of links, scopes and
uses are here, those of each kind of node in `kinds.py` and `structure.py`. Time is linear in the graph, whatever its
nesting.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from ..types.types import CLOSURE
from .graph import Graph
from .kinds import KINDS
from .node import PARAM, RETURN, Block, Node, Value
from .printer import print_node
from .structure import Broken, check_attrs, check_call, check_closure, require

_LONGEST_TEXT = 2000


class InvalidIR(Exception):
    """A graph breaks a rule: which graph, which rule, and the text of the node at fault, which is `.node`."""

    def __init__(self, graph: Graph, rule: str, node: Node | None = None) -> None:
        self.graph = graph
        self.rule = rule
        self.node = node
        # Blocks inside are left out: the rules that make them printable may be what is broken.
        text = f"\n{print_node(node, inside=False)[:_LONGEST_TEXT].rstrip()}" if node is not None else ""
        place = f"\nat {node.span}" if node is not None and node.span.end else ""
        super().__init__(f"graph {graph.name}: {rule}{text}{place}")


def verify(graph: Graph) -> None:
    """Raise InvalidIR unless the graph keeps every rule."""
    _Verifier(graph).run()


class _Verifier:
    """Walks the blocks in program order by a stack of steps, keeping the set of values that are in scope."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._visible: set[Value] = set()
        self._defined: list[Value] = []
        self._seen: set[Node] = set()
        self._steps: list[tuple[Callable[..., None], Node | Block]] = [(self._open, graph.body)]

    def run(self) -> None:
        self._rule(self._graph.body.node is None, "the body of a graph belongs to no node")
        while self._steps:
            step, subject = self._steps.pop()
            step(subject)
        self._check_uses()

    def _rule(self, holds: bool, rule: str, node: Node | None = None) -> None:
        if not holds:
            raise InvalidIR(self._graph, rule, node)

    def _open(self, block: Block) -> None:
        param, ret = block.param, block.ret
        self._rule(param.kind == PARAM and not param.inputs and not param.blocks, "malformed Param node", block.node)
        self._rule(ret.kind == RETURN and not ret.outputs and not ret.blocks, "malformed Return node", block.node)
        self._rule(param.previous is None and ret.next is None, "Param and Return are the ends of a block", block.node)
        self._steps += [(self._close, block), (self._visit, param)]
        self._rule(param.owner is block and ret.owner is block, "a block owns its Param and Return", block.node)

    def _close(self, block: Block) -> None:
        for node in chain((block.param,), block.nodes):
            self._visible.difference_update(node.outputs)

    def _visit(self, node: Node) -> None:
        """Check a node where it stands; what is inside it comes next, then its outputs, then the node after it."""
        self._check_links(node)
        self._check_inputs(node)
        try:
            check_attrs(node)
            if node.kind not in (PARAM, RETURN):
                _check_node(node, self._graph)
        except Broken as broken:
            raise InvalidIR(self._graph, str(broken), node) from None
        if node.next is not None:
            self._steps.append((self._visit, node.next))
        self._steps.append((self._define, node))
        self._steps += [(self._open, block) for block in reversed(node.blocks)]

    def _define(self, node: Node) -> None:
        for value in node.outputs:
            self._rule(value.node is node, "an output belongs to its node", node)
            self._rule(value not in self._visible, "a value is defined twice", node)
            self._visible.add(value)
        self._defined += node.outputs

    def _check_links(self, node: Node) -> None:
        self._rule(node not in self._seen, "a node stands in two places", node)
        self._seen.add(node)
        block = node.owner
        if block is None:
            raise InvalidIR(self._graph, "a node in a block has that block as its owner", node)
        if node.kind in (PARAM, RETURN):
            self._rule(node in (block.param, block.ret), "Param and Return stand only at the ends of a block", node)
        if node is not block.ret:
            following = node.next
            self._rule(following is not None and following.previous is node, "broken links between nodes", node)
            self._rule(following is not None and following.owner is block, "neighbours have the same owner", node)
        for inner in node.blocks:
            self._rule(inner.node is node, "a block belongs to the node that holds it", node)

    def _check_inputs(self, node: Node) -> None:
        for index, value in enumerate(node.inputs):
            if value not in self._visible:
                self._rule(False, f"input {index} is not defined before its use, or out of scope", node)
            if (node, index) not in value._uses:
                self._rule(False, f"input {index} does not list this use", node)

    def _check_uses(self) -> None:
        for value in self._defined:
            for user, index in value._uses:
                if user not in self._seen or index >= len(user.inputs) or user.inputs[index] is not value:
                    self._rule(False, f"an output lists a use by {user.kind} that does not exist", value.node)


def _check_node(node: Node, graph: Graph) -> None:
    """Raise Broken unless the node is what its kind says; `graph` names the functions it may call."""
    kind = KINDS.get(node.kind)
    if kind is not None:
        require(node.schema is None, "a structural node has no schema")
        kind.check(node, graph)
    elif node.schema is not None:
        require(node.kind == node.schema.full_name, "the kind is the schema's full name")
        require(not node.blocks, "an op has no blocks")
        check_call(node, node.schema)
    else:
        raise Broken(f"{node.kind} is neither structural nor an op with a schema")
    for value in node.outputs:
        if value.type == CLOSURE:
            check_closure(node, value)
