"""Expressions → values."""

from __future__ import annotations

from ...lang import ast
from ...lang.diagnostics import did_you_mean
from ...lang.source import Span
from ...lang.trampoline import Walk
from ..ir.node import Value
from ..ops.registry import OPS
from ..types.dtypes import ALIASES, BY_NAME
from ..types.types import (
    BOOL,
    NONE,
    NUMBERS,
    STR,
    TENSOR_LIST,
    TupleType,
    is_tensor,
    may_be_none,
    unify,
)
from . import tuples
from .annotations import dotted_name
from .calls import METHOD_ATTRIBUTES, element_named, emit_resolved, with_float_base
from .conditions import emit_bool, emit_branches, emit_operand
from .emitter import EXPRESSIONS, Emitter, described, emits
from .overloads import Argued
from .spellings import MODULES, op_name

BINARY = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floor_divide",
    "%": "remainder",
    "**": "pow",
    "@": "matmul",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "bitwise_left_shift",
    ">>": "bitwise_right_shift",
}
SCALAR_BINARY = BINARY | {
    "//": "floordiv",
    "&": "__and__",
    "|": "__or__",
    "^": "__xor__",
    "<<": "__lshift__",
    ">>": "__rshift__",
}
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
COMMUTATIVE = frozenset(("add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"))
UNARY = {"-": "neg", "~": "bitwise_not"}
CONSTANTS = {
    "math.pi": 3.141592653589793,
    "math.e": 2.718281828459045,
    "math.tau": 6.283185307179586,
    "math.inf": float("inf"),
    "math.nan": float("nan"),
    "torch.pi": 3.141592653589793,
    "torch.inf": float("inf"),
    "torch.nan": float("nan"),
    "torch.contiguous_format": 0,
    "torch.preserve_format": 1,
    "torch.channels_last": 2,
    "torch.strided": 0,
}
"""Dotted names that are constants; a memory format is an int, as in a schema."""


@emits(EXPRESSIONS, ast.Name)
def _name(e: Emitter, node: ast.Name) -> Walk:
    yield from ()
    return e.lookup(node.id, node.span)


@emits(EXPRESSIONS, ast.Constant)
def _constant(e: Emitter, node: ast.Constant) -> Walk:
    yield from ()
    if node.value is ...:
        raise e.fail("E102", "'...' stands outside a subscript", node.span, "write `x[..., 0]`")
    return e.at(node).constant(node.value)  # type: ignore[arg-type]


@emits(EXPRESSIONS, ast.TupleExpr)
def _tuple(e: Emitter, node: ast.TupleExpr) -> Walk:
    values = []
    for element in node.elements:
        values.append((yield e.expression(element)))
    return e.at(node).tuple(values)


@emits(EXPRESSIONS, ast.ListExpr)
def _list(e: Emitter, node: ast.ListExpr) -> Walk:
    values: list[Value] = []
    for element in node.elements:
        values.append((yield e.expression(element)))
    if not values:
        return e.at(node).node("prim::ListConstruct", (), [TENSOR_LIST]).output
    type = values[0].type
    for value, element in zip(values, node.elements, strict=True):
        joined = unify(type, value.type)
        if joined is None:
            raise e.fail(
                "E301",
                f"a list of {type} cannot hold {described(value.type)}",
                element.span,
                "the elements of a list have one type; a tuple may mix them",
            )
        type = joined
    return e.at(node).list(values, type)


@emits(EXPRESSIONS, ast.Attribute)
def _attribute(e: Emitter, node: ast.Attribute) -> Walk:
    dotted = dotted_name(node)
    root = dotted.partition(".")[0]
    if dotted and e.frame.lookup(root) is None:
        return _module_attribute(e, node, dotted)
    value = yield e.expression(node.value)
    name = node.name
    named = element_named(e, node, value)
    if named is not None:
        return named
    if name == "unchecked_unwrap_optional":
        return e.at(node).unwrap(value) if may_be_none(value.type) and value.type != NONE else value
    op = METHOD_ATTRIBUTES.get(name)
    if op is None or not OPS.overloads(op):
        known = value.type.names if isinstance(value.type, TupleType) else METHOD_ATTRIBUTES
        notes = did_you_mean(name, known)
        if isinstance(value.type, TupleType) and value.type.names and not notes:
            notes = (f"its elements are {', '.join(value.type.names)}",)
        if OPS.overloads(name):
            notes = (f"'{name}' is a method: write `.{name}(…)`",)
        raise e.fail("E202", f"{described(value.type)} has no attribute '{name}'", node.name_span, *notes)
    return emit_resolved(e, node, op, [Argued(value, node.value.span)], f"attribute '{name}'")


def _module_attribute(e: Emitter, node: ast.Attribute, dotted: str) -> Value:
    module, _, name = dotted.rpartition(".")
    if dotted in CONSTANTS:
        return e.at(node).constant(CONSTANTS[dotted])
    if module == "torch" and (name in BY_NAME or name in ALIASES):
        return e.at(node).constant((BY_NAME.get(name) or ALIASES[name]).code)
    root = dotted.partition(".")[0]
    if module in MODULES and op_name(module, name) is not None:
        raise e.fail("E202", f"'{dotted}' is a function and is not called", node.span, f"write `{dotted}(…)`")
    if root not in {m.partition(".")[0] for m in MODULES}:
        return e.lookup(root, _root_span(node))
    known = [*CONSTANTS, *(f"torch.{n}" for n in (*BY_NAME, *ALIASES))]
    raise e.fail("E202", f"unknown name '{dotted}'", node.span, *did_you_mean(dotted, known))


def _root_span(node: ast.Expr) -> Span:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.span


@emits(EXPRESSIONS, ast.UnaryOp)
def _unary(e: Emitter, node: ast.UnaryOp) -> Walk:
    if node.op == "not":
        return (yield emit_bool(e, node))
    operand = yield e.expression(node.operand)
    if node.op == "+":
        return operand if operand.type in NUMBERS or is_tensor(operand.type) else _no_operator(e, node, "+", operand)
    if node.op == "-" and operand.node.kind == "prim::Constant" and operand.type in NUMBERS and operand.type != BOOL:
        negated = -operand.node.attrs["value"]
        if not operand.use_count:
            operand.node.destroy()
        return e.at(node).constant(negated)
    return emit_resolved(e, node, UNARY[node.op], [Argued(operand, node.operand.span)], f"operator '{node.op}'")


def _no_operator(e: Emitter, node: ast.UnaryOp, op: str, operand: Value) -> Value:
    raise e.fail("E203", f"operator '{op}' does not take {described(operand.type)}", node.span)


@emits(EXPRESSIONS, ast.BinaryOp)
def _binary(e: Emitter, node: ast.BinaryOp) -> Walk:
    left = yield e.expression(node.left)
    right = yield e.expression(node.right)
    return emit_binary(e, node, node.op, Argued(left, node.left.span), Argued(right, node.right.span))


def emit_binary(e: Emitter, node: ast.Syntax, op: str, left: Argued, right: Argued) -> Value:
    """`left op right` on values; a number on the left of a tensor changes sides where the operator allows."""
    what = f"operator '{op}'"
    if op == "%" and left.value.type == STR:
        from .strings import emit_percent

        return emit_percent(e, node, left, right)
    left_is_tensor, right_is_tensor = is_tensor(left.value.type), is_tensor(right.value.type)
    if op == "+" and isinstance(left.value.type, TupleType) and isinstance(right.value.type, TupleType):
        return tuples.joined(e, node, left.value, right.value)
    if not left_is_tensor and not right_is_tensor:
        operands = with_float_base(e, node, [left, right]) if op == "**" else [left, right]
        return emit_resolved(e, node, SCALAR_BINARY.get(op, op), operands, what)
    name = BINARY[op]
    if left_is_tensor or left.value.type not in NUMBERS:
        return emit_resolved(e, node, name, [left, right], what)
    if name in COMMUTATIVE:
        return emit_resolved(e, node, name, [right, left], what)
    if name == "sub":
        return emit_resolved(e, node, "rsub", [right, left], what)
    if name == "div":
        # As torch eager does: number / x is reciprocal(x) * number.
        reciprocal = emit_resolved(e, node, "reciprocal", [right], what)
        return emit_resolved(e, node, "mul", [Argued(reciprocal, right.span), left], what)
    return emit_resolved(e, node, name, [left, right], what)


@emits(EXPRESSIONS, ast.Compare)
def _compare(e: Emitter, node: ast.Compare) -> Walk:
    return (yield emit_bool(e, node)) if _is_condition(node) else (yield _compare_values(e, node))


def _is_condition(node: ast.Compare) -> bool:
    return len(node.ops) > 1 or node.ops[0] in ("is", "is not")


def _compare_values(e: Emitter, node: ast.Compare) -> Walk:
    left = yield e.expression(node.first)
    right = yield e.expression(node.rest[0])
    return emit_comparison(e, node, node.ops[0], Argued(left, node.first.span), Argued(right, node.rest[0].span))


def emit_comparison(e: Emitter, node: ast.Syntax, op: str, left: Argued, right: Argued) -> Value:
    """One comparison of two values, `in` and `not in` included."""
    what = f"operator '{op}'"
    if op in ("in", "not in"):
        found = emit_resolved(e, node, "__contains__", [right, left], what)
        return found if op == "in" else e.value("aten::__not__.bool", node, found)
    name = COMPARE[op]
    if name in ("eq", "ne") and isinstance(left.value.type, TupleType) and isinstance(right.value.type, TupleType):
        same = tuples.equal(e, node, left.value, right.value)
        return same if name == "eq" else e.value("aten::__not__.bool", node, same)
    if is_tensor(right.value.type) and left.value.type in NUMBERS:
        return emit_resolved(e, node, MIRRORED[name], [right, left], what)
    return emit_resolved(e, node, name, [left, right], what)


@emits(EXPRESSIONS, ast.BoolOp)
def _bool_op(e: Emitter, node: ast.BoolOp) -> Walk:
    return (yield emit_operand(e, node))


@emits(EXPRESSIONS, ast.Conditional)
def _conditional(e: Emitter, node: ast.Conditional) -> Walk:
    def then(e: Emitter) -> Walk:
        return (yield e.expression(node.then))

    def otherwise(e: Emitter) -> Walk:
        return (yield e.expression(node.otherwise))

    return (yield emit_branches(e, node, node.test, then, otherwise))


@emits(EXPRESSIONS, ast.Slice)
def _slice(e: Emitter, node: ast.Slice) -> Walk:
    yield from ()
    raise e.fail("E101", "a slice stands outside a subscript", node.span)
