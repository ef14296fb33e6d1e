"""Text made of values: f-strings, `%`, `"…".format(…)`; and print and warnings.warn, which tell it.

Formats are literals, read here; what is left are sums of texts of values:

    f"{x} of {n:03d}"    ─▶    aten::format(x, "") + " of " + aten::format(n, "03d")
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....lang import ast
from ....lang.patterns import pattern
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import STR, TupleType, is_tensor
from ..emitter import Emitter, described, is_constant, known_constant
from ..resolve import emit_resolved

_PERCENT = pattern(
    r"%(?P<name>\([^)]*\))?(?P<flags>[#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?)[hlL]?(?P<kind>.)?", re.DOTALL
)
_MAX_JOINED = 100_000
"""Characters of constants that are joined while compiling: text that doubles with each line is left to running."""
_KINDS = "diouxXeEfFgGcrsa"
WARNINGS = (
    *("Warning", "UserWarning", "RuntimeWarning", "FutureWarning", "DeprecationWarning"),
    "PendingDeprecationWarning",
)
"""Categories that warnings.warn takes."""


def emit_joined_str(e: Emitter, node: ast.JoinedStr) -> Walk:
    parts: list[Value] = []
    for part in node.values:
        parts.append((yield e.expression(part)))
    return concatenated(e, node, parts)


def emit_formatted_value(e: Emitter, node: ast.FormattedValue) -> Walk:
    value = yield e.expression(node.value)
    format = (yield e.expression(node.format)) if node.format is not None else None
    return formatted(e, node, Argued(value, node.value.span), node.conversion, format)


def formatted(e: Emitter, node: ast.Syntax, value: Argued, conversion: str, format: Value | None) -> Value:
    """`format(value, format)`, the value converted before."""
    if conversion:
        name = {"r": "repr", "a": "ascii", "s": "str"}[conversion]
        value = Argued(emit_str(e, node, value, name), value.span)
    if format is None or (is_constant(format) and not known_constant(format)):
        if not is_tensor(value.value.type):
            return emit_str(e, node, value)
        format = e.at(node).constant("")
    return emit_resolved(e, node, "format", [value, Argued(format, value.span)], "format()")


def emit_str(e: Emitter, node: ast.Syntax, value: Argued, name: str = "str") -> Value:
    """`str(value)`, which a str is itself."""
    if name == "str" and value.value.type == STR:
        return value.value
    return emit_resolved(e, node, name, [value], f"{name}()")


def concatenated(e: Emitter, node: ast.Syntax, parts: Sequence[Value]) -> Value:
    """The sum of strings, constants side by side joined."""
    merged: list[Value] = []
    for part in parts:
        known = is_constant(part) and merged and is_constant(merged[-1])
        if known and len(known_constant(merged[-1])) + len(known_constant(part)) <= _MAX_JOINED:
            merged[-1] = e.at(node).constant(known_constant(merged[-1]) + known_constant(part))
        elif not is_constant(part) or known_constant(part):
            merged.append(part)
    if not merged:
        return e.at(node).constant("")
    result = merged[0]
    for part in merged[1:]:
        result = e.value("aten::add.str", node, result, part)
    return result


# --- % and .format ---


def emit_percent(e: Emitter, node: ast.Syntax, left: Argued, right: Argued) -> Value:
    """`"%d of %s" % (n, x)`."""
    format = _literal_format(e, left, "`%`")
    pieces = list(_percent_pieces(e, left, format))
    is_tuple = isinstance(right.value.type, TupleType)
    values = _elements(e, node, right.value) if is_tuple else [right.value]
    wanted = sum(not is_constant_text for is_constant_text, _ in pieces)
    if wanted != len(values):
        raise e.fail("E203", f"the format takes {wanted} values, and is given {len(values)}", right.span)
    remaining = iter(values)
    parts: list[Value] = []
    for is_text, piece in pieces:
        if is_text:
            parts.append(e.at(node).constant(piece))
            continue
        value = Argued(next(remaining), right.span)
        if piece in ("%s", "%r", "%a"):
            parts.append(emit_str(e, node, value, {"s": "str", "r": "repr", "a": "ascii"}[piece[1]]))
        else:
            spec = Argued(e.at(node).constant(piece), left.span)
            parts.append(emit_resolved(e, node, "_percent", [spec, value], "operator '%'"))
    return concatenated(e, node, parts)


def _percent_pieces(e: Emitter, left: Argued, format: str) -> Iterator[tuple[bool, str]]:
    """The text and the specs of a format, in order: whether it is text, and it."""
    position = 0
    for found in _PERCENT.finditer(format):
        if found.start() > position:
            yield True, format[position : found.start()]
        position = found.end()
        if found[0] == "%%":
            yield True, "%"
        elif found["name"] or "*" in found["flags"] or found["kind"] is None or found["kind"] not in _KINDS:
            note = "`%d`, `%5.2f`, `%s` and the like are; write a percent sign as '%%'"
            raise e.fail("E203", f"'{found[0]}' is not supported in a format", left.span, note)
        else:
            yield False, f"%{found['flags']}{found['kind']}"
    if position < len(format):
        yield True, format[position:]


def emit_format(e: Emitter, node: ast.Call, receiver: Argued, arguments: Sequence[Argued]) -> Value:
    """`"{} of {n:03d}".format(x, n=n)`."""
    format = _literal_format(e, receiver, "`.format`")
    given = {a.keyword or str(i): Argued(a.value, a.span) for i, a in enumerate(arguments)}
    parts: list[Value] = []
    fields = _fields(e, receiver, format)
    if len({bool(field) for _, field, _, _ in fields if field is not None and (not field or field.isdigit())}) > 1:
        note = "number all of them, or none"
        raise e.fail("E203", "the format has fields with a number and without", receiver.span, note)
    count = 0
    for text, field, spec, conversion in fields:
        parts.append(e.at(node).constant(text))
        if field is None:
            continue
        if not field:
            field, count = str(count), count + 1
        if field not in given:
            names = ", ".join(given) or "nothing"
            raise e.fail("E203", f"the format takes '{{{field}}}', and is given {names}", receiver.span)
        if "{" in (spec or "") or conversion not in (None, "r", "s", "a"):
            raise e.fail("E203", f"the field '{field}' is not supported", receiver.span, "write an f-string")
        made = e.at(node).constant(spec or "")
        parts.append(formatted(e, node, given[field], conversion or "", made))
    return concatenated(e, node, parts)


def _fields(e: Emitter, receiver: Argued, format: str) -> list[tuple[str, str | None, str | None, str | None]]:
    from string import Formatter

    try:
        return list(Formatter().parse(format))
    except ValueError as error:
        raise e.fail("E203", f"the format makes no sense: {error}", receiver.span) from None


def _literal_format(e: Emitter, format: Argued, what: str) -> str:
    if not is_constant(format.value):
        raise e.fail("E203", f"{what} takes a format that is a literal", format.span, "write an f-string")
    text: str = known_constant(format.value)
    return text


def _elements(e: Emitter, node: ast.Syntax, value: Value) -> list[Value]:
    return list(value.node.inputs) if value.node.kind == "prim::TupleConstruct" else e.at(node).unpack(value)


# --- telling ---


def emit_print(e: Emitter, node: ast.Call, arguments: Sequence[Argued]) -> Value:
    """`print(a, b, sep=" ", end="\\n")`: one text, told when the program gets there."""
    options = {a.keyword: a for a in arguments if a.keyword is not None}
    for name, option in options.items():
        if name not in ("sep", "end", "flush"):
            note = "`sep` and `end` are what it takes besides values"
            raise e.fail("E204", f"print() has no argument '{name}' here", option.span, note)
        if name != "flush" and option.value.type != STR:
            raise e.fail("E301", f"'{name}' is a str, not {described(option.value.type)}", option.span)
    separator = options["sep"].value if "sep" in options else e.at(node).constant(" ")
    parts: list[Value] = []
    for argument in arguments:
        if argument.keyword is None:
            parts += [separator] if parts else []
            parts.append(emit_str(e, node, argument))
    end = options["end"].value if "end" in options else e.at(node).constant("\n")
    e.at(node).op_results("prim::Print", concatenated(e, node, parts), end=end)
    return e.at(node).constant(None)


def emit_warn(e: Emitter, node: ast.Call) -> Walk:
    """`warnings.warn(message, category=UserWarning)`."""
    message: Argued | None = None
    category = "UserWarning"
    written = [*((None, a) for a in node.args), *((k.name, k.value) for k in node.keywords)]
    for i, (keyword, argument) in enumerate(written):
        name = keyword or ("message", "category", "stacklevel", "source")[min(i, 3)]
        if name == "message":
            message = Argued((yield e.expression(argument)), argument.span)
        elif name == "category":
            category = _category(e, argument)
        elif name != "stacklevel":
            raise e.fail("E204", f"warnings.warn() has no argument '{name}' here", argument.span)
    if message is None:
        raise e.fail("E204", "warnings.warn() needs a message", node.span)
    e.at(node).op_results("gs::warnings_warn", emit_str(e, node, message), category)
    return e.at(node).constant(None)


def _category(e: Emitter, node: ast.Expr) -> str:
    match node:
        case ast.Name(id=name) if name in WARNINGS:
            return name
        case ast.Constant(value=str(name)) if name in WARNINGS:
            return name
    raise e.fail("E201", "this is no category of warnings", node.span, f"they are {', '.join(WARNINGS)}")
