"""What ops give on constants: evaluation is the op's own, on numbers, strings, None and lists, in bounds of size."""

from __future__ import annotations

from typing import Any

from ...lang.grammar.literals import PAST_INT
from ..ops.registry import OPS, Op, Trait
from ..types.types import TensorType
from .node import Node
from .rewrite import CONSTANT, NOT_CONSTANT, constant_of
from .structure import constant_fits

MAX_ELEMENTS = 1000
"""Of a list, and code points of a string, that folding may make."""


def evaluate_constants(node: Node) -> Any:
    """What an op gives on the constants that it is given, else NOT_CONSTANT: also where the evaluation raises."""
    if len(node.outputs) != 1 or isinstance(node.outputs[0].type, TensorType):
        return NOT_CONSTANT
    op = OPS.of(node.schema)
    if op is None or op.has(Trait.RANDOM) or op.has(Trait.SIDE_EFFECT):
        return NOT_CONSTANT
    arguments = []
    for value in node.inputs:
        argument = _constant_argument(value.node)
        if argument is NOT_CONSTANT:
            return NOT_CONSTANT
        arguments.append(argument)
    if _makes_much(op, arguments):
        return NOT_CONSTANT
    try:
        result = _plain(op.evaluate(*arguments))
    except Exception:
        return NOT_CONSTANT
    if not _is_small(result) or not constant_fits(result, node.output.type):
        return NOT_CONSTANT
    return result


def _constant_argument(node: Node) -> Any:
    """The value of a constant, or of a list made of constants, else NOT_CONSTANT. Lists are fresh."""
    if node.kind == CONSTANT:
        value = node.attr("value")
        return list(value) if isinstance(value, list) else value
    if node.kind == "prim::ListConstruct":
        items = [constant_of(value) for value in node.inputs]
        return NOT_CONSTANT if any(item is NOT_CONSTANT for item in items) else items
    return NOT_CONSTANT


def _makes_much(op: Op, arguments: list[Any]) -> bool:
    """Whether evaluating might take long or much memory: powers, shifts, ranges, repeated lists and strings."""
    ints = [abs(a) for a in arguments if isinstance(a, int)]
    largest = max(ints, default=0)
    if op.schema.base_name in ("pow", "__lshift__"):
        return len(ints) == 2 and ints[0].bit_length() * ints[1] > 64
    if op.schema.base_name in ("rangelist", "range_list"):
        return largest > MAX_ELEMENTS
    length = max((len(a) for a in arguments if isinstance(a, list | str)), default=0)
    return length > MAX_ELEMENTS or length * largest > MAX_ELEMENTS * MAX_ELEMENTS


def _plain(value: Any) -> Any:
    """A result without NumPy's scalar types; other things stay, and fit no type."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _is_small(value: Any) -> bool:
    """Whether it is what source can write: a larger int is for the program to run into, or not."""
    if isinstance(value, list):
        return len(value) <= MAX_ELEMENTS and all(map(_is_small, value))
    if isinstance(value, str):
        return len(value) <= MAX_ELEMENTS
    return not isinstance(value, int) or -PAST_INT <= value < PAST_INT
