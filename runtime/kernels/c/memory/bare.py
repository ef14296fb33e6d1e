"""Programs that need no more than the memory of their inputs: kernels, small products, and views, one behind the other.

What such a program gives is new, an input, or a view of either, which follows from the layouts that it was planned for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from .....compiler.ops.arrays import Array
from .....compiler.ops.libraries import LEAST_THREADED
from .....compiler.ops.registry import Op, Trait
from ..program import IN_VAIN, CProgram, Extern, Slot, Stretch, are_slots, slots_among

_PRODUCTS = frozenset(("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot"))
_MOST_BYTES = 1 << 16
"""As in `text/entry.c`: from there on results come from the arena."""
_MOST_ORDERED, _ORDERED = 64, "fd?bBhilq"
"""As in `text/library.c`: elements of a row, and NumPy's codes of their dtypes."""


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


class Order(NamedTuple):
    """The first `taken` of each row along an axis in order: slots, -1 for a result that nobody takes, and an array laid
    out like what is put in order."""

    source: int
    array: Array
    values: int
    indices: int
    axis: int
    taken: int
    descending: bool


class BoundOp(NamedTuple):
    """What does the same as an op of the library, on tensors of memory: called with the op's arguments at `places`, the
    last of which go by `names`. `constant` is a tensor of an array that each call is given."""

    function: Callable[..., Any]
    places: Sequence[int]
    names: Sequence[str]
    constant: Callable[[Array], Any]


LibraryBinder: TypeAlias = Callable[[Op, Sequence[Any], Sequence[Array]], BoundOp | None]
"""What stands for an op, given arguments as it takes them and the results, on memory; None where nothing does."""


class LibraryCall(NamedTuple):
    """A call: for each argument an object and None, or slots and whether they are a list, in which -1 is None."""

    function: Callable[..., Any]
    names: Sequence[str]
    arguments: Sequence[tuple[Any, bool | None]]
    results: Sequence[int]


BareAct: TypeAlias = Stretch | Product | Order | LibraryCall
Made: TypeAlias = tuple[int, tuple[int, ...], np.dtype[Any]]


class Bare(NamedTuple):
    """Such a program. What is made are slots, shapes and dtypes; of slots that are one memory, one is named."""

    acts: Sequence[BareAct]
    made: Sequence[Made]
    views: Sequence[MemoryView]
    given: Mapping[int, np.dtype[Any]]
    """Of what is given, by slot."""
    same: dict[int, int]
    """Slots in the memory of others, which have their elements in the same order."""
    results: Sequence[Slot | bool | int | float | None]
    """Slots, and what is known."""


CHECKED = "fd?bBhilq"
"""Codes of dtypes of which an element can be asked whether it is true."""


def bare_of(
    program: CProgram,
    values: Sequence[Any],
    open_inputs: Collection[int],
    *,
    has_products: bool,
    library: LibraryBinder | None = None,
) -> Bare | None:
    """The program for values like these, those of `open_inputs` any ints; None where it is no such one.

    Where it has ops of the library that `library` is to stand for, it is run on the values, by which these are seen.
    """
    if program.takes_lists or not are_slots(program.outputs):
        return None
    return _Reader(program, values, open_inputs, has_products, library).read()


class _Reader:
    """Goes through a program with arrays that are laid out as those of a run are."""

    def __init__(
        self,
        program: CProgram,
        values: Sequence[Any],
        open_inputs: Collection[int],
        has_products: bool,
        library: LibraryBinder | None,
    ) -> None:
        first = len(program.constants)
        self._program = program
        self._inputs = len(values)
        self._slots = [*program.constants, *values, *[None] * program.made]
        self._owners = {first + i: first + i for i, value in enumerate(values) if isinstance(value, np.ndarray)}
        self._unsettled = {first + i for i in open_inputs}
        self._has_products = has_products
        self._library = library
        self._draws = any(isinstance(step, Extern) and _is_draw(step) for step, _ in program.steps)
        self._runs = any(_is_call(step) for step, _ in program.steps)
        """Whether steps are run: what ops of the library give, and whether they take it, hangs on elements."""
        self._acts: list[BareAct] = []
        self._made: list[Made] = []
        self._views: list[MemoryView] = []
        self._same: dict[int, int] = {}

    def read(self) -> Bare | None:
        if self._runs and not self._may_run():
            return None
        try:
            if not all(self._read_step(step) for step, _ in self._program.steps):
                return None
        except IN_VAIN:
            return None
        results = [
            Slot(self._same.get(output.number, output.number)) if isinstance(output, Slot) else output
            for output in self._program.outputs
        ]
        numbers = {result.number for result in results if isinstance(result, Slot)}
        if not self._owners.keys() >= numbers:
            return None
        # What draws is run once, so it must not turn out that results are to be had another way.
        if self._draws and not {number for number, _, _ in self._made} >= numbers:
            return None
        first = len(self._program.constants)
        inputs = {first + i: value for i, value in enumerate(self._slots[first : first + self._inputs])}
        given = {number: value.dtype for number, value in inputs.items() if isinstance(value, np.ndarray)}
        return Bare(self._acts, self._made, self._views, given, self._same, results)

    def _may_run(self) -> bool:
        """Whether a run more is no more than a repetition, on few elements."""
        steps = [step for step, _ in self._program.steps if isinstance(step, Extern)]
        is_pure = not any(step.op.has(Trait.RANDOM | Trait.SIDE_EFFECT) for step in steps if not _is_draw(step))
        return self._library is not None and is_pure and all(map(_is_small, self._slots))

    def _read_step(self, step: Any) -> bool:
        if isinstance(step, Stretch):
            return self._read_stretch(step)
        if not isinstance(step, Extern):
            return False
        if step.is_view:
            return self._read_view(step)
        if _is_draw(step):
            return self._read_draw(step)
        if factors_of(step) is not None and self._read_product(step):
            return True
        if not self._runs:
            return False
        return self._read_order(step) or self._read_call(step)

    def _read_draw(self, step: Extern) -> bool:
        """A number that each call draws, none is drawn for here."""
        if self._library is None or len(step.results) != 1:
            return False
        (number,) = step.results
        self._make(number, np.empty((), np.int64))
        self._slots[number] = 1
        self._unsettled.add(number)
        self._acts.append(LibraryCall(step.op.evaluate, (), (), step.results))
        return True

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
        if self._runs:
            stretch(self._slots, 1)
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
        # Where another library multiplies, such are its.
        if np.prod(shape, dtype=int) * left.shape[-1] >= LEAST_THREADED:
            return False
        if added is not None:
            is_like = isinstance(added, np.ndarray) and added.dtype == left.dtype and added.flags.aligned
            if not is_like or 1 in (left.ndim, right.ndim) or not _fits(added.shape, shape):
                return False
        (result,) = step.results
        self._make(result, np.empty(shape, left.dtype))
        if self._runs:
            step(self._slots, 1)
        numbers = [-1 if slot is None else self._same.get(slot.number, slot.number) for slot in factors]
        more = None if added is None else (numbers[2], np.broadcast_to(added, shape))
        self._acts.append(Product((numbers[0], left), (numbers[1], right), more, result))
        return True

    def _read_order(self, step: Extern) -> bool:
        found = _order(step.op.schema.full_name, step.arguments)
        if found is None or not isinstance(step.arguments[0], Slot):
            return False
        dim, descending, taken = found
        number = step.arguments[0].number
        array = self._slots[number]
        is_told = isinstance(array, np.ndarray) and array.ndim and array.dtype.char in _ORDERED and array.flags.aligned
        if not is_told or not -array.ndim <= dim < array.ndim or (taken is not None and array.dtype.char == "?"):
            return False
        length = array.shape[dim]
        taken = length if taken is None else taken
        if length > _MOST_ORDERED or not 0 <= taken <= length:
            return False
        step(self._slots, 1)
        wanted = [-1, *step.results][-2:]
        if not self._makes(step.results):
            return False
        self._acts.append(
            Order(self._same.get(number, number), array, wanted[0], wanted[1], dim % array.ndim, taken, descending)
        )
        return True

    def _makes(self, results: Sequence[int]) -> bool:
        """Whether what is in these slots now are arrays of few elements, from here on made."""
        for number in results:
            array = self._slots[number]
            if not isinstance(array, np.ndarray) or not _is_small(array) or not array.flags.c_contiguous:
                return False
            self._make(number, array)
        return True

    def _read_call(self, step: Extern) -> bool:
        if self._library is None or not all(step.tensors):
            return False
        values = [_filled(argument, self._slots) for argument in step.arguments]
        step(self._slots, 1)
        if not self._makes(step.results):
            return False
        bound = self._library(step.op, values, [self._slots[number] for number in step.results])
        if bound is None:
            return False
        arguments = [self._passed(step.arguments[place], bound) for place in bound.places]
        if any(argument is None for argument in arguments):
            return False
        passed = [argument for argument in arguments if argument is not None]
        self._acts.append(LibraryCall(bound.function, bound.names, passed, step.results))
        return True

    def _passed(self, argument: Any, bound: BoundOp) -> tuple[Any, bool | None] | None:
        """An argument of a LibraryCall; None where it cannot be told."""
        is_list = isinstance(argument, list | tuple)
        items = argument if is_list else [argument]
        if not any(isinstance(item, Slot) for item in items):
            return (argument, None) if not slots_among([argument]) else None
        numbers: list[int] = []
        for item in items:
            if isinstance(item, Slot) and item.number not in self._unsettled:
                value = self._slots[item.number]
                if item.number < len(self._program.constants):
                    return None if is_list else (bound.constant(value), None)
                if isinstance(value, np.ndarray) and not _is_addressable(value):
                    return None
                numbers.append(self._same.get(item.number, item.number))
            elif item is None:
                numbers.append(-1)
            else:
                return None
        return tuple(numbers), is_list


def _order(name: str, given: Sequence[Any]) -> tuple[int, bool, int | None] | None:
    """Along which dimension an op puts elements in order, whether from the largest on, and how many it takes, None for
    all; None for what is no such op."""
    if name in ("aten::sort", "aten::argsort"):
        found = (given[1], given[2], None)
    elif name in ("aten::sort.stable", "aten::argsort.stable"):
        found = (given[2], given[3], None)
    elif name == "aten::topk":
        found = (given[2], given[3], given[1])
    else:
        return None
    is_told = type(found[0]) is int and type(found[1]) is bool and type(found[2]) in (int, type(None))
    return found if is_told else None


def _is_call(step: Any) -> bool:
    return isinstance(step, Extern) and not step.is_view and factors_of(step) is None and not _is_draw(step)


def _is_draw(step: Extern) -> bool:
    return step.op.schema.full_name == "gs::seed"


def _is_small(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.nbytes < _MOST_BYTES


def _is_addressable(array: Array) -> bool:
    """Whether torch has tensors laid out so."""
    return array.flags.aligned and all(stride >= 0 and not stride % array.itemsize for stride in array.strides)


def _filled(argument: Any, slots: Sequence[Any]) -> Any:
    """An argument with what is in its slots."""
    if isinstance(argument, Slot):
        return slots[argument.number]
    if isinstance(argument, list | tuple):
        return type(argument)([_filled(item, slots) for item in argument])
    return argument


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
