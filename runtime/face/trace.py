"""gs.trace: a Function from what Python code does with tracing values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from threading import local
from typing import Any

from ...lang.source import NO_SPAN
from ..operands.python_source import PythonSource
from ..tracing.check import check_trace
from ..tracing.custom import call_custom
from ..tracing.traced import TracedValue
from ..tracing.tracer import Tracer, example_of
from ..values.arrays import on_host, to_array
from ..values.containers import MAX_DEPTH, is_too_deep
from ..values.given import flag
from ..values.recorded import Recorded
from ..values.unsuitable import Unsuitable
from .function import Function

MORE_CALLS = 1000
"""A check is given up where it calls so many more functions than twice those of the trace: a loop may not end there."""


class _Tracing(local):
    tracer: Tracer | None = None


_STATE = _Tracing()


def trace(function: Callable[..., Any], *example: Any, check: bool = True) -> Function:
    """Run a Python function on values that record what is done with them; the record is a Function.

        f = gs.trace(lambda x, w: (x @ w).tanh().sum(1), x, w)

    Its parameters are those of the function for which examples are given: arrays, tensors, numbers, lists and tuples.
    Arrays from around the function become constants of the graph, copied. Operators, methods, `gs.ops`, and the
    common functions of NumPy and torch are recorded; a compiled function that is called is put in whole, its branches
    and loops kept, and differentiated by its own backward if it has one. Python's own control flow is not seen: the
    graph has the way that the example took, and a TracerWarning says so where it depended on data. What fails in the
    graph is shown at the Python line that recorded it.

    With `check`, the function runs again on the example and on the same numbers in another order, and a TracerWarning
    says where the graph gives something else. RuntimeError for a trace inside a trace: call the function itself there.
    """
    if isinstance(function, Function):
        raise TypeError(f"'{function.name}' is compiled already: a trace is made of a Python function")
    if not callable(function):
        raise TypeError(f"gs.trace takes a function, not a {type(function).__name__}")
    check = flag(check, "check")
    if _STATE.tracer is not None:
        inner = getattr(function, "__name__", "function")
        raise RuntimeError(f"'{inner}' is traced inside the trace of '{_STATE.tracer.name}': call it there instead")
    for i, value in enumerate(example):
        if is_too_deep(value):
            raise TypeError(f"example {i}: lists are at most {MAX_DEPTH} levels deep, and not in themselves")
    names = _parameters(function, len(example))
    values = [native_argument(on_host(value), i) for i, value in enumerate(example)]
    tracer = Tracer(_name_of(function), PythonSource().definition(function), call_custom)
    traced = Function(tracer.finish(_run(tracer, function, names, values)))
    if check:

        def again(arguments: Sequence[Any]) -> Any:
            other = Tracer(tracer.name, NO_SPAN, call_custom, most_calls=2 * tracer.calls + MORE_CALLS)
            return example_of(_run(other, function, names, arguments))

        check_trace(again, traced, values)
    return traced


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "traced"


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    """A name for each example."""
    try:
        signature = inspect.signature(function)
        names = [*signature.bind(*[None] * count).arguments]
        kinds = [signature.parameters[name].kind for name in names]
    except ValueError:
        return [f"x{i}" for i in range(count)]
    except TypeError as error:
        raise TypeError(f"{count} examples do not fit '{_name_of(function)}': {error}") from None
    if kinds and kinds[-1] is inspect.Parameter.VAR_POSITIONAL:
        rest = names.pop()
        names += [f"{rest}_{i}" for i in range(count - len(names))]
    return names


def _run(tracer: Tracer, function: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> Any:
    """What the function returns for tracing values; no other trace begins meanwhile in this thread."""
    _STATE.tracer = tracer
    try:
        return tracer.run(function, names, values)
    finally:
        _STATE.tracer = None


def native_argument(value: Any, index: int) -> Any:
    """An example argument as ops take it; TypeError for one of a type that has no place in a signature."""
    if isinstance(value, TracedValue):
        raise RuntimeError("a tracing value is the example of a trace: traces do not nest")
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [native_argument(item, index) for item in value]
    if isinstance(value, tuple):
        return tuple([native_argument(item, index) for item in value])
    try:
        return to_array(value.peek() if isinstance(value, Recorded) else value)
    except Unsuitable as error:
        note = "keep it out of the arguments: `gs.trace(lambda x: f(x, option), x)`"
        raise TypeError(f"example {index}: {error.message}; {note}") from None
