"""Pointwise ops for one dtype: bit for bit what evaluation in general gives, in memory of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.ops.typed import CONDITION, TENSOR, typed_evaluation
from gradscript.compiler.types.dtypes import FLOAT32, FLOAT64
from gradscript.compiler.types.schema import NoDefault
from gradscript.compiler.types.types import TensorType

_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-30, 80.0]
_SMALL = {"int": 2, "number": 0.5, "float": 0.25, "bool": True, "str": "none"}


def _arguments(op: Op) -> list[Any] | None:
    """TENSOR for tensors; elsewhere the default, or a small value."""
    arguments: list[Any] = []
    for argument in op.schema.arguments:
        if isinstance(argument.type, TensorType):
            arguments.append(CONDITION if argument.name in op.scalar.conditions else TENSOR)
        elif not isinstance(argument.default, NoDefault):
            arguments.append(argument.default)
        elif str(argument.type) in _SMALL:
            arguments.append(_SMALL[str(argument.type)])
        else:
            return None
    return arguments


OPS_BY_NAME = {op.schema.full_name: op for op in OPS.all() if op.has(Trait.POINTWISE)}


@pytest.mark.parametrize("name", OPS_BY_NAME)
def test_same_bits(name: str) -> None:
    op = OPS_BY_NAME[name]
    arguments = _arguments(op)
    if arguments is None:
        pytest.skip("no values for its arguments")
    for dtype in (FLOAT32, FLOAT64):
        typed = typed_evaluation(op, arguments, dtype)
        if typed is None:
            continue
        function, taken = typed
        first = np.array(_SPECIAL, numpy_dtype(dtype))
        tensors = [np.roll(first, 5 * i).reshape(1, -1) if i % 2 else np.roll(first, i) for i in range(len(taken))]
        tensors = [t > 0 if arguments[i] is CONDITION else t for i, t in zip(taken, tensors, strict=True)]
        kept = [t.copy() for t in tensors]
        given = list(arguments)
        for index, tensor in zip(taken, tensors, strict=True):
            given[index] = tensor
        with np.errstate(all="ignore"):
            expected, result = op.evaluate(*given), function(*tensors)
        assert result.dtype == expected.dtype and result.shape == expected.shape
        assert result.tobytes() == expected.tobytes()
        for tensor, before in zip(tensors, kept, strict=True):
            assert tensor.tobytes() == before.tobytes(), "an operand was written to"


def test_most_ops_have_one() -> None:
    found = [
        name
        for name, op in OPS_BY_NAME.items()
        if (arguments := _arguments(op)) is not None and typed_evaluation(op, arguments, FLOAT32) is not None
    ]
    assert len(found) > 0.6 * len(OPS_BY_NAME)
    assert "aten::sigmoid" in found and "aten::gelu" in found and "aten::mul.Tensor" in found
    assert "aten::masked_fill.Scalar" in found and "aten::where.self" in found


def test_other_dtypes_and_lists_have_none() -> None:
    op = OPS.named("aten::mul.Tensor")
    assert typed_evaluation(op, [TENSOR, TENSOR], numpy_int()) is None
    assert typed_evaluation(op, [TENSOR, [1]], FLOAT32) is None


def numpy_int() -> Any:
    from gradscript.compiler.types.dtypes import INT64

    return INT64
