"""Statements → nodes and bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from ....lang import ast
from ....lang.diagnostics import MAX_DIAGNOSTICS, Abort, did_you_mean
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import BOOL, ListType, is_tensor
from ..annotations import dotted_name, resolve_type
from ..bindings import assigned_names, bound_names
from ..emitter import Emitter, Evaluated, described
from ..exits import Branch, Left, Missing
from ..expected import annotated, take_elements, take_type, want_elements
from ..expressions.conditions import emit_condition
from ..expressions.generators import given_as_list
from ..expressions.lambdas import bind_lambda, is_lambda
from ..expressions.operators import emit_binary
from ..expressions.slices import bind_slice, emit_list_slice, plain_subscript, stands_in_subscripts
from ..expressions.strings import emit_str
from ..expressions.subscripts import emit_subscript_update
from ..expressions.targets import emit_targets
from ..scopes import DELETED
from ..stores import emit_update, emit_write
from ..truth import refine
from .branches import emit_branch_statements
from .results import emit_result

EXCEPTIONS = (
    "Exception",
    "RuntimeError",
    "ValueError",
    "TypeError",
    "IndexError",
    "KeyError",
    "NotImplementedError",
    "AssertionError",
    "ZeroDivisionError",
)


def emit_statements(e: Emitter, body: Iterable[ast.Stmt]) -> Walk:
    """Emit a list of statements. One that fails is reported, its names are poisoned, and the next is emitted."""
    for statement in body:
        try:
            yield e.unit.handlers.statements[type(statement)](e, statement)
        except Abort:
            bound = set(bound_names((statement,)))
            # What a failed in-place method would have changed is spoiled too; a module is not.
            changed = dict.fromkeys(assigned_names((statement,)))
            e.poison([name for name in changed if name in bound or e.frame.lookup(name) is not None])
        if e.frame.raised or e.frame.left or len(e.diagnostics.found) > MAX_DIAGNOSTICS:
            return


def emit_assign(e: Emitter, node: ast.Assign) -> Walk:
    match node:
        case ast.Assign(targets=(ast.Name(id=name),), value=index) if name[0] != "$" and stands_in_subscripts(e, index):
            yield bind_slice(e, name, index)
            return
        case _ if is_lambda(node):
            yield bind_lambda(e, node)
            return
    type = None
    if node.annotation is not None:
        type = resolve_type(node.annotation, e.diagnostics, e.unit.environment)
        want_elements(e, node.value, type)
    value = yield _assigned_value(e, node)
    if type is not None:
        value = annotated(e, node, value, type, node.value.span)
    yield emit_targets(e, node.targets, Argued(value, node.value.span))


def _assigned_value(e: Emitter, node: ast.Assign) -> Walk:
    target = node.targets[0]
    if isinstance(target, ast.Name) and target.id.startswith("$return"):
        return (yield emit_result(e, node.value))
    is_taken_apart = all(isinstance(target, ast.TupleExpr) for target in node.targets)
    return (yield e.expression(given_as_list(e, node.value) if is_taken_apart else node.value))


def emit_aug_assign(e: Emitter, node: ast.AugAssign) -> Walk:
    if isinstance(node.target, ast.TupleExpr | ast.Attribute | ast.Starred):
        raise e.fail(
            "E103",
            "an augmented assignment needs a name or a subscript",
            node.target.span,
            "values do not change: give the new one a name, `y = x * 2`",
        )

    def updated(old: Value) -> Walk:
        value = yield e.expression(node.value)
        if isinstance(value.type, ListType):
            take_elements(e, old, value.type.element)
            take_type(value, old.type)
        left, right = Argued(old, node.target.span), Argued(value, node.value.span)
        return emit_binary(e, node, node.op, left, right, extends=True)

    # torch's tensors have no `@=` of their own: Python computes `x @ y` and assigns it.
    in_place = node.op != "@"
    if isinstance(node.target, ast.Subscript):
        yield emit_subscript_update(e, node.target, updated, in_place)
        return
    old = e.lookup(node.target.id, node.target.span)
    new = yield updated(old)
    if is_tensor(old.type) and in_place:
        emit_update(e, node, old, new, f"`{node.op}=`")
    elif isinstance(old.type, ListType):
        emit_write(e, node.span, old, new, f"`{node.op}=`")
    else:
        e.bind(node.target.id, new)


def emit_delete(e: Emitter, node: ast.Delete) -> Walk:
    """A name means nothing afterwards; an element leaves its list as by `pop`."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            e.lookup(target.id, target.span)
            e.frame.bind(target.id, DELETED)
            continue
        base = yield e.expression(target.value)
        if not isinstance(base.type, ListType):
            raise e.fail("E102", "only names and elements of lists are deleted", target.span, "join what stays")
        target = plain_subscript(e, target)
        if isinstance(target.index, ast.Slice):
            yield emit_list_slice(e, target, base, None)
            continue
        pop = ast.Attribute(target.span, target.value, "pop", target.span)
        yield e.expression(ast.Call(target.span, pop, (target.index,), ()))


def emit_expression_statement(e: Emitter, node: ast.ExprStmt) -> Walk:
    if isinstance(node.value, ast.Constant):
        return  # a docstring, or `...`
    if isinstance(node.value, ast.Call) and _is_check(e, node.value):
        yield _emit_check(e, node.value)
        return
    yield e.expression(node.value)


def emit_pass(e: Emitter, node: ast.Pass) -> Walk:
    yield from ()


def emit_left(e: Emitter, node: Left) -> Walk:
    e.frame.left = True
    yield from ()


def emit_missing(e: Emitter, node: Missing) -> Walk:
    e.falls_off = e.frame.raised = True
    yield from ()


def emit_branch(e: Emitter, node: Branch) -> Walk:
    try:
        condition = yield emit_condition(e, node.test)
    except Abort:
        # The branches are looked at all the same, for errors of their own.
        for body in (node.then, node.otherwise):
            with e.block(e.builder.node("prim::If", blocks=1).blocks[0], node.span):
                yield emit_statements(e, body)
        raise
    if condition.static is not None:
        refine(e, e.frame, condition.if_true if condition.static else condition.if_false)
        yield emit_statements(e, node.then if condition.static else node.otherwise)
        return

    def then(e: Emitter) -> Walk:
        yield emit_statements(e, node.then)

    def otherwise(e: Emitter) -> Walk:
        yield emit_statements(e, node.otherwise)

    e.at(node)
    yield emit_branch_statements(e, node.span, condition, (then, otherwise))


def emit_assert(e: Emitter, node: ast.Assert) -> Walk:
    yield _require(e, node, node.test, node.message or "assertion failed", "AssertionError")


_CHECK = "torch._check"


def _is_check(e: Emitter, node: ast.Call) -> bool:
    return dotted_name(node.function) == _CHECK and not e.is_value("torch")


def _emit_check(e: Emitter, node: ast.Call) -> Walk:
    """`torch._check(test, message)` is an assertion that ends in a RuntimeError."""
    given = dict(zip(("cond", "message"), node.args, strict=False))
    given |= {keyword.name: keyword.value for keyword in node.keywords}
    if len(given) != len(node.args) + len(node.keywords) or not {"cond"} <= given.keys() <= {"cond", "message"}:
        raise e.fail("E204", f"{_CHECK}() takes a condition and a message", node.span)
    message = given.get("message", "Expected cond to be True, but got False")
    test = yield e.expression(given["cond"])
    if test.type != BOOL:
        note = "write `bool(…)` around it"
        raise e.fail("E301", f"{_CHECK}() takes a bool, not {described(test.type)}", given["cond"].span, note)
    yield _require(e, node, cast(ast.Expr, Evaluated(given["cond"].span, test)), message, "RuntimeError")


def _require(e: Emitter, node: ast.Syntax, test: ast.Expr, told: ast.Expr | str, error: str) -> Walk:
    """End the run where the test does not hold."""
    condition = yield emit_condition(e, test)
    if condition.static:
        return

    def fails(e: Emitter) -> Walk:
        message = e.at(node).constant(told) if isinstance(told, str) else (yield _message(e, told))
        _raise_node(e, node, message, error)

    def holds(e: Emitter) -> Walk:
        yield from ()

    if condition.static is False:
        yield fails(e)
        return
    e.at(node)
    yield emit_branch_statements(e, node.span, condition, (holds, fails))


def emit_raise(e: Emitter, node: ast.Raise) -> Walk:
    exception, message = node.exception, None
    if isinstance(exception, ast.Call):
        several = len(exception.args) > 1
        told = ast.TupleExpr(exception.span, exception.args) if several else next(iter(exception.args), None)
        message = (yield _message(e, told)) if told is not None else None
        exception = exception.function
    name = dotted_name(exception) if exception is not None else "RuntimeError"
    if name not in EXCEPTIONS:
        span = exception.span if exception is not None else node.span
        raise e.fail("E201", f"unknown exception '{name or 'expression'}'", span, *did_you_mean(name, EXCEPTIONS))
    _raise_node(e, node, message or e.at(node).constant(""), name)


def _message(e: Emitter, node: ast.Expr) -> Walk:
    value = yield e.expression(node)
    return emit_str(e, node, Argued(value, node.span))


def _raise_node(e: Emitter, node: ast.Syntax, message: Value, name: str) -> None:
    e.at(node).op_results("prim::RaiseException", message, name)
    e.frame.raised = True
