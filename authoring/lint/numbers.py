"""Forms that lose digits, or make NaN where nobody looks: read from the graph, whose operators have one spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...compiler.ir.graph import Callee
from ...compiler.ir.node import Node, Value, walk
from ...compiler.ir.rewrite import constant_of
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import FLOAT, ListType, is_tensor
from ...lang.light_dataclasses import dataclass
from ...lang.source import Source, Span
from .findings import Edit, Finding, stands_in


@dataclass(frozen=True, slots=True)
class Form:
    """What is wrong with a node, and the expression to write instead."""

    code: str
    message: str
    text: str


NumberRule = Callable[[Node], Form | None]


def lost_digits(callee: Callee, source: Source) -> Iterator[Finding]:
    """Expressions that have a form which is exact where they are not."""
    for node in walk(callee.graph.nodes):
        rule = _RULES.get(node.schema.base_name) if node.schema is not None else None
        found = rule(node) if rule is not None and stands_in(node.span, source) else None
        if found is not None:
            in_place = _is_written_inside(node.inputs[0], node)
            edit = Edit(node.span.start, node.span.end, _standing(found.text, node.span)) if in_place else None
            yield Finding(found.code, found.message, node.span, f"write `{found.text}`", edit)


def _standing(text: str, span: Span) -> str:
    """An expression in brackets, without them where what stands around it is no operator."""
    before = span.source.text[: span.start].rstrip(" ")
    after = span.source.text[span.end :].lstrip(" ")[:1]
    stands_alone = before.endswith(("(", "[", ",", " =", "return")) and (after in ",)]#;\n" or not after)
    return text[1:-1] if text.startswith("(") and stands_alone else text


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
            if _makes_float32(made) and stands_in(made.span, source):
                like = next(value for value in tensors if value.node.kind == "prim::Param").name_hint.partition(".")[0]
                message = "this is float32 whatever the arguments are, and makes halves float32"
                note = f"say the dtype: `{made.span.text[:-1]}, dtype={like}.dtype)`"
                is_whole = made.schema is not None and made.schema.base_name in _WHOLE
                mends = is_whole and made.span.text.endswith(")")
                edit = Edit(made.span.start, made.span.end, note.split("`")[1]) if mends else None
                yield Finding("L206", message, made.span, note, edit)


_WHOLE = frozenset(("zeros", "ones", "eye"))
"""What is the same in every dtype; others are not where an argument holds ints."""
_LITERALS = frozenset(("tensor", "as_tensor"))
_MAKERS = frozenset(("zeros", "ones", "full", "rand", "randn", "linspace", "logspace", "eye"))


def _makes_float32(node: Node) -> bool:
    """Whether a node makes a tensor of the default dtype, of at least one dimension."""
    if node.schema is None or node.schema.base_name not in _MAKERS | _LITERALS:
        return False
    if node.schema.base_name in _LITERALS:
        return _holds_floats(node)
    given = {argument.name: value for argument, value in zip(node.schema.arguments, node.inputs, strict=False)}
    dtype, size = given.get("dtype"), given.get("size")
    if dtype is None or constant_of(dtype) is not None or dtype.node.kind != "prim::Constant":
        return False
    return size is None or size.node.kind != "prim::ListConstruct" or bool(size.node.inputs)


def _holds_floats(node: Node) -> bool:
    """Whether a tensor is made of a written list of floats, without a dtype."""
    assert node.schema is not None
    given = {argument.name: value for argument, value in zip(node.schema.arguments, node.inputs, strict=False)}
    dtype = given.get("dtype")
    data = node.inputs[0]
    while isinstance(data.type, ListType) and data.node.kind == "prim::ListConstruct" and data.node.inputs:
        data = data.node.inputs[0]
    is_list = data is not node.inputs[0]
    return is_list and data.type == FLOAT and (dtype is None or constant_of(dtype) is None)


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


def _of_log(node: Node) -> Form | None:
    inner = node.inputs[0]
    text = _argument(inner, node)
    if text is None:
        return None
    kind, given = _kind(inner), inner.node.inputs
    if kind == "softmax" and constant_of(given[2]) is None and type(constant_of(given[1])) is int:
        form = f"torch.log_softmax({text}, {constant_of(given[1])})"
        return Form("L204", "the log of a softmax is -inf where that underflows", form)
    if kind == "sigmoid":
        return Form("L204", "the log of a sigmoid is -inf where that underflows", f"F.logsigmoid({text})")
    if not _is_written_inside(inner, node):
        return None
    if kind == "add" and constant_of(given[1]) == 1 and constant_of(given[2]) == 1:
        if _kind(given[0]) == "exp" and _is_written_inside(given[0], node):
            power = _text(given[0].node.inputs[0], node)
            return Form("L207", "log(1 + exp(x)) is inf where exp(x) is", f"F.softplus({power})") if power else None
        return Form("L201", "log(1 + x) loses x where it is small", f"torch.log1p({text})")
    if kind == "rsub" and constant_of(given[1]) == 1 and constant_of(given[2]) == 1:
        if _kind(given[0]) == "sigmoid" and _is_written_inside(given[0], node):
            power = _text(given[0].node.inputs[0], node)
            message = "the log of 1 - sigmoid(x) is -inf where that is 0"
            return Form("L204", message, f"F.logsigmoid(-{_operand(power)})") if power else None
        return Form("L201", "log(1 - x) loses x where it is small", f"torch.log1p(-{_operand(text)})")
    if kind == "sum" and _kind(given[0]) == "exp" and _is_written_inside(given[0], node):
        return _of_summed_powers(inner, given[0], node)
    return None


def _of_summed_powers(total: Value, powers: Value, node: Node) -> Form | None:
    """log(sum(exp(x), dim)) is inf where a power is; torch.logsumexp is not."""
    assert total.node.schema is not None
    given = {a.name: v for a, v in zip(total.node.schema.arguments, total.node.inputs, strict=False)}
    keepdim, dtype, dim = given.get("keepdim"), given.get("dtype"), given.get("dim")
    text = _text(powers.node.inputs[0], node)
    is_plain = keepdim is not None and (dtype is None or constant_of(dtype) is None)
    if text is None or not is_plain or dim is None or dim.node.kind != "prim::ListConstruct":
        return None
    dims, keeps = [constant_of(one) for one in dim.node.inputs], constant_of(given["keepdim"])
    if not dims or not all(type(one) is int for one in dims) or type(keeps) is not bool:
        return None
    place = str(dims[0]) if len(dims) == 1 else str(dims)
    form = f"torch.logsumexp({text}, {place}{', keepdim=True' if keeps else ''})"
    return Form("L207", "log(sum(exp(x))) is inf where a power is", form)


def _of_difference(node: Node) -> Form | None:
    inner = node.inputs[0]
    is_plain = len(node.inputs) < 3 or constant_of(node.inputs[2]) == 1
    if not is_plain or constant_of(node.inputs[1]) != 1 or not _is_written_inside(inner, node):
        return None
    text = _argument(inner, node)
    if text is None or node.schema is None:
        return None
    if node.schema.base_name == "sub" and _kind(inner) == "exp":
        return Form("L202", "exp(x) - 1 loses x where it is small", f"torch.expm1({text})")
    if node.schema.base_name == "rsub" and _kind(inner) == "exp":
        return Form("L202", "1 - exp(x) loses x where it is small", f"-torch.expm1({text})")
    if _kind(inner) == "cos":
        is_turned = node.schema.base_name == "sub"
        form = f"({'-' if is_turned else ''}2 * torch.sin({_operand(text)} / 2) ** 2)"
        said = "cos(x) - 1" if is_turned else "1 - cos(x)"
        return Form("L203", f"{said} loses everything where x is small", form)
    return None


def _of_root(node: Node) -> Form | None:
    inner = node.inputs[0]
    kind = _kind(inner)
    is_root = node.kind.startswith("aten::sqrt") or constant_of(node.inputs[1]) == 0.5
    if not is_root or not _is_written_inside(inner, node) or kind not in ("mul", "pow", "square"):
        return None
    first, *rest = inner.node.inputs
    is_square = kind == "square" or (first is rest[0] if kind == "mul" else constant_of(rest[0]) == 2)
    text = _text(first, node)
    if not is_square or text is None:
        return None
    return Form("L205", "sqrt(x * x) is |x|, and its gradient at 0 is NaN", f"torch.abs({text})")


def _operand(text: str) -> str:
    """An expression behind a sign or before an operator."""
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def _argument(inner: Value, node: Node) -> str | None:
    """The text of what a function inside another is of: in that one, or where a name was given to it."""
    if not inner.node.inputs:
        return None
    return _text(inner.node.inputs[0], node if _is_written_inside(inner, node) else inner.node)


_RULES: dict[str, NumberRule] = {
    "log": _of_log,
    "sub": _of_difference,
    "rsub": _of_difference,
    "sqrt": _of_root,
    "pow": _of_root,
}
