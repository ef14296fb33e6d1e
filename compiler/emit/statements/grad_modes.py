"""`with torch.no_grad():`: no gradient flows from what is computed where it stands.

    with torch.no_grad():            %1 : Tensor = aten::mul.Tensor(%x, %w)
        y = x * w            ─▶      %y : Tensor = aten::detach(%1)

Which node that is, its place in the source tells: so it holds in branches, in loops, behind an early exit, and for
whatever emission makes of a statement. What a write changes there keeps the gradient that it had, as in torch:

    with torch.no_grad():            %1 : Tensor = aten::detach(%product)
        y *= w               ─▶      %2 : Tensor = aten::_replaced(%y, %1)
                                     prim::Write(%y, %2)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from ....lang import ast
from ....lang.diagnostics import Diagnostics
from ....lang.patterns import pattern
from ....lang.rules.grad_modes import grad_mode_of
from ....lang.source import Span
from ...functionalize.unrecorded import detach_results, inline_call, is_plain_call
from ...functionalize.write_nodes import WRITE
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import RECORDED, Block, Node
from ...passes.simplification.fold_constants import fold_unwritten
from ...spelling.advice import for_context
from ...types.types import TensorType
from ..annotations import dotted_name
from ..emitter import WrittenOut

Region = tuple[int, int, bool]
"""Where a body starts and ends, and whether gradients flow from what is computed there."""

_ENABLES = pattern(r"\b(enable_grad|set_grad_enabled|inference_mode)\b")
MAX_INLINED = 20_000
"""Nodes of functions called where no gradient flows; beyond, the results of a call are detached."""


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
                mode = grad_mode_of(context)
                if mode is None:
                    entered = dotted_name(context.function if isinstance(context, ast.Call) else context)
                    note = "`with torch.no_grad():` and `torch.enable_grad()` are all that can be entered"
                    diagnostics.report(
                        "E102", "this 'with' is not supported", context.span, *for_context(entered), note
                    )
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


def region_at(regions: Sequence[Region], span: Span) -> bool | None:
    """Whether gradients flow from what is computed at a place, as the innermost region says; None outside of all."""
    return next((enabled for start, end, enabled in reversed(regions) if start <= span.start < end), None)


def is_enabled(regions: Sequence[Region], span: Span, outside: bool = True) -> bool:
    """Whether gradients flow from what is computed at a place: the innermost region says so, or what is outside."""
    enabled = region_at(regions, span)
    return outside if enabled is None else enabled


def apply_grad_modes(
    graph: Graph,
    node: ast.FunctionDef,
    definitions: Mapping[str, ast.FunctionDef],
    diagnostics: Diagnostics,
    written_out: Mapping[Node, WrittenOut],
) -> None:
    """Detach what is computed where no gradient flows from it, in the function and in its closures.

    The mode is that of the functions called too, `definitions`: they are inlined where it is off. Of what a function
    from outside gives, nothing flows back. For what was `written_out` for a call inside, it is that of the call.
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
            elif _flows(written_out.get(inner), regions, inner, mode):
                continue
            elif inlined < MAX_INLINED and inner.attrs.get("callee") in definitions and is_plain_call(graph, inner):
                copied = inline_call(graph, inner)
                inlined += len(copied)
                pending.append((copied, definitions[inner.attr("callee")], False))
            elif inner.kind == WRITE:
                _replace_elements(graph, inner)
            elif not detach_results(graph, inner):
                _refuse(inner, diagnostics)
    if inlined:
        # What is known of the arguments decides what a callee asks of its optionals.
        fold_unwritten(graph)


def _flows(written: WrittenOut | None, regions: Sequence[Region], node: Node, mode: bool) -> bool:
    """Whether gradients flow from what a node computes. Where the call says so for which it was written out, it is
    marked here, since its own place does not tell it: see `mark_recorded`."""
    if written is None:
        return RECORDED in node.attrs or is_enabled(regions, node.span, mode)
    said = region_at(written.regions, node.span)
    said = written.mode if said is None else said
    if said and _computes(node):
        node.attrs[RECORDED] = True
    return mode if said is None else said


def _computes(node: Node) -> bool:
    return node.schema is not None or node.kind == "prim::CallFunction"


def mark_recorded(graph: Graph, definitions: Mapping[str, ast.FunctionDef]) -> None:
    """Mark what is computed where the source says that gradients flow, for calls where they do not.

    Which function a node was written in, its place says: those called are inlined by now, as are writes.
    """
    # The sources of what is there: definitions may be a whole library, each of which is read when it is asked for.
    sources = {id(node.span.source): node.span.source for node in _nodes_of(graph.body)}
    inner = {key for key, source in sources.items() if _ENABLES.search(source.text)}
    if not inner:
        return
    ordered = sorted(definitions.values(), key=lambda node: node.span.start)
    starts = [node.span.start for node in ordered]
    regions = [regions_of(node, Diagnostics()) for node in ordered]
    for node in _nodes_of(graph.body):
        place = bisect_right(starts, node.span.start) - 1
        if (
            _computes(node)
            and id(node.span.source) in inner
            and is_enabled(regions[max(place, 0)], node.span, outside=False)
        ):
            node.attrs[RECORDED] = True


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


def _refuse(node: Node, diagnostics: Diagnostics) -> None:
    message = f"whether '{node.kind.rpartition('::')[2]}' gives its argument, and the gradient of that, or a copy"
    note = "write `x.detach()` or `x.clone()` first, or call it outside of `torch.no_grad()`"
    diagnostics.report("E305", f"{message} is not known where no gradient flows", node.span, note)


def _replace_elements(graph: Graph, write: Node) -> None:
    """A write into a tensor changes its elements, and its gradient stays that of what it was."""
    target, content = write.inputs
    if isinstance(target.type, TensorType):
        builder = Builder(graph, before=write, span=write.span)
        write.set_input(1, builder.op("aten::_replaced", target, content))
