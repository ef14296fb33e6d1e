"""What a backward leaves out, and what it keeps of its forward for nothing: read from the graph and its pair."""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.analysis.captures import captures
from ...compiler.autodiff.derived import NoGradient, derived_halves
from ...compiler.ir.graph import Callee, Graph, without_backward
from ...compiler.ir.node import PARAM, Block, Node, Value, walk
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import NONE, UNDEFINED, is_tensor
from ...lang.source import Source, Span
from .findings import Finding
from .sameness import are_the_same

_CHEAP = frozenset(
    f"aten::{name}"
    for name in (
        "neg",
        "add.Scalar",
        "sub.Scalar",
        "rsub.Scalar",
        "mul.Scalar",
        "div.Scalar",
        "abs",
        "square",
        "relu",
        "clone",
    )
)
"""One pass over elements, which costs less than to keep what it makes."""


def forgotten_arguments(callee: Callee, source: Source) -> Iterator[Finding]:
    """Tensors for which a backward returns None, and on which the result depends."""
    closure = _closure(callee.graph)
    if closure is None or callee.pair is None or len(closure.outputs) != len(callee.graph.inputs):
        return
    silent = [
        i
        for i, (gradient, parameter) in enumerate(zip(closure.outputs, callee.graph.inputs, strict=True))
        if gradient.type == NONE and is_tensor(parameter.type)
    ]
    given = _given(callee) if silent else []
    for i in silent:
        name = callee.graph.inputs[i].name_hint
        if not given or given[i].type in (NONE, UNDEFINED) or name.startswith("_"):
            continue
        span = _place(closure.node, source)
        if span is not None:
            message = f"the backward returns None for '{name}', on which the result depends"
            note = f"return its gradient, or say that it is a constant: `{name} = gs.constant({name})`"
            yield Finding("L402", message, span, note)


def kept_for_nothing(callee: Callee, source: Source) -> Iterator[Finding]:
    """Intermediate tensors that a backward captures and could do without."""
    closure = _closure(callee.graph)
    if closure is None:
        return
    kept = [value for value in captures(closure) if is_tensor(value.type)]
    inside = dict.fromkeys(walk(closure.nodes))
    for i, value in enumerate(kept):
        span = _place(value.node, source)
        if value.node.kind == PARAM or span is None or not value.name_hint or value in callee.graph.outputs:
            continue
        name = value.name_hint.partition(".")[0]
        users = [use.user for use in value.uses if use.user in inside]
        if users and all(_asks_for_shape(user, value) for user in users):
            asked = {user.schema.base_name for user in users if user.schema is not None}
            method = asked.pop() if len(asked) == 1 and asked <= _SIZES else "size"
            message = f"'{name}' is kept for the backward, which only asks for its {method}"
            note = f"keep that: `{name}_{method} = {name}.{_SPELLED.get(method, method + '()')}` before the `def`"
            yield Finding("L501", message, span, note)
        elif _is_cheap(value.node) and value.node.inputs[0] in kept:
            other = value.node.inputs[0].name_hint.partition(".")[0]
            message = f"'{name}' is kept beside '{other}', of which it is one cheap operation"
            note = f"compute it in the backward: `{name} = {value.node.span.text}`"
            yield Finding("L502", message, span, note)
        else:
            twin = next((other for other in kept[:i] if other.name_hint and are_the_same(value, other)), None)
            if twin is not None:
                other = twin.name_hint.partition(".")[0]
                message = f"'{name}' is kept for the backward beside '{other}', which is the same"
                yield Finding("L503", message, span, f"use `{other}` in its place")


_SPELLED = {"dtype": "dtype", "device": "device"}
_SIZES = frozenset(("size", "numel", "dim", *_SPELLED))
_LIKE = frozenset(
    ("zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_full", "new_empty")
)
"""Ops that ask their first tensor for its size and dtype alone."""
_AS = frozenset(("expand_as", "view_as", "reshape_as", "type_as"))
"""Ops that ask their second one."""


def _closure(graph: Graph) -> Block | None:
    node = graph.outputs[-1].node if graph.outputs else None
    return node.blocks[0] if node is not None and node.kind == "prim::Function" else None


def _given(callee: Callee) -> list[Value]:
    """The gradients that differentiation gives; none where it gives none at all."""
    try:
        return list(derived_halves(without_backward(callee))[1].graph.outputs)
    except NoGradient:
        return []


def _asks_for_shape(node: Node, of: Value) -> bool:
    """Whether a node asks a tensor for its size, its dtype and the like, and for none of its elements."""
    op = OPS.of(node.schema)
    name = node.schema.base_name if node.schema is not None else ""
    if name in _LIKE or name in _AS:
        return [i for i, value in enumerate(node.inputs) if value is of] == [int(name in _AS)]
    return op is not None and op.has(Trait.SHAPE_ONLY) and not is_tensor(node.output.type) if node.outputs else False


def _is_cheap(node: Node) -> bool:
    return node.kind in _CHEAP and bool(node.inputs) and is_tensor(node.inputs[0].type)


def _place(node: Node | None, source: Source) -> Span | None:
    stands = node is not None and node.span.source is source and node.span.start < node.span.end
    return node.span if stands and node is not None else None
