"""Operators, and the ops that they are."""

from __future__ import annotations

from ..types.types import NUMBERS, UNDEFINED, Type, is_tensor

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


def binary_op(symbol: str, left: Type, right: Type) -> tuple[str, bool] | None:
    """The op that `left symbol right` is, and whether the operands change sides; None for a number over a tensor.

    A number on the left of a tensor changes sides where the operator allows.
    """
    left_is_tensor, right_is_tensor = (is_tensor(type) or type == UNDEFINED for type in (left, right))
    if not left_is_tensor and not right_is_tensor:
        return SCALAR_BINARY.get(symbol, symbol), False
    name = BINARY[symbol]
    if left_is_tensor or left not in NUMBERS:
        return name, False
    if name in COMMUTATIVE:
        return name, True
    if name == "sub":
        return "rsub", True
    return None if name == "div" else (name, False)
