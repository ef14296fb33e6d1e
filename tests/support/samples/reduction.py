"""Samples of reductions, scans, norms and order statistics."""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import Any

import torch
from gradscript.compiler.types.dtypes import FLOAT64, INT32
from samples.arrays import OWN, Call, call, literal, t

_SHAPES = [call(t(3, 4)), call(t()), call(t(0)), call(t(2, 3, 4)), call(t(3, 4).with_nan())]
_DIM = [call(t(3, 4), 0), call(t(3, 4), -1, True), call(t(), -1), call(t(2, 3, 4).with_nan(), 1), call(t(0, 3), 1)]
_DIMS = [
    call(t(3, 4), [0]),
    call(t(3, 4), [-1, 0], True),
    call(t(), [0]),
    call(t(2, 3, 4), [-1, 0]),
    call(t(2, 3, 4).with_nan(), [1]),
    call(t(0, 3), [1]),
]
_ALL_DIMS = [*_DIMS, call(t(2, 3, 4), []), call(t(0, 3), [0])]
_OPTIONAL = [*_ALL_DIMS, call(t(2, 3), None), call(t(2, 3), None, True)]
_FULL = [call(t(3, 4)), call(t()), call(t(2, 3, 4)), call(t(3, 4).with_nan())]
_DTYPE = [call(t(3, 4), None, dtype=FLOAT64.code), call(t(3, 4), [1], True, dtype=INT32.code)]
_MOMENTS = [call(t(3, 4)), call(t(3, 4), False), call(t(1)), call(t(2, 3, 4).with_nan()), call(t(0))]
_MOMENTS_DIM = [
    call(t(3, 4), [0]),
    call(t(3, 4), [-1], False, True),
    call(t(2, 3, 4), [0, 2]),
    call(t(2, 1), [1]),
    call(t(2, 3), None),
]
_MOMENTS_CORRECTION = [
    call(t(3, 4)),
    call(t(3, 4), [0], correction=0),
    call(t(3, 4), [-1], correction=2, keepdim=True),
    call(t(3, 4), [1], correction=0.5),
    call(t(3, 4), [1], correction=5),
]
_SCAN = [call(t(3, 4), 0), call(t(3, 4), -1), call(t(), 0), call(t(2, 0), 1), call(t(2, 6).with_nan(), 1)]
_SOFT = [*_SCAN[:4], call(t(2, 3, 4), 1), call(t(2, 3), 1, FLOAT64.code)]
_SCAN_DTYPE = [*_SCAN, call(t(3, 4), 0, dtype=FLOAT64.code)]
_PICK = [call(t(3, 7), 0), call(t(3, 7), -1, True), call(t(), 0), call(t(4, 6).with_nan(), 1)]
_SORT = [call(t(3, 7)), call(t(3, 7), 0, True), call(t()), call(t(2, 0)), call(t(4, 6).with_nan(), 1)]
_STABLE = [
    call(t(9), stable=True),
    call(t(9), stable=True, dim=0, descending=True),
    call(t(2, 6).with_nan(), stable=True),
]

CASES: dict[str, list[Call]] = {
    "sum": [*_SHAPES, call(t(2, 3), dtype=FLOAT64.code)],
    "sum.dim_IntList": [*_OPTIONAL, *_DTYPE],
    "mean": [*_SHAPES, call(t(2, 3), dtype=FLOAT64.code)],
    "mean.dim": [*_OPTIONAL, call(t(3, 4), None, dtype=FLOAT64.code)],
    "prod": [*_SHAPES, call(t(2, 3), dtype=FLOAT64.code)],
    "prod.dim_int": [*_DIM, call(t(0, 3), 0), call(t(3, 4), 0, dtype=FLOAT64.code)],
    "nansum": [*_OPTIONAL, call(t(3, 4), None, dtype=FLOAT64.code)],
    "nanmean": [*_OPTIONAL, call(t(3, 4), None, dtype=FLOAT64.code)],
    "amax": [*_DIMS, call(t(2, 3, 4))],
    "amin": [*_DIMS, call(t(2, 3, 4))],
    "max": _FULL,
    "min": _FULL,
    "max.dim": _DIM,
    "min.dim": _DIM,
    "max.other": [call(t(3, 4), t(4)), call(t(), t(2)), call(t(3, 6).with_nan(), t(3, 6))],
    "min.other": [call(t(3, 4), t(4)), call(t(), t(2)), call(t(3, 6).with_nan(), t(3, 6))],
    "argmax": [*_FULL, call(t(2, 3, 4), None, True), *_DIM],
    "argmin": [*_FULL, call(t(2, 3, 4), None, True), *_DIM],
    "aminmax": [call(t(3, 4)), call(t(3, 4), dim=1), call(t(3, 4).with_nan(), dim=0, keepdim=True), call(t(), dim=0)],
    "logsumexp": [*_DIMS, call(t(0, 3), [0])],
    "var": _MOMENTS,
    "std": _MOMENTS,
    "var_mean": _MOMENTS,
    "std_mean": _MOMENTS,
    "var.dim": _MOMENTS_DIM,
    "std.dim": _MOMENTS_DIM,
    "var_mean.dim": _MOMENTS_DIM,
    "std_mean.dim": _MOMENTS_DIM,
    "var.correction": _MOMENTS_CORRECTION,
    "std.correction": _MOMENTS_CORRECTION,
    "var_mean.correction": _MOMENTS_CORRECTION,
    "std_mean.correction": _MOMENTS_CORRECTION,
    "all": _SHAPES,
    "any": _SHAPES,
    "all.dim": [*_DIM, call(t(0, 3), 0)],
    "any.dim": [*_DIM, call(t(0, 3), 0)],
    "all.dims": [*_OPTIONAL[:6], call(t(2, 3), None), call(t(2, 3), []), call(t(2, 3), [], True)],
    "any.dims": [*_OPTIONAL[:6], call(t(2, 3), None), call(t(2, 3), []), call(t(2, 3), [], True)],
    "count_nonzero": [call(t(3, 4)), call(t(3, 4), -1), call(t()), call(t(0, 2), 0)],
    "count_nonzero.dim_IntList": [call(t(2, 3, 4), [0, -1])],
    "trace": [call(t(3, 3)), call(t(2, 4)), call(t(0, 0))],
    "norm.Scalar": [call(t(3, 4)), call(t(3, 4), 1), call(t(3, 4), inf), call(t(3, 4), 0), call(t(), 3), call(t(0), 2)],
    "norm.ScalarOpt_dim": [
        call(t(3, 4), 2, [1]),
        call(t(3, 4), None, [0], True),
        call(t(3, 4), -inf, [1]),
        call(t(3, 4), 2.5, [0, 1]),
    ],
    "norm.ScalarOpt_dtype": [call(t(3, 4), 2, dtype=FLOAT64.code), call(t(3, 4), None, dtype=FLOAT64.code)],
    "norm.ScalarOpt_dim_dtype": [call(t(3, 4), 2, [0], True, dtype=FLOAT64.code)],
    "linalg_vector_norm": [
        call(t(3, 4)),
        call(t(3, 4), 1, [0]),
        call(t(3, 4), -1, [1]),
        call(t(3, 4), inf, [1], True),
        call(t(3, 4).with_nan(), 3, None),
        call(t(3, 4), 0, [0]),
        call(t(3, 4), 2, dtype=FLOAT64.code),
        call(t(0, 3), 2, [0]),
    ],
    "dist": [call(t(3, 4), t(4)), call(t(3), t(3), 1), call(t(3), t(3), inf), call(t(3), t(3), 0)],
    "add_n": [
        call([t(2, 3), t(2, 3), t(2, 3), t(2, 3)]),
        call([t(3), t(1, 3), t(2, 1), t()]),
        call([t(2, 3), t(2, 3), literal([[1, 2, 3]], FLOAT64)]),
        call([t(2, 3)]),
        call([t(), t(), t()]),
        call([t(0, 2), t(2), t(0, 1)]),
    ],
    "cumsum": _SCAN_DTYPE,
    "cumprod": _SCAN_DTYPE,
    "logcumsumexp": _SCAN,
    "cummax": _SCAN,
    "cummin": _SCAN,
    "softmax.int": _SOFT,
    "log_softmax.int": _SOFT,
    "_softmax": [call(t(2, 3), 1, False), call(t(), 0, False)],
    "_log_softmax": [call(t(2, 3), 1, False), call(t(), 0, False)],
    "_softmax_backward_data": [call(t(2, 3), t(2, 3), 1, OWN), call(t(2, 3), t(2, 3), -2, OWN), call(t(), t(), 0, OWN)],
    "_log_softmax_backward_data": [call(t(2, 3), t(2, 3), 1, OWN), call(t(2, 3), t(2, 3), -2, OWN)],
    "median": [*_FULL, call(t(4, 2)), call(t(0))],
    "nanmedian": [*_FULL, call(t(4, 2)), call(t(0))],
    "median.dim": _PICK,
    "nanmedian.dim": _PICK,
    "mode": [call(t(3, 7)), call(t(3, 7), 0, True), call(t())],
    "kthvalue": [call(t(3, 7), 3), call(t(3, 7), 1, 0, True), call(t(), 1), call(t(4, 6).with_nan(), 4, 1)],
    "sort": _SORT,
    "sort.stable": _STABLE,
    "argsort": _SORT,
    "argsort.stable": _STABLE,
    "topk": [call(t(3, 7), 3), call(t(3, 7), 2, 0, False), call(t(), 1), call(t(3, 7), 0), call(t(4, 6).with_nan(), 3)],
}

REFERENCES: dict[str, Any] = {"add_n": lambda terms: reduce(torch.add, terms[1:], terms[0])}

ANY_INDEX = {"median.dim", "nanmedian.dim", "mode", "kthvalue", "sort", "argsort", "topk", "min.dim", "max.dim"}
"""Among equal elements torch may name any: values are compared, and what the indices point at."""
