"""What an op on arrays refuses, its shapes refuse; and what it takes, they take."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from gradscript.compiler.ops.registry import OPS
from gradscript.compiler.shapes.infer import infer
from gradscript.compiler.types import dtypes
from samples.array_calls import CASES, OPS_BY_NAME
from samples.arrays import LAYOUTS
from samples.misfits import misfits
from test_shape_rules import abstract, agrees, results

SAMPLED = sorted(set(CASES) & set(OPS_BY_NAME))
DECLARED = [name for name in SAMPLED if OPS_BY_NAME[name].fits is not None]
BY_ELEMENTS = ("out of bounds", "between 0 and 1", "non-negative")
"""Parts of messages about what only the elements tell."""


def tried(name: str) -> list[tuple[list[Any], Any, Any]]:
    """Arguments that may not fit, with what the op on arrays and the shapes make of them, or the error."""
    op, found = OPS_BY_NAME[name], []
    for i, call in enumerate(CASES[name]):
        for given in misfits(call.arguments(op, dtypes.FLOAT32, i, LAYOUTS["contiguous"])):
            known = [abstract(value) for value in given]
            found.append((known, _result(results, op, given), _result(infer, op, known)))
    return found


def _result(run: Any, op: Any, arguments: list[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return run(op, arguments)
    except Exception as error:
        return error


@pytest.mark.parametrize("name", SAMPLED)
def test_what_the_op_takes_the_shapes_take(name: str) -> None:
    for known, made, said in tried(name):
        if isinstance(made, Exception):
            continue
        assert not isinstance(said, Exception), f"{name}{known}: {said}"


@pytest.mark.parametrize("base_name", sorted({OPS_BY_NAME[name].schema.base_name for name in DECLARED}))
def test_what_the_op_refuses_the_shapes_refuse(base_name: str) -> None:
    names = [name for name in DECLARED if OPS_BY_NAME[name].schema.base_name == base_name]
    refused = 0
    for known, made, said in chain.from_iterable(map(tried, names)):
        if not isinstance(made, Exception):
            assert all(map(agrees, said, made)), f"{base_name}{known}: {said}"
        elif not any(part in str(made) for part in BY_ELEMENTS):
            assert isinstance(said, Exception), f"{base_name}{known}: {said}, but {made}"
            refused += 1
    assert refused


def test_every_check_is_of_an_op_with_samples() -> None:
    # Of pointwise ops the calls are elsewhere, and of random numbers.
    numbers = {
        "uniform",
        "random_bits",
        "prelu",
        "item",
        "Int",
        "Float",
        "Bool",
        "IntImplicit",
        "FloatImplicit",
        "ScalarImplicit",
    }
    checked = {op.schema.base_name for op in OPS.all() if op.fits is not None}
    assert checked - numbers == {OPS_BY_NAME[name].schema.base_name for name in DECLARED}


@pytest.mark.parametrize("weight", [(2, 3), (1, 3)])
def test_the_weights_of_prelu_have_one_dimension(weight: tuple[int, ...]) -> None:
    (op,) = [op for op in OPS.all() if op.schema.full_name == "aten::prelu"]
    with pytest.raises(RuntimeError, match="prelu"):
        op.evaluate(np.ones((2, 3)), np.ones(weight))
    with pytest.raises(RuntimeError, match="prelu"):
        infer(op, [abstract(np.ones((2, 3))), abstract(np.ones(weight))])
