"""Constants that source computes before anything runs: defaults of parameters, and names of the outermost level.

EPS = 1e-6
HALF_PI = math.pi / 2
def f(x, eps: float = 10 * EPS, size: List[int] = [1, 2 * 3]): …
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics
from ...lang.grammar.literals import PAST_INT
from ...lang.trampoline import Walk, run
from ..ops.bounds import bounded_power, bounded_product
from ..spelling.advice import for_name
from ..spelling.names import CONSTANTS
from .annotations import dotted_name
from .outside import Environment, Outside, OutsideConstant, environment_within

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": bounded_product,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": bounded_power,
}
_OF_MATH = ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "atan", "tanh", "erf", "floor", "ceil", "pow")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"math.{name}": getattr(math, name) for name in _OF_MATH},
    "abs": abs,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
    "pow": bounded_power,
}
"""What may be called where only constants stand."""
_NUMBERS = (int, float)


_CONSTANTS = "outside a function stand numbers, strings, bools, None, tuples of them, and what is computed of numbers"


class VaryingExpression(ValueError):
    """An expression is no constant; the node that is none, and why, if that can be said."""

    def __init__(self, node: ast.Expr, reason: str = "") -> None:
        self.node = node
        self.reason = reason
        super().__init__(reason)


def constant_value(node: ast.Expr, environment: Environment) -> Any:
    """What an expression of literals and constants is: a number, a string, a bool, None, or a tuple of such."""
    value = run(_value(node, environment))
    if any(type(number) is int and not -PAST_INT <= number < PAST_INT for number in _numbers(value)):
        raise VaryingExpression(node, "is no int of 64 bits")
    return value


def _numbers(value: Any) -> list[Any]:
    """What a constant holds. Tuples are as deep as in source: one after the other."""
    found, open_values = [], [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, tuple):
            open_values.extend(value)
        else:
            found.append(value)
    return found


def _value(node: ast.Expr, environment: Environment) -> Walk:
    outside = environment(dotted_name(node)) if isinstance(node, ast.Name | ast.Attribute) else None
    if isinstance(outside, OutsideConstant):
        return outside.value
    match node:
        case ast.Constant() if node.value is not ...:
            return node.value
        case ast.UnaryOp(op="-" | "+", operand=operand):
            value = _number((yield _value(operand, environment)), operand)
            return -value if node.op == "-" else value
        case ast.BinaryOp(op=op) if op in _OPERATORS:
            left = _number((yield _value(node.left, environment)), node.left)
            right = _number((yield _value(node.right, environment)), node.right)
            return _called(node, _OPERATORS[op], (left, right))
        case ast.Attribute() if dotted_name(node) in CONSTANTS:
            return CONSTANTS[dotted_name(node)]
        case ast.Call(function=ast.Name(id="float"), args=(ast.Constant(value=str() | int() | float() as text),)):
            try:
                return float(text)
            except ValueError:
                raise VaryingExpression(node) from None
        case ast.Call(function=function, args=args, keywords=()) if dotted_name(function) in _FUNCTIONS:
            numbers = []
            for argument in args:
                numbers.append(_number((yield _value(argument, environment)), argument))
            return _called(node, _FUNCTIONS[dotted_name(function)], numbers)
        case ast.TupleExpr() | ast.ListExpr():
            items = []
            for item in node.elements:
                items.append((yield _value(item, environment)))
            return tuple(items)
    raise VaryingExpression(node)


def _number(value: Any, node: ast.Expr) -> Any:
    if type(value) not in _NUMBERS:
        raise VaryingExpression(node)
    return value


def _called(node: ast.Expr, function: Callable[..., Any], numbers: Sequence[Any]) -> Any:
    try:
        found = function(*numbers)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError) as error:
        is_long = isinstance(error, OverflowError) and all(isinstance(number, int) for number in numbers)
        raise VaryingExpression(node, "is no int of 64 bits" if is_long else str(error)) from None
    if type(found) not in _NUMBERS:
        raise VaryingExpression(node, "is no real number")
    return found


def with_constants(definitions: Sequence[ast.Assign], diagnostics: Diagnostics, around: Environment) -> Environment:
    """An environment that has the constants of a source text too; each may name those above it."""
    found: dict[str, Outside] = {}
    environment = environment_within(found, around)
    for definition in definitions:
        try:
            name, value = _defined(definition, found, diagnostics, environment)
        except Abort:
            continue
        found[name] = OutsideConstant(value)
    return environment if definitions else around


def _defined(
    definition: ast.Assign, found: dict[str, Outside], diagnostics: Diagnostics, environment: Environment
) -> tuple[str, Any]:
    (target,) = definition.targets
    assert isinstance(target, ast.Name)
    if target.id in found:
        note = "give one of the two another name: a constant has one value"
        raise diagnostics.fail("E105", f"constant '{target.id}' is defined twice", target.span, note)
    try:
        return target.id, constant_value(definition.value, environment)
    except VaryingExpression as error:
        reason = f": {error.reason}" if error.reason else ""
        message = f"'{target.id}' is no constant{reason}"
        raise diagnostics.fail("E104", message, error.node.span, *_instead(error.node), _CONSTANTS) from None


def _instead(node: ast.Expr) -> tuple[str, ...]:
    """What to write where an expression is none."""
    if isinstance(node, ast.Subscript):
        return ("a type is written where it is used; `class P(NamedTuple):` gives one a name",)
    name = dotted_name(node.function if isinstance(node, ast.Call) else node)
    if name.startswith("torch."):
        return ("a tensor is an argument, or is made in the function that uses it",)
    return for_name(name)
