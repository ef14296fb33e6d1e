"""Type annotations: syntax → Type."""

from __future__ import annotations

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics, did_you_mean
from ...lang.parser import parse
from ...lang.source import Source
from ...lang.trampoline import Walk, run
from ..spelling.advice import for_type
from ..types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    excess_of,
    may_be_none,
    strip_optional,
)
from .outside import Alias, Environment, RecordType, Unusable, nothing

NAMES: dict[str, Type] = {
    "Tensor": TENSOR,
    "torch.Tensor": TENSOR,
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "number": NUMBER,
    "Scalar": NUMBER,
    "Device": DEVICE,
    "device": DEVICE,
    "torch.device": DEVICE,
    "torch.dtype": INT,
    "torch.Size": ListType(INT),
    "None": NONE,
}
GENERICS = ("Optional", "List", "list", "Tuple", "tuple", "Sequence")
_BROADCASTING = {f"BroadcastingList{size}": size for size in range(1, 7)}
"""A list for which one element may stand: its length then."""
_OF_LITERALS: dict[type, Type] = {str: STR, int: INT, bool: BOOL, type(None): NONE}
_NOTE = "the types are Tensor, int, float, bool, str, number, Device, None, Optional[T], T | None, List[T], Tuple[T, …]"


def resolve_type(annotation: ast.Expr, diagnostics: Diagnostics, environment: Environment = nothing) -> Type:
    """The type that an annotation names; an unknown one is reported and raises Abort.

    `environment` says which names are those of named tuples, and of other types.
    """
    type: Type = run(_resolve(annotation, diagnostics, environment))
    if excess := excess_of(type):
        raise diagnostics.fail("E004", f"a type of more than {excess}", annotation.span, "flatten it")
    return type


def broadcast_size(annotation: ast.Expr) -> int | None:
    """2 of BroadcastingList2[int], also where it is optional; None for any other annotation."""
    if isinstance(annotation, ast.Subscript) and _generic(annotation) == "Optional":
        annotation = annotation.index
    return _BROADCASTING.get(_generic(annotation)) if isinstance(annotation, ast.Subscript) else None


def _generic(node: ast.Subscript) -> str:
    return dotted_name(node.value).removeprefix("typing.")


def _resolve(node: ast.Expr, diagnostics: Diagnostics, environment: Environment) -> Walk:
    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Name() | ast.Attribute():
            name = dotted_name(node)
            name = name.removeprefix("typing.")
            if name in NAMES:
                return NAMES[name]
            if name.endswith(".Tensor"):
                # Of a module under another name: `th.Tensor`.
                return TENSOR
            if name in ("list", "List"):
                return ListType(TENSOR)
            outside = environment(dotted_name(node))
            if isinstance(outside, RecordType):
                return outside.type
            if isinstance(outside, Alias) and outside.name in NAMES:
                return NAMES[outside.name]
            if isinstance(outside, Unusable) and outside.annotation:
                return (yield _resolve_text(node, outside.annotation, diagnostics, environment))
        case ast.Constant(value=str(quoted)):
            return (yield _resolve_text(node, quoted, diagnostics, environment))
        case ast.BinaryOp(op="|"):
            left = yield _resolve(node.left, diagnostics, environment)
            right = yield _resolve(node.right, diagnostics, environment)
            return _union(node, [left, right], diagnostics)
        case ast.Subscript():
            generic = _generic(node)
            items = node.index.elements if isinstance(node.index, ast.TupleExpr) else (node.index,)
            if generic == "Literal" and items:
                return _union(node, [_type_of_literal(item, diagnostics) for item in items], diagnostics)
            if generic in GENERICS or generic == "Union" or generic in _BROADCASTING:
                types = []
                for item in items:
                    types.append((yield _resolve(item, diagnostics, environment)))
                return _apply(generic, node, types, diagnostics)
    text = node.span.text
    generic = dotted_name(node.value) if isinstance(node, ast.Subscript) else text
    notes = for_type(generic.removeprefix("typing.")) or did_you_mean(text, (*NAMES, *GENERICS))
    raise diagnostics.fail("E302", f"unknown type '{text}'", node.span, *notes, _NOTE)


def _resolve_text(node: ast.Expr, text: str, diagnostics: Diagnostics, environment: Environment) -> Walk:
    """The type that a text names, in quotes or of another module: what is wrong with it is told of the annotation."""
    scratch = Diagnostics()
    functions = parse(Source(f"def f(x: {text}):\n    pass\n"), scratch).functions
    parameters = functions[0].parameters if len(functions) == 1 and functions[0].returns is None else ()
    if scratch.found or len(parameters) != 1 or parameters[0].default is not None:
        raise diagnostics.fail("E302", f"unknown type '{text}'", node.span, _NOTE)
    annotation = parameters[0].annotation
    assert annotation is not None, "it stands behind the colon"
    try:
        return (yield _resolve(annotation, scratch, environment))
    except Abort:
        (found, *_) = scratch.found
        message = (
            found.message if node.span.text.strip("'\"") == text else f"'{node.span.text}' is {text}: {found.message}"
        )
        raise diagnostics.fail(found.code, message, node.span, *found.notes) from None


def _apply(generic: str, node: ast.Subscript, types: list[Type], diagnostics: Diagnostics) -> Type:
    if generic in ("Tuple", "tuple"):
        return TupleType(tuple(types))
    if generic == "Union":
        return _union(node, types, diagnostics)
    if len(types) != 1:
        raise diagnostics.fail("E302", f"{generic} takes one type", node.span, _NOTE)
    if generic in _BROADCASTING and types[0] not in (INT, FLOAT):
        raise diagnostics.fail("E302", f"{generic} takes int or float", node.span, _NOTE)
    if generic == "Optional":
        return types[0] if may_be_none(types[0]) else OptionalType(types[0])
    return ListType(types[0])


def _type_of_literal(node: ast.Expr, diagnostics: Diagnostics) -> Type:
    """What `Literal["mean", "sum"]` says of each of its values; that it is one of them nobody checks, as in Python."""
    if not isinstance(node, ast.Constant) or type(node.value) not in _OF_LITERALS:
        raise diagnostics.fail("E302", "Literal takes strings, ints, bools and None", node.span, _NOTE)
    return _OF_LITERALS[type(node.value)]


def _union(node: ast.Expr, types: list[Type], diagnostics: Diagnostics) -> Type:
    """The one type that all are but for None; ints and floats together are numbers."""
    others = [type for type in dict.fromkeys(map(strip_optional, types)) if type != NONE]
    if len(others) > 1 and set(others) <= {INT, FLOAT, NUMBER}:
        others = [NUMBER]
    if len(others) > 1:
        raise diagnostics.fail("E302", "the only union is with None", node.span, "write Optional[T] or T | None")
    if not others:
        return NONE
    return OptionalType(others[0]) if any(map(may_be_none, types)) else others[0]


MAX_DOTS = 16
"""No name that is known has more parts; to look no further keeps long chains of attributes linear."""


def dotted_name(node: ast.Expr) -> str:
    """`torch.nn.functional` for such a chain of attributes; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < MAX_DOTS:
        parts.append(node.name)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
