"""Operations that one writes in the place of another, with the same operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...compiler.ops.arrays import Array
from ..trials.trace import TracedStep

PointFormula = Callable[[list[Any]], Any]

UNARY: dict[str, Callable[[Array], Array]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "abs": np.abs,
    "square": lambda x: x * x,
    "sign": np.sign,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_SYMBOLS = {"add": "+", "sub": "-", "rsub": "", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISONS = ("<", "<=", ">", ">=")
_MATMUL = ("aten::mm", "aten::matmul", "aten::bmm")


def alternatives(step: TracedStep) -> Iterator[tuple[str, PointFormula]]:
    """Other operations on the operands of a step: what the source should say, and how to evaluate it."""
    base = step.node.schema.base_name if step.node.schema is not None else ""
    if base in UNARY:
        yield from ((f"`{name}`", _unary(function)) for name, function in UNARY.items() if name != base)
    elif base in ("add", "sub", "rsub", "mul", "div"):
        for symbol in "+-*/":
            if symbol != _SYMBOLS[base]:
                yield f"`{symbol}`", _binary(symbol)
            if symbol in "-/":
                yield f"`{symbol}` the other way round", _binary(symbol, reverse=True)
    elif base in ("lt", "le", "gt", "ge"):
        yield from ((f"`{symbol}`", _binary(symbol)) for symbol in _COMPARISONS if symbol != _SYMBOLS[base])
    elif step.node.kind in _MATMUL:
        yield "multiplied the other way round", lambda operands: operands[1] @ operands[0]
    elif base == "where":
        yield "`where` with its branches exchanged", lambda operands: np.where(operands[0], operands[2], operands[1])


def _unary(function: Callable[[Array], Array]) -> PointFormula:
    return lambda operands: function(operands[0])


def _binary(symbol: str, *, reverse: bool = False) -> PointFormula:
    function = _BINARY[symbol]
    if reverse:
        return lambda operands: function(operands[1], operands[0])
    return lambda operands: function(operands[0], operands[1])
