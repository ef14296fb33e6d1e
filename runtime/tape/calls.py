"""Calls on Variables: of compiled functions, by their recording plans, and of operators and methods."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np

from ...compiler.autodiff.flatten import rebuilt
from ...lang.light_dataclasses import replace
from ..execution.compiled import Compiled
from ..execution.function_executor import FunctionExecutor
from ..execution.last_plan import LAST
from ..failures.failure import RuntimeFailure
from ..plans.interpreter import run_plan
from ..plans.plan import ExecutionPlan
from ..settings.modes import OPTIMIZE, TOUCHED
from ..values.containers import alike, is_too_deep
from .graph_node import run_on_tape
from .mode import grad_mode, is_grad_enabled
from .programs import program_of
from .recording import RecordingPlans
from .value import TapeValue, needs_gradient, plain, wrapped

_TAPE = object()
"""First in the keys of calls on the tape, which no other key begins with."""
_PLAIN = frozenset((bool, int, float, str, type(None)))
"""Types of what is no array and has its own type only."""


# --- functions ---


def call_on_tape(function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function on Variables among other arguments: its optimised plan runs, and records. Arrays that it
    returns come as Variables; what it returns as it was passed is the same Variable."""
    if not is_grad_enabled() and function.without_recording is not None and _requires_gradient(args, kwargs):
        with grad_mode(True):
            return call_on_tape(function.without_recording, args, kwargs)
    wanted, key = (True, None) if kwargs or not _optimizes() else _flat_key(args)
    if not wanted:
        return wrapped(function(*[plain(value) for value in args]))
    executor = function.executor
    entry = None if key is None else executor.find(key)
    if entry is not None and entry.recording is not None:
        return _run(executor, entry.recording, [_register(value) for value in args])
    return _call_bound(function, args, kwargs, key)


def _requires_gradient(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(map(needs_gradient, (*args, *kwargs.values())))


def _optimizes() -> bool:
    return not TOUCHED.any or OPTIMIZE.get()


def _flat_key(args: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...] | None]:
    """Whether a gradient is wanted for Variables, arrays and numbers in a row, and what their plan depends on; (True,
    None) where an argument is none of these."""
    enabled = is_grad_enabled()
    wanted = False
    key: list[Any] = [_TAPE]
    for value in args:
        if isinstance(value, TapeValue):
            flag = enabled and value._requires_grad
            wanted = wanted or flag
            key += (value._data.dtype, value._data.ndim, flag)
        elif type(value) is np.ndarray:
            key += (value.dtype, value.ndim, False)
        elif type(value) in _PLAIN:
            key.append(type(value))
        else:
            return True, None
    return wanted, tuple(key)


def _register(value: Any) -> Any:
    """A value as registers of a recording plan hold it: a Variable only where a gradient is wanted."""
    if isinstance(value, TapeValue):
        return value if value._requires_grad else value._data
    return alike(value, [_register(item) for item in value]) if isinstance(value, list | tuple) else value


def _call_bound(function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any], key: Hashable) -> Any:
    """The call after binding. Its plan is found by the key from then on if binding changed nothing."""
    arrays, mixed = _bind(function, args, kwargs)
    executor = function.executor
    flags = [is_grad_enabled() and needs_gradient(value) for value in mixed]
    if not any(flags):
        return _returned([wrapped(result) for result in executor.run(arrays)])
    is_as_given = len(mixed) == len(args) and all(map(is_, mixed, args))
    plan = _recording(executor, arrays, flags, key if is_as_given else None)
    return _run(executor, plan, [_register(value) for value in mixed])


def _recording(
    executor: FunctionExecutor, arrays: Sequence[Any], flags: Sequence[bool], key: Hashable
) -> ExecutionPlan:
    """The recording plan for arguments of which those with a flag require a gradient."""
    if executor.recorded is None:
        executor.recorded = RecordingPlans()
    if not _optimizes():
        return executor.recording_fallback(executor.recorded.of)
    # A list says nothing of gradients in a spec, but here one is needed.
    spec = replace(executor.signature.spec(arrays, flags), grad_mode=True)
    entry = executor.entry(spec, key)
    LAST.plan = entry.plan
    if entry.recording is None:
        entry.recording = executor.recorded.of(entry.plan)
    return entry.recording


def _run(executor: FunctionExecutor, plan: ExecutionPlan, values: list[Any]) -> Any:
    try:
        results = run_plan(plan, values)
    except RuntimeFailure as failure:
        raise executor.explain(failure, [plain(value) for value in values]) from failure.__cause__
    # The parts of the plan have run as plans of their own.
    LAST.plan = plan
    return _returned([wrapped(result) for result in results])


def _returned(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


# --- operators and methods ---


def operate_on_tape(function: Compiled, args: tuple[Any, ...]) -> Any:
    """Evaluate what an operator or a method means on Variables among its operands: one node."""
    if not is_grad_enabled() and function.without_recording is not None and _requires_gradient(args, {}):
        with grad_mode(True):
            return operate_on_tape(function.without_recording, args)
    program, graph = program_of(function)
    values: list[Any] = [*args]
    if not all(isinstance(value, TapeValue) or type(value) in _PLAIN for value in args):
        _, values = _bind(function, args, {})
    if is_grad_enabled():
        results = run_on_tape(program, values)
    else:
        results = program.run([plain(value) for value in values])
    outputs = [wrapped(result) for result in results]
    if program.graph is not graph:
        outputs = rebuilt(iter(outputs), [value.type for value in graph.outputs])
    return _returned(outputs)


# --- arguments ---


def _bind(function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The arguments as the graph takes them, and the same with the Variables among them."""
    marks: dict[int, TapeValue] = {}
    marked = tuple([_marked(value, marks) for value in args])
    arrays = function.bind(marked, {name: _marked(value, marks) for name, value in kwargs.items()})
    return arrays, [_restored(value, marks) for value in arrays]


def _marked(value: Any, marks: dict[int, TapeValue]) -> Any:
    """The value with a fresh view for each Variable, by whose identity it is known again after conversion."""
    if isinstance(value, TapeValue):
        view = value._data.view()
        marks[id(view)] = value
        return view
    if not isinstance(value, list | tuple) or is_too_deep(value):
        return value
    return alike(value, [_marked(item, marks) for item in value])


def _restored(value: Any, marks: Mapping[int, TapeValue]) -> Any:
    """The value with its Variables in place again."""
    if isinstance(value, list | tuple):
        return alike(value, [_restored(item, marks) for item in value])
    return marks.get(id(value), value)
