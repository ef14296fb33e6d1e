"""Ops on Python numbers, bools and strings."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from gradscript.compiler.ops import OPS


def run(name: str, *arguments: Any) -> Any:
    return OPS.named(name if "::" in name else f"aten::{name}").evaluate(*arguments)


CASES = [
    ("add.int", (2, 3), 5),
    ("add.int_float", (2, 0.5), 2.5),
    ("add", (2, 0.5), 2.5),
    ("add.str", ("a", "b"), "ab"),
    ("sub.float_int", (2.5, 1), 1.5),
    ("mul.int", (2**40, 2**40), 2**80),
    ("div.int", (6, 3), 2.0),
    ("floordiv.int", (-7, 2), -4),
    ("floordiv.float", (-7.0, 2.0), -4.0),
    ("remainder.int", (-7, 2), 1),
    ("pow.int", (2, 10), 1024),
    ("pow.float_int", (2.0, -1), 0.5),
    ("neg.int", (3,), -3),
    ("eq.str", ("a", "a"), True),
    ("ne.bool", (True, False), True),
    ("lt.int_float", (1, 1.5), True),
    ("__not__.bool", (True,), False),
    ("__and__.int", (6, 3), 2),
    ("__xor__.bool", (True, True), False),
    ("__lshift__.int", (1, 4), 16),
    ("prim::min.int_float", (1, 0.5), 0.5),
    ("prim::max.int", (1, 5), 5),
    ("prim::abs.float", (-1.5,), 1.5),
    ("round.float", (2.5,), 2),
    ("Float.int", (3,), 3.0),
    ("Float.str", ("1e3",), 1000.0),
    ("Int.float", (-2.7,), -2),
    ("Bool.float", (0.0,), False),
    ("Int.Tensor", (np.array([[7]]),), 7),
    ("Bool.Tensor", (np.array(True),), True),
    ("math_sqrt", (9,), 3.0),
    ("math_floor", (2.7,), 2),
    ("math_pow", (2, 3), 8.0),
    ("math_isnan", (math.nan,), True),
    ("math_log.base", (8, 2), 3.0),
    ("str", (1.5,), "1.5"),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES, ids=[case[0] for case in CASES])
def test_value_and_type(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    actual = run(name, *arguments)
    assert actual == expected and type(actual) is type(expected)


RESULT_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


def test_results_have_the_declared_type() -> None:
    values = {"int": 2, "float": 1.5, "bool": True, "str": "3", "number": 2, "Device": "cpu"}
    for op in OPS.all():
        types = [str(a.type) for a in op.schema.arguments]
        declared = [RESULT_TYPES.get(str(given.type)) for given in op.schema.returns]
        if any(declared) and set(types) <= set(values):
            try:
                result = op.evaluate(*[values[t] for t in types])
            except (ValueError, IndexError):  # asin of 2, character 2 of "3"
                continue
            results = [result] if len(declared) == 1 else result
            assert [*map(type, results)] == declared, op.schema


@pytest.mark.parametrize("name", ["log", "sqrt", "exp", "asin", "cosh", "atanh", "log1p", "acosh"])
def test_torchs_functions_of_a_number_are_those_of_a_tensor(name: str) -> None:
    for number in (0, 1.0, -1.0, 2, -3.5, 1e4, math.inf, math.nan):
        expected = getattr(torch, name)(torch.tensor(float(number), dtype=torch.float64)).item()
        np.testing.assert_allclose(run(f"{name}.Scalar", number), expected, rtol=1e-14)


def test_items() -> None:
    assert type(run("item", np.array([1.5], np.float32))) is float
    assert type(run("item", np.array(3))) is int
    assert run("item", np.array(1.5, ml_dtypes.bfloat16)) == 1.5
    assert type(run("item", np.array(1.5, ml_dtypes.bfloat16))) is float


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("div.int", (1, 0), ZeroDivisionError),
        ("floordiv.float", (1.0, 0.0), ZeroDivisionError),
        ("remainder.int", (1, 0), ZeroDivisionError),
        ("pow.int", (2, -1), ValueError),
        ("pow.float", (-2.0, 0.5), ValueError),
        ("math_sqrt", (-1,), ValueError),
        ("Int.float", (math.inf,), ValueError),
        ("item", (np.ones(2),), ValueError),
    ],
)
def test_errors(name: str, arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        run(name, *arguments)
