"""Programs that need no more than the memory of their inputs: kernels, small products, and views, one behind the other.

What such a program gives is new, an input, or a view of either, which follows from the layouts that it was planned for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from .....compiler.ops.arrays import Array
from ..program import CProgram, Extern, Slot, Stretch, slots_among

_PRODUCTS = frozenset(("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot"))
_MOST_BYTES = 1 << 16
"""As in `text/entry.c`: from there on results come from the arena."""


class MemoryView(NamedTuple):
    """A slot that is another one's memory otherwise."""

    slot: int
    source: int
    """The slot of an input, or of what is made."""
    offset: int
    """Bytes behind its first element."""
    array: Array
    """Of that dtype, shape and strides."""


class Product(NamedTuple):
    """left @ right, and on top of that what is added: slots, and arrays laid out like what is in them."""

    left: tuple[int, Array]
    right: tuple[int, Array]
    added: tuple[int, Array] | None
    result: int


BareAct: TypeAlias = Stretch | Product
Made: TypeAlias = tuple[int, tuple[int, ...], np.dtype[Any]]


class Bare(NamedTuple):
    """Such a program. What is made are slots, shapes and dtypes; of slots that are one memory, one is named."""

    acts: Sequence[BareAct]
    made: Sequence[Made]
    views: Sequence[MemoryView]
    same: dict[int, int]
    """Slots in the memory of others, which have their elements in the same order."""
    results: Sequence[int]
    """Slots."""


def bare_of(
    program: CProgram, values: Sequence[Any], open_inputs: Collection[int], *, has_products: bool
) -> Bare | None:
    """The program for values like these, those of `open_inputs` any ints; None where it is no such one."""
    if program.takes_lists or not all(isinstance(output, Slot) for output in program.outputs):
        return None
    return _Reader(program, values, open_inputs, has_products).read()


class _Reader:
    """Goes through a program with arrays that are laid out as those of a run are."""

    def __init__(
        self, program: CProgram, values: Sequence[Any], open_inputs: Collection[int], has_products: bool
    ) -> None:
        first = len(program.constants)
        self._program = program
        self._slots = [*program.constants, *values, *[None] * program.made]
        self._owners = {first + i: first + i for i, value in enumerate(values) if isinstance(value, np.ndarray)}
        self._unsettled = {first + i for i in open_inputs}
        self._has_products = has_products
        self._acts: list[BareAct] = []
        self._made: list[Made] = []
        self._views: list[MemoryView] = []
        self._same: dict[int, int] = {}

    def read(self) -> Bare | None:
        for step, _ in self._program.steps:
            if isinstance(step, Stretch):
                read = self._read_stretch(step)
            else:
                read = isinstance(step, Extern) and (
                    self._read_view(step) if step.is_view else self._read_product(step)
                )
            if not read:
                return None
        results = [self._same.get(output.number, output.number) for output in self._program.outputs]
        if not self._owners.keys() >= set(results):
            return None
        return Bare(self._acts, self._made, self._views, self._same, results)

    def _read_stretch(self, stretch: Stretch) -> bool:
        made = {number for number, _, _ in self._made}
        for number, shape, dtype in stretch.made:
            self._make(number, np.empty(shape, dtype))
        for number, source, shape in stretch.moved:
            owner, array = self._same.get(source, source), self._slots[source]
            # What is given is somebody else's; and what has another shape then would be a result of that shape.
            if owner not in made or array.shape != shape:
                return False
            self._slots[number], self._owners[number] = array, owner
            self._same[number] = owner
        self._acts.append(stretch)
        return True

    def _make(self, number: int, array: Array) -> None:
        self._slots[number], self._owners[number] = array, number
        self._made.append((number, array.shape, array.dtype))

    def _read_view(self, step: Extern) -> bool:
        taken = {argument.number for argument in slots_among(step.arguments)}
        tensors = taken & self._owners.keys()
        if len(tensors) != 1 or taken & self._unsettled:
            return False
        step(self._slots, 1)
        (source,) = tensors
        owner = self._owners[source]
        for number in step.results:
            found, whole = self._slots[number], self._slots[owner]
            if not isinstance(found, np.ndarray) or not found.size or not np.may_share_memory(found, whole):
                return False
            self._owners[number] = owner
            offset = found.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
            self._views.append(MemoryView(number, owner, offset, found))
        return True

    def _read_product(self, step: Extern) -> bool:
        factors = factors_of(step)
        if not self._has_products or factors is None or len(step.results) != 1:
            return False
        left, right, added = (None if slot is None else self._slots[slot.number] for slot in factors)
        if step.op.schema.name == "aten::linear" and isinstance(right, np.ndarray):
            right = right.T
        if not is_factor(left) or not is_factor(right) or left.dtype != right.dtype:
            return False
        shape = product_shape(left, right)
        # Which way NumPy goes through batches, it decides, and bits hang on it.
        batches = 0 if shape is None else sum(size > 1 for size in shape[: max(left.ndim, right.ndim) - 2])
        if shape is None or batches or not 0 < np.prod(shape, dtype=int) * left.itemsize < _MOST_BYTES:
            return False
        if added is not None:
            is_like = isinstance(added, np.ndarray) and added.dtype == left.dtype and added.flags.aligned
            if not is_like or 1 in (left.ndim, right.ndim) or not _fits(added.shape, shape):
                return False
        (result,) = step.results
        self._make(result, np.empty(shape, left.dtype))
        numbers = [-1 if slot is None else self._same.get(slot.number, slot.number) for slot in factors]
        more = None if added is None else (numbers[2], np.broadcast_to(added, shape))
        self._acts.append(Product((numbers[0], left), (numbers[1], right), more, result))
        return True


def factors_of(step: Extern) -> tuple[Any, Any, Any] | None:
    """The slots of what is multiplied, and what is added; None for what is no product."""
    name, given = step.op.schema.name, step.arguments
    if name in _PRODUCTS:
        found = (*given, None)
    elif name == "aten::linear":
        found = tuple(given)
    elif name in ("aten::addmm", "aten::baddbmm") and all(type(factor) is int and factor == 1 for factor in given[3:]):
        found = (given[1], given[2], given[0])
    else:
        return None
    is_told = len(found) == 3 and all(isinstance(slot, Slot) for slot in found[:2])
    return found if is_told and (found[2] is None or isinstance(found[2], Slot)) else None


def is_factor(value: Any) -> TypeGuard[Array]:
    """Whether a value is one that products here are made of."""
    is_full = isinstance(value, np.ndarray) and value.dtype.char in "fd" and value.dtype.isnative
    return is_full and value.ndim > 0 and value.size > 0 and value.flags.aligned


def product_shape(left: Array, right: Array) -> tuple[int, ...] | None:
    """Of `left @ right`; None where they do not fit."""
    if left.shape[-1] != right.shape[-2 if right.ndim > 1 else 0]:
        return None
    try:
        batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        return None
    return (*batches, *left.shape[-2:-1], *(right.shape[-1:] if right.ndim > 1 else ()))


def _fits(shape: Sequence[int], whole: Sequence[int]) -> bool:
    sizes = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(size in (1, own) for size, own in sizes)


def product_layout(product: Product, result: Array) -> tuple[Any, ...]:
    """What `text/products.c` is told of a product beside slots: whether it is of doubles; rows, what is summed over,
    columns; strides."""
    left, right = product.left[1], product.right[1]
    rows, columns = left.shape[-2] if left.ndim > 1 else 1, right.shape[-1] if right.ndim > 1 else 1
    at_left = (left.strides[-2] if left.ndim > 1 else 0, left.strides[-1])
    at_right = (right.strides[-2], right.strides[-1]) if right.ndim > 1 else (right.strides[0], 0)
    ends = [*result.strides]
    across = ends.pop() if right.ndim > 1 else 0
    down = ends.pop() if left.ndim > 1 else 0
    added = (0, 0) if product.added is None else product.added[1].strides[-2:]
    depth = left.shape[-1]
    # A single row or column has no stride in NumPy's loops, by which they choose how to multiply.
    lengths = (rows, depth, depth, columns, rows, columns)
    own = [0 if n == 1 else stride for n, stride in zip(lengths, (*at_left, *at_right, down, across), strict=True)]
    return left.dtype.char == "d", (rows, depth, columns), (*own, *added)
