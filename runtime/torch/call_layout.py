"""Where everything stands in the calls of one kind that run by one list of launches: found once, not in each call.

A list does the same each time, so its results are nested alike, and those that own their memory do so each time. What a
call has of its own besides tensors are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Protocol

import torch

from ...compiler.fusion.unasked import float_key
from .places import NestedPlaces, TensorPlace, leaves_of, moved, places, put_together, take_apart
from .recorded.kept_places import KeptPlaces
from .recorded.node import StepCall, run_program
from .second_derivatives import KeptArguments
from .tensors import kind_of_gradient

ListedGradients = Callable[[KeptPlaces, Sequence[Any], Hashable, Sequence[Any]], Any]
"""The gradients of arguments, in a row; None where the usual node finds them. Of what a node keeps, gradients of
outputs, captures as a key, and both as values."""


class Listed(Protocol):
    """What ran, and does the same each time that it runs."""

    @property
    def memory(self) -> Sequence[Any]:
        """Whose memory each result has, nested as these are: the number of an allocation of its own and whether it may
        be a view of that; True where that is not known; None of what is the same value each time."""


class CallLayout:
    """What follows for the calls of one kind of which `listed` makes the results; nothing, unless it `holds`."""

    def __init__(self, listed: Listed, call: StepCall, results: Sequence[Any], tensors: Sequence[Any]) -> None:
        step = call.step
        self.listed = listed
        row: list[Any] = []
        self._step = step
        self._outputs = take_apart(results, row)
        for i, first in step.repeated.items():
            self._outputs[i] = self._outputs[first]
        self._picked: list[int] = []
        self._detached: list[int] = []
        self._views: list[int] = []
        self.holds, self._is_fixed = self._read_memory(results)
        vjps = self._vjps = [self._outputs[i] for i in step.input_vjps]
        with_gradient = set(places(vjps))
        self._without = [i for i, t in enumerate(row) if i not in with_gradient or not t.is_floating_point()]
        self._saved: list[int] = []
        captures = moved([call.arguments[i] for i in step.captured_inputs], range(len(tensors)), self._saved)
        self._count_of_inputs = len(self._saved)
        captures += moved([self._outputs[i] for i in step.captured_outputs], range(len(row)), self._saved)
        self._has_floats = any(type(value) is float for value in leaves_of(captures))
        self._captures = captures
        self._arguments = [call.arguments[i] for i in step.output_vjps]
        lists = [layout for layout in vjps if type(layout) is list]
        self._metadata: dict[int, tuple[Any, ...]] = {place: kind_of_gradient(row[place]) for place in places(lists)}
        self._shapes = [tensor.shape for tensor in tensors]
        self.direct = {int(layout): i for i, layout in enumerate(vjps) if type(layout) is TensorPlace}

    def _read_memory(self, results: Sequence[Any]) -> tuple[bool, bool]:
        """Whether all that is returned is known to own its memory, and whether nothing but tensors changes."""
        told = [None if i in self._step.repeated else memory for i, memory in enumerate(self.listed.memory)]
        leaves, memory = leaves_of(results), leaves_of(told)
        real, seen, is_fixed = len(leaves_of(results[: self._step.num_real])), set(), True
        if len(leaves) != len(memory):
            return False, False
        for position, (leaf, own) in enumerate(zip(leaves, memory, strict=True)):
            if not isinstance(leaf, torch.Tensor):
                is_fixed = is_fixed and own is None
                continue
            is_known = type(own) is tuple and own[0] not in seen
            if not is_known and position < real:
                return False, False
            if not is_known:
                self._detached.append(len(self._picked))
            elif own[1]:
                self._views.append(len(self._picked))
            if is_known:
                seen.add(own[0])
            self._picked.append(position)
        return True, is_fixed

    def row(self, call: StepCall, results: Sequence[Any]) -> tuple[Any, ...] | None:
        """The tensors of results, as they may be handed out, and the call told where they stand; None where these are
        others than they were."""
        row = leaves_of(results)
        if len(self._picked) != len(row):
            row = [row[i] for i in self._picked]
        if row and {*map(type, row)} != {torch.Tensor}:
            return None
        for i in self._views:
            if row[i]._is_view():
                row[i] = row[i].detach()
        for i in self._detached:
            row[i] = row[i].detach()
        call.outputs = self._outputs
        if not self._is_fixed:
            call.outputs = take_apart(results, [])
            for i, first in self._step.repeated.items():
                call.outputs[i] = call.outputs[first]
        return tuple(row)

    def remember(
        self,
        ctx: Any,
        call: StepCall,
        tensors: Sequence[Any],
        row: Sequence[Any],
        gradients: ListedGradients,
        seeds: Collection[int],
    ) -> ListedPlaces:
        """Tell torch what `StepCall.remember` does. `seeds` are the captures that are some."""
        if self._without:
            ctx.mark_non_differentiable(*[row[i] for i in self._without])
        # What `set_materialize_grads` and `save_for_backward` do, without two calls.
        ctx.materialize_grads = False
        count = self._count_of_inputs
        ctx.to_save = (*[tensors[i] for i in self._saved[:count]], *[row[i] for i in self._saved[count:]])
        # Of what is the same each time, this stands for it.
        captures: list[NestedPlaces] = self._captures
        key: Hashable = self
        if self._has_floats or not self._is_fixed:
            saved: list[Any] = []
            captures = moved([call.arguments[i] for i in call.step.captured_inputs], tensors, saved)
            captures += moved([call.outputs[i] for i in call.step.captured_outputs], row, saved)
            key = key_of_captures(captures, seeds)
        given = None if call.step.pullback is None else KeptArguments.of(call.arguments, tensors)
        kept = ListedPlaces(
            call.step, run_program, captures, self._vjps, self._arguments, self._metadata, self._shapes, (), given
        )
        kept.frozen, kept.direct, kept.by_list = key, self.direct, gradients
        ctx.kept = kept
        return kept


class ListedPlaces(KeptPlaces):
    """What a node of such a call keeps."""

    __slots__ = ("by_list", "direct", "frozen")

    frozen: Hashable
    direct: dict[int, int]
    by_list: ListedGradients

    def gradients(self, saved: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments' tensors, in a row."""
        vjps: list[Any] = [None] * len(self.outputs)
        for place, gradient in enumerate(given):
            if gradient is not None:
                i = self.direct.get(place)
                if i is None:
                    # Of an element of a list.
                    return super().gradients(saved, given)
                vjps[i] = gradient
        if not self.step.repeated and not torch.is_grad_enabled():
            found = self.by_list(self, vjps, self.frozen, [*vjps, *put_together(self.captures, saved)])
            if found is not None:
                row: list[Any] = found
                return row
        return super().gradients(saved, given)


def key_of_captures(captures: Sequence[NestedPlaces], seeds: Collection[int]) -> Hashable:
    """Captures as a key, but for seeds, of which each call has its own."""
    return key_of_layouts([[] if i in seeds else capture for i, capture in enumerate(captures)] if seeds else captures)


def key_of_layouts(layouts: Any) -> Hashable:
    """Layouts as a key: numbers as what plans depend on of them. They nest as deep as types, so this recurses."""
    if type(layouts) is list:
        return tuple([key_of_layouts(item) for item in layouts])
    if type(layouts) is TensorPlace:
        return ()
    return float_key(layouts, settled=False) if type(layouts) is float else (type(layouts), layouts)


def places_of(layouts: Sequence[NestedPlaces], values: Sequence[Any]) -> list[int]:
    """Of each value, lists taken apart, where its tensor stands in a row; -1 of what is none."""
    found: list[int] = []
    for layout, value in zip(layouts, values, strict=True):
        if type(layout) is list and type(value) is list:
            found += places_of(layout, value)
        else:
            place = int(layout) if type(layout) is TensorPlace else -1
            found += [place] * len(leaves_of([value]))
    return found
