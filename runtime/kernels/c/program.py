"""A program of kernels on NumPy arrays: results allocated, kernels and ops of the library run, in order.

It is made of plain data, slots and sizes, whether that was planned (`planned`) or comes from the cache (`kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ....compiler.ops.registry import Op
from ....lang.light_dataclasses import dataclass
from ...values.arena import ARENA
from ...values.float_errors import ignoring_float_errors
from ..lists.row import LaunchRow
from ..lists.slots import NewPlaces, SlotOf
from .launched import IN_VAIN, LaunchedKernels, OutOfRange

__all__ = ["IN_VAIN", "CProgram", "Extern", "OutOfRange", "Slot", "Stretch"]

ProgramSlots = list[Any]
Act = Callable[[ProgramSlots, int], None]
"""What it reads and writes, and how many threads there are."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What is in a slot, as an argument or a result."""

    number: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Kernels that run one after the other: what they make, slot, shape and dtype, the slots of what they make in the
    memory of what is in another, and those of their arguments."""

    kernels: LaunchedKernels
    made: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]
    moved: Sequence[tuple[int, int, tuple[int, ...]]]
    buffers: Sequence[int]
    numbers: Sequence[int]

    def __call__(self, slots: ProgramSlots, threads: int) -> None:
        for number, shape, dtype in self.made:
            slots[number] = ARENA.empty(shape, dtype)
        self.move(slots)
        arrays = [slots[number] for number in self.buffers]
        self.kernels.run(arrays, [slots[number] for number in self.numbers], threads)

    @property
    def read(self) -> Sequence[int]:
        """Slots that are looked at, those that it makes among them."""
        return [*self.buffers, *self.numbers, *[source for _, source, _ in self.moved]]

    @property
    def written(self) -> Sequence[int]:
        """Slots that it fills."""
        return [*[number for number, *_ in self.made], *[number for number, *_ in self.moved]]

    def at(self, places: NewPlaces | Mapping[int, int]) -> Stretch:
        """The same over another row of slots."""
        return Stretch(
            self.kernels,
            [(places[number], shape, dtype) for number, shape, dtype in self.made],
            [(places[number], places[source], shape) for number, source, shape in self.moved],
            [places[number] for number in self.buffers],
            [places[number] for number in self.numbers],
        )

    def move(self, slots: ProgramSlots) -> None:
        """Have what is made in the memory of something else lie there."""
        for number, source, shape in self.moved:
            array = slots[source]
            slots[number] = array if array.shape == shape else array.reshape(shape)


class Extern:
    """An op of the library: its arguments, Slots among them, and the slots of its results, of which `tensors` says
    which are tensors: their elements lie in order from then on, unless it `is_view`.

    `is_single` says that it has one result. `function` evaluates it, unless the op itself does. `failed` gives what
    tells of an error, for the arguments; without, ops one by one are to say what is wrong.
    """

    __slots__ = (
        "_evaluate",
        "_gives_number",
        "_readers",
        "arguments",
        "failed",
        "function",
        "is_single",
        "is_view",
        "op",
        "results",
        "tensors",
    )

    def __init__(
        self,
        op: Op,
        arguments: Sequence[Any],
        results: Sequence[int],
        tensors: Sequence[bool],
        *,
        is_view: bool,
        is_single: bool,
        failed: Callable[[Sequence[Any], Exception], Exception] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.op = op
        self.arguments = arguments
        self.results = results
        self.tensors = tensors
        self.is_view = is_view
        self.is_single = is_single
        self.failed = failed
        self.function = function
        self._evaluate = op.run if function is None else function
        self._gives_number = is_single and not tensors[0]
        read = [(i, a) for i, a in enumerate(arguments) if isinstance(a, Slot | list | tuple)]
        self._readers = [(i, _reader(argument)) for i, argument in read]

    @property
    def read(self) -> Sequence[int]:
        """Slots that are looked at."""
        return [slot.number for slot in slots_among(self.arguments)]

    @property
    def written(self) -> Sequence[int]:
        """Slots that it fills."""
        return self.results

    def at(self, places: NewPlaces | Mapping[int, int]) -> Extern:
        """The same over another row of slots."""
        return Extern(
            self.op,
            [moved_slots(argument, places) for argument in self.arguments],
            [places[number] for number in self.results],
            self.tensors,
            is_view=self.is_view,
            is_single=self.is_single,
            failed=self.failed,
            function=self.function,
        )

    def closed(self, atoms: Sequence[int]) -> Extern:
        """For sizes at which atoms have these values, of which nothing in it depends."""
        return self

    def __call__(self, slots: ProgramSlots, threads: int) -> None:
        arguments = list(self.arguments)
        for i, read in self._readers:
            arguments[i] = read(slots)
        found = self._found(arguments)
        for number, value in zip(self.results, found, strict=True):
            slots[number] = value

    @ignoring_float_errors
    def found(self, *arguments: Any) -> list[Any]:
        """What it gives for arguments, one value for each slot of its results."""
        return self._found(arguments)

    def _found(self, arguments: Sequence[Any]) -> list[Any]:
        """The same where float errors are ignored already."""
        try:
            result = self._evaluate(*arguments)
        except MemoryError:
            raise
        except Exception as error:
            raise (self.failed(arguments, error) if self.failed is not None else OutOfRange()) from error
        if self._gives_number:
            return [result]
        is_whole = self.is_single and not isinstance(result, list | tuple)
        found = [result] if is_whole else list(result)
        if self.is_view:
            return found
        return [_in_order(v) if is_tensor else v for v, is_tensor in zip(found, self.tensors, strict=True)]


@dataclass(frozen=True, slots=True)
class Straight:
    """A program that is one stretch. Slots of constants come first, then those of inputs. A result may be None."""

    stretch: Stretch
    constants: Sequence[Any]
    results: Sequence[int | None]


class CProgram:
    """A program for values of given layouts, with a slot per value; an array leaves its slot after its last use.

    `constants` come first, then inputs, of which `widths` has how many tensors one that is a list has, None for any
    other; then as many slots as are `made`. Each of the `steps` has the slots that are free after it. `outputs` are
    Slots, numbers, and lists of them, and `layouts` has shape and dtype of those that are Slots of tensors.

    May run in several threads at once.
    """

    def __init__(
        self,
        constants: Sequence[Any],
        widths: Sequence[int | None],
        made: int,
        steps: Sequence[tuple[Act, Sequence[int]]],
        outputs: Sequence[Any],
        layouts: Sequence[tuple[tuple[int, ...], np.dtype[Any]] | None],
    ) -> None:
        self.constants = list(constants)
        self.widths = widths
        self.made = made
        self.steps = steps
        self.layouts = layouts
        self.takes_lists = any(width is not None for width in widths)
        self._asked = 0
        self._empty = [None] * made
        self.returns(outputs)

    def returns(self, outputs: Sequence[Any]) -> None:
        """Have it return these."""
        self.outputs = outputs
        self._results = [_reader(output) for output in outputs]

    @ignoring_float_errors
    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The outputs, for one value per input."""
        slots: ProgramSlots = [*self.constants, *(self._flat(values) if self.takes_lists else values), *self._empty]
        for step, free in self.steps:
            step(slots, threads)
            for number in free:
                slots[number] = None
        return self.outputs_of(slots)

    def outputs_of(self, slots: ProgramSlots) -> list[Any]:
        """The outputs, by what is in slots at the end of a run."""
        results = [read(slots) for read in self._results]
        return [self._own(result) for result in results] if self.constants else results

    def _flat(self, values: Sequence[Any]) -> Iterable[Any]:
        for width, value in zip(self.widths, values, strict=True):
            yield from (value,) if width is None else value

    def _own(self, result: Any) -> Any:
        """The result; a copy of one in the memory of a constant, which a caller must not write to."""
        if isinstance(result, list | tuple):
            return type(result)(self._own(item) for item in result)
        arrays = [constant for constant in self.constants if isinstance(constant, np.ndarray)]
        is_shared = isinstance(result, np.ndarray) and any(np.may_share_memory(result, c) for c in arrays)
        return result.copy() if is_shared else result

    def note(self, row: LaunchRow, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Add what a run did to a row, whose values these are. Raises: Unlisted."""
        places = [row.place_of_constant(constant) for constant in self.constants]
        places += [row.place_of(value) for value in (self._flat(values) if self.takes_lists else values)]
        places += [row.new_place() for _ in range(self.made)]
        lasting = set(range(len(self.constants)))
        for step, _ in self.steps:
            assert isinstance(step, Stretch | Extern)
            row.add(step.at(places))
            if isinstance(step, Stretch):
                lasting |= {number for number, source, _ in step.moved if source in lasting}
            elif lasting.intersection(step.read):
                lasting.update(step.written)
        for output, result in zip(self.outputs, results, strict=True):
            is_shared = any(slot.number in lasting for slot in slots_among([output]))
            row.found(_as_slots(output, places), result, self._own if is_shared else None)

    def meets_again(self) -> bool:
        """Whether this is asked for the second time."""
        self._asked += 1
        return self._asked == 2

    @property
    def straight(self) -> Straight | None:
        """The program as one stretch of kernels, which return what they make; None where it is more."""
        if len(self.steps) != 1 or self.takes_lists:
            return None
        ((step, _),) = self.steps
        if not isinstance(step, Stretch) or not are_slots(self.outputs):
            return None
        made = {number for number, _, _ in step.made}
        if not all(output is None or isinstance(output, Slot) for output in self.outputs):
            return None
        results = [None if output is None else output.number for output in self.outputs]
        return Straight(step, self.constants, results) if made.issuperset(set(results) - {None}) else None


def are_slots(outputs: Sequence[Any]) -> bool:
    """Whether outputs are Slots, but for those that are None, or numbers that are known."""
    return all(output is None or isinstance(output, Slot | bool | int | float) for output in outputs)


def slots_among(arguments: Sequence[Any]) -> list[Slot]:
    """The slots that arguments look at."""
    found: list[Slot] = []
    for argument in arguments:
        if isinstance(argument, list | tuple):
            found += slots_among(argument)
        elif isinstance(argument, Slot):
            found.append(argument)
    return found


def value_of(argument: Any, slots: ProgramSlots) -> Any:
    """An argument with what is in slots."""
    if isinstance(argument, Slot):
        return slots[argument.number]
    return type(argument)([value_of(a, slots) for a in argument]) if isinstance(argument, list | tuple) else argument


def moved_slots(argument: Any, places: NewPlaces | Mapping[int, int]) -> Any:
    """An argument over another row of slots."""
    if isinstance(argument, Slot):
        return Slot(places[argument.number])
    return (
        type(argument)([moved_slots(a, places) for a in argument]) if isinstance(argument, list | tuple) else argument
    )


def _as_slots(output: Any, places: NewPlaces) -> Any:
    """An output as rows have it."""
    if isinstance(output, Slot):
        return SlotOf(places[output.number])
    return type(output)([_as_slots(item, places) for item in output]) if isinstance(output, list | tuple) else output


def _reader(argument: Any) -> Callable[[ProgramSlots], Any]:
    if isinstance(argument, Slot):
        return itemgetter(argument.number)
    if isinstance(argument, list | tuple):
        readers, kind = [_reader(item) for item in argument], type(argument)
        return lambda slots: kind([read(slots) for read in readers])
    return lambda slots: argument


def _in_order(value: Any) -> np.ndarray[Any, Any]:
    """An array with its elements in order: the very array where they are."""
    is_so = type(value) is np.ndarray and value.flags.c_contiguous
    return value if is_so else np.ascontiguousarray(value).reshape(value.shape)
