"""Ops of the library on the memory of CPU tensors, by torch's own routines: those of `Trait.LIBRARY`.

An op's definition on arrays goes through memory once for each of NumPy's functions, and has one thread; torch has a
loop for the op. What such a routine refuses, or what modes of torch's would see, is for the definition, which also says
what is wrong. Routines whose bits hang on how threads take turns are not called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided

from ....compiler.ops.arrays import Array
from ....compiler.ops.registry import Op
from ...kernels.by_torch.ops import op_function, without_autocast
from ...kernels.by_torch.windows import avg_pool_adjoint
from ...values.tensor_memory import NoMemory, memory_of
from ...values.torch_dtypes import tensor_of

_CPU = torch.device("cpu")
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
_are_transforms_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
_LEAST = 1 << 12
"""Elements of an argument, below which an op takes no longer by its definition."""


def routine_result(op: Op, arguments: Sequence[Any]) -> Any:
    """What an op gives for arrays and others, on new memory; NotImplemented where its definition is to say."""
    if all(map(_is_small, arguments)) or _is_seen():
        return NotImplemented
    try:
        with without_autocast(_CPU):
            return _as_arrays(_routine(op)(*[_as_tensors(argument) for argument in arguments]))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, NoMemory):
        return NotImplemented


def _is_seen() -> bool:
    """Whether a mode or a transform would see an op of torch's."""
    return bool(_are_transforms_active() or _dispatch_modes() or _function_modes())


def multiply_batch(left: Array, right: Array, result: Array) -> bool:
    """Whether torch has put `left @ right` into the result, of several matrices: at once where all three go through
    memory in equal steps, else those along the last dimension of the batch."""
    if _is_seen():
        return False
    batch = result.shape[:-2]
    arrays = [*[np.broadcast_to(factor, (*batch, *factor.shape[-2:])) for factor in (left, right)], result]
    merged = [_as_one_batch(array) for array in arrays]
    parts = [found for found in merged if found is not None]
    rows = [parts] if len(parts) == 3 else [[a[at] for a in arrays] for at in np.ndindex(*batch[:-1])]
    with without_autocast(_CPU):
        for first, second, product in rows:
            torch.bmm(_to_be_read(first), _to_be_read(second), out=torch.from_numpy(product))
    return True


def _as_one_batch(array: Array) -> Array | None:
    """With one dimension in front of those of matrices; None where it has no equal steps."""
    steps = [(size, step) for size, step in zip(array.shape[:-2], array.strides[:-2], strict=True) if size > 1]
    if any(step != size * after for (_, step), (size, after) in pairwise(steps)):
        return None
    shape, strides = (prod(array.shape[:-2]), *array.shape[-2:]), (steps[-1][1] if steps else 0, *array.strides[-2:])
    return as_strided(array, shape, strides, writeable=array.flags.writeable)


class _Lent:
    """An array as one that may be written to, which nobody does."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: Array) -> None:
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
        self.array = array


def _to_be_read(array: Array) -> torch.Tensor:
    """A tensor of an array's memory, also where that is not to be written to: arrays that show tensors are so."""
    if not array.flags.writeable:
        array = np.asarray(_Lent(array)).view(array.dtype)
    found: torch.Tensor = tensor_of(array)
    return found


@cache
def _routine(op: Op) -> Callable[..., Any]:
    return _OWN.get(op.schema.full_name) or op_function(op, _CPU)


def _is_small(argument: Any) -> bool:
    if isinstance(argument, list | tuple):
        return all(map(_is_small, argument))
    return not isinstance(argument, np.ndarray) or argument.size < _LEAST


def _as_tensors(value: Any) -> Any:
    """Lists of tensors are no deeper than one."""
    if isinstance(value, np.ndarray):
        # Of elements that are there several times over some loops find another median than theirs.
        return tensor_of(value.copy()) if 0 in value.strides else _to_be_read(value)
    return [_as_tensors(item) for item in value] if isinstance(value, list | tuple) else value


def _as_arrays(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return memory_of(value)
    return type(value)([_as_arrays(item) for item in value]) if isinstance(value, list | tuple) else value


def _put_at(self: torch.Tensor, indices: list[Any], values: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """What threads write or add up in one place they do in any order: what is added is so by the number of each row."""
    if not accumulate or any(index is None or index.dtype is not torch.int64 for index in indices):
        raise NotImplementedError
    count = len(indices)
    rows, rest = self.shape[:count], self.shape[count:]
    places = torch.broadcast_tensors(*indices)
    if any(values.shape[: max(values.ndim - places[0].ndim - len(rest), 0)]):
        # Leading dimensions of one that are more than the place has: the definition drops them.
        raise NotImplementedError
    number = torch.zeros_like(places[0])
    for place, size in zip(places, rows, strict=True):
        if not place.numel() or int(place.min()) < -size or int(place.max()) >= size:
            raise NotImplementedError
        number = number * size + torch.where(place < 0, place + size, place)
    flat = values.expand(*places[0].shape, *rest).reshape(-1, prod(rest))
    return self.reshape(prod(rows), prod(rest)).index_add(0, number.reshape(-1), flat).reshape(self.shape)


def _largest(self: torch.Tensor, k: int, dim: int, largest: bool, sorted: bool) -> list[torch.Tensor]:
    """Of equal elements torch takes any, and the definition the first: one more tells whether there are such."""
    size = self.shape[dim] if self.ndim else 1
    values, places = torch.topk(self, min(k + 1, size), dim, largest, True)
    if not self.ndim or not size:
        raise NotImplementedError
    count = values.shape[dim]
    before, behind = values.narrow(dim, 0, count - 1), values.narrow(dim, 1, count - 1)
    if not bool((before > behind if largest else before < behind).all()):
        raise NotImplementedError
    return [found.narrow(dim, 0, k) for found in (values, places)]


def _contracted(equation: str, tensors: list[torch.Tensor], path: list[int] | None) -> torch.Tensor:
    """What has one operand may be a view of it."""
    if len(tensors) < 2:
        raise NotImplementedError
    return torch.einsum(equation, *tensors)


def _rows_added(grad: torch.Tensor, *how: Any) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(grad, *how[:4])


def _of_floats(routine: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """What torch means for gradients it takes of whole numbers as well, and divides these otherwise."""

    def run(grad: torch.Tensor, *how: Any) -> torch.Tensor:
        if not grad.is_floating_point():
            raise NotImplementedError
        return routine(grad, *how)

    return run


_OWN: dict[str, Callable[..., Any]] = {
    "aten::einsum": _contracted,
    "aten::index_put": _put_at,
    "aten::topk": _largest,
    "aten::embedding_backward": _of_floats(_rows_added),
    "aten::embedding_dense_backward": _of_floats(_rows_added),
    **{f"gs::avg_pool{rank}d_adjoint": _of_floats(avg_pool_adjoint(rank)) for rank in (1, 2, 3)},
}
