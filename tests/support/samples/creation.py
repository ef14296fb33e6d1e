"""Samples of creation and conversion."""

from __future__ import annotations

from typing import Any

import torch
from gradscript.compiler.types.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT64, INT32, INT64
from samples.arrays import Call, call, literal, t

_SIZE = [call([2, 3]), call([]), call([0, 2]), call([2], dtype=INT32.code)]
_LIKE = [call(t(2, 3)), call(t()), call(t(0, 2)), call(t(2), dtype=FLOAT64.code)]
_NEW = [call(t(2), [2, 3]), call(t(), [0]), call(t(2), [3], dtype=FLOAT64.code)]
_INDICES = [call(3, 4), call(4, 2, 1), call(3, 3, -1), call(2, 2, dtype=INT32.code)]
_CONVERT = [call(t(2, 3)), call(t())]
_METHODS = ("float", "double", "half", "bfloat16", "int", "long", "short", "bool", "byte", "char")

CASES: dict[str, list[Call]] = {
    "frexp.Tensor": [call(t(3, 4)), call(t()), call(t(0, 3))],
    "zeros": _SIZE,
    "ones": _SIZE,
    "empty.memory_format": _SIZE,
    "zeros_like": _LIKE,
    "ones_like": _LIKE,
    "empty_like": _LIKE,
    "new_zeros": _NEW,
    "new_ones": _NEW,
    "new_empty": _NEW,
    "full": [call([2, 3], 2.5), call([2], 3), call([], True), call([2], 3, dtype=FLOAT16.code)],
    "full_like": [call(t(2, 3), 2), call(t(), 1), call(t(2), 3, dtype=FLOAT64.code)],
    "new_full": [call(t(2), [2, 3], 2), call(t(), [0], 1), call(t(2), [3], 2.5, dtype=FLOAT64.code)],
    "arange": [call(5), call(4.5), call(0), call(3, dtype=FLOAT64.code)],
    "arange.start": [call(2, 5), call(-1.5, 2), call(3, 3)],
    "arange.start_step": [call(2, 9, 3), call(5, 0, -2), call(0, 1, 0.1), call(0, 1, 0.1, dtype=FLOAT64.code)],
    "linspace": [call(0, 1, 5), call(-2.0, 3.0, 1), call(1, 0, 0), call(0, 10, 4, dtype=FLOAT64.code)],
    "logspace": [call(0, 2, 3), call(0, 3, 4, 2.0, dtype=FLOAT64.code)],
    "eye": [call(3), call(0), call(2, dtype=INT64.code)],
    "eye.m": [call(2, 3), call(3, 1)],
    "tril_indices": _INDICES,
    "triu_indices": _INDICES,
    "scalar_tensor": [call(2), call(2.5, dtype=FLOAT64.code), call(3, dtype=INT64.code)],
    "tensor": [
        call([1, 2]),
        call([1.5, 2]),
        call([[True, False]]),
        call([]),
        call([[1, 2], [3, 4]], dtype=FLOAT64.code),
    ],
    "as_tensor": [call(t(2, 3)), call(t(2), dtype=FLOAT64.code)],
    "as_tensor.list": [call([1, 2]), call([1.5, 2])],
    "fill.Scalar": [call(t(2, 3), 2), call(t(), 1)],
    "fill.Tensor": [call(t(2, 3), t())],
    "zero": [call(t(2, 3))],
    "copy": [call(t(2, 3), t(3)), call(t(2), literal([1, 2]))],
    "to.dtype": [
        call(t(2, 3), FLOAT64.code),
        call(t(2, 3), BFLOAT16.code),
        call(t(2, 3), INT32.code),
        call(t(2), BOOL.code),
    ],
    "to.device": [call(t(2, 3), "cpu", FLOAT64.code)],
    "to.other": [call(t(2, 3), literal([1]))],
    "to.dtype_layout": [call(t(2, 3), dtype=FLOAT64.code), call(t(2))],
    "to.prim_Device": [call(t(2, 3), "cpu"), call(t(2, 3), None, FLOAT64.code)],
    "to.prim_dtype": [call(t(2, 3)), call(t(2, 3), FLOAT64.code)],
    "type_as": [call(t(2, 3), literal([1])), call(literal([1]), t(2))],
}
CASES |= dict.fromkeys(_METHODS, _CONVERT)
CASES |= {
    f"{name}.{kind}": [call(value), call(value, dtype=FLOAT64.code)]
    for name in ("tensor", "as_tensor")
    for kind, value in (("bool", True), ("int", 3), ("float", 2.5), ("number", 3))
}


def _convert(method: str) -> Any:
    return lambda self, memory_format: getattr(self, method)()


REFERENCES: dict[str, Any] = {
    "empty.memory_format": lambda size, *options: torch.zeros(size, dtype=options[0]),
    "empty_like": lambda self, *options: torch.zeros_like(self, dtype=options[0]),
    "new_empty": lambda self, size, *options: self.new_zeros(size, dtype=options[0]),
    "tensor": lambda data, dtype, *options: torch.tensor(data, dtype=dtype),
    "as_tensor": lambda data, dtype, *options: torch.as_tensor(data, dtype=dtype),
    "as_tensor.list": lambda data, dtype, *options: torch.as_tensor(data, dtype=dtype),
    "to.prim_Device": lambda self, device, dtype, *options: self.to(device=device, dtype=dtype),
    "to.prim_dtype": lambda self, dtype, *options: self.to(dtype=dtype or self.dtype),
    "type_as": lambda self, other: self.type_as(other),
}
REFERENCES |= {method: _convert(method) for method in _METHODS}
REFERENCES |= {
    f"{name}.{kind}": lambda value, dtype, *options: torch.tensor(value, dtype=dtype)
    for name in ("tensor", "as_tensor")
    for kind in ("bool", "int", "float", "number")
}
