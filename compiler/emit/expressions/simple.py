"""Expressions → values."""

from __future__ import annotations

from ....lang import ast
from ....lang.diagnostics import did_you_mean
from ....lang.grammar.literals import PAST_INT
from ....lang.source import Span
from ....lang.trampoline import Walk
from ...analysis.python_tuples import is_shape
from ...ir.node import Value
from ...ops.registry import OPS
from ...spelling.advice import for_function, for_member, for_module
from ...spelling.names import CONSTANTS, DEVICE_ATTRIBUTES, METHOD_ATTRIBUTES, MODULES, op_name
from ...spelling.operators import UNARY
from ...spelling.overloads import Argued
from ...types.dtypes import ALIASES, BY_NAME
from ...types.types import (
    BOOL,
    DEVICE,
    INT,
    NONE,
    NUMBERS,
    TENSOR_LIST,
    ListType,
    TupleType,
    is_tensor,
    may_be_none,
    unify,
)
from ..annotations import dotted_name
from ..emitter import Emitter, Evaluated, described
from ..expected import take_type
from ..resolve import element_named, emit_resolved
from ..stars import STAR, as_sizes, emit_elements, require_known, spread_list
from ..truth import EmitSide, refine
from .conditions import emit_bool, emit_condition, emit_operand
from .generators import with_starred_lists
from .operators import emit_binary, emit_comparison
from .outside import emit_outside


def emit_evaluated(e: Emitter, node: Evaluated) -> Walk:
    yield from ()
    return node.value


def emit_name(e: Emitter, node: ast.Name) -> Walk:
    found = yield emit_outside(e, node, node.id)
    return e.lookup(node.id, node.span) if found is None else found


def emit_constant(e: Emitter, node: ast.Constant) -> Walk:
    yield from ()
    if node.value is ...:
        raise e.fail("E102", "'...' stands outside a subscript", node.span, "write `x[..., 0]`")
    return e.at(node).constant(node.value)  # type: ignore[arg-type]


def emit_tuple(e: Emitter, node: ast.TupleExpr) -> Walk:
    found = yield emit_elements(e, with_starred_lists(e, node.elements))
    listed = [element.value for element in found if element.keyword == STAR]
    if listed and all(map(is_shape, listed)):
        # Sizes are lists here, however they are joined.
        return as_sizes(e, node, found)[0].value
    require_known(e, found, "elements")
    return e.at(node).tuple([element.value for element in found])


def emit_stray_star(e: Emitter, node: ast.Starred) -> Walk:
    yield from ()
    note = "a `*` stands in a tuple, in a list, and among the arguments of a function"
    raise e.fail("E102", "a `*` is not supported here", node.span, note)


def emit_list(e: Emitter, node: ast.ListExpr) -> Walk:
    found = yield emit_elements(e, with_starred_lists(e, node.elements))
    if any(element.keyword == STAR for element in found):
        return spread_list(e, node, found)
    values = [element.value for element in found]
    if not values:
        empty = e.at(node).node("prim::ListConstruct", (), [TENSOR_LIST]).output
        e.untold.add(empty)
        return empty
    told = next((value.type for value in values if value not in e.untold), None)
    for value in values:
        # `[[], [1]]`: the empty one is of the others' type.
        if value in e.untold and isinstance(told, ListType):
            take_type(value, told)
    type = values[0].type
    for value, element in zip(values, found, strict=True):
        joined = unify(type, value.type)
        if joined is None and id(node) in e.listed and all(v.type == INT or is_tensor(v.type) for v in values):
            return e.at(node).tuple(values)
        if joined is None:
            raise e.fail(
                "E301",
                f"a list of {type} cannot hold {described(value.type)}",
                element.span,
                "the elements of a list have one type; a tuple may mix them",
            )
        type = joined
    return e.at(node).list(values, type)


def emit_attribute(e: Emitter, node: ast.Attribute) -> Walk:
    dotted = dotted_name(node)
    root = dotted.partition(".")[0]
    found = yield emit_outside(e, node, dotted)
    if found is not None:
        return found
    if dotted and not e.is_value(root):
        return _module_attribute(e, node, dotted)
    value = yield e.expression(node.value)
    name = node.name
    named = element_named(e, node, value)
    if named is not None:
        return named
    if name == "unchecked_unwrap_optional":
        return e.at(node).unwrap(value) if may_be_none(value.type) and value.type != NONE else value
    attributes = DEVICE_ATTRIBUTES if value.type == DEVICE else METHOD_ATTRIBUTES
    op = attributes.get(name)
    if op is None or not OPS.overloads(op):
        known = value.type.names if isinstance(value.type, TupleType) else attributes
        notes = for_member(name) or did_you_mean(name, known)
        if isinstance(value.type, TupleType) and value.type.names and not notes:
            notes = (f"its elements are {', '.join(value.type.names)}",)
        if OPS.overloads(name):
            notes = for_function(name) or (f"'{name}' is a method: write `.{name}(…)`",)
        raise e.fail("E202", f"{described(value.type)} has no attribute '{name}'", node.name_span, *notes)
    return emit_resolved(e, node, op, [Argued(value, node.value.span)], f"attribute '{name}'")


def _module_attribute(e: Emitter, node: ast.Attribute, dotted: str) -> Value:
    module, _, name = dotted.rpartition(".")
    if dotted in CONSTANTS:
        return e.at(node).constant(CONSTANTS[dotted])
    if module == "torch" and (name in BY_NAME or name in ALIASES):
        dtype = e.at(node).constant((BY_NAME.get(name) or ALIASES[name]).code)
        e.dtypes.add(dtype)
        return dtype
    root = dotted.partition(".")[0]
    if module in MODULES and op_name(module, name) is not None:
        raise e.fail("E202", f"'{dotted}' is a function and is not called", node.span, f"write `{dotted}(…)`")
    if root not in {m.partition(".")[0] for m in MODULES}:
        return e.lookup(root, _root_span(node), node.name)
    known = [*CONSTANTS, *(f"torch.{n}" for n in (*BY_NAME, *ALIASES))]
    notes = for_module(dotted) or did_you_mean(dotted, known)
    raise e.fail("E202", f"unknown name '{dotted}'", node.span, *notes)


def _root_span(node: ast.Expr) -> Span:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.span


def emit_unary(e: Emitter, node: ast.UnaryOp) -> Walk:
    if node.op == "not":
        return (yield emit_bool(e, node))
    operand = yield e.expression(node.operand)
    if node.op == "+":
        return operand if operand.type in NUMBERS or is_tensor(operand.type) else _no_operator(e, node, "+", operand)
    if node.op == "-" and operand.node.kind == "prim::Constant" and operand.type in NUMBERS and operand.type != BOOL:
        negated = -operand.node.attrs["value"]
        if negated == PAST_INT:
            # Of the least int: a number of the program's, and none that source can write.
            return e.value("aten::neg.int", node, operand)
        if not operand.use_count and _is_written_here(node.operand):
            operand.node.destroy()
        return e.at(node).constant(negated)
    return emit_resolved(e, node, UNARY[node.op], [Argued(operand, node.operand.span)], f"operator '{node.op}'")


def _is_written_here(node: ast.Expr) -> bool:
    """Whether its constant is its own: what a name stands for is there for all that read the name."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and node.op == "-")


def _no_operator(e: Emitter, node: ast.UnaryOp, op: str, operand: Value) -> Value:
    raise e.fail("E203", f"operator '{op}' does not take {described(operand.type)}", node.span)


def emit_binary_op(e: Emitter, node: ast.BinaryOp) -> Walk:
    left = yield e.expression(node.left)
    right = yield e.expression(node.right)
    return emit_binary(e, node, node.op, Argued(left, node.left.span), Argued(right, node.right.span))


def emit_compare(e: Emitter, node: ast.Compare) -> Walk:
    return (yield emit_bool(e, node)) if _is_condition(node) else (yield _compare_values(e, node))


def _is_condition(node: ast.Compare) -> bool:
    return len(node.ops) > 1 or node.ops[0] in ("is", "is not")


def _compare_values(e: Emitter, node: ast.Compare) -> Walk:
    left = yield e.expression(node.first)
    right = yield e.expression(node.rest[0])
    return emit_comparison(e, node, node.ops[0], Argued(left, node.first.span), Argued(right, node.rest[0].span))


def emit_bool_op(e: Emitter, node: ast.BoolOp) -> Walk:
    return (yield emit_operand(e, node))


def emit_conditional(e: Emitter, node: ast.Conditional) -> Walk:
    def then(e: Emitter) -> Walk:
        return (yield e.expression(node.then))

    def otherwise(e: Emitter) -> Walk:
        return (yield e.expression(node.otherwise))

    return (yield _branches(e, node, node.test, then, otherwise))


def _branches(e: Emitter, node: ast.Syntax, test: ast.Expr, then: EmitSide, otherwise: EmitSide) -> Walk:
    """The side or sides that can run; the value that they agree on."""
    condition = yield emit_condition(e, test)
    if condition.static is not None:
        return (yield (then if condition.static else otherwise)(e))
    branch = e.at(node).node("prim::If", [condition.value], blocks=2)
    values: list[Value] = []
    for block, body, known in zip(
        branch.blocks, (then, otherwise), (condition.if_true, condition.if_false), strict=True
    ):
        with e.block(block, node.span) as frame:
            refine(e, frame, known)
            values.append((yield body(e)))
    type = unify(values[0].type, values[1].type)
    if type is None:
        raise e.fail(
            "E304",
            f"the two sides are {described(values[0].type)} and {described(values[1].type)}",
            node.span,
            "both sides of a conditional expression have one type",
        )
    for block, value in zip(branch.blocks, values, strict=True):
        block.ret.add_input(value)
    return branch.add_output(type)


def emit_stray_slice(e: Emitter, node: ast.Slice) -> Walk:
    yield from ()
    raise e.fail("E101", "a slice stands outside a subscript", node.span)
