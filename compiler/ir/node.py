"""The intermediate representation: SSA values, nodes in blocks, blocks in nodes.

    Block ─ param: Node (its outputs are the inputs of the block)
          ─ nodes: Node … (a node may hold blocks: prim::If, prim::Loop, prim::Function, prim::GradOf)
          ─ ret: Node (its inputs are the outputs of the block)

Param and Return are real nodes at the two ends of a block's node list, so no pass needs a special case for
them. A block may use values of the blocks around it. Values are immutable data: no op writes into another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...lang.source import NO_SPAN, Span
from ..types.schema import FunctionSchema
from ..types.types import TENSOR, Type

PARAM = "prim::Param"
RECORDED = "recorded"
"""An attribute of what stands in a `with torch.enable_grad():`: its gradient flows wherever the function is called."""
RETURN = "prim::Return"


class Use(NamedTuple):
    """Input number `index` of `user`."""

    user: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs on a pair


_use = tuple.__new__
"""Makes a Use of a pair. Graphs are copied and changed all the time: its own `__new__` is a function of Python's."""


class Value:
    """One SSA value. Identity is equality."""

    __slots__ = ("_uses", "name_hint", "node", "type")

    def __init__(self, type: Type, node: Node, name_hint: str = "") -> None:
        self.type = type
        self.node = node
        self.name_hint = name_hint
        self._uses: dict[Use, None] = {}

    @property
    def uses(self) -> tuple[Use, ...]:
        """Every use, in the order in which they were made."""
        return tuple(self._uses)

    @property
    def use_count(self) -> int:
        return len(self._uses)

    @property
    def index(self) -> int:
        """Position among the outputs of its node."""
        return self.node.outputs.index(self)

    def replace_uses_with(self, other: Value) -> None:
        """Make every user of this value use `other`."""
        for use in tuple(self._uses):
            use.user.set_input(use.index, other)

    def __repr__(self) -> str:
        return f"<Value {self.name_hint or '_'} : {self.type} of {self.node.kind}>"


_NO_BLOCKS: Any = ()
"""Of nearly all nodes: a list for each would be made and freed with it."""


class Misuse(Exception):
    """A change that would leave a graph in pieces, such as the removal of a node whose outputs are used."""


class Node:
    """One operation: a kind, the schema behind it if it is an op, inputs, outputs, constant attributes, blocks.

    `attrs` holds constants only (int, float, bool, str, None, tensors, lists of them), so that each node has a text.
    """

    __slots__ = ("attrs", "blocks", "inputs", "kind", "next", "outputs", "owner", "previous", "schema", "span")

    def __init__(
        self, kind: str, schema: FunctionSchema | None = None, attrs: dict[str, Any] | None = None, span: Span = NO_SPAN
    ) -> None:
        self.kind = kind
        self.schema = schema
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.attrs: dict[str, Any] = attrs or {}
        self.blocks: list[Block] = _NO_BLOCKS
        self.owner: Block | None = None
        self.span = span
        self.previous: Node | None = None
        self.next: Node | None = None

    @property
    def holder(self) -> Node | None:
        """The node in a block of which this one stands; None for what stands in none."""
        return self.owner.node if self.owner is not None else None

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    def add_input(self, value: Value) -> None:
        value._uses[_use(Use, (self, len(self.inputs)))] = None
        self.inputs.append(value)

    def set_input(self, index: int, value: Value) -> None:
        use = _use(Use, (self, index))
        self.inputs[index]._uses.pop(use, None)
        self.inputs[index] = value
        value._uses[use] = None

    def remove_input(self, index: int) -> None:
        self.replace_inputs([*self.inputs[:index], *self.inputs[index + 1 :]])

    def replace_inputs(self, values: Sequence[Value]) -> None:
        """Use `values`, and nothing else, as the inputs."""
        for i, value in enumerate(self.inputs):
            value._uses.pop(_use(Use, (self, i)), None)
        self.inputs = []
        for value in values:
            self.add_input(value)

    def add_output(self, type: Type = TENSOR, name_hint: str = "") -> Value:
        value = Value(type, self, name_hint)
        self.outputs.append(value)
        return value

    def remove_output(self, index: int) -> None:
        """Drop an output that nobody uses."""
        self._require(not self.outputs[index].use_count, "loses an output that is used: replace it first")
        del self.outputs[index]

    def add_block(self) -> Block:
        block = Block(self)
        self.blocks = [*self.blocks, block]
        return block

    def insert_before(self, other: Node) -> Node:
        """Link this node into the list in front of `other`."""
        self._require(self.owner is None, "stands somewhere already: unlink it first")
        self._require(other.previous is not None, "is put in front of what stands nowhere")
        assert other.previous is not None
        self.owner, self.previous, self.next = other.owner, other.previous, other
        other.previous.next = self
        other.previous = self
        return self

    def insert_after(self, other: Node) -> Node:
        self._require(other.next is not None, "is put behind what stands nowhere")
        assert other.next is not None
        return self.insert_before(other.next)

    def unlink(self) -> Node:
        """Take the node out of its list and keep its inputs: for moving it."""
        self._require(self.owner is not None, "stands nowhere")
        assert self.previous is not None and self.next is not None
        self.previous.next, self.next.previous = self.next, self.previous
        self.owner = self.previous = self.next = None
        return self

    def destroy(self) -> None:
        """Remove the node and all inside it. Nothing may use its outputs any more."""
        used = next((value for value in self.outputs if value.use_count), None)
        if used is not None:
            user = used.uses[0].user.kind
            raise Misuse(f"{self.kind} cannot be removed: {user} uses its output {used.index}, replace that first")
        for node in list(walk([self])):
            node.replace_inputs(())
        for block in list(walk_blocks([self])):
            block.ret.replace_inputs(())
        if self.owner is not None:
            self.unlink()

    def _require(self, holds: bool, rule: str) -> None:
        if not holds:
            raise Misuse(f"{self.kind} {rule}")

    def attr(self, name: str) -> Any:
        return self.attrs[name]

    def __repr__(self) -> str:
        return f"<Node {self.kind}>"


class Block:
    """A list of nodes between a Param node and a Return node.

    The Param of a loop whose rounds are those of a loop in source says where that stands.
    """

    __slots__ = ("node", "param", "ret")

    def __init__(self, node: Node | None = None) -> None:
        self.node = node
        self.param = Node(PARAM)
        self.ret = Node(RETURN)
        self.param.owner = self.ret.owner = self
        self.param.next, self.ret.previous = self.ret, self.param

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order. The current one, and any other but the next, may be removed meanwhile."""
        node = self.param.next
        while node is not None and node is not self.ret:
            following = node.next
            yield node
            node = following

    @property
    def reversed_nodes(self) -> Iterator[Node]:
        """As `nodes`, last first."""
        node = self.ret.previous
        while node is not None and node is not self.param:
            preceding = node.previous
            yield node
            node = preceding

    @property
    def inputs(self) -> list[Value]:
        return self.param.outputs

    @property
    def outputs(self) -> list[Value]:
        return self.ret.inputs

    def add_input(self, type: Type = TENSOR, name_hint: str = "") -> Value:
        return self.param.add_output(type, name_hint)

    def append(self, node: Node) -> Node:
        return node.insert_before(self.ret)


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes and those inside their blocks, outer before inner, in program order, without recursion."""
    for top in nodes:
        yield top
        for block in top.blocks:
            yield from walk_block(block)


def walk_block(block: Block) -> Iterator[Node]:
    """As `walk`, of the nodes of a block. Of those met meanwhile any but the next may be removed."""
    stack = [block.param]
    while stack:
        node = stack.pop()
        following = node.next
        while following is not None:
            if node.kind != PARAM:
                yield node
                if node.blocks:
                    stack.append(following)
                    stack += [block.param for block in reversed(node.blocks)]
                    break
            node, following = following, following.next


def walk_blocks(nodes: Iterable[Node]) -> Iterator[Block]:
    """The blocks of the nodes and the blocks inside those, outer before inner."""
    for node in walk(nodes):
        yield from node.blocks


def enclosing_blocks(block: Block | None) -> Iterator[Block]:
    """The block and the blocks around it, innermost first."""
    while block is not None:
        yield block
        block = block.node.owner if block.node is not None else None


def copy_node(node: Node, env: dict[Value, Value], into: Callable[[Node], Any], span: Span | None = None) -> Node:
    """Copy a node with all inside it and hand the copy to `into`, which links it.

    `env` maps values of the original to those of the copy; what is missing from it stays as it is. It gains
    the copied outputs. With `span` the copies have that one: what an op is made of is told at the line that uses it.
    """
    top = _shallow_copy(node, env, span)
    into(top)
    if not node.blocks:
        for value in node.inputs:
            top.add_input(env.get(value, value))
        return top
    pending = [(node, top)]
    while pending:
        original, copied = pending.pop()
        for block in original.blocks:
            pending += _copy_block_shallow(block, copied.add_block(), env, span)
    _map_inputs(node, top, env)
    return top


def copy_block(block: Block, into: Block, env: dict[Value, Value]) -> None:
    """Copy parameters, nodes and results of a block into an empty one."""
    pending = _copy_block_shallow(block, into, env)
    copied_nodes = [(original, copied) for original, copied in pending]
    while pending:
        original, copied = pending.pop()
        for inner in original.blocks:
            pending += _copy_block_shallow(inner, copied.add_block(), env)
    for original, copied in copied_nodes:
        if original.blocks:
            _map_inputs(original, copied, env)
            continue
        for value in original.inputs:
            copied.add_input(env.get(value, value))
    for value in block.outputs:
        into.ret.add_input(env.get(value, value))


def copy_nodes(
    block: Block, env: dict[Value, Value], into: Callable[[Node], Any], span: Span | None = None
) -> list[Value]:
    """Copy the nodes of a block (not its parameters, which `env` must map) and return the mapped results.

    `span` as for `copy_node`.
    """
    for node in block.nodes:
        copy_node(node, env, into, span)
    return [env.get(value, value) for value in block.outputs]


def _shallow_copy(node: Node, env: dict[Value, Value], span: Span | None) -> Node:
    copied = Node(node.kind, node.schema, dict(node.attrs), span or node.span)
    for value in node.outputs:
        env[value] = copied.add_output(value.type, value.name_hint)
    return copied


def _copy_block_shallow(
    block: Block, into: Block, env: dict[Value, Value], span: Span | None = None
) -> list[tuple[Node, Node]]:
    into.param.span = block.param.span
    for value in block.inputs:
        env[value] = into.add_input(value.type, value.name_hint)
    pairs = []
    for node in block.nodes:
        copied = _shallow_copy(node, env, span)
        into.append(copied)
        pairs.append((node, copied))
    return pairs


def _map_inputs(original: Node, copied: Node, env: dict[Value, Value]) -> None:
    """Fill in inputs once every output has its copy: a use may stand in a block copied before its definition."""
    stack = [(original, copied)]
    while stack:
        source, target = stack.pop()
        for value in source.inputs:
            target.add_input(env.get(value, value))
        for block, into in zip(source.blocks, target.blocks, strict=True):
            stack += zip(block.nodes, into.nodes, strict=True)
            for value in block.outputs:
                into.ret.add_input(env.get(value, value))
