"""The closure of a joined graph, simplified until nothing is left to do.

Sizes are asked for where they are needed, of what is kept anyway; what the forward has computed is not computed again;
terms are gathered by `algebra`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from ...compiler.analysis.captures import captures
from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import PARAM, Block, Node, Value, copy_node, walk
from ...compiler.ir.rewrite import constant_of, replace_value
from ...compiler.ops.registry import OPS, Trait
from ...compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from ...compiler.types.types import ListType, is_tensor
from .algebra import RULES
from .facts import facts_of, follow
from .joined import closures_of
from .rounds import ask_again, precedes

_MOST_SWEEPS = 30
_CHEAP = frozenset(("aten::len.t", "prim::ListConstruct", "prim::TupleConstruct", "prim::max.int", "prim::min.int"))
_UNPURE = Trait.RANDOM | Trait.SIDE_EFFECT


def simplify(graph: Graph) -> None:
    """Rewrite the innermost closure of a graph; what is around it stays, but for what nothing needs any more.

    Before:
        def f(x, w):
            n = x.size()
            y = torch.sigmoid(x)
            def backward(g):
                s = torch.sigmoid(x)
                return (g * w * s + g * w * (1 - s) * 1.0).sum_to_size(n), -(-g) * 2 * x * 3
            return y * w, backward
    After:
        def f(x, w):
            y = torch.sigmoid(x)
            def backward(g):
                n = x.size()
                return (g * w * (y + (1 - y))).sum_to_size(n), g * 2 * x * 3
            return y * w, backward
    """
    closure = closures_of(graph)[-1]
    for _ in range(_MOST_SWEEPS):
        changed = ask_again(closure) | _through_branches(closure) | _sink(closure)
        changed |= _rewrite(graph, closure) | _share(graph, closure)
        if not eliminate_dead_code(graph) and not changed:
            return


def _sink(closure: Block) -> bool:
    """Compute in the closure what is captured and costs nothing: sizes, dtypes, lists of numbers."""
    outer = closure.node.owner if closure.node is not None else None
    moved = False
    inside = {id(n) for n in walk(closure.nodes)} | {id(closure.ret)}
    inside |= {id(b.ret) for n in walk(closure.nodes) for b in n.blocks}
    for value in captures(closure):
        node = value.node
        if node.owner is not outer or node.kind == PARAM or not costs_nothing(node):
            continue
        first = closure.param.next
        assert first is not None
        env: dict[Value, Value] = {}
        copy_node(node, env, partial(_put_before, first))
        inside.add(id(env[value].node))
        for use in list(value.uses):
            if id(use.user) in inside:
                use.user.set_input(use.index, env[value])
        moved = True
    return moved


def _put_before(node: Node, made: Node) -> Node:
    return made.insert_before(node)


def costs_nothing(node: Node) -> bool:
    """Whether a node asks for a size, a dtype and the like, or lists numbers."""
    if len(node.outputs) != 1 or is_tensor(node.output.type) or node.blocks:
        return False
    if OPS.has(node.schema, Trait.SHAPE_ONLY):
        return True
    return node.kind in _CHEAP and not any(is_tensor(value.type) for value in node.inputs)


def _through_branches(closure: Block) -> bool:
    """What a branch of the forward gives, where the closure is on the same side of the same test."""
    changed = False
    for value in captures(closure):
        branch = value.node
        if branch.kind != "prim::If":
            continue
        for use in list(value.uses):
            side = _side(use.user, branch.inputs[0], closure)
            found = branch.blocks[side].outputs[value.index] if side is not None else None
            if found is None:
                continue
            if found.node.owner is branch.blocks[side or 0]:
                if not costs_nothing(found.node) or any(v.node.owner is found.node.owner for v in found.node.inputs):
                    continue
                env: dict[Value, Value] = {}
                copy_node(found.node, env, partial(_put_before, use.user))
                found = env[found]
            use.user.set_input(use.index, found)
            changed = True
    return changed


def _side(node: Node, test: Value, closure: Block) -> int | None:
    """On which side of a branch on a test a node of the closure stands; None where it stands on none."""
    block = node.owner
    while block is not None and block is not closure:
        holder = block.node
        if holder is None:
            return None
        if holder.kind == "prim::If" and holder.inputs[0] is test:
            return holder.blocks.index(block)
        block = holder.owner
    return None


def _rewrite(graph: Graph, closure: Block) -> bool:
    closures = closures_of(graph)
    facts = facts_of(graph, closures)
    changed = False
    for node in list(walk(closure.nodes)):
        rule = RULES.get(node.kind)
        if rule is None or node.owner is None or not node.output.use_count:
            continue
        before, replaced = node.previous, node.output
        found = rule(node, facts, Builder.in_front_of(node))
        if found is not None and found is not replaced:
            made = _between(before, node)
            replace_value(replaced, found, node)
            node.destroy()
            if not follow(facts, replaced, found, made):
                facts = facts_of(graph, closures)
            changed = True
    return changed


def _between(first: Node | None, end: Node) -> list[Node]:
    """The nodes of a block behind the first, up to the end."""
    found = []
    node = end.previous
    while node is not None and node is not first:
        found.append(node)
        node = node.previous
    return found[::-1]


def _share(graph: Graph, closure: Block) -> bool:
    """Use what is computed around the closure, where it is kept anyway or has a name."""
    closures = closures_of(graph)
    kept = {value for block in closures for value in captures(block)}
    around = (graph.body, *closures[:-1])
    known: dict[Hashable, Value] = {}
    same: dict[Value, Value] = {}
    for node in (node for block in around for node in block.nodes):
        key = _key(node, same)
        if key is not None:
            same[node.output] = known.setdefault(key, node.output)
    changed = False
    for node in list(walk(closure.nodes)):
        changed |= costs_nothing(node) and _ask_around(node, same)
        key = _key(node, same)
        if key is None:
            continue
        found = known.get(key)
        if found is None:
            known.update({key: node.output} if node.owner is closure else {})
            continue
        same[node.output] = found
        if node.output.use_count and (found in kept or found.name_hint or _is_at_hand(found, closures)):
            node.output.replace_uses_with(found)
            changed = True
    # What two names are kept for is one.
    for value in captures(closure):
        found = same.get(value, value)
        if found is not value and found in kept and precedes(found.node, value.node):
            value.replace_uses_with(found)
            changed = True
    return changed


def _is_at_hand(value: Value, closures: Sequence[Block]) -> bool:
    """Whether a closure computes it, and it is no view, which costs nothing to make again."""
    is_view = OPS.has(value.node.schema, Trait.VIEW)
    return value.node.owner is closures[-1] or (value.node.owner in closures and not is_view)


def _ask_around(node: Node, same: Mapping[Value, Value]) -> bool:
    """Ask what is computed around the closure for its size, rather than compute it for that."""
    found = [same.get(value, value) for value in node.inputs]
    if found == list(node.inputs):
        return False
    node.replace_inputs(found)
    return True


def _key(node: Node, same: Mapping[Value, Value]) -> Hashable:
    """What a computation is of; None where it may not be done once for twice, or costs nothing."""
    op = OPS.of(node.schema)
    if op is None or op.traits & _UNPURE or len(node.outputs) != 1 or costs_nothing(node) or node.blocks:
        return None
    if isinstance(node.output.type, ListType):
        return None
    return (node.kind, *(_operand(value, same) for value in node.inputs))


def _operand(value: Value, same: Mapping[Value, Value]) -> Hashable:
    """A value, or what a constant, a size and the like says: these are made again wherever they are used."""
    node = value.node
    if node.kind == "prim::Constant":
        return ("constant", repr(constant_of(value)))
    if costs_nothing(node) and all(v.node.kind == "prim::Constant" or is_tensor(v.type) for v in node.inputs):
        given = [repr(constant_of(v)) if v.node.kind == "prim::Constant" else same.get(v, v) for v in node.inputs]
        return (node.kind, *given)
    return same.get(value, value)
