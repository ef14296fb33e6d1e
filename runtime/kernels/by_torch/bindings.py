"""Ops of the library on CPU tensors, by torch's own bindings: what stands for them in prepared calls of few elements.

They are the ops that `torch.ops` has, but parse arguments in a fifth of the time, and an op on few elements takes no
longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from ....compiler.ops.arrays import Array
from ....compiler.ops.families.nn.window_shapes import expanded
from ....compiler.ops.registry import Op, Trait
from ....compiler.types.types import ListType, OptionalType, Type, is_tensor
from ...values.torch_dtypes import dtypes_of_torch, tensor_of
from ..c.memory.bare import BoundOp
from .ops import is_of_torch, op_function

_MODULES = (torch._C._VariableFunctions, torch._C._nn, torch._C._linalg, torch._C._special)
_NOT_AS_OURS = frozenset(
    f"aten::{name}"
    for name in (
        # Which of equal elements is found, and which of two signs or bases, is for each library to say.
        *("kthvalue", "mode", "median.dim", "nanmedian.dim", "unique", "_unique2", "unique_dim"),
        *("sort", "argsort", "sort.stable", "argsort.stable", "topk"),
        *("svd", "linalg_svd", "qr", "linalg_qr", "linalg_eigh", "linalg_eig", "linalg_lstsq"),
        # What is in memory that nobody wrote to is asked for by nobody.
        *("empty.memory_format", "empty_like", "new_empty"),
    )
)
_ENDS_THE_PROCESS = frozenset({"aten::div.Tensor_mode", "aten::div.Scalar_mode"})
"""Of integers: torch divides the least one by -1 as the processor does, which traps."""
_CPU = torch.device("cpu")
_RELATIVE = {2: 2e-3, 4: 1e-4, 8: 1e-7}
"""By the bytes of an element: what additions in another order come to, on few of them."""


def binding(op: Op, arguments: Sequence[Any], results: Sequence[Array]) -> BoundOp | None:
    """What stands for an op, given arguments for which it gave these results; None where nothing does the same.

    It is called once: what it gives is compared, and none of it may be in the memory of an argument.
    """
    if op.schema.full_name in _NOT_AS_OURS or op.has(Trait.RANDOM) or not is_of_torch(op):
        return None
    if op.schema.full_name in _ENDS_THE_PROCESS and results[0].dtype.kind in "iu":
        return None
    bound = _directly(op, arguments) or BoundOp(op_function(op, _CPU), range(len(arguments)), (), _constant)
    given = [_as_torch(arguments[place]) for place in bound.places]
    positional = len(given) - len(bound.names)
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            found = bound.function(*given[:positional], **dict(zip(bound.names, given[positional:], strict=True)))
    except Exception:
        return None
    row = [found] if isinstance(found, torch.Tensor) else [*found] if isinstance(found, list | tuple) else []
    if len(row) != len(results) or not all(map(_is_alike, row, results)):
        return None
    storages = {tensor.untyped_storage().data_ptr() for tensor in _tensors(given)} | {0}
    made = [tensor.untyped_storage().data_ptr() for tensor in row if tensor.numel()]
    return bound if storages.isdisjoint(made) and len(set(made)) == len(made) else None


def _directly(op: Op, arguments: Sequence[Any]) -> BoundOp | None:
    """By torch's binding of the same name, where all arguments are what that takes."""
    if op.schema.name in _OWN:
        made = _OWN[op.schema.name](arguments)
        return None if made is None else BoundOp(made[0], made[1], (), _constant)
    function = _function(op.schema.name)
    parameters = op.schema.arguments
    if function is None or any(
        _is_dtype(parameter.name, given) for parameter, given in zip(parameters, arguments, strict=True)
    ):
        return None
    places = [i for i, parameter in enumerate(parameters) if not parameter.keyword_only]
    named = [i for i, parameter in enumerate(parameters) if parameter.keyword_only and arguments[i] is not None]
    while places and arguments[places[-1]] is None and not _may_hold_tensor(parameters[places[-1]].type):
        places.pop()
    return BoundOp(function, [*places, *named], [parameters[i].name for i in named], _constant)


def _is_dtype(name: str, given: Any) -> bool:
    """Whether an argument is what our ops tell by numbers and text, and torch's bindings by objects of their own."""
    return name in ("dtype", "device", "layout", "memory_format") and given is not None


@cache
def _function(name: str) -> Callable[..., Any] | None:
    namespace, _, base = name.partition("::")
    if namespace != "aten":
        return None
    return next((found for module in _MODULES if (found := getattr(module, base, None)) is not None), None)


def _indexing(arguments: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[int]] | None:
    """By tensors of indices, one for each of the first dimensions: Python's own way."""
    if any(not isinstance(index, np.ndarray) or not index.ndim or index.dtype == np.uint8 for index in arguments[1]):
        return None
    return _taken, (0, 1)


def _taken(tensor: Any, indices: list[Any]) -> Any:
    return tensor[tuple(indices)]


def _putting(arguments: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[int]] | None:
    """The same, of what is written, where that may not have dimensions to drop."""
    values = arguments[2]
    has_more = values.ndim and values.shape[0] == 1
    return None if has_more or _indexing(arguments) is None else (torch.Tensor.index_put, (0, 1, 2, 3))


def _convolving_back(arguments: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[int]] | None:
    """A convolution's gradient by its input: transposed, in half of the time of what gives it among others."""
    size, weight, grad, stride, padding, dilation, groups = arguments
    rank = weight.ndim - 2
    if grad.ndim != weight.ndim:
        return None
    steps, pad, spread = (expanded(sizes, rank) for sizes in (stride, padding, dilation))
    rest = [
        whole - (places - 1) * step + 2 * p - d * (width - 1) - 1
        for whole, places, step, p, d, width in zip(
            size[2:], grad.shape[2:], steps, pad, spread, weight.shape[2:], strict=True
        )
    ]

    def run(_size: Any, weight: Any, grad: Any, *_how: Any) -> Any:
        return _convolution(grad, weight, None, steps, pad, spread, True, rest, groups)

    return run, range(len(arguments))


def _weighing(arguments: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[int]] | None:
    """The one by its weight, of whose elements nothing depends: one stands for all."""
    input, size, grad, stride, padding, dilation, groups = arguments
    rank = len(size) - 2
    if not input.ndim == grad.ndim == len(size):
        return None
    steps, pad, spread = (expanded(sizes, rank) for sizes in (stride, padding, dilation))
    nothing, zeros, mask = _as_torch(np.zeros((), grad.dtype)).expand(*size), [0] * rank, [False, True, False]

    def run(input: Any, _size: Any, grad: Any, *_how: Any) -> Any:
        return _back(grad, input, nothing, None, steps, pad, spread, False, zeros, groups, mask)[1]

    return run, range(len(arguments))


_convolution = torch._C._VariableFunctions.convolution
_back = torch.ops.aten.convolution_backward.default

_OWN = {
    "aten::index": _indexing,
    "aten::index_put": _putting,
    "gs::conv_input": _convolving_back,
    "gs::conv_weight": _weighing,
}


def _may_hold_tensor(type: Type) -> bool:
    while isinstance(type, ListType | OptionalType):
        type = type.element
    return is_tensor(type)


def _constant(array: Array) -> Any:
    return tensor_of(array.copy())


def _as_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tensor_of(np.array(value, order="K"))
    return type(value)([_as_torch(item) for item in value]) if isinstance(value, list | tuple) else value


def _tensors(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += (
            _tensors(value) if isinstance(value, list | tuple) else [value] if isinstance(value, torch.Tensor) else []
        )
    return found


def _is_alike(tensor: Any, array: Array) -> bool:
    """Whether a result is the same, up to the order of additions."""
    if not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != array.shape:
        return False
    if dtypes_of_torch()[tensor.dtype].name != array.dtype.name:
        return False
    other = _as_torch(array)
    if not tensor.is_floating_point():
        return torch.equal(tensor, other)
    tolerance = _RELATIVE[array.itemsize]
    scale = float(np.abs(array[np.isfinite(array)], dtype=np.float64).max(initial=0.0))
    return torch.allclose(tensor.double(), other.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)
