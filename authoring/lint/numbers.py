"""Forms that lose digits, or make NaN where nobody looks: read from the graph, whose operators have one spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...compiler.ir.graph import Callee
from ...compiler.ir.node import Node, Value, walk
from ...compiler.ir.rewrite import constant_of
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import is_tensor
from ...lang.source import Source, Span
from .findings import Edit, Finding

Rule = Callable[[Node], tuple[str, str, str] | None]
"""What is wrong with a node: the code, the message, and the expression to write instead; None where nothing is."""


def lost_digits(callee: Callee, source: Source) -> Iterator[Finding]:
    """Expressions that have a form which is exact where they are not."""
    for node in walk(callee.graph.nodes):
        rule = _RULES.get(node.schema.base_name) if node.schema is not None else None
        found = rule(node) if rule is not None and _stands_in(node.span, source) else None
        if found is not None:
            code, message, text = found
            edit = Edit(node.span.start, node.span.end, text) if "(" in text else None
            yield Finding(code, message, node.span, f"write `{text}`", edit)


def dead_sides(callee: Callee, source: Source) -> Iterator[Finding]:
    """Sides of where() that make NaN where they are not taken, in functions that are differentiated through."""
    if callee.pair is not None:
        return
    for node in walk(callee.graph.nodes):
        if node.schema is None or node.schema.base_name != "where" or len(node.inputs) != 3:
            continue
        asked = _tensors_below(node.inputs[0])
        for side in node.inputs[1:]:
            culprit = _partial(side, asked)
            if culprit is not None and _stands_in(culprit.node.span, source):
                operand = _operand(culprit)
                text = operand.name_hint.partition(".")[0] or operand.node.span.text
                name = culprit.node.span.text
                message = f"the gradient of `{name}` is NaN or infinite also where where() does not take it"
                condition = node.inputs[0].node.span.text
                if side is node.inputs[2]:
                    condition = f"~({condition})"
                safe = _SINGULAR.get(culprit.node.schema.base_name if culprit.node.schema else "", 1)
                operand_text = f"torch.where({condition}, {text}, {safe})"
                note = f"give it a harmless operand there: `{operand_text}` in the place of `{text}`"
                yield Finding("L301", message, culprit.node.span, note)


def promoting_literals(callee: Callee, source: Source) -> Iterator[Finding]:
    """Tensors of float32 that meet an argument, whose halves they make float32."""
    for node in walk(callee.graph.nodes):
        op = OPS.of(node.schema)
        if op is None or not op.has(Trait.POINTWISE) or len(node.inputs) < 2:
            continue
        tensors = [value for value in node.inputs if is_tensor(value.type)]
        if not any(value.node.kind == "prim::Param" for value in tensors):
            continue
        for literal in tensors:
            made = literal.node
            if _makes_float32(made) and _stands_in(made.span, source):
                like = next(value for value in tensors if value.node.kind == "prim::Param").name_hint.partition(".")[0]
                message = "this is float32 whatever the arguments are, and makes halves float32"
                note = f"say the dtype: `{made.span.text[:-1]}, dtype={like}.dtype)`"
                edit = (
                    Edit(made.span.start, made.span.end, note.split("`")[1]) if made.span.text.endswith(")") else None
                )
                yield Finding("L206", message, made.span, note, edit)


_MAKERS = frozenset(("zeros", "ones", "full", "rand", "randn", "linspace", "logspace", "eye"))


def _makes_float32(node: Node) -> bool:
    """Whether a node makes a tensor of the default dtype, of at least one dimension."""
    if node.schema is None or node.schema.base_name not in _MAKERS:
        return False
    given = {argument.name: value for argument, value in zip(node.schema.arguments, node.inputs, strict=False)}
    dtype, size = given.get("dtype"), given.get("size")
    if dtype is None or constant_of(dtype) is not None or dtype.node.kind != "prim::Constant":
        return False
    return size is None or size.node.kind != "prim::ListConstruct" or bool(size.node.inputs)


_SINGULAR = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"), 1),
    **dict.fromkeys(("log1p", "acos", "asin", "atanh"), 0),
    "acosh": 2,
}
"""Functions that have infinite slopes, or none, somewhere, and a number where they have a plain one."""


def _partial(side: Value, asked: set[Value]) -> Value | None:
    """What on the way to a side is not defined everywhere, of a value that the condition asks about."""
    waiting, seen = [side], {side}
    while waiting:
        value = waiting.pop()
        node = value.node
        name = node.schema.base_name if node.schema is not None else ""
        divides = name == "div" and is_tensor(node.inputs[1].type)
        if (name in _SINGULAR or divides) and _operand(value) in asked and _has_gradient(_operand(value)):
            return value
        for inner in node.inputs:
            if inner not in seen and is_tensor(inner.type) and name != "where":
                seen.add(inner)
                waiting.append(inner)
    return None


def _has_gradient(value: Value) -> bool:
    """Whether a gradient goes back from a value to an argument: none does through what is a constant."""
    waiting, seen = [value], {value}
    while waiting:
        node = waiting.pop().node
        if node.kind == "prim::Param":
            return True
        if node.schema is not None and node.schema.base_name in ("detach", "constant"):
            continue
        for inner in node.inputs:
            if inner not in seen and is_tensor(inner.type):
                seen.add(inner)
                waiting.append(inner)
    return False


def _operand(value: Value) -> Value:
    """What decides whether a function is defined."""
    node = value.node
    return node.inputs[1] if node.schema is not None and node.schema.base_name == "div" else node.inputs[0]


def _tensors_below(value: Value) -> set[Value]:
    waiting, seen = [value], {value}
    while waiting:
        for inner in waiting.pop().node.inputs:
            if inner not in seen and is_tensor(inner.type):
                seen.add(inner)
                waiting.append(inner)
    return seen


def _stands_in(span: Span, source: Source) -> bool:
    return span.source is source and span.start < span.end


def _kind(value: Value) -> str:
    schema = value.node.schema
    return schema.base_name if schema is not None and is_tensor(value.type) else ""


def _text(value: Value, node: Node) -> str | None:
    """The source of a value inside a node: what it was written as there, or its name."""
    if value.name_hint or value.node.kind == "prim::Param":
        return value.name_hint.partition(".")[0]
    span, whole = value.node.span, node.span
    inside = span.source is whole.source and whole.start <= span.start < span.end <= whole.end
    return span.text if inside else None


def _is_written_inside(value: Value, node: Node) -> bool:
    """Whether a value without a name stands in the text of a node."""
    return not value.name_hint and _text(value, node) is not None


def _of_log(node: Node) -> tuple[str, str, str] | None:
    inner = node.inputs[0]
    if not _is_written_inside(inner, node):
        return None
    kind = _kind(inner)
    text = _text(inner.node.inputs[0], node) if inner.node.inputs else None
    if text is None:
        return None
    if kind == "add" and constant_of(inner.node.inputs[1]) == 1 and constant_of(inner.node.inputs[2]) == 1:
        return "L201", "log(1 + x) loses x where it is small", f"torch.log1p({text})"
    if kind == "softmax":
        dim = constant_of(inner.node.inputs[1])
        if type(dim) is int and constant_of(inner.node.inputs[2]) is None:
            return "L204", "the log of a softmax is -inf where that underflows", f"torch.log_softmax({text}, {dim})"
    if kind == "sigmoid":
        return "L204", "the log of a sigmoid is -inf where that underflows", f"F.logsigmoid({text})"
    return None


def _of_difference(node: Node) -> tuple[str, str, str] | None:
    inner = node.inputs[0]
    is_plain = len(node.inputs) < 3 or constant_of(node.inputs[2]) == 1
    if not is_plain or constant_of(node.inputs[1]) != 1 or not _is_written_inside(inner, node):
        return None
    text = _text(inner.node.inputs[0], node) if inner.node.inputs else None
    if text is None or node.schema is None:
        return None
    if node.schema.base_name == "sub" and _kind(inner) == "exp":
        return "L202", "exp(x) - 1 loses x where it is small", f"torch.expm1({text})"
    if node.schema.base_name == "rsub" and _kind(inner) == "cos":
        return "L203", "1 - cos(x) loses everything where x is small", f"(2 * torch.sin(({text}) / 2) ** 2)"
    return None


def _of_root(node: Node) -> tuple[str, str, str] | None:
    inner = node.inputs[0]
    kind = _kind(inner)
    if not _is_written_inside(inner, node) or kind not in ("mul", "pow"):
        return None
    first, second = inner.node.inputs[:2]
    is_square = first is second if kind == "mul" else constant_of(second) == 2
    text = _text(first, node)
    if not is_square or text is None:
        return None
    return "L205", "sqrt(x * x) is |x|, and its gradient at 0 is NaN", f"torch.abs({text})"


_RULES: dict[str, Rule] = {"log": _of_log, "sub": _of_difference, "rsub": _of_difference, "sqrt": _of_root}
