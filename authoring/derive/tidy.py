"""A simplified closure in the order and with the names in which its text reads best.

Names are the user's, `grad_` before them for gradients; what is used once goes without. Sizes are asked for where they
are used. Each statement stands behind those that it needs, its operations in the order of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import partial

from ...compiler.analysis.captures import captures
from ...compiler.ir.graph import Graph
from ...compiler.ir.kinds import entering, is_loop
from ...compiler.ir.node import PARAM, RETURN, Block, Node, Value, copy_node, walk
from ...compiler.ir.printer import base_name
from ...compiler.ops.registry import OPS, Trait
from ...compiler.spelling.overloads import Resolver
from ...compiler.types.types import is_tensor
from ...compiler.unparse.infix import InfixOperators
from ...lang.trampoline import Walk, run
from .facts import ShapeFacts, facts_of
from .joined import closure_parameters, closures_of
from .rounds import keep_early, kept_of, take_early
from .terms import Statements, is_statement

_LONG = 5
"""Operations in one expression that may be parted."""
_NAMED = {
    **dict.fromkeys(("mul", "matmul"), "product"),
    **dict.fromkeys(("sub", "rsub"), "difference"),
    **dict.fromkeys(("div", "reciprocal"), "quotient"),
    "add": "total",
    "neg": "negative",
    "pow": "power",
}
"""What results of operators are called."""


def tidy(graph: Graph, names: Iterable[str]) -> None:
    """Order and name what the innermost closure computes, and what it keeps. `names` are those that the user gave.

    Before:
        def f(x, w):
            y = x * w
            def backward(g):
                n = x.size()
                k = torch.exp(y)
                h = g * k
                return (h * w).sum_to_size(n), h * x
            return torch.exp(y), backward
    After:
        def f(x, w):
            y = x * w
            def backward(g):
                grad = g * torch.exp(y)
                return (grad * w).sum_to_size(x.size()), grad * x
            return torch.exp(y), backward
    """
    *around, closure = closures_of(graph)
    known = set(names)
    _name_gradients(closure, known)
    _make_again(closure)
    facts = facts_of(graph, closures_of(graph))
    for block in (closure, *reversed(around)):
        _keep_sizes(block, facts)
    _spread_sizes(closure)
    _name_items(closure)
    _order_all(closure)
    keep_early(closure)
    take_early(closure)
    for block in (graph.body, *around):
        _name_kept(block, closure, known)
        _return_last(block)
    _name_rounds(closure)


def name_gradients(graph: Graph) -> None:
    """Give each gradient that the closure computes a statement of its own, for lines that are too long.

    Before:
        def f(x, w):
            def backward(g):
                return g * w, g * x
            return x * w, backward
    After:
        def f(x, w):
            def backward(g):
                grad_x = g * w
                grad_w = g * x
                return grad_x, grad_w
            return x * w, backward
    """
    closure = closures_of(graph)[-1]
    for value, parameter in zip(closure.outputs, closure_parameters(graph, closure), strict=True):
        if value.node.owner is closure and value.node.kind not in (PARAM, "prim::Constant") and not value.name_hint:
            value.name_hint = f"grad_{parameter.name_hint}"
    _order_all(closure)


def name_terms(graph: Graph, count: int = 1) -> int:
    """Give half of the longest expression in the closure a statement of its own, `count` times; how many times that
    was done, until none was long.

    Before:
        def f(x, w):
            def backward(g):
                a = torch.exp(g * w * x) * torch.sin(x * g) * torch.cos(x + w) * x * w * g
                return a, a
            return x * w, backward
    After:
        def f(x, w):
            def backward(g):
                grad = torch.exp(g * w * x) * torch.sin(x * g)
                a = grad * torch.cos(x + w) * x * w * g
                return a, a
            return x * w, backward
    """
    closure = closures_of(graph)[-1]
    statements = Statements(closure)
    of_gradients = _made_of_gradients(closure)
    done = 0
    while done < count and _name_term(statements, of_gradients):
        done += 1
    _order_all(closure)
    return done


def _name_term(statements: Statements, of_gradients: Set[Value]) -> bool:
    most, root = statements.longest()
    terms = statements.terms(root) if most >= _LONG else []
    if not terms:
        return False
    half = min(terms, key=lambda n: abs(statements.sizes[n] - most / 2))
    half.output.name_hint = _result_of_branch(half.output) or (
        "grad" if half.output in of_gradients else _suggested(half.output)
    )
    statements.part(half)
    return True


def _result_of_branch(value: Value) -> str:
    """The name of what a branch gives, where it gives this and nothing else uses it."""
    (use, *others) = value.uses
    holder = use.user.holder if use.user.kind == RETURN else None
    is_result = holder is not None and holder.kind == "prim::If" and not others
    return holder.outputs[use.index].name_hint if holder is not None and is_result else ""


def _return_last(block: Block) -> None:
    """Compute behind the closure what is only returned."""
    function = block.outputs[-1].node
    behind: set[Node] = {block.ret}
    for node in reversed(list(block.nodes)):
        users = {use.user for value in node.outputs for use in value.uses}
        if node is function or _acts(node) or node.blocks or not users or not users <= behind:
            continue
        if any(value.name_hint for value in node.outputs):
            continue
        node.unlink().insert_after(function)
        behind.add(node)


def _name_gradients(closure: Block, names: set[str]) -> None:
    """Keep hints that say whose gradient a value is, where it is used more than once."""
    inside = [value for node in walk(closure.nodes) for value in node.outputs]
    of_gradients = _made_of_gradients(closure)
    for value in inside:
        base = value.name_hint.partition(".")[0]
        is_users = base.startswith("grad_") and base.removeprefix("grad_") in names
        alone = value.use_count == 1 and value.uses[0].user.owner is value.node.owner and not value.node.blocks
        if not is_users or alone:
            value.name_hint = ""
        if not value.name_hint and value.use_count > 1 and is_tensor(value.type):
            value.name_hint = "grad" if value in of_gradients else _suggested(value)


def _made_of_gradients(closure: Block) -> set[Value]:
    """What is made of the gradients that a closure takes, by way of tensors."""
    waiting = list(closure.inputs)
    found = set(waiting)
    while waiting:
        value = waiting.pop()
        if not is_tensor(value.type):
            continue
        for made in [output for use in value.uses for output in use.user.outputs]:
            if made not in found:
                found.add(made)
                waiting.append(made)
    return found


_CHEAP = frozenset(
    f"aten::{name}" for name in ("neg", "add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar", "div.Scalar")
)


def _make_again(closure: Block) -> None:
    """Compute in the closure what has no name and is one cheap operation of what is kept anyway."""
    inside = set(walk(closure.nodes))
    inside |= {block.ret for node in inside for block in node.blocks} | {closure.ret}
    kept = captures(closure)
    for value in kept:
        node = value.node
        first = closure.param.next
        if node.kind not in _CHEAP or value.name_hint or node.inputs[0] not in kept or first is None:
            continue
        env: dict[Value, Value] = {}
        copy_node(node, env, partial(_put_before, first))
        for use in list(value.uses):
            if use.user in inside:
                use.user.set_input(use.index, env[value])


def _keep_sizes(closure: Block, facts: ShapeFacts) -> None:
    """Keep the size of a tensor of which the closure needs nothing else, or ask one of that size that it needs."""
    function = closure.node
    assert function is not None
    inside = set(walk(closure.nodes))
    kept = [value for value in captures(closure) if is_tensor(value.type)]
    asked: dict[Value, list[Node]] = {}
    for value in kept:
        users = [use.user for use in value.uses if use.user in inside]
        if all(map(_is_size, users)):
            asked[value] = users
    for value, users in asked.items():
        known: dict[str, Value] = {}
        for node in users:
            like = next((v for v in kept if v not in asked and _says_as_much(v, value, node, facts)), None)
            if like is not None and value.node.kind != PARAM:
                node.set_input(0, like)
                continue
            if node.kind not in known:
                value.name_hint = value.name_hint or _suggested(value)
                env: dict[Value, Value] = {}
                copy_node(node, env, partial(_put_before, function))
                known[node.kind] = env[node.output]
                known[node.kind].name_hint = f"{value.name_hint.partition('.')[0]}_{node.kind.rpartition('::')[2]}"
            node.output.replace_uses_with(known[node.kind])
            node.destroy()


def _says_as_much(like: Value, value: Value, node: Node, facts: ShapeFacts) -> bool:
    """Whether one tensor has the size, or the dtype, for which another is asked."""
    if node.kind == "aten::size":
        return facts.shape(like) == facts.shape(value)
    return node.kind == "prim::dtype" and facts.dtype(like) == facts.dtype(value)


def _is_size(node: Node) -> bool:
    """Whether a node asks one tensor for its size, its dtype or the like."""
    op = OPS.of(node.schema)
    is_one = len(node.inputs) == 1 and len(node.outputs) == 1 and not is_tensor(node.output.type)
    return op is not None and op.has(Trait.SHAPE_ONLY) and is_one


def _spread_sizes(closure: Block) -> None:
    """A size for each use, which is where it is written."""
    for node in list(walk(closure.nodes)):
        if (
            not (_is_size(node) or node.kind == "prim::ListConstruct")
            or len(node.outputs) != 1
            or is_tensor(node.output.type)
        ):
            continue
        node.output.name_hint = ""
        for use in list(node.output.uses)[1:]:
            env: dict[Value, Value] = {}
            copy_node(node, env, partial(_put_before, use.user))
            use.user.set_input(use.index, env[node.output])


def _name_items(closure: Block) -> None:
    """Name what a round takes of the list that its loop goes through: `for item in items`."""
    for node in walk(closure.nodes):
        if node.kind != "aten::__getitem__.t" or node.output.name_hint:
            continue
        items, index = node.inputs
        loop = index.node.holder if index.node.kind == PARAM else None
        trips = loop.inputs[0].node if loop is not None and is_loop(loop) and index.index == 0 else None
        if trips is not None and trips.kind == "aten::len.t" and trips.inputs[0] is items and index.use_count == 1:
            node.output.name_hint = "item"


def _is_kept_size(node: Node) -> bool:
    return _is_size(node) and bool(node.output.name_hint)


def _put_before(node: Node, made: Node) -> Node:
    return made.insert_before(node)


def _order_all(closure: Block) -> None:
    for block in [closure, *(b for node in walk(closure.nodes) for b in node.blocks)]:
        _order(block)


def _order(block: Block) -> None:
    """Put the nodes of a block in the order of their text, if what they do allows any."""
    nodes = list(block.nodes)
    if any(_acts(node) for node in nodes):
        return
    placed: dict[Node, None] = {}
    run(_place_all(block, placed, InfixOperators(Resolver(), {})))
    for node in placed:
        node.unlink().insert_before(block.ret)


def _acts(node: Node) -> bool:
    op = OPS.of(node.schema)
    inside = any(_acts(inner) for b in node.blocks for inner in walk(b.nodes))
    return (
        inside
        or node.kind == "prim::RaiseException"
        or (op is not None and bool(op.traits & (Trait.SIDE_EFFECT | Trait.RANDOM)))
    )


def _place_all(block: Block, placed: dict[Node, None], operators: InfixOperators) -> Walk:
    yield _place_statement(block.ret, block, placed, operators)


def _place_statement(root: Node, block: Block, placed: dict[Node, None], operators: InfixOperators) -> Walk:
    """Place what a statement needs, then its own operations from the first operand to the last."""
    own: list[Node] = []
    stack: list[tuple[Node, bool]] = [(root, False)]
    met: set[Node] = set()
    while stack:
        node, done = stack.pop()
        if done:
            own.append(node)
            continue
        if node in met:
            continue
        met.add(node)
        stack.append((node, True))
        needed = _needed(node, block, operators)
        for inner in needed:
            if inner not in placed and is_statement(inner):
                yield _place_statement(inner, block, placed, operators)
        stack += [(inner, False) for inner in reversed(needed) if inner not in placed]
    for node in own:
        if node is not block.ret:
            placed.setdefault(node)


def _needed(node: Node, block: Block, operators: InfixOperators) -> list[Node]:
    """The nodes of the block that a node uses, in the order in which its text does."""
    values = list(operators.operands(node)) if node.kind != "prim::Return" else list(node.inputs)
    if len(values) < len(node.inputs):
        values += [value for value in node.inputs if value not in values]
    if is_loop(node):
        # What it starts with stands above its header, which asks how often it runs.
        values = [*entering(node), *values]
    inside = list(walk(n for b in node.blocks for n in b.nodes))
    values += [value for inner in inside for value in inner.inputs]
    values += [value for holder in (node, *inside) for b in holder.blocks for value in b.outputs]
    found = dict.fromkeys(value.node for value in values)
    return [n for n in found if n.owner is block and n.kind != PARAM]


def _name_kept(around: Block, closure: Block, names: set[str]) -> None:
    """Names for what a block around the closure keeps for it without one."""
    inside = {id(node) for node in walk(closure.nodes)} | {id(closure.ret)}
    inside |= {id(b.ret) for node in walk(closure.nodes) for b in node.blocks}
    for node in around.nodes:
        for value in node.outputs:
            base = value.name_hint.partition(".")[0]
            if base and base not in names and not _is_size(node) and node.kind != "prim::Function":
                value.name_hint = ""
            if not value.name_hint and any(id(use.user) in inside or _is_kept_size(use.user) for use in value.uses):
                value.name_hint = _suggested(value)


def _name_rounds(closure: Block) -> None:
    """Names for lists of what each round keeps, `kept_x` after x, and for their items."""
    for value in captures(closure):
        item = kept_of(value)
        if item is None:
            continue
        name = base_name(item.name_hint) or _name_of_item(item)
        if not name:
            continue
        value.name_hint = f"kept_{name}"
        for use in value.uses:
            got = use.user.output if use.user.kind == "aten::__getitem__.t" else None
            if got is not None and base_name(got.name_hint) == "item":
                got.name_hint = name


def _name_of_item(item: Value) -> str:
    """A name for what a round keeps without one."""
    if is_tensor(item.type):
        item.name_hint = _suggested(item) if item.node.kind != PARAM else ""
        return base_name(item.name_hint)
    of = base_name(item.node.inputs[0].name_hint) if _is_size(item.node) else ""
    return f"{of}_{item.node.kind.rpartition('::')[2]}" if of else ""


def _suggested(value: Value) -> str:
    """What a value without a name is called: after what computes it, and of what."""
    node = value.node
    if node.schema is None or not is_tensor(value.type):
        return "taken" if str(value.type) == "bool" else "kept"
    name = node.schema.base_name
    if name in _NAMED:
        return _NAMED[name]
    if name.startswith("_"):
        return "item"
    op = OPS.of(node.schema)
    if op is not None and op.has(Trait.NONDIFFERENTIABLE) and op.has(Trait.POINTWISE):
        return "mask"
    of = next((v.name_hint for v in node.inputs if is_tensor(v.type) and v.name_hint), "")
    return f"{name}_{of}" if of else f"{name}_result"
