"""What a tensor is, identity, optionals, raising, and undoing a broadcast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from gradscript.compiler.ops import OPS, Trait
from gradscript.compiler.ops.families.language.properties import GradscriptRaise

X = np.ones((2, 3, 4), np.float32)


def run(name: str, *arguments: Any) -> Any:
    return OPS.named(name if "::" in name else f"aten::{name}").evaluate(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("size", (X,), [2, 3, 4]),
        ("size.int", (X, -1), 4),
        ("dim", (X,), 3),
        ("numel", (X,), 24),
        ("stride", (X.T,), [6, 2, 1]),
        ("stride.int", (X, 0), 12),
        ("prim::dtype", (X,), 6),
        ("prim::dtype", (X.astype(ml_dtypes.bfloat16),), 15),
        ("prim::device", (X,), "cpu"),
        ("prim::is_cuda", (X,), False),
        ("prim::requires_grad", (X,), False),
        ("is_floating_point", (X > 0,), False),
        ("element_size", (X,), 4),
        ("result_type.Scalar", (np.ones(2, np.int64), 1.5), 6),
        ("__is__", (None, None), True),
        ("__isnot__", (X, None), True),
        ("_unwrap_optional", (3,), 3),
        ("_size_if_not_equal", ([1, 2], [1, 2]), None),
        ("_size_if_not_equal", ([1, 2], [3, 2]), [1, 2]),
    ],
)
def test_value(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    actual = run(name, *arguments)
    assert actual == expected and type(actual) is type(expected)


def test_strides_are_torchs() -> None:
    for shape in [(), (0,), (2, 0, 3), (4, 1, 2)]:
        assert run("stride", np.ones(shape)) == list(torch.ones(shape).stride())


@pytest.mark.parametrize("dim", [3, -4])
def test_dimension_out_of_range(dim: int) -> None:
    with pytest.raises(IndexError, match=str(dim)):
        run("size.int", X, dim)


def test_raising() -> None:
    op = OPS.named("prim::RaiseException")
    assert op.has(Trait.SIDE_EFFECT)
    with pytest.raises(GradscriptRaise, match="no good") as caught:
        op.evaluate("no good", "ValueError")
    assert caught.value.kind == "ValueError"
    with pytest.raises(ValueError, match="None"):
        run("_unwrap_optional", None)


@pytest.mark.parametrize("size", [(2, 3, 4), (3, 4), (1, 4), (4,), (1,), (), (2, 1, 4), (1, 1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_sum_to_size(size: tuple[int, ...], dtype: str) -> None:
    x = (np.arange(24).reshape(2, 3, 4) - 7).astype(dtype)
    expected = torch.from_numpy(x).sum_to_size(size).numpy()
    for name in ("sum_to_size", "_grad_sum_to_size"):
        actual = run(name, x, list(size))
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(actual, expected)


def test_sum_to_size_keeps_what_fits_and_refuses_the_rest() -> None:
    assert run("_grad_sum_to_size", X, None) is X
    assert run("sum_to_size", X, [2, 3, 4]) is X
    assert run("sum_to_size", np.ones((0, 3)), [1, 3]).tolist() == [[0, 0, 0]]
    for size in ([5], [2, 2, 3, 4], [3, 1, 4]):
        with pytest.raises(ValueError, match="expandable"):
            run("sum_to_size", X, size)


def test_halves_add_up_in_float32() -> None:
    assert run("sum_to_size", np.full(4096, 1, np.float16), [1])[0] == 4096
