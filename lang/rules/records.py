"""Named tuples in source, `class P(NamedTuple):` and `P = namedtuple("P", ["x"])`: fields, with types and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword

from .. import ast
from ..diagnostics import Diagnostics
from ..source import Span
from .signatures import check_parameters

_BASES = ("NamedTuple", "typing.NamedTuple")
_MAKERS = (*_BASES, "namedtuple", "collections.namedtuple")
_TOGETHER = (
    "write functions; values that belong together travel in a tuple: `class P(NamedTuple):` with fields, "
    "or Tuple[Tensor, int], and `x, n = t`"
)

_CLASSES = {
    "Function": "`gradscript convert FILE.py` turns a torch.autograd.Function into a function with a closure: "
    "`def f(x):`, in it `def backward(grad_output):`, and last `return y, backward`",
    "Module": "write functions of the module's tensors: `def layer(x, weight, bias):`; the module calls them",
    "Enum": "take a str or an int: `mode: str`, and ask `mode == 'sum'`",
    "Protocol": "say the type of each parameter",
}
"""What to write instead of classes, by the last name of their base."""


def record_of_class(
    span: Span,
    name: str,
    name_span: Span,
    base: ast.Expr | None,
    body: Sequence[ast.Stmt],
    end: int,
    diagnostics: Diagnostics,
) -> ast.Record | None:
    """The fields of a class whose base is NamedTuple; None for any other class, which is reported.

    What is wrong inside one that goes altogether is not told as well.
    """
    if span.start == span.end:
        # It stands in for a header that did not parse.
        return None
    if base is None or _dotted(base) not in _BASES:
        keyword = Span(span.source, span.start, span.start + len("class"))
        diagnostics.found[:] = [d for d in diagnostics.found if _is_outside(d.span, span.start, end)]
        kind = base.name if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        diagnostics.report("E102", "classes are not supported", keyword, _CLASSES.get(kind, _TOGETHER))
        return None
    fields: list[ast.Parameter] = []
    for statement in body:
        match statement:
            case ast.Declare(target=ast.Name(id=field), annotation=annotation):
                fields.append(ast.Parameter(statement.span, field, annotation, None, False))
            case ast.Assign(targets=(ast.Name(id=field),), annotation=annotation) if annotation is not None:
                fields.append(ast.Parameter(statement.span, field, annotation, statement.value, False))
            case ast.Pass() | ast.ExprStmt(value=ast.Constant(value=str())):
                pass
            case _:
                note = "write a function that takes it"
                diagnostics.report("E102", "a named tuple has fields only: `x: Tensor`", statement.span, note)
    return ast.Record(span, name, name_span, _checked(fields, diagnostics))


def _is_outside(span: Span, start: int, end: int) -> bool:
    return span.end <= start or span.start >= end


def record_of_call(statement: ast.Stmt, diagnostics: Diagnostics) -> ast.Record | None:
    """The fields of what `P = namedtuple(…)` makes; None for another statement."""
    match statement:
        case ast.Assign(targets=(ast.Name(id=name) as target,), value=ast.Call(args=args, keywords=keywords) as call):
            pass
        case _:
            return None
    if _dotted(call.function) not in _MAKERS:
        return None
    fields = _fields(args[1]) if len(args) == 2 else None
    defaults = [k.value for k in keywords if k.name == "defaults"]
    listed = _elements(defaults[0]) if defaults else ()
    if fields is None or listed is None or len(keywords) > len(defaults) or len(listed) > len(fields):
        note = '`P = namedtuple("P", ["x", "y"])`, `P = NamedTuple("P", [("x", Tensor)])`, or a class of fields'
        diagnostics.report("E102", "the fields of a named tuple are written out", call.span, note)
        return ast.Record(statement.span, name, target.span, ())
    given = [None] * (len(fields) - len(listed)) + [*listed]
    parameters = [
        ast.Parameter(span, field, annotation, default, False)
        for (span, field, annotation), default in zip(fields, given, strict=True)
    ]
    return ast.Record(statement.span, name, target.span, _checked(parameters, diagnostics))


def _checked(fields: Sequence[ast.Parameter], diagnostics: Diagnostics) -> tuple[ast.Parameter, ...]:
    """The fields, in an order and under names that Python takes."""
    for field in fields:
        if not field.name.isidentifier() or iskeyword(field.name) or field.name.startswith("_"):
            note = "a field's name is a name that is no keyword and does not begin with an underscore"
            diagnostics.report("E102", f"'{field.name}' is no name of a field", field.span, note)
    return check_parameters([*fields], diagnostics, "field")


def _fields(node: ast.Expr) -> list[tuple[Span, str, ast.Expr | None]] | None:
    """Names, and types where they are there; None for what is not written out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [(node.span, name, None) for name in node.value.replace(",", " ").split()]
    elements = _elements(node)
    if elements is None:
        return None
    found: list[tuple[Span, str, ast.Expr | None]] = []
    for element in elements:
        match element:
            case ast.Constant(value=str(name)):
                found.append((element.span, name, None))
            case ast.TupleExpr(elements=(ast.Constant(value=str(name)), annotation)):
                found.append((element.span, name, annotation))
            case _:
                return None
    return found


def _elements(node: ast.Expr) -> Sequence[ast.Expr] | None:
    return node.elements if isinstance(node, ast.ListExpr | ast.TupleExpr) else None


def _dotted(node: ast.Expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), name=name):
            return f"{module}.{name}"
    return ""
