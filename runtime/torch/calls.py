"""One function called on torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakSet

import torch

from ...compiler.autodiff.flatten import leaves, rebuilt
from ...compiler.autodiff.marked_results import ResultMark
from ...compiler.autodiff.unrecorded import Unrecorded
from ...compiler.functionalize.unrecorded import carries_gradients
from ...compiler.ir.graph import Callee, Graph
from ...compiler.types.types import TupleType
from ..execution.binding import Binder
from ..execution.compiled import Compiled
from ..execution.differentiated import CompiledGraph
from ..execution.function_executor import FORGETTING
from ..failures.failure import RuntimeFailure
from ..tape.programs import program_of
from ..values.recorded import RecordedCall
from ..values.torch_dtypes import has_other_default
from .array_runs import ArrayRun, lists_run, new_kinds, remember
from .default_dtype import check_default_dtype
from .flags import flags_of
from .kinds import BY_OPS
from .places import each
from .prepared.calls import PreparedCall
from .prepared.fixed_calls import ListCall
from .prepared.preparation import prepare
from .prepared.recent import RecentCalls, signature
from .recorded.node import is_transformed, run_program
from .routines.products import on_tensors
from .tensors import TensorMemory, check_devices, checked, device_of, has_tangent, requires_grad
from .tracing import refuse_tracers

_top_hooks: Callable[[bool], Any] = torch._C._autograd._top_saved_tensors_default_hooks
"""The hooks for saved tensors that are in force, or None."""
MAX_PREPARED = 2048
"""Calls of one function; beyond, the one prepared first is dropped."""


class TorchCalls:
    """How a function is called on torch tensors, among other arguments: tensors go in and come out.

    A call joins torch's autograd if gradients are recorded and a tensor among the arguments requires one; the tensors
    that it returns own their memory then. Otherwise one may be a view of an argument or of another one, as in torch.
    """

    def __init__(self, function: Compiled) -> None:
        self._function = function
        self._binder = Binder.of(function.schema, function.graph, checked)
        self._unrecorded: dict[Unrecorded, TorchCalls] = {}
        self._prepared: dict[Hashable, PreparedCall | None] = {}
        self.known = new_kinds()
        self._recent: RecentCalls | None = None
        self._takes_lists = False
        """Whether calls with lists are told apart: once one had some that are, for it takes time."""
        _CALLS.add(self)
        self._opaque = [(i, a.name) for i, a in enumerate(function.schema.arguments) if not carries_gradients(a.type)]
        self._opaque_results = [r.type for r in function.schema.returns if not carries_gradients(r.type)]

    def forget(self) -> None:
        """Drop what was compiled."""
        self._prepared.clear()
        self.known.clear()
        self._recent = None
        self.__dict__.pop("_program", None)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result, several as a tuple. RuntimeFailure for data that does not fit."""
        found = self.known(args) if not kwargs else NotImplemented
        if found is not NotImplemented:
            return found
        prepared = self._recent.find(args) if self._recent is not None and not kwargs else None
        if prepared is not None:
            return prepared(args)
        key = signature(args, lists=self._takes_lists) if not kwargs else None
        prepared = self._prepared.get(key)
        if prepared is not None and self._recent is not None:
            self._recent.add(args, prepared)
        return prepared(args) if prepared is not None else self._call(args, kwargs, key)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], key: Hashable) -> Any:
        refuse_tracers(self._function.name, self._function.graph.span)
        try:
            values = self._binder.bind(args, kwargs)
        except RecordedCall as call:
            return call.taker.call_function(self._function, args, dict(kwargs))
        device = device_of(values)
        if device != "cpu":
            check_devices(self._function.title, self._function.schema.arguments, values, self._function.graph.span)
        joins = (torch.is_grad_enabled() and requires_grad(values)) or is_transformed() or has_tangent(values)
        if has_other_default():
            check_default_dtype(self._function.callee, self._program[1], values, joins=joins)
        if not joins and not torch.is_grad_enabled() and requires_grad(values):
            is_inference = torch.is_inference_mode_enabled()
            function = self._function
            unrecorded = function.unrecorded_inference if is_inference else function.unrecorded
            if unrecorded is not None:
                return self._call_unrecorded(unrecorded, values)
        if joins and self._opaque:
            self._check_opaque(values)
        if joins and self._opaque_results and requires_grad(values):
            raise self._no_gradient(f"a result: no gradient flows through a {self._opaque_results[0]}", "return")
        results = self._recorded(values) if joins or device != "cpu" else self._run(values)
        if key is not None and key not in self._prepared and (device not in BY_OPS or device == "cpu"):
            prepared = self._prepare(device, args, values, key)
            # A checkpoint counts what its part saves, and runs it again: a second node would be too much.
            is_watched = joins and _top_hooks(True) is not None
            if (
                prepared is not None
                and isinstance(prepared.fixed, ArrayRun)
                and prepared.fixed.meet(values)
                and not is_watched
            ):
                return prepared(args)
        if device not in BY_OPS or (device == "cpu" and self._has_lists(args, key)):
            self._takes_lists = True
            self._recent = self._recent or RecentCalls()
        return results[0] if len(results) == 1 else tuple(results)

    def _has_lists(self, args: tuple[Any, ...], key: Hashable) -> bool:
        """Whether calls on the CPU have lists among what goes in, or what is kept, and these run without Python."""
        is_kept_so = isinstance(self._prepared.get(key), ListCall)
        return is_kept_so or (any(type(value) is list for value in args) and lists_run())

    def prepare_owning(self, args: tuple[Any, ...], values: list[Any]) -> None:
        """Have the next such call find what it runs; its results own their memory, and are contiguous."""
        key, device = signature(args), device_of(values)
        if key is not None and device == "cpu" and key not in self._prepared:
            self._prepare(device, args, values, key, owns=True)

    def _prepare(
        self, device: str, args: tuple[Any, ...], values: list[Any], key: Hashable, *, owns: bool = False
    ) -> PreparedCall | None:
        """Have the next such call find what this one found out."""
        program = self._program[0]
        prepared = None if self._has_tuples else prepare(self._function, program, device, args, values, owns=owns)
        if len(self._prepared) >= MAX_PREPARED:
            del self._prepared[next(iter(self._prepared))]
        self._prepared[key] = prepared
        if prepared is not None and isinstance(prepared.fixed, ArrayRun):
            remember(self.known, prepared.quick, args, prepared.fixed)
        return prepared

    def _run(self, values: list[Any]) -> list[Any]:
        """By the plans that the function has for arrays."""
        memory = TensorMemory()
        arrays = memory.arrays(values)
        return each(on_tensors(self._function.executor.run, arrays), memory.shared)

    def _call_unrecorded(self, unrecorded: Unrecorded, values: list[Any]) -> Any:
        """The result in a `torch.no_grad()` around the call: arguments that are returned are the tensors themselves."""
        device = device_of(values)
        if unrecorded.decides:
            calls = self._unrecorded.get(unrecorded)
            if calls is None:
                made = TorchCalls(Compiled(Callee(self._function.schema, unrecorded.graph)))
                calls = self._unrecorded.setdefault(unrecorded, made)
            if device == "cpu" and not unrecorded.enables:
                results = calls._marked(values)
            else:
                with torch.enable_grad():
                    results = calls._recorded(values)
        else:
            results = self._run(values) if device == "cpu" else self._recorded(values)
        for result, argument in unrecorded.passed.items():
            results[result] = values[argument]
        return results[0] if len(results) == 1 else tuple(results)

    def _marked(self, values: list[Any]) -> list[Any]:
        """By the program of which each result that requires a gradient is an argument or a view of one."""
        program, graph = self._program
        flat = leaves(values, [value.type for value in graph.inputs]) if self._has_tuples else values
        program = program.answered(flags_of(flat)) if program.asks or program.is_undecided else program
        program = program.telling_given
        memory = TensorMemory()
        outputs = program.run(memory.arrays(flat))
        results = [
            _as_marked(memory, output, _told(outputs, program.marks, i), _told(outputs, program.given, i))
            for i, output in enumerate(outputs[: program.num_results])
        ]
        return rebuilt(iter(results), [value.type for value in graph.outputs]) if self._has_tuples else results

    def _recorded(self, values: list[Any]) -> list[Any]:
        program, graph = self._program
        if not self._has_tuples:
            return run_program(program, values)
        flat = leaves(values, [value.type for value in graph.inputs])
        return rebuilt(iter(run_program(program, flat)), [value.type for value in graph.outputs])

    @cached_property
    def _program(self) -> tuple[CompiledGraph, Graph]:
        return program_of(self._function)

    @cached_property
    def _has_tuples(self) -> bool:
        graph = self._program[1]
        return any(isinstance(value.type, TupleType) for value in (*graph.inputs, *graph.outputs))

    def _check_opaque(self, values: list[Any]) -> None:
        """RuntimeFailure where a gradient is required through what carries none: better than to leave it out."""
        for i, name in self._opaque:
            if requires_grad([values[i]]):
                type = self._function.schema.arguments[i].type
                raise self._no_gradient(f"argument '{name}': no gradient flows through a {type}", "pass")

    def _no_gradient(self, message: str, verb: str) -> RuntimeFailure:
        notes = [f"{verb} tensors, lists of them, or tuples of both; or `x.detach()`"]
        return RuntimeFailure("R003", self._function.title, message, span=self._function.graph.span, notes=notes)


def _told(outputs: Sequence[Any], marks: Mapping[int, ResultMark], result: int) -> Any:
    mark = marks.get(result, True)
    return outputs[mark] if type(mark) is int else mark


def _as_marked(memory: TensorMemory, output: Any, mark: Any, is_given: Any) -> Any:
    """A result as tensors. Of a list or a tuple in one a mark may be one for each element. It nests as types do: this
    recurses."""
    if isinstance(output, list | tuple):
        marks, given = (m if isinstance(m, list | tuple) else [m] * len(output) for m in (mark, is_given))
        found = [_as_marked(memory, *item) for item in zip(output, marks, given, strict=True)]
        return tuple(found) if isinstance(output, tuple) else found
    if is_given:
        return memory.given(output)
    return memory.viewed(output) if mark else memory.shared(output)


_CALLS: WeakSet[TorchCalls] = WeakSet()


def forget_calls() -> None:
    """Drop what was compiled for calls of any function."""
    for calls in list(_CALLS):
        calls.forget()


FORGETTING.add(forget_calls)
