"""Which library multiplies matrices, and has routines for other ops: NumPy and ours, or one that is chosen for a
while by who runs a program.

What is chosen follows from what a call is given, never from time: the same call gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from ..types.lazy_numpy import np
from .arrays import Array

LEAST_THREADED = 1 << 18
"""Factors multiplied for one matrix from which on NumPy's BLAS has threads of its own. Where another library
multiplies, they would wait for processors that its threads keep busy."""

P = ParamSpec("P")
R = TypeVar("R")


class ProductCall(NamedTuple):
    """What a function of BLAS, `gemm`, is told of a product of matrices: where it is, whether of doubles; whether right
    and left lie transposed, the letters; columns, rows, depth, and from one line to the next of right, left and result;
    bytes to each matrix of left, right and result."""

    address: int
    is_double: bool
    forms: tuple[int, int]
    numbers: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]


class ArrayLibrary(Protocol):
    """One that computes on the memory of arrays."""

    def run(self, op: Any, arguments: Sequence[Any]) -> Any:
        """What an op of the registry gives; NotImplemented where it has no routine for such arguments."""

    def multiply(self, left: Array, right: Array) -> Array | None:
        """`left @ right`, new; None where it does not multiply such, or they do not fit."""

    def multiplies(self, left: Array, right: Array) -> bool:
        """Whether it multiplies such."""

    def call_of(self, left: Array, right: Array, result: Array) -> ProductCall | None:
        """How it does so, for memory laid out like that; None where it would copy first."""

    def add_product(self, total: Array, left: Array, right: Array) -> bool:
        """Add `left @ right` to a matrix, if it does so for such."""


_CHOSEN: ContextVar[ArrayLibrary | None] = ContextVar("library", default=None)


def library_product(left: Array, right: Array) -> Array:
    """`left @ right`. Raises: ValueError, where shapes do not fit."""
    library = _CHOSEN.get()
    found = None if library is None else library.multiply(left, right)
    return np.matmul(left, right) if found is None else found


def current_library() -> ArrayLibrary | None:
    """The one that is chosen; None for NumPy's."""
    return _CHOSEN.get()


def by_library(op: Any, evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """What evaluates an op by the library that is chosen, and otherwise by its definition."""
    chosen = _CHOSEN.get

    def run(*arguments: Any) -> Any:
        library = chosen()
        found = NotImplemented if library is None else library.run(op, arguments)
        return evaluate(*arguments) if found is NotImplemented else found

    return run


def add_product(total: Array, left: Array, right: Array) -> bool:
    """Whether the library has added `left @ right` to a matrix of that dtype and shape; NumPy has no such product."""
    library = _CHOSEN.get()
    return library is not None and library.add_product(total, left, right)


def computing_by(library: ArrayLibrary | None, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function gives, while a library computes, unless that is None."""
    if library is None:
        return function(*args, **kwargs)
    token = _CHOSEN.set(library)
    try:
        return function(*args, **kwargs)
    finally:
        _CHOSEN.reset(token)


def computing_as_now(function: Callable[P, R]) -> Callable[P, R]:
    """The function, in which that library computes which does now."""
    library = _CHOSEN.get()

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return computing_by(library, function, *args, **kwargs)

    return function if library is None else run
