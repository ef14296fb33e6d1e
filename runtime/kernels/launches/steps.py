"""Steps over slots: a kernel launched, an op of torch called. Each is prepared once, and then only run.

LaunchedKernel   slots 7 ← relu(4, 5)      allocates 7, launches with addresses, sizes and numbers
CalledOp         slots 8 ← aten::mm(7, 2)  calls torch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import torch

from ....compiler.ir.node import Node
from ....compiler.kernel_ir.layout import Layout
from ....compiler.types.open_sizes import closed, is_open
from ....lang.light_dataclasses import dataclass, replace
from ...failures.failed_node import failure_at
from ...values.torch_dtypes import torch_dtypes

KernelSlots = list[Any]
RunStep = Callable[[KernelSlots, Any], None]
"""A step: what it reads and writes, and the stream that it is put on."""
FreedPlaces = Sequence[int]
"""Slots that nothing reads any more after a step."""
LAUNCH, CALL, OTHER = range(3)
ONE, SEVERAL, NESTED = range(3)
"""Kinds of steps and of results, as `c/text/launches.c` has them."""
NewPlaces = Sequence[int]
"""Where slots stand in another row: a new number for each."""
_empty = torch.empty_strided
_DATA = (RuntimeError, TypeError, ValueError, IndexError)


class SlotOf(int):
    """Among the arguments of a step, the value of a slot."""

    __slots__ = ()


class Launchable(Protocol):
    """A kernel."""

    device: torch.device

    def closed(self, atoms: Sequence[int]) -> Any:
        """With values for what is open."""

    def launch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[float], stream: Any) -> None:
        """RunStep on a stream."""


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """A kernel: what it makes, slot, shape, strides and dtype; the slots of what it makes in the memory of what is in
    another, and those of its arguments."""

    kernel: Launchable
    made: Sequence[tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]]
    moved: Sequence[tuple[int, int, tuple[int, ...]]]
    buffers: Sequence[int]
    numbers: Sequence[int]

    @property
    def read(self) -> Sequence[int]:
        """Slots that are looked at, those that it makes among them."""
        return [*self.buffers, *self.numbers, *[source for _, source, _ in self.moved]]

    @property
    def written(self) -> Sequence[int]:
        """Slots that it fills."""
        return [*[number for number, *_ in self.made], *[number for number, *_ in self.moved]]

    def closed(self, atoms: Sequence[int]) -> LaunchedKernel:
        """With values for what is open."""
        made, moved = closed(self.made, atoms), closed(self.moved, atoms)
        return LaunchedKernel(self.kernel.closed(atoms), made, moved, self.buffers, self.numbers)

    def at(self, places: NewPlaces) -> LaunchedKernel:
        """The same over another row of slots."""
        return LaunchedKernel(
            self.kernel,
            [(places[number], *rest) for number, *rest in self.made],
            [(places[number], places[source], shape) for number, source, shape in self.moved],
            [places[number] for number in self.buffers],
            [places[number] for number in self.numbers],
        )

    def described(self, freed: FreedPlaces) -> tuple[Any, ...]:
        """The same for what runs steps without Python."""
        named = {"device": self.kernel.device}
        made = [(n, (shape, strides), {**named, "dtype": dtype}) for n, shape, strides, dtype in self.made]
        moved, buffers, numbers = tuple(map(tuple, self.moved)), tuple(self.buffers), tuple(self.numbers)
        return (LAUNCH, (tuple(freed), self.kernel, tuple(made), moved, buffers, numbers))

    def prepared(self) -> RunStep:
        """What runs it."""
        kernel, device = self.kernel, self.kernel.device
        made, moved, buffers, numbers = self.made, self.moved, self.buffers, self.numbers
        if not moved and not numbers and len(made) == 1:
            ((result, of_shape, of_strides, of_dtype),) = made

            def run_usual(slots: KernelSlots, stream: Any) -> None:
                slots[result] = _empty(of_shape, of_strides, dtype=of_dtype, device=device)
                kernel.launch([slots[n] for n in buffers], (), stream)

            return run_usual

        def run(slots: KernelSlots, stream: Any) -> None:
            for number, shape, strides, dtype in made:
                # It takes half of the time that `torch.empty` does to parse its arguments.
                slots[number] = _empty(shape, strides, dtype=dtype, device=device)
            for number, source, shape in moved:
                place = slots[source]
                slots[number] = place if place.shape == shape else place.view(shape)
            kernel.launch([slots[n] for n in buffers], [slots[n] for n in numbers], stream)

        return run


@dataclass(frozen=True, slots=True)
class CalledOp:
    """An op of torch, for arguments with a SlotOf in the place of each value. Of several results `layouts` has what
    kernels were planned for; None where anything will do, as of one that `is_view`."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    results: Sequence[int]
    layouts: Sequence[Layout | None]
    is_view: bool
    node: Node
    title: str

    @property
    def read(self) -> Sequence[int]:
        """Slots that are looked at."""
        return slots_in(self.arguments)

    @property
    def written(self) -> Sequence[int]:
        """Slots that it fills."""
        return self.results

    def closed(self, atoms: Sequence[int]) -> CalledOp:
        """With values for what is open."""
        return replace(self, arguments=closed(self.arguments, atoms)) if is_open(self.arguments) else self

    def at(self, places: NewPlaces) -> CalledOp:
        """The same over another row of slots."""
        arguments, results = moved_to(self.arguments, places), [places[number] for number in self.results]
        return replace(self, arguments=arguments, results=results)

    def described(self, freed: FreedPlaces) -> tuple[Any, ...]:
        """The same for what runs steps without Python."""
        is_one = len(self.results) == 1 and len(self.node.outputs) == 1
        # Anything will do for a view, and for what no kernel was planned for.
        settles = [None if self.is_view or layout is None else torch_dtypes()[layout.dtype] for layout in self.layouts]
        is_unpacked = is_one and self.layouts[0] is not None
        kept = (ONE if is_one else SEVERAL, is_unpacked, tuple(self.results), tuple(settles))
        return (CALL, (tuple(freed), self.function, described_values(tuple(self.arguments)), self._told, *kept))

    def _told(self, arguments: Sequence[Any], error: Exception) -> Exception:
        """What an error of the call is to its caller."""
        if isinstance(error, torch.OutOfMemoryError) or not isinstance(error, _DATA):
            return error
        failure = self._failed(arguments, error)
        failure.__cause__ = error
        return failure

    def prepared(self) -> RunStep:
        """What runs it."""
        if len(self.results) == 1 and len(self.node.outputs) == 1:
            return self._of_one()
        call, results = self._call(), self.results
        settle = [_as_it_is if self.is_view or layout is None else _settler(layout) for layout in self.layouts]

        def run(slots: KernelSlots, stream: Any) -> None:
            found = call(slots)
            # A list of tensors has a slot for each.
            for number, as_planned, value in zip(results, settle, found, strict=True):
                slots[number] = as_planned(value)

        return run

    def _of_one(self) -> RunStep:
        (result,), (layout,) = self.results, self.layouts
        if layout is None or self.is_view:
            return self._of_any(result, layout is not None)
        dtype, call, two = torch_dtypes()[layout.dtype], self._call(), self._two()
        if two is not None:
            return self._of_two(result, dtype, *two)

        def run(slots: KernelSlots, stream: Any) -> None:
            value = call(slots)
            if isinstance(value, list | tuple):
                (value,) = value
            slots[result] = (value if value.dtype is dtype else value.to(dtype)).contiguous()

        return run

    def _of_any(self, result: int, is_tensor: bool) -> RunStep:
        """A tensor of any layout, or a list of unknown length, which has one slot for all."""
        call = self._call()

        def run(slots: KernelSlots, stream: Any) -> None:
            value = call(slots)
            if is_tensor and isinstance(value, list | tuple):
                (value,) = value
            slots[result] = value

        return run

    def _two(self) -> tuple[int, int] | None:
        """The slots of the arguments where these are two tensors, as of a product: the most frequent of all."""
        is_product = self.node.kind in ("aten::mm", "aten::matmul", "aten::bmm")
        return tuple(map(int, self.arguments)) if is_product else None  # type: ignore[return-value] # of two

    def _of_two(self, result: int, dtype: torch.dtype, left: int, right: int) -> RunStep:
        function, failed = self.function, self._failed

        def run(slots: KernelSlots, stream: Any) -> None:
            try:
                value = function(slots[left], slots[right])
            except torch.OutOfMemoryError:
                raise
            except _DATA as error:
                raise failed([slots[left], slots[right]], error) from error
            slots[result] = (value if value.dtype is dtype else value.to(dtype)).contiguous()

        return run

    def _call(self) -> Callable[[KernelSlots], Any]:
        function, failed = self.function, self._failed
        read = reader_of(self.arguments)

        def call(slots: KernelSlots) -> Any:
            arguments = read(slots)
            try:
                return function(*arguments)
            except torch.OutOfMemoryError:
                raise
            except _DATA as error:
                # What is wrong with an index shows only where it is used.
                raise failed(arguments, error) from error

        return call

    def _failed(self, arguments: Sequence[Any], error: Exception) -> Exception:
        return failure_at(self.node, arguments, error, self.title, ())


LaunchStep: TypeAlias = LaunchedKernel | CalledOp


def slots_in(argument: Any) -> list[int]:
    """The slots that an argument, or a list or tuple of some, looks at."""
    if type(argument) is SlotOf:
        return [argument]
    return [slot for item in argument for slot in slots_in(item)] if isinstance(argument, list | tuple) else []


def described_values(values: Any) -> tuple[Any, ...]:
    """Values, and which of them stand in slots or have such in them, for what runs steps without Python."""
    same = tuple([None if type(item) is SlotOf else item for item in values])
    plain = [(i, int(item)) for i, item in enumerate(values) if type(item) is SlotOf]
    nested = [
        (i, described_values(item)) for i, item in enumerate(values) if type(item) is not SlotOf and slots_in(item)
    ]
    where, found = tuple([i for i, _ in plain]), tuple([number for _, number in plain])
    return (type(values) is tuple, same, where, found, tuple(nested))


def moved_to(argument: Any, places: NewPlaces | Mapping[int, int]) -> Any:
    """An argument over another row of slots."""
    if type(argument) is SlotOf:
        return SlotOf(places[argument])
    return (
        type(argument)([moved_to(item, places) for item in argument]) if type(argument) in (list, tuple) else argument
    )


def reader_of(arguments: Sequence[Any]) -> Callable[[KernelSlots], list[Any]]:
    """What gives the values of arguments."""
    plain = [(i, int(item)) for i, item in enumerate(arguments) if type(item) is SlotOf]
    nested = [(i, _nested(item)) for i, item in enumerate(arguments) if type(item) is not SlotOf and slots_in(item)]
    if len(plain) == len(arguments):
        numbers = [number for _, number in plain]
        return lambda slots: [slots[number] for number in numbers]
    template = [*arguments]

    def read(slots: KernelSlots) -> list[Any]:
        found = template.copy()
        for i, number in plain:
            found[i] = slots[number]
        for i, made in nested:
            found[i] = made(slots)
        return found

    return read


def _nested(argument: Any) -> Callable[[KernelSlots], Any]:
    kind, read = type(argument), reader_of(argument)
    return read if kind is list else lambda slots: kind(read(slots))


def _as_it_is(value: Any) -> Any:
    return value


def _settler(layout: Layout) -> Callable[[Any], Any]:
    """What makes of a result of the library one that kernels were planned for: contiguous, where it may be another
    view, and of the dtype, where the statistics of halves may be float32."""
    dtype = torch_dtypes()[layout.dtype]
    return lambda value: (value if value.dtype is dtype else value.to(dtype)).contiguous()
