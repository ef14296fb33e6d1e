"""Every op on whole arrays against torch eager: dtypes, layouts, 0-d, empty, NaN and negative dims."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from gradscript.compiler.ops.arrays import cast, dtype_of
from gradscript.compiler.ops.families.indexing_scatter import sum_rows
from gradscript.compiler.ops.registry import Op
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import INT, NONE, ListType, TensorType
from samples import linalg as samples_linalg
from samples import reduction as samples_reduction
from samples.array_calls import CASES, OPS_BY_NAME, REFERENCES
from samples.arrays import LAYOUTS, TORCH, Call, to_numpy, to_torch

FLOATS = (dtypes.FLOAT64, dtypes.FLOAT32, dtypes.FLOAT16, dtypes.BFLOAT16)
WHOLE = (dtypes.INT64, dtypes.INT32, dtypes.UINT8, dtypes.BOOL)
TOLERANCE = {
    dtypes.FLOAT64: (1e-11, 1e-12),
    dtypes.FLOAT32: (2e-5, 4e-6),
    dtypes.FLOAT16: (1e-3, 1e-6),
    dtypes.BFLOAT16: (7.9e-3, 1e-6),
}
"""Relative and absolute; for halves one rounding, since the reference is torch's float32 result."""


FLOATING_ONLY = {
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "einsum",
    "embedding_backward",
    "embedding_dense_backward",
    "interpolate",
    "interpolate.number",
    "l1_loss",
    "l1_loss.str",
    "log_softmax.int",
    "masked_dropout",
    "native_dropout_backward",
    "pairwise_distance",
    "smooth_l1_loss",
    "smooth_l1_loss.str",
    "softmax.int",
}
"""Ops of which torch's CPU kernels take some integers, with results that we refuse or do not promise."""
OWN_HALVES = {"view.dtype"}
"""Ops that depend on the bits, so that float32 is no reference for a half."""


def test_every_op_has_samples() -> None:
    assert set(OPS_BY_NAME) == set(CASES)


def _torch_values(op: Op, arguments: list[Any], wide: bool) -> list[Any]:
    """Arguments as torch takes them, dtypes as torch dtypes."""
    values = []
    for argument, value in zip(op.schema.arguments, arguments, strict=True):
        if argument.is_dtype or (argument.name == "dtype" and op.schema.name == "aten::to"):
            code = None if value is None else dtypes.BY_CODE[value]
            values.append(torch.float32 if wide and code and code.is_half else TORCH.get(code))
        else:
            values.append(to_torch(value, wide))
    return values


def _reference(op: Op, arguments: list[Any], wide: bool = False) -> list[Any]:
    """torch's results, as NumPy arrays."""
    name = op.schema.full_name.partition("::")[2]
    values = _torch_values(op, arguments, wide)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in REFERENCES:
            result = REFERENCES[name](*values)
        else:
            base, _, overload = name.partition(".")
            keywords = {a.name: v for a, v in zip(op.schema.arguments, values, strict=True) if a.keyword_only}
            positional = [v for a, v in zip(op.schema.arguments, values, strict=True) if not a.keyword_only]
            result = getattr(getattr(torch.ops.aten, base), overload or "default")(*positional, **keywords)
    return _flat(to_numpy(result))


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _is_unsupported(error: Exception) -> bool:
    """Whether torch merely lacks a kernel for the dtypes, or never takes them."""
    return isinstance(error, NotImplementedError | RuntimeError | TypeError | ValueError)


def _assert_close(ours: Any, theirs: Any, dtype: dtypes.DType) -> None:
    if theirs is None:
        assert ours is None
        return
    assert type(ours) is np.ndarray
    assert ours.shape == theirs.shape
    found = dtype_of(ours)
    if not found.is_floating:
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))
        return
    rtol, atol = TOLERANCE[dtype if dtype.is_floating and dtype.itemsize < found.itemsize else found]
    rtol = TOLERANCE[found][0] if found.is_half else rtol
    np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=rtol, atol=atol)


def _run(op: Op, arguments: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return _flat(op.evaluate(*arguments))


def _compare(name: str, op: Op, call: Call, dtype: dtypes.DType, seed: int, layout: str) -> bool:
    """Whether torch has the op for this dtype; AssertionError where we differ."""
    if name in FLOATING_ONLY and not dtype.is_floating:
        return False
    arguments = call.arguments(op, dtype, seed, LAYOUTS[layout])
    try:
        narrow = _reference(op, arguments)
        expected = _reference(op, arguments, wide=True) if dtype.is_half and name not in OWN_HALVES else narrow
    except Exception as error:
        assert _is_unsupported(error), error
        return False
    ours = _run(op, arguments)
    assert len(ours) == len(expected)
    if name in samples_reduction.ANY_INDEX:
        _assert_points_at(op, arguments, ours, expected)
        ours, expected, narrow = ours[:-1], expected[:-1], narrow[:-1]
    for mine, theirs, same_dtype in zip(ours, expected, narrow, strict=True):
        if isinstance(theirs, int):
            assert mine == theirs
            continue
        if theirs is not None:
            assert mine.dtype == same_dtype.dtype
        if name in samples_linalg.SIGN_FREE:
            mine, theirs = np.abs(mine), np.abs(theirs)
        if dtype.is_half and theirs is not None and dtype_of(mine).is_half:
            theirs = cast(theirs, dtype_of(mine))
        _assert_close(mine, theirs, dtype)
    _assert_types(op, arguments, _run(op, arguments))
    return True


def _assert_points_at(op: Op, arguments: list[Any], ours: list[Any], theirs: list[Any]) -> None:
    """Our indices name elements equal to those which torch's name."""
    array = np.atleast_1d(arguments[0])
    mine, other = ours[-1], theirs[-1]
    assert mine.shape == other.shape and mine.dtype == np.int64
    dim = next((a for a, s in zip(arguments, op.schema.arguments, strict=True) if s.name == "dim"), -1)
    keepdim = next((a for a, s in zip(arguments, op.schema.arguments, strict=True) if s.name == "keepdim"), True)
    if not keepdim and arguments[0].ndim:
        mine, other = np.expand_dims(mine, dim), np.expand_dims(other, dim)
    mine, other = np.atleast_1d(mine), np.atleast_1d(other)
    values = [np.take_along_axis(array, index, dim).astype(np.float64) for index in (mine, other)]
    np.testing.assert_array_equal(*values)


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return TensorType(dtype_of(value), value.ndim)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        kinds = {_type_of(item) for item in value}
        return ListType(kinds.pop() if len(kinds) == 1 else TensorType())
    return NONE if value is None else INT


def _assert_types(op: Op, arguments: list[Any], results: list[Any]) -> None:
    """What the type rule promises holds of the results."""
    promised = op.result_types([_type_of(a) for a in arguments])
    if len(promised) == 1 and isinstance(promised[0], ListType):
        promised = (promised[0].element,) * len(results)
    for kind, result in zip(promised, results, strict=True):
        if result is None or isinstance(result, int):
            assert result is None or kind == INT
            continue
        assert isinstance(kind, TensorType)
        assert kind.dtype in (None, dtype_of(result))
        assert kind.rank in (None, result.ndim)


def _seed(name: str, i: int) -> int:
    return zlib.crc32(f"{name}{i}".encode())


@pytest.mark.parametrize("name", sorted(CASES))
def test_matches_torch(name: str) -> None:
    op = OPS_BY_NAME[name]
    for i, call in enumerate(CASES[name]):
        compared = [d for d in (*FLOATS, *WHOLE) if _compare(name, op, call, d, _seed(name, i), "contiguous")]
        assert compared, f"torch takes sample {i} of {name} in no dtype"


@pytest.mark.parametrize("name", sorted(CASES))
def test_layouts_do_not_matter(name: str) -> None:
    op = OPS_BY_NAME[name]
    for i, call in enumerate(CASES[name]):
        for layout in LAYOUTS:
            for dtype in (dtypes.FLOAT64, dtypes.INT64):
                _compare(name, op, call, dtype, _seed(name, i), layout)


@pytest.mark.parametrize("columns", [(), (1,), (15,), (16,), (4, 8), (300,)])
@pytest.mark.parametrize("numbers", [1, 3, 40])
@pytest.mark.parametrize("count", [0, 1, 7, 50, 3000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_are_summed_by_their_numbers(columns: tuple[int, ...], numbers: int, count: int, dtype: Any) -> None:
    """Short and long ones, however often a number comes, to within the roundings of one row after the other."""
    rng = np.random.default_rng(count)
    rows = (100 * rng.standard_normal((count, *columns))).astype(dtype)
    index = rng.integers(0, numbers, count)
    found = sum_rows(rows, index, numbers + 2)
    wanted = np.zeros((numbers + 2, *columns))
    np.add.at(wanted, index, rows)
    size = np.zeros_like(wanted)
    np.add.at(size, index, abs(rows))
    epsilon = np.finfo(dtype).eps if dtype is not np.int64 else 0
    assert found.dtype == dtype
    assert (abs(found - wanted) <= 160 * epsilon * size + 1e-12 * (size > 0)).all()
