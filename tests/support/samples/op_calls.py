"""Calls of any op of the registry: the samples of its own tests, or arguments made from its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gradscript.compiler.ops.registry import Op
from gradscript.compiler.spelling.names import LIMITS
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    TENSOR,
    ListType,
    Type,
    strip_optional,
)
from samples import array_cases
from samples import composites as composite_cases
from samples import table as samples
from samples.array_calls import CASES
from samples.array_derivatives import concrete
from samples.arrays import Call, Leaf, positive, probability, t

_FIXED: dict[str, list[Any]] = {
    "aten::bitwise_not.int": [2],
    "aten::size.int": [t(3, 4), 1],
    "aten::stride.int": [t(3, 4), 1],
    "aten::device": ["cpu"],
    **{f"gs::finfo_{name}": [dtypes.FLOAT64.code] for name in LIMITS["finfo"]},
    "aten::_unwrap_optional": [t(3, 4)],
    "aten::item": [t()],
    "aten::Float.Tensor": [t()],
    "aten::FloatImplicit": [t()],
    "aten::Int.Tensor": [t()],
    "aten::IntImplicit": [Leaf(lambda rng: np.asarray(3), dtypes.INT64)],
    "aten::Bool.Tensor": [t()],
    "aten::ScalarImplicit": [t()],
    **{
        f"aten::tolist.{dtype.name.rstrip('3264')}_{rank}": [Leaf(lambda rng, rank=rank: np.ones((2,) * rank), dtype)]
        for dtype in (dtypes.FLOAT64, dtypes.INT64, dtypes.BOOL)
        for rank in range(7)
    },
    "aten::ord": ["a"],
    **{f"aten::{name}.list": [[t(), t()], [t()]] for name in ("lt", "le", "gt", "ge")},
    "aten::Float.str": ["2.5"],
    "aten::Int.str": ["25"],
    "aten::randint.low": [2, 9, [3, 4]],
    "aten::randint_like.low_dtype": [t(3, 4), 2, 9],
    "aten::bernoulli": [probability(3, 4)],
    "aten::multinomial": [positive(3, 4), 2],
    "prim::scalar_seed": [t()],
    "prim::grad_add_select": [t(3, 4), t(3), [3, 4], 1, 2],
    "prim::grad_add_slice": [t(3, 4), t(3, 2), [3, 4], 1, 1, None, 2],
    "prim::grad_add_product": [t(3, 4), t(3, 2), t(2, 4)],
    "gs::kept_size": [[3, 2], [0]],
    "gs::reduced_count": [[3, 2], [0]],
    "prim::min": [2, 0.5],
    "prim::max": [2, 0.5],
    "aten::math_acosh": [1.5],
    "aten::acosh.Scalar": [1.5],
    "prim::mm_tree": [[t(2, 3), t(2, 3)], [t(3, 4), t(3, 4)]],
    "prim::mm_gather": [[t(2, 3), t(3, 4)], t(2, 5), t(5, 4)],
    "prim::mm_total": [[t(2, 4), t(2, 3), t(3, 4)]],
    "prim::mm_shared_left": [t(2, 3), [t(3, 4), t(3, 4)]],
    "prim::mm_shared_right": [t(3, 4), [t(2, 3), t(2, 3)]],
}
"""Arguments where their types do not say enough."""
_BY_TYPE: dict[Type, Any] = {
    TENSOR: t(3, 4),
    INT: 2,
    FLOAT: 0.5,
    BOOL: True,
    STR: "two",
    NUMBER: 0.5,
    DEVICE: "cpu",
    ListType(TENSOR): [t(3, 4), t(3, 4)],
    ListType(INT): [3, 2],
    ListType(FLOAT): [0.5, 1.5],
    ListType(NUMBER): [0.5, 2],
    ListType(BOOL): [True, False],
    ListType(STR): ["two", "three"],
}


def calls_of(op: Op) -> list[Call]:
    """The samples of an op's own tests, or arguments by their types."""
    return [_integral(op, call) for call in _calls(op)]


def _integral(op: Op, call: Call) -> Call:
    """Numbers as ints where an op takes only those."""
    if not op.schema.base_name.startswith("bitwise_"):
        return call
    return Call(tuple(2 if isinstance(value, float) else value for value in call.args))


def _calls(op: Op) -> list[Call]:
    name = op.schema.full_name.partition("::")[2]
    if op.schema.full_name in _FIXED:
        return [Call(tuple(_FIXED[op.schema.full_name]))]
    tables: list[Callable[[], list[Call]]] = [
        lambda: composite_cases.CASES[name],
        lambda: samples.calls(op),
        lambda: array_cases.calls(op),
        lambda: CASES[name],
    ]
    for table in tables:
        try:
            return table()
        except (KeyError, StopIteration):
            continue
    return [Call((), {a.name: _BY_TYPE[strip_optional(concrete(a.type))] for a in op.schema.arguments if a.required})]
