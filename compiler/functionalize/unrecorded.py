"""What is computed where no gradient flows: results without a past, and arguments that are returned with theirs.

    %y = aten::mul.Tensor(%x, %w)        ─▶    %1 = aten::mul.Tensor(%x, %w)
                                               %y = aten::detach(%1)

An op that returns its argument itself, as `x.double()` of a float64, gives that with its gradient, in torch as here.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Block, Node, Value, copy_nodes, walk
from ..ir.rewrite import replace_node
from ..ops.registry import OPS, Trait
from ..types.types import (
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
    is_differentiable,
    is_tensor,
    leaf_of,
)
from .arguments import ask_itself, gives_elements, is_itself
from .views import may_alias, view_step
from .write_nodes import WRITE

DETACH = "aten::detach"
VIEW, VIEWS = "aten::_unrecorded_view", "aten::_unrecorded_views"
_OF_PARTS = ("prim::Constant", "prim::Uninitialized", "prim::ListConstruct", "prim::TupleConstruct")
_NO_RESULT = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def detach_results(graph: Graph, node: Node, *, guess: bool = False) -> bool:
    """Detach what a node gives, arguments that it returns aside.

    False, and nothing is done, if it cannot be told whether it returns one; to `guess` is to say that it does not.
    """
    op = OPS.of(node.schema)
    if node.kind != "prim::CallFunction" and (op is None or op.has(_NO_RESULT) or _only_moves(node)):
        return True
    if not any(may_carry(value.type) for value in node.inputs) or node.next is None:
        return True
    builder = Builder(graph, before=node.next, span=node.span)
    same = is_itself(node)
    if same is not False:
        return _detach_copy(builder, node) or (guess and (_is_told_by_memory(node) or _detach(builder, node)))
    return _detach(builder, node)


def _is_told_by_memory(node: Node) -> bool:
    """Whether what an op gives is a tensor of its own unless it is what the op was given."""
    return node.schema is not None and node.schema.base_name == "contiguous"


def _detach(builder: Builder, node: Node) -> bool:
    op = OPS.of(node.schema)
    for value in node.outputs:
        if not may_carry(value.type):
            continue
        uses = value.uses
        if gives_elements(node):
            detached = builder.op("aten::_given_or_detached", node.inputs[0], value, name=value.name_hint)
        elif op is not None and op.has(Trait.VIEW):
            view = VIEW if is_tensor(value.type) else VIEWS
            detached = builder.op(view, value, name=value.name_hint)
        else:
            detach = DETACH if is_tensor(value.type) else "aten::_without_gradient"
            detached = builder.op(detach, value, name=value.name_hint)
        detached.type = value.type
        value.name_hint = ""
        for use in uses:
            use.user.set_input(use.index, detached)
    return True


def _detach_copy(builder: Builder, node: Node) -> bool:
    """The result of an op that returns its argument where nothing is to do: then it is that, with its gradient."""
    argument, result = node.inputs[0], node.output
    if is_itself(node) or argument.node.kind == DETACH:
        return True
    uses = result.uses
    condition = ask_itself(builder, node)
    if condition is None:
        return False
    branch = builder.node("prim::If", [condition], [result.type], blocks=2, names=[result.name_hint])
    result.name_hint = ""
    same = argument if is_tensor(argument.type) else result
    returned, made = branch.blocks
    with builder.at(returned):
        builder.returns(same)
    with builder.at(made):
        is_view = OPS.has(node.schema, Trait.VIEW) and is_tensor(result.type)
        builder.returns(builder.op(VIEW if is_view else DETACH, result))
    for use in uses:
        use.user.set_input(use.index, branch.output)
    return True


# --- calls ---


def is_plain_call(graph: Graph, node: Node) -> bool:
    return node.kind == "prim::CallFunction" and graph.functions[node.attr("callee")].pair is None


def inline_call(graph: Graph, call: Node) -> list[Node]:
    """The nodes of the callee in the place of a call."""
    callee = graph.functions[call.attr("callee")]
    builder = Builder(graph, before=call, span=call.span)
    before = call.previous
    env: dict[Value, Value] = dict(zip(callee.graph.inputs, call.inputs, strict=True))
    results = copy_nodes(callee.graph.body, env, builder.insert)
    copied: list[Node] = []
    while (first := before.next if before is not None else None) is not None and first is not call:
        copied += walk([first])
        before = first
    replace_node(call, results)
    return copied


# --- types ---


def _only_moves(node: Node) -> bool:
    """Whether an op on lists makes no new tensor: `l[0]`, `l.append(x)`."""
    assert node.schema is not None
    return any(isinstance(leaf_of(result.type), VariableType) for result in node.schema.returns)


def may_carry(type: Type) -> bool:
    """Whether a gradient may flow from it. Types are shallow, so this recurses."""
    if isinstance(type, TupleType):
        return any(map(may_carry, type.elements))
    if isinstance(type, OptionalType | ListType):
        return may_carry(type.element)
    return is_differentiable(type)


def may_carry_gradient(value: Value) -> bool:
    """Whether a gradient may flow from a value, by what it is made of: of what blocks give, and arguments, it may."""
    pending, seen = [value], {value}
    while pending:
        node = pending.pop().node
        op = OPS.of(node.schema)
        if op is None and node.kind not in _OF_PARTS:
            return True
        if op is not None and op.has(_NO_RESULT):
            continue
        # The gradient of what is replaced stays.
        parts = node.inputs[:1] if node.kind == "aten::_replaced" else node.inputs
        found = [part for part in parts if may_carry(part.type) and part not in seen]
        pending += found
        seen.update(found)
    return False


def is_last_use(write: Node | None) -> bool:
    """Whether nobody reads after a write what it wrote into, `z.detach()` or a part of it, under that name: it was made
    in the block of the write, and it and what is a view of it are used before."""
    if write is None or write.owner is None:
        return False
    value, names = write.inputs[0], list[Value]()
    while view_step(value.node) is not None:
        if value.node.kind in (DETACH, VIEW):
            names = [value]
        value = value.node.inputs[0]
    later: set[Node] = set()
    node = write.next
    while node is not None:
        later.add(node)
        node = node.next
    if not names or names[0].node.owner is not write.owner:
        return False
    for name in names:
        for user, _ in name.uses:
            op = OPS.of(user.schema)
            at = _in_block(user, write.owner)
            if at is None or at in later or (op is None and user.kind != WRITE):
                return False
            if any(isinstance(made.type, ListType) for made in user.outputs):
                return False
            if op is not None and may_alias(op):
                names += user.outputs
    return True


def _in_block(node: Node, block: Block) -> Node | None:
    """The node of a block that a node is, or stands in by branches and loops; None where a closure is between."""
    while node.owner is not block:
        holder = node.holder
        if holder is None or holder.kind not in ("prim::If", "prim::Loop"):
            return None
        node = holder
    return node


def carries_gradients(type: Type) -> bool:
    """Whether gradients flow through every tensor of an argument or a result. Types are shallow, so this recurses."""
    if isinstance(type, TupleType):
        return all(map(carries_gradients, type.elements))
    while isinstance(type, OptionalType | ListType):
        type = type.element
    return not isinstance(type, TupleType) or not may_carry(type)
