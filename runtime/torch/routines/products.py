"""The library that computes on the memory of tensors: torch's routines, and the BLAS that torch multiplies with.

BLAS is called by its Fortran interface, past torch's dispatcher: no mode of torch and no autocast has a say in what a
formula multiplies. Batches are for torch to share out among threads. Where torch has no BLAS of that name, and for
products of few elements, NumPy multiplies.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch

from ....compiler.ops.arrays import Array
from ....compiler.ops.libraries import LEAST_THREADED, ArrayLibrary, ProductCall, computing_by
from ....compiler.ops.registry import Op
from ...values.arena import ARENA
from .loops import multiply_batch, routine_result

P = ParamSpec("P")
R = TypeVar("R")
LEAST_BYTES = 1 << 16
"""Of a result. Below, and below LEAST_THREADED, programs on bare memory multiply by NumPy's own loops."""
LEAST_MULTIPLIED = 1 << 17
"""Factors multiplied for one matrix; those of fewer take no longer than to call."""
_MOST = (1 << 31) - 1
_FUNCTIONS = {"f": ("sgemm_", ctypes.c_float), "d": ("dgemm_", ctypes.c_double)}
"""By the codes of NumPy's dtypes."""


class Blas:
    """`gemm` of a library by dtype: C = op(A) op(B) + beta C, of matrices whose columns lie one behind the other."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions: dict[str, tuple[Any, Any, Any, Any]] = {}
        for code, (name, number) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = None
            one, zero = number(1), number(0)
            self._functions[code] = (function, one, one, zero)

    def run(self, op: Op, arguments: Sequence[Any]) -> Any:
        """What a routine gives; NotImplemented where none does."""
        return routine_result(op, arguments)

    def multiply(self, left: Array, right: Array) -> Array | None:
        """`left @ right`; None for what NumPy is to multiply, or to refuse."""
        batch = self._batch(left, right)
        if batch is None:
            return None
        result = ARENA.empty((*batch, left.shape[-2], right.shape[-1]), left.dtype)
        if not (prod(batch) > 1 and multiply_batch(left, right, result)):
            self._run(left, right, result, batch, adds=False)
        return result

    def multiplies(self, left: Array, right: Array) -> bool:
        """Whether it multiplies such."""
        return self._batch(left, right) is not None

    def call_of(self, left: Array, right: Array, result: Array) -> ProductCall | None:
        """How it does so, for memory laid out like that; None where it would copy first, or for several at once."""
        batch = self._batch(left, right)
        (taken, left_form, left_step), (other, right_form, right_step) = _laid_out(left), _laid_out(right)
        if batch is None or prod(batch) > 1 or taken is not left or other is not right:
            return None
        (rows, depth), columns = left.shape[-2:], right.shape[-1]
        places = [[at - _first(a) for at in _addresses(a, batch)] for a in (left, right, result)]
        return ProductCall(
            ctypes.cast(self._functions[left.dtype.char][0], ctypes.c_void_p).value or 0,
            left.dtype.char == "d",
            (left_form[0], right_form[0]),
            (columns, rows, depth, right_step, left_step, columns),
            tuple(map(tuple, places)),
        )

    def _batch(self, left: Array, right: Array) -> tuple[int, ...] | None:
        """How many matrices of such it multiplies; None for what NumPy is to multiply, or to refuse."""
        if not _are_matrices(left, right) or left.shape[-1] != right.shape[-2]:
            return None
        try:
            batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:
            return None
        (rows, depth), columns = left.shape[-2:], right.shape[-1]
        if min(rows, columns) < 2 or not _is_worth_it(rows, depth, columns):
            return None
        is_large = prod(batch) * rows * columns * left.itemsize >= LEAST_BYTES
        return batch if is_large or rows * depth * columns >= LEAST_THREADED else None

    def add_product(self, total: Array, left: Array, right: Array) -> bool:
        """Whether it has added `left @ right` to a matrix."""
        if not _are_matrices(left, right) or not left.ndim == right.ndim == total.ndim == 2:
            return False
        (rows, depth), columns = left.shape, right.shape[1]
        if min(rows, columns) < 2 or depth != right.shape[0] or not _is_worth_it(rows, depth, columns):
            return False
        is_like = total.dtype is left.dtype and total.shape == (rows, columns)
        if not is_like or total.nbytes < LEAST_BYTES or not total.flags.c_contiguous or not total.flags.aligned:
            return False
        self._run(left, right, total, (), adds=True)
        return True

    def _run(self, left: Array, right: Array, result: Array, batch: tuple[int, ...], *, adds: bool) -> None:
        """What has rows one behind the other has, taken as columns, the transpose: so right comes before left."""
        (rows, depth), columns = left.shape[-2:], right.shape[-1]
        left, left_form, left_step = _laid_out(left)
        right, right_form, right_step = _laid_out(right)
        function, one, beta, zero = self._functions[left.dtype.char]
        sizes = [ctypes.c_int(n) for n in (columns, rows, depth, right_step, left_step, columns)]
        n, m, k, at_right, at_left, at_result = map(ctypes.byref, sizes)
        alpha, beta = ctypes.byref(one), ctypes.byref(beta if adds else zero)
        lefts, rights, results = (_addresses(a, batch) for a in (left, right, result))
        for a, b, c in zip(rights, lefts, results, strict=True):
            given = (ctypes.c_void_p(a), at_right, ctypes.c_void_p(b), at_left, beta, ctypes.c_void_p(c), at_result)
            # Fortran has the lengths of strings at the end.
            function(right_form, left_form, n, m, k, alpha, *given, ctypes.c_size_t(1), ctypes.c_size_t(1))


def _are_matrices(left: Array, right: Array) -> bool:
    is_full = left.dtype.char in _FUNCTIONS and left.dtype is right.dtype and left.dtype.isnative
    return is_full and left.ndim > 1 < right.ndim


def _is_worth_it(rows: int, depth: int, columns: int) -> bool:
    return rows * depth * columns >= LEAST_MULTIPLIED and max(rows, depth, columns) <= _MOST


def _laid_out(array: Array) -> tuple[Array, bytes, int]:
    """Matrices as they can be taken, a copy if need be: whether they lie transposed, and from one line to the next."""
    rows, columns = array.shape[-2:]
    down, across = (stride // array.itemsize for stride in array.strides[-2:])
    if array.flags.aligned and not any(stride % array.itemsize for stride in array.strides[-2:]):
        if (across == 1 or columns == 1) and columns <= down <= _MOST:
            return array, b"N", down
        if (down == 1 or rows == 1) and rows <= across <= _MOST:
            return array, b"T", across
    # Made for these: the order of a copy that keeps strides would be the same again.
    return np.array(array, order="C"), b"N", columns


def _first(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _addresses(array: Array, batch: tuple[int, ...]) -> Iterable[int]:
    """Of each matrix of a batch to which the array is broadcast."""
    first = _first(array)
    if not batch:
        return (first,)
    wide = np.broadcast_to(array, (*batch, *array.shape[-2:]))
    steps = wide.strides[: len(batch)]
    return [first + sum(map(int.__mul__, at, steps)) for at in product(*map(range, batch))]


@cache
def blas() -> ArrayLibrary | None:
    """That of torch; None where it has none by such names, or what it gives is wrong."""
    try:
        found = Blas(ctypes.CDLL(_of_torch()))
    except (OSError, AttributeError):
        return None
    for dtype in (np.float32, np.float64):
        left: Array = (np.arange(192 * 160) % 7).reshape(192, 160).astype(dtype)
        right: Array = (np.arange(160 * 128) % 5).reshape(160, 128).astype(dtype)
        wanted = left @ right
        made, total = found.multiply(left, right), np.ones_like(wanted)
        if made is None or not np.array_equal(made, wanted):
            return None
        if not found.add_product(total, left, right) or not np.array_equal(total, wanted + 1):
            return None
    return found


def _of_torch() -> str:
    name = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}.get(sys.platform, "libtorch_cpu.so")
    return str(Path(torch.__file__).parent / "lib" / name)


def on_tensors(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function gives that takes the memory of tensors: torch's BLAS multiplies in it."""
    return computing_by(blas(), function, *args, **kwargs)
