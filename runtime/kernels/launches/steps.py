"""Steps over slots: a kernel launched, an op of torch called. Each is prepared once, and then only run.

LaunchedKernel   slots 7 ← relu(4, 5)      allocates 7, launches with addresses, sizes and numbers
CalledOp         slots 8 ← aten::mm(7, 2)  calls torch
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any, Protocol, TypeAlias

import torch

from ....compiler.ir.node import Node
from ....compiler.kernel_ir.layout import Layout
from ....compiler.ops.meta import Meta
from ....compiler.types.open_sizes import closed, is_open
from ....lang.light_dataclasses import dataclass, replace
from ...failures.failed_node import failure_at
from ...values.torch_dtypes import dtypes_of_torch, torch_dtypes
from ..lists.row import Tensors
from ..lists.slots import (
    CALL,
    LAUNCH,
    ONE,
    SEVERAL,
    FreedPlaces,
    KernelSlots,
    NewPlaces,
    RunStep,
    described_values,
    moved_to,
    reader_of,
    slots_in,
)

_DTYPE_OF = dtypes_of_torch()
_empty = torch.empty_strided
TENSORS = Tensors(
    torch.Tensor,
    torch.Tensor.detach,
    lambda tensor: Meta(tuple(tensor.shape), _DTYPE_OF[tensor.dtype]),
    add,
)
"""torch's."""
_DATA = (RuntimeError, TypeError, ValueError, IndexError)


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


def _as_it_is(value: Any) -> Any:
    return value


def _settler(layout: Layout) -> Callable[[Any], Any]:
    """What makes of a result of the library one that kernels were planned for: contiguous, where it may be another
    view, and of the dtype, where the statistics of halves may be float32."""
    dtype = torch_dtypes()[layout.dtype]
    return lambda value: (value if value.dtype is dtype else value.to(dtype)).contiguous()
