"""Conditions: tests as source writes them.

`x is None` on a value that can never be None, or always is, is decided here, and only the branch that runs is
emitted. On an Optional it splits: inside the branch where the value is there, its name stands for the value
unwrapped. `and`, `or` and `not` pass that knowledge on.
"""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import (
    BOOL,
    NONE,
    NUMBER,
    OptionalType,
    Type,
    is_tensor,
    may_be_none,
    unify,
)
from ..emitter import Emitter, described
from ..truth import TruthValue, refine, truth_of
from .operators import emit_comparison


def emit_bool(e: Emitter, node: ast.Expr) -> Walk:
    """A condition as a bool value: `not`, `is` and chained comparisons in expressions."""
    condition = yield emit_condition(e, node)
    return condition.value if condition.static is None else e.at(node).constant(condition.static)


def emit_condition(e: Emitter, node: ast.Expr) -> Walk:
    """A test."""
    match node:
        case ast.UnaryOp(op="not"):
            inner = yield emit_condition(e, node.operand)
            value = None if inner.static is not None else e.value("aten::__not__.bool", node, inner.value)
            return inner.negated(value)
        case ast.BoolOp():
            return (yield _emit_bool_op(e, node))
        case ast.Compare() if len(node.ops) > 1:
            return (yield _emit_chain(e, node))
        case ast.Compare(ops=("is",) | ("is not",)):
            return (yield _emit_is(e, node))
        case ast.Call() if (test := e.test(node)) is not None:
            return (yield test(e, node))
    value = yield e.expression(node)
    return truth_of(e, node, value)


def _emit_is(e: Emitter, node: ast.Compare) -> Walk:
    left = yield e.expression(node.first)
    right = yield e.expression(node.rest[0])
    if left.type != NONE and right.type != NONE:
        return _are_one(e, node, left, right)
    subject, tested = (node.first, left) if right.type == NONE else (node.rest[0], right)
    result = TruthValue(static=tested.type == NONE)
    if isinstance(tested.type, OptionalType):
        none = right if right.type == NONE else left
        result = TruthValue(e.value("aten::__is__", node, tested, none))
        if isinstance(subject, ast.Name):
            result.if_true, result.if_false = {subject.id: False}, {subject.id: True}
    if node.ops[0] == "is":
        return result
    negated = None
    if result.static is None:
        assert result.value is not None
        compared = result.value.node.inputs
        result.value.node.destroy()
        negated = e.value("aten::__isnot__", node, *compared) if compared else None
    return result.negated(negated)


def _are_one(e: Emitter, node: ast.Compare, left: Value, right: Value) -> TruthValue:
    """`a is b` where neither is None: of bools there is one of each; a list just made is no other object."""
    negates = node.ops[0] == "is not"
    if left.type == right.type == BOOL:
        operands = Argued(left, node.first.span), Argued(right, node.rest[0].span)
        return truth_of(e, node, emit_comparison(e, node, "!=" if negates else "==", *operands))
    is_new = any(isinstance(side, ast.ListExpr | ast.ListComp) for side in (node.first, node.rest[0]))
    types = (left.type, right.type)
    if is_new or (BOOL in types and not any(type == NUMBER or may_be_none(type) for type in types)):
        return TruthValue(static=negates)
    note = "write `==` to compare values"
    raise e.fail("E301", "`is` compares with None, with a bool, and with a list that is written there", node.span, note)


def _emit_bool_op(e: Emitter, node: ast.BoolOp) -> Walk:
    """Left to right, each operand emitted where the ones before it have not decided."""
    first, *others = node.values
    result = yield emit_condition(e, first)
    for operand in others:
        result = yield _emit_connective(e, node, result, operand)
    return result


def _emit_connective(e: Emitter, node: ast.BoolOp, left: TruthValue, operand: ast.Expr) -> Walk:
    is_and = node.op == "and"
    if left.static is not None:
        # Decided already, or the rest decides alone.
        return (yield emit_condition(e, operand)) if left.static == is_and else left
    assert left.value is not None
    branch = e.at(node).node("prim::If", [left.value], [BOOL], blocks=2)
    live, short = branch.blocks if is_and else reversed(branch.blocks)
    known = left.if_true if is_and else left.if_false
    with e.block(live, node.span) as frame:
        refine(e, frame, known)
        right = yield emit_condition(e, operand)
        value = right.value if right.static is None else e.at(operand).constant(right.static)
        e.builder.returns(value)
    with e.builder.at(short):
        e.builder.returns(e.at(node).constant(not is_and))
    result = TruthValue(branch.output)
    if is_and:
        result.if_true = left.if_true | right.if_true
    else:
        result.if_false = left.if_false | right.if_false
    return result


def emit_operand(e: Emitter, node: ast.BoolOp) -> Walk:
    """`a or b` as a value: the operand that decides, as Python gives it; a bool where both are."""
    first, *others = node.values
    value, condition = yield _operand(e, first)
    for i, operand in enumerate(others):
        value, condition = yield _emit_choice(e, node, value, condition, operand, is_last=i + 1 == len(others))
    return value


def _operand(e: Emitter, node: ast.Expr) -> Walk:
    """An operand as a value, and as a test."""
    if not _is_test(node):
        value = yield e.expression(node)
        return value, truth_of(e, node, value)
    condition: TruthValue = yield emit_condition(e, node)
    value = condition.value if condition.static is None else e.at(node).constant(condition.static)
    return value, condition


def _is_test(node: ast.Expr) -> bool:
    """Whether an expression is a bool that may tell of optionals."""
    match node:
        case ast.UnaryOp(op="not") | ast.Compare(ops=("is",) | ("is not",)):
            return True
        case ast.Compare():
            return len(node.ops) > 1
    return False


def _emit_choice(
    e: Emitter, node: ast.BoolOp, left: Value, condition: TruthValue, operand: ast.Expr, is_last: bool
) -> Walk:
    """The value of `left and operand` or `left or operand`, and its truth where more operands follow."""
    is_and = node.op == "and"
    if condition.static is not None:
        return (yield _operand(e, operand)) if condition.static == is_and else (left, condition)
    assert condition.value is not None
    branch = e.at(node).node("prim::If", [condition.value], blocks=2)
    live, short = branch.blocks if is_and else reversed(branch.blocks)
    with e.block(live, node.span) as frame:
        refine(e, frame, condition.if_true if is_and else condition.if_false)
        right, test = yield _operand(e, operand)
        e.builder.returns(right)
    with e.builder.at(short):
        e.at(node)
        if left.type == BOOL:
            left = e.builder.constant(not is_and)
        elif isinstance(left.type, OptionalType) and not is_and:
            left = e.builder.unwrap(left)
        e.builder.returns(left)
    type = unify(left.type, right.type)
    if type is None:
        raise e.fail(
            "E304",
            f"the operands of `{node.op}` are {described(left.type)} and {described(right.type)}",
            node.span,
            *_by_element(left.type, right.type),
            "Python gives one of them; give them one type, or make bools of them: `bool(x)`, `len(l) > 0`",
        )
    value = branch.add_output(type)
    if type != BOOL:
        return value, TruthValue() if is_last else truth_of(e, node, value)
    result = TruthValue(value)
    if is_and:
        result.if_true = condition.if_true | test.if_true
    else:
        result.if_false = condition.if_false | test.if_false
    return value, result


def _by_element(*types: Type) -> tuple[str, ...]:
    return ("element by element: `~a`, `a & b`, `a | b`",) if any(map(is_tensor, types)) else ()


def _emit_chain(e: Emitter, node: ast.Compare) -> Walk:
    """`a < b < c` is `a < b and b < c` b evaluated once, and c where the first holds if it may fail."""
    if any(op in ("is", "is not") for op in node.ops):
        raise e.fail("E102", "`is` inside a chain of comparisons", node.span, "join the comparisons with `and`")
    if not all(map(_is_there, node.rest[1:])):
        return TruthValue((yield _emit_links(e, node, 0, Argued((yield e.expression(node.first)), node.first.span))))
    operands = [Argued((yield e.expression(node.first)), node.first.span)]
    for operand in node.rest:
        operands.append(Argued((yield e.expression(operand)), operand.span))
    result: Value | None = None
    for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
        if result is None:
            result = truth_of(e, node, emit_comparison(e, node, op, left, right)).value
            continue
        branch = e.at(node).node("prim::If", [result], [BOOL], blocks=2)
        for block, live in zip(branch.blocks, (True, False), strict=True):
            with e.builder.at(block):
                compared = truth_of(e, node, emit_comparison(e, node, op, left, right)).value if live else None
                e.builder.returns(compared or e.builder.constant(False))
        result = branch.output
    return TruthValue(result)


def _is_there(node: ast.Expr) -> bool:
    """Whether evaluating it reads what is there, and does nothing else."""
    while isinstance(node, ast.Attribute | ast.UnaryOp):
        node = node.value if isinstance(node, ast.Attribute) else node.operand
    return isinstance(node, ast.Name | ast.Constant)


def _emit_links(e: Emitter, node: ast.Compare, k: int, left: Argued) -> Walk:
    """A chain from its comparison `k` on, each operand evaluated where those before it hold."""
    right = Argued((yield e.expression(node.rest[k])), node.rest[k].span)
    result = truth_of(e, node, emit_comparison(e, node, node.ops[k], left, right)).value
    assert result is not None, "a comparison is decided when it runs"
    if k + 1 == len(node.ops):
        return result
    branch = e.at(node).node("prim::If", [result], [BOOL], blocks=2)
    with e.block(branch.blocks[0], node.span):
        e.builder.returns((yield _emit_links(e, node, k + 1, right)))
    with e.builder.at(branch.blocks[1]):
        e.builder.returns(e.builder.constant(False))
    return branch.output
