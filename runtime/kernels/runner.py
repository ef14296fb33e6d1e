"""A graph run on torch tensors of a device, by fused kernels: planned once for each combination of layouts.

What is a straight line for them is one program; of any other, each straight stretch is a graph like this, in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from copy import copy
from threading import RLock
from typing import Any

import torch

from ...compiler.codegen.triton.module import supports
from ...compiler.fusion.fuse import Unfusable, fuse, fuse_groups
from ...compiler.fusion.refusals import Unsettled
from ...compiler.fusion.seeds import open_inputs, open_lists
from ...compiler.fusion.unasked import float_key, open_seeds, planned_for
from ...compiler.ir.graph import Graph
from ...compiler.kernel_ir.layout import Layout
from ...compiler.shapes.open_lists import whole_lists
from ...compiler.shapes.propagate import ShapeError
from ...compiler.types.open_sizes import Symbols, closed
from ...lang.collection import collection_paused
from ...lang.light_dataclasses import replace
from ..plans.interpreter import run_plan
from ..settings.modes import AUTOTUNE
from ..values.torch_dtypes import dtypes_of_torch
from .by_torch.ops import without_autocast
from .device_plan import device_plan, sum_of_gradients
from .failure import KernelFailure
from .groups import MAX_PROGRAMS, MAX_SHAPES, TOO_MANY_SHAPES, GroupRunner, make_room
from .launches.launch_list import LaunchList
from .launches.steps import TENSORS
from .lists.kept import KeptList
from .lists.recording import Recording
from .notices import tell_of_ops
from .program import DeviceProgram, on_stream
from .size_classes import SeenTensor, SizeClasses
from .size_families import ClosedPlans

_DTYPE_OF = dtypes_of_torch()
_PLANNING = RLock()
_UNPLANNED: Any = object()
_DEVICE = (torch.OutOfMemoryError, torch.AcceleratorError, KernelFailure)
"""What goes wrong with a device, and not with data."""


class KernelGraph:
    """A graph with its programs; what `runtime.torch.devices.register_runner` takes makes one of these.

    It runs on the `device`, or where its tensors are.
    """

    def __init__(self, graph: Graph, device: torch.device | None = None) -> None:
        self._graph = graph
        self._device = device
        self._open = open_inputs(self._graph) | open_lists(self._graph)
        self._programs: dict[Hashable, DeviceProgram | None] = {}
        self._plans: dict[Hashable, DevicePlan] = {}
        self._closed: ClosedPlans[DeviceProgram | DevicePlan] = ClosedPlans()
        self._classes: SizeClasses[DeviceProgram | DevicePlan] = SizeClasses(seen_tensor, lambda: whole_lists(graph))
        self._refusals: dict[Hashable, Unfusable] = {}

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The results."""
        program, _ = self.chosen(values)
        return program.run(values)

    def chosen(self, values: Sequence[Any]) -> tuple[DeviceProgram | DevicePlan, bool]:
        """What runs it on values like these, and whether on these very floats alone."""
        program = self.fixed(values)
        if program is not None:
            return program, False
        program = self._program(values, settled=True)
        if program is not None:
            return program, True
        self._tell(values)
        return self._by_ops(self._device_of(values)), False

    def fixed(self, values: Sequence[Any]) -> DeviceProgram | DevicePlan | None:
        """What runs it on values that differ from these in the elements of tensors, in seeds and in floats, which
        are parameters of kernels; None where floats have to be known first, and then all is a straight line."""
        program = self._program(values, settled=False)
        if program is not None or self._is_straight(values):
            return program
        return self._in_parts(values)

    def _is_straight(self, values: Sequence[Any]) -> bool:
        """Whether floats that are known leave nothing to be decided."""
        has_floats = any(isinstance(value, float) for value in values)
        return has_floats and self._program(values, settled=True) is not None

    def _tell(self, values: Sequence[Any]) -> None:
        """Why such values are none for kernels, where that is not for ops to say."""
        values = open_seeds(values, self._open)
        reason = self._refusals.get(_described(values, True)) or self._refusals.get(_described(values, False))
        if reason is not None:
            tell_of_ops(self._graph, reason)

    def _program(self, values: Sequence[Any], *, settled: bool) -> DeviceProgram | None:
        values = open_seeds(values, self._open)
        described = _described(values, settled)
        found = self._closed.get(described) or self._programs.get(described, _UNPLANNED)
        if found is _UNPLANNED:
            found = self._plan(values, described, settled)
        return None if isinstance(found, DevicePlan) else found

    def _plan(self, values: Sequence[Any], key: Hashable, settled: bool) -> DeviceProgram | DevicePlan | None:
        tunes = AUTOTUNE.get()
        closed = None if tunes else self._closed.close(key, self._classes.find(values, settled))
        if closed is not None:
            return closed
        with _PLANNING, collection_paused():
            if key not in self._programs:
                # What is timed is timed for the very sizes.
                found = None if tunes else self._classes.plan(values, settled, self._of_class(values))
                closed = self._closed.close(key, found)
                if closed is not None:
                    return closed
                if not self._has_room():
                    return None
                self._programs[key] = self._fused(values, key, settled)
            return self._programs[key]

    def _of_class(self, values: Sequence[Any]) -> Callable[[Sequence[Any], Symbols], DeviceProgram | DevicePlan]:
        """What plans for open sizes. It raises whatever stands against it."""

        def plan(known: Sequence[Any], symbols: Symbols) -> DeviceProgram | DevicePlan:
            try:
                return self._planned(known, values, symbols)
            except Unsettled:
                raise
            except Unfusable:
                return self._planned_in_parts(known, values)

        return plan

    def _planned_in_parts(self, known: Sequence[Any], values: Sequence[Any]) -> DevicePlan:
        """The plan with what is straight in it by kernels. Raises: Unfusable, where nothing is; ShapeError."""
        parts = fuse_groups(self._graph, known)
        if parts is None:
            raise Unfusable("nothing in it is straight")
        return self._in_groups(parts.graph, self._device_of(values))

    def _fused(self, values: Sequence[Any], key: Hashable, settled: bool) -> DeviceProgram | None:
        try:
            return self._planned([given(value, settled) for value in values], values)
        except (ShapeError, Unsettled):
            # What the data has wrong is told by the ops themselves, run one by one.
            return None
        except Unfusable as refusal:
            self._refusals[key] = refusal
            return None

    def _planned(self, known: Sequence[Any], values: Sequence[Any], symbols: Symbols | None = None) -> DeviceProgram:
        """The program of the graph for what is known of values like these. Raises: Unfusable, ShapeError."""
        return DeviceProgram(fuse(self._graph, known, supports), values, self._device_of(values), symbols)

    def _in_parts(self, values: Sequence[Any]) -> DevicePlan | None:
        """The plan for such values, with what is straight in it by kernels; None where they fit no op."""
        values = open_seeds(values, self._open)
        key = _described(values, False)
        closed_plan = self._closed.get(key)
        if isinstance(closed_plan, DevicePlan):
            return closed_plan
        if key not in self._plans:
            with _PLANNING, collection_paused():
                try:
                    parts = fuse_groups(self._graph, [given(value, False) for value in values])
                except ShapeError:
                    return None
                if len(self._plans) >= MAX_PROGRAMS:
                    del self._plans[next(iter(self._plans))]
                device = self._device_of(values)
                if parts is None:
                    self._tell(values)
                made = self._in_groups(parts.graph, device) if parts is not None else self._by_ops(device)
                self._plans.setdefault(key, made)
        return self._plans[key]

    def _by_ops(self, device: torch.device) -> DevicePlan:
        """The plan without kernels."""
        return self._plans.get(device) or self._plans.setdefault(device, DevicePlan(self._graph, device))

    def _in_groups(self, graph: Graph, device: torch.device) -> DevicePlan:
        """The plan of a graph with fusion groups in it."""
        return DevicePlan(graph, device, lambda group: self._group(group, device), self._open)

    def _group(self, graph: Graph, device: torch.device) -> KernelGraph:
        """What runs a fusion group of the graph, which may be given no tensor."""
        return KernelGroup(graph, device)

    def _device_of(self, values: Sequence[Any]) -> torch.device:
        return self._device or common_device(values)

    def _has_room(self) -> bool:
        """Whether one more program may be kept."""
        make_room(self._programs, self._refusals)
        return True


class KernelGroup(KernelGraph):
    """A fusion group: what it cannot do by kernels, ops do one by one, and say what is wrong."""

    def fixed(self, values: Sequence[Any]) -> DeviceProgram | DevicePlan | None:
        """As for any graph, which is a straight line here, or runs op by op."""
        return self._program(values, settled=False)

    def _planned_in_parts(self, known: Sequence[Any], values: Sequence[Any]) -> DevicePlan:
        raise Unfusable("it is a part itself")

    def _has_room(self) -> bool:
        if len(self._programs) < MAX_SHAPES:
            return True
        tell_of_ops(self._graph, TOO_MANY_SHAPES)
        return False


class DevicePlan:
    """A graph on a device by the ordinary loop, in which groups run by kernels. It may run in several threads at once.

    `own` are the inputs that are seeds and the like, or lists of some: each call has others. `is_new` as of FixedRuns.
    """

    def __init__(
        self, graph: Graph, device: torch.device, group: GroupRunner | None = None, own: Collection[int] = ()
    ) -> None:
        self.plan = device_plan(graph, device, group)
        self.device = device
        self.is_new = [False] * len(graph.outputs)
        # What runs by ops alone runs on any values.
        self._is_listed = group is not None
        self._own = sorted(own)
        self._list = self._new_list()

    def closed(self, atoms: Sequence[int]) -> DevicePlan:
        """The plan for given sizes, by a value for each atom; its groups are the same."""
        found = copy(self)
        found.plan = replace(self.plan, template=closed(self.plan.template, atoms))
        found._list = found._new_list()
        return found

    @property
    def is_settled(self) -> bool:
        """As of any FixedRun."""
        return self._list is not None and self._list.found is not None

    def _new_list(self) -> KeptList[LaunchList] | None:
        if not self._is_listed:
            return None
        return KeptList(self.plan, self._recording, self._own, lambda run: on_stream(self.device, run), _DEVICE)

    def _recording(self) -> Recording[LaunchList]:
        return Recording(self.plan, TENSORS, sum_of_gradients, LaunchList)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, for one value per input. RuntimeFailure for what is wrong with the data."""
        with torch.no_grad(), without_autocast(self.device):
            return run_plan(self.plan, values) if self._list is None else self._list.run(values)

    def run_listed(self, values: Sequence[Any]) -> tuple[list[Any], Any]:
        """The outputs, and the list of launches that gave them, where one did."""
        with torch.no_grad(), without_autocast(self.device):
            return (run_plan(self.plan, values), None) if self._list is None else self._list.run_listed(values)


def seen_tensor(value: Any) -> SeenTensor | None:
    """What is seen of a tensor; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    strides = None if value.is_contiguous() else value.stride()
    return SeenTensor(value.shape, strides, _DTYPE_OF[value.dtype], value.device)


def given(value: Any, settled: bool) -> Any:
    """What is known of an argument before it runs: the layout of a tensor; of a float nothing, unless `settled`."""
    if isinstance(value, torch.Tensor):
        return Layout.found(tuple(value.shape), _DTYPE_OF[value.dtype], tuple(value.stride()))
    if isinstance(value, list):
        return [given(item, settled) for item in value]
    return planned_for(value, settled)


def _described(values: Sequence[Any], settled: bool) -> Hashable:
    key: list[Hashable] = [settled]
    _describe(values, settled, key)
    return tuple(key)


def _describe(values: Sequence[Any], settled: bool, key: list[Hashable]) -> None:
    """Add what a program depends on: of each value something that says what it is of, then the rest."""
    for value in values:
        if isinstance(value, torch.Tensor):
            key += (value.device, value.dtype, value.shape, value.stride())
        elif isinstance(value, list):
            key += (list, len(value))
            _describe(value, settled, key)
        elif isinstance(value, float):
            # Zeros differ in their signs, which equality does not see.
            key += float_key(value, settled)
        else:
            key.append((type(value), value))


def common_device(values: Sequence[Any]) -> torch.device:
    """That of the tensors; of several, one that is not the CPU."""
    found = torch.device("cpu")
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, torch.Tensor) and value.device.type != "cpu":
            found = value.device
    return found
