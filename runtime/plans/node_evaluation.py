"""Which function evaluates a node: of a structural kind, of an op, or of a pointwise op for one dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.ir.node import Node, Value
from ...compiler.ops.registry import OPS, Op
from ...compiler.ops.typed import CONDITION, TENSOR, Typed, typed_evaluation
from ...compiler.types.dtypes import BOOL, DType
from ...compiler.types.open_sizes import is_open
from ...compiler.types.types import TensorType
from .operations import STRUCTURAL, NodeFunction


def evaluation_of(node: Node) -> tuple[NodeFunction, Sequence[int]]:
    """The function that evaluates a node, and which of the inputs it needs."""
    op = OPS.of(node.schema)
    if op is None:
        return STRUCTURAL[node.kind](node), range(len(node.inputs))
    if op.scalar is None:
        return op.run, range(len(node.inputs))
    typed = _typed(op, node)
    if typed is not None:
        return typed
    # A pointwise op lets trailing arguments be left out: fewer operands, and its shortcut at once.
    count = len(node.inputs)
    for argument, value in zip(reversed(op.schema.arguments), reversed(node.inputs), strict=True):
        if argument.required or not is_left_out(value, argument.default) or count <= 1:
            break
        count -= 1
    return op.evaluate, range(count)


def is_left_out(value: Value, default: object) -> bool:
    """Whether an operand is a constant that is the default; True is not 1. A size that is open never is: others may
    stand in its place later."""
    if value.node.kind != "prim::Constant":
        return False
    given = value.node.attr("value")
    return not is_open(given) and bool(given == default) and isinstance(given, bool) == isinstance(default, bool)


def _typed(op: Op, node: Node) -> Typed | None:
    """A pointwise op where types tell that all its tensors are of one dtype and no number: see `ops.typed`."""
    arguments: list[Any] = []
    dtypes: set[DType | None] = set()
    for argument, value in zip(op.schema.arguments, node.inputs, strict=True):
        type = value.type
        if isinstance(type, TensorType) and type.rank and type.dtype == BOOL and argument.name in op.scalar.conditions:
            arguments.append(CONDITION)
        elif isinstance(type, TensorType) and type.rank:
            arguments.append(TENSOR)
            dtypes.add(type.dtype)
        elif value.node.kind == "prim::Constant" and not isinstance(type, TensorType):
            if is_open(given := value.node.attr("value")):
                # A function is made of the numbers, and another run has others.
                return None
            arguments.append(given)
        else:
            return None
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    return typed_evaluation(op, arguments, dtype) if dtype is not None else None
