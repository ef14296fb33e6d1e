"""Functions that are no values: what stands for one in a frame, by `def` or `lambda`."""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ..emitter import Emitter, InnerCall
from ..scopes import InnerFunction


def as_called(e: Emitter, node: ast.FunctionDef) -> Walk:
    """What the name of a function stands for that is called. Its defaults have the values of now."""
    defaults: dict[str, Value] = {}
    for parameter in node.parameters:
        if parameter.default is not None:
            defaults[parameter.name] = yield e.expression(parameter.default)
    note = f"call it where its value is used, `{node.name}(…)`: what is passed, kept and returned are values"
    message = "is a function, and used as a value"
    return InnerFunction("E402", message, (note,), definition=node, frame=e.frame, defaults=defaults)


def is_lambda(node: ast.Assign) -> bool:
    """Whether an assignment gives names to a lambda."""
    return isinstance(node.value, ast.Lambda) and all(isinstance(target, ast.Name) for target in node.targets)


def bind_lambda(e: Emitter, node: ast.Assign) -> Walk:
    """`f = lambda q: q * 2`: what `def f(q): return q * 2` is. What types an annotation says, the calls know."""
    assert isinstance(node.value, ast.Lambda)
    for target in node.targets:
        assert isinstance(target, ast.Name)
        e.frame.bind(target.id, (yield as_called(e, _as_definition(node.value, target.id))))


def emit_lambda_call(e: Emitter, node: ast.Call, function: ast.Lambda) -> Walk:
    """`(lambda q: q * 2)(x)`"""
    called = yield as_called(e, _as_definition(function, "lambda"))
    return (yield e.unit.handlers.expressions[InnerCall](e, InnerCall(node.span, node, called)))


def emit_stray_lambda(e: Emitter, node: ast.Lambda) -> Walk:
    yield from ()
    note = (
        "give it a name and call that, `f = lambda q: q * 2` and `f(x)`: what is passed, kept and returned are values"
    )
    raise e.fail("E102", "a lambda here is not supported", node.span, note)


def _as_definition(node: ast.Lambda, name: str) -> ast.FunctionDef:
    result = ast.Return(node.value.span, node.value)
    return ast.FunctionDef(node.span, name, node.span, node.parameters, None, (result,), None)
