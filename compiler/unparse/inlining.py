"""What becomes an expression inside another, and what a statement of its own.

A node whose one result is used once, in the same block, and has no name in the source is written where it is used, if
that keeps the order of evaluation. The nodes that wait for their use stand in `pending`, in program order; a use
takes them from the end. What waits in vain becomes a statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lang.light_dataclasses import dataclass, field
from ...lang.trampoline import Walk, run
from ..analysis.captures import captures
from ..ir.node import Block, Node, Value
from ..spelling.overloads import Resolver
from ..types.types import ListType, strip_optional
from .infix import InfixOperators
from .loops import FOREVER, Header, header_of, item_node
from .refinement import known_of
from .uses import Uses, unchanged
from .written import REPEATED, Written

MAX_EXPRESSION = 16
"""Operations inside each other in one expression; deeper ones are spread over statements."""

_STATEMENTS = frozenset(("prim::TupleUnpack", "prim::ListUnpack", "prim::unchecked_cast", "prim::RaiseException"))


@dataclass(slots=True)
class Waiting:
    """A block under analysis: the nodes that may still be written at their use, and whether there are statements."""

    pending: list[Node] = field(default_factory=list)
    has_statements: bool = False

    def flush(self) -> None:
        """All that waits becomes statements."""
        self.has_statements = self.has_statements or bool(self.pending)
        self.pending = []


class FunctionShape(Written):
    """The decisions for one function and what is inside it."""

    def __init__(self, body: Block, resolver: Resolver) -> None:
        super().__init__(Uses(body))
        self.operators = InfixOperators(resolver, self.uses.at)
        self.silent: set[Node] = set()
        """Nodes that need no text: the unwrapping that a test implies."""
        self.expressions: set[Node] = set()
        """The prim::Ifs that are conditional expressions."""
        self.headers: dict[Node, Header] = {}
        self._depth: dict[Node, int] = {}
        self._prepare(body)
        run(self._function(body))

    def _prepare(self, body: Block) -> None:
        for node in list(self.uses.at):
            if node.kind == "prim::Loop":
                for k in unchanged(node):
                    self.uses.alias(node.blocks[0].inputs[k + 1], node.inputs[k + 2])
                    self.uses.alias(node.outputs[k], node.inputs[k + 2])
            elif node.kind == "prim::Function":
                for value in captures(node.blocks[0]):
                    self.uses.capture(value, node)

    # Blocks

    def _function(self, body: Block) -> Walk:
        waiting = yield self._block(body)
        self._consume(body.ret, body.outputs, waiting)
        waiting.flush()

    def _block(self, block: Block) -> Walk:
        waiting = Waiting()
        for node in block.nodes:
            if node.kind in REPEATED or node in self.silent:
                continue
            if node.kind == "prim::If":
                yield self._branch(node, waiting)
            elif node.kind == "prim::Loop":
                yield self._loop(node, waiting)
            elif node.kind == "prim::Function":
                waiting.flush()
                waiting.has_statements = True
                yield self._function(node.blocks[0])
            else:
                self._consume(node, self.operators.operands(node), waiting)
                self._enter(node, waiting)
        return waiting

    def _consume(self, node: Node, wanted: Sequence[Value], waiting: Waiting) -> None:
        """Write into `node` what of its operands can be: the longest end of what waits, in the operands' order."""
        pending = waiting.pending
        limit, kept = len(wanted), len(pending)
        depth = 0
        while kept:
            candidate = pending[kept - 1]
            if not candidate.outputs[0]._uses or candidate.outputs[0].uses[0].user is not node:
                break
            level = self._depth.get(candidate, 1)
            found = next((i for i in reversed(range(limit)) if wanted[i] is candidate.outputs[0]), None)
            if found is None or level >= MAX_EXPRESSION:
                break
            self.inlined.add(candidate)
            depth = max(depth, level)
            limit, kept = found, kept - 1
        self._depth[node] = depth + 1
        missed = {v.node for v in wanted[:limit]}
        flushed = next((i for i in reversed(range(kept)) if pending[i] in missed), -1) + 1 if missed else 0
        waiting.has_statements = waiting.has_statements or flushed > 0
        waiting.pending = pending[flushed:kept] if flushed or kept < len(pending) else pending

    def _enter(self, node: Node, waiting: Waiting) -> None:
        """Let the node wait for its use, or make it a statement."""
        if self._may_wait(node):
            waiting.pending.append(node)
        else:
            waiting.flush()
            waiting.has_statements = True

    def _may_wait(self, node: Node) -> bool:
        if len(node.outputs) != 1 or node.kind in _STATEMENTS:
            return False
        value = node.outputs[0]
        if value.name_hint or value.use_count != 1:
            return False
        user, index = value.uses[0]
        return user.owner is node.owner and not (user.kind == "prim::Loop" and index > 1) and _has_own_type(value, user)

    # Branches

    def _branch(self, node: Node, waiting: Waiting) -> Walk:
        condition = node.inputs[0]
        self._consume(node, [condition], waiting)
        implied = known_of(self, condition).implied(self.uses, node, _after(node))
        if implied is None:
            # Other names stand for the tested value too: keep the test apart, where it implies nothing.
            self.inlined.discard(condition.node)
            waiting.flush()
        for unwrap in implied or ():
            self.silent.add(unwrap)
            self.uses.alias(unwrap.output, unwrap.inputs[0])
        parts: list[Waiting] = []
        for block in node.blocks:
            parts.append((yield self._block(block)))
        if len(node.outputs) == 1 and all(map(_is_one_expression, parts, node.blocks)):
            self.expressions.add(node)
            taken = [part.pending[0] for part in parts if part.pending]
            self.inlined.update(taken)
            self._depth[node] = 1 + max([self._depth.get(n, 1) for n in taken], default=self._depth[node])
            self._enter(node, waiting)
        else:
            waiting.flush()
            waiting.has_statements = True

    # Loops

    def _loop(self, node: Node, waiting: Waiting) -> Walk:
        trips = node.inputs[0]
        is_while = trips.node.kind == "prim::Constant" and trips.node.attrs["value"] == FOREVER
        held = waiting.pending[-1] if is_while and waiting.pending else None
        if not is_while:
            self._consume(node, [trips], waiting)
            for leaf in self.leaves(trips):
                self.uses.note(leaf, self.uses.at[node.blocks[0].param] + 1, node)
        waiting.flush()
        waiting.has_statements = True
        inner = yield self._block(node.blocks[0])
        last = inner.pending[-1] if inner.pending else None
        header = self.headers[node] = header_of(self, node, is_while, held, last)
        item = item_node(self, node, header)
        if item is not None:
            self.silent.add(item)
            self.uses.alias(node.blocks[0].inputs[0], item.output)


def _after(node: Node) -> int | None:
    """Which side of a branch is the only one that goes on after it."""
    leaves = [raises(block) for block in node.blocks]
    return leaves.index(False) if sum(leaves) == 1 else None


def is_bare(node: Node) -> bool:
    """Whether the node is there for its effect only."""
    is_told = node.schema is not None and not node.schema.returns
    return is_told or (node.kind == "prim::CallFunction" and not any(v.use_count for v in node.outputs))


def _is_one_expression(part: Waiting, block: Block) -> bool:
    """Whether a branch is no more than its result."""
    value = block.outputs[0]
    if part.has_statements or len(part.pending) > 1:
        return False
    return not part.pending or part.pending[0] is value.node


def _has_own_type(value: Value, user: Node) -> bool:
    """Whether an empty list's type follows from its use."""
    if value.node.kind != "prim::ListConstruct" or value.node.inputs:
        return True
    if user.schema is None:
        return False
    formal = strip_optional(user.schema.arguments[user.inputs.index(value)].type)
    return isinstance(formal, ListType) and formal == value.type


def raises(block: Block) -> bool:
    """Whether every path through the block raises."""
    blocks = [block]
    while blocks:
        last = next((n for n in blocks.pop().reversed_nodes if n.kind not in REPEATED), None)
        if last is None or last.kind not in ("prim::RaiseException", "prim::If"):
            return False
        blocks += last.blocks
    return True
