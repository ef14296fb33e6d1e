"""`with torch.no_grad():`: no gradient flows from what is computed where it stands.

    with torch.no_grad():            %1 : Tensor = aten::mul.Tensor(%x, %w)
        y = x * w            ─▶      %y : Tensor = aten::detach(%1)

Which node that is, its place in the source tells: so it holds in branches, in loops, behind an early exit, and for
whatever emission makes of a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ....lang import ast
from ....lang.diagnostics import Diagnostics
from ....lang.grad_modes import grad_mode
from ....lang.source import Span
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Block, Node, Value, copy_nodes, walk
from ...ir.rewrite import replace_node
from ...ops.registry import OPS, Trait
from ...passes.fold_constants import fold_constants
from ...types.types import ListType, OptionalType, TensorType, TupleType, Type, VariableType, is_differentiable
from ..emitter import Emitter, op_of
from ..exits import Branch, Loop

Region = tuple[int, int, bool]
"""Where a body starts and ends, and whether gradients flow from what is computed there."""

MAX_INLINED = 20_000
"""Nodes of functions called where no gradient flows; beyond, the results of a call are detached."""
_NO_RESULT = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def regions_of(node: ast.FunctionDef, diagnostics: Diagnostics) -> list[Region]:
    """The regions of a function, outer before inner; those of closures inside it are theirs."""
    found: list[Region] = []
    if node.gradients is not None:
        found.append((0, len(node.span.source.text), node.gradients))
    stack: list[ast.Stmt] = [*node.body][::-1]
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.With):
            for context in statement.contexts:
                mode = grad_mode(context)
                if mode is None:
                    note = "`with torch.no_grad():` and `torch.enable_grad()` are all that can be entered"
                    diagnostics.report("E102", "this 'with' is not supported", context.span, note)
                found.append((statement.body_span.start, statement.body_span.end, mode is not False))
        stack += [*_bodies(statement)][::-1]
    return found


def _bodies(statement: ast.Stmt) -> Iterator[ast.Stmt]:
    match statement:
        case ast.If():
            for _, body in statement.clauses:
                yield from body
            yield from statement.otherwise
        case ast.For() | ast.While() | ast.With():
            yield from statement.body
        case _:
            pass


def is_enabled(regions: Sequence[Region], span: Span, outside: bool = True) -> bool:
    """Whether gradients flow from what is computed at a place: the innermost region says so, or what is outside."""
    return next((enabled for start, end, enabled in reversed(regions) if start <= span.start < end), outside)


def apply_grad_modes(graph: Graph, node: ast.FunctionDef, definitions: Mapping[str, ast.FunctionDef]) -> None:
    """Detach what is computed where no gradient flows from it, in the function and in its closures.

    The mode is that of the functions called too, `definitions`: they are inlined where it is off.
    """
    pending = [(_nodes_of(graph.body), node, True)]
    inlined = 0
    while pending:
        nodes, definition, mode = pending.pop()
        regions = regions_of(definition, Diagnostics())
        closures = {inner.span.start: inner for inner in _closures(definition)}
        for inner in nodes:
            if inner.kind == "prim::Function":
                pending.append((_nodes_of(inner.blocks[0]), closures[inner.span.start], True))
            elif is_enabled(regions, inner.span, mode):
                continue
            elif inlined < MAX_INLINED and _is_plain_call(graph, inner):
                copied = _inline(graph, inner)
                inlined += len(copied)
                pending.append((copied, definitions[inner.attr("callee")], False))
            else:
                _detach_results(graph, inner)
    if inlined:
        # What is known of the arguments decides what a callee asks of its optionals.
        fold_constants(graph)


def _is_plain_call(graph: Graph, node: Node) -> bool:
    return node.kind == "prim::CallFunction" and graph.functions[node.attr("callee")].pair is None


def _inline(graph: Graph, call: Node) -> list[Node]:
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


def _closures(node: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    stack: list[ast.Stmt] = [*node.body]
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.FunctionDef):
            yield statement
        stack += _bodies(statement)


def _nodes_of(block: Block) -> list[Node]:
    """The nodes of a function, those in closures left out."""
    found: list[Node] = []
    blocks = [block]
    while blocks:
        for node in blocks.pop().nodes:
            found.append(node)
            if node.kind != "prim::Function":
                blocks += node.blocks
    return found


def _detach_results(graph: Graph, node: Node) -> None:
    op = OPS.of(node.schema)
    if node.kind != "prim::CallFunction" and (op is None or op.has(_NO_RESULT) or _only_moves(node)):
        return
    if not any(_may_carry(value.type) for value in node.inputs) or node.next is None:
        return
    builder = Builder(graph, before=node.next, span=node.span)
    for value in node.outputs:
        if not _may_carry(value.type):
            continue
        uses = value.uses
        detach = "aten::detach" if isinstance(value.type, TensorType) else "aten::_without_gradient"
        detached = builder.op(detach, value, name=value.name_hint)
        detached.type = value.type
        value.name_hint = ""
        for use in uses:
            use.user.set_input(use.index, detached)


def _only_moves(node: Node) -> bool:
    """Whether an op on lists makes no new tensor: `l[0]`, `l.append(x)`."""
    assert node.schema is not None
    return any(isinstance(_innermost(result.type), VariableType) for result in node.schema.returns)


def _innermost(type: Type) -> Type:
    while isinstance(type, OptionalType | ListType):
        type = type.element
    return type


def _may_carry(type: Type) -> bool:
    """Whether a gradient may flow from it. Types are shallow, so this recurses."""
    if isinstance(type, TupleType):
        return any(map(_may_carry, type.elements))
    if isinstance(type, OptionalType | ListType):
        return _may_carry(type.element)
    return is_differentiable(type)


# --- writes ---


def check_writes(e: Emitter, statement: ast.Stmt) -> None:
    """Report a write into a tensor from outside a region without gradients: torch goes on with the gradient of what
    it was, as if it had not been written into."""
    if not e.regions or is_enabled(e.regions, statement.span) or isinstance(statement, Branch | Loop):
        return
    for target in _written(statement):
        value = e.frame.lookup(target.id)
        if isinstance(value, Value) and isinstance(value.type, TensorType) and is_enabled(e.regions, _origin(value)):
            raise e.fail(
                "E305",
                f"'{target.id}' is written into where no gradient flows, and was made where one does",
                target.span,
                f"make a new value: `{target.id} = {target.id} + 1`; or write outside of `torch.no_grad()`",
            )


def _origin(value: Value) -> Span:
    """Where the memory of a value was made."""
    while value.node.inputs and (op := op_of(value)) is not None and op.has(Trait.VIEW):
        value = value.node.inputs[0]
    return value.node.span


def _written(statement: ast.Stmt) -> Iterator[ast.Name]:
    targets: list[ast.Expr] = []
    match statement:
        case ast.AugAssign():
            targets.append(statement.target)
        case ast.Assign():
            targets += [target for target in statement.targets if isinstance(target, ast.Subscript)]
        case _:
            pass
    stack: list[ast.Syntax] = [*ast.expressions_of(statement)]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute):
            method = node.function.name
            if method.endswith("_") and not method.endswith("__"):
                targets.append(node.function.value)
        stack += ast.children(node)
    for target in targets:
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if isinstance(target, ast.Name):
            yield target
