"""gs.trace: a Function from what Python code does with tracing values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from threading import local
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..compiler.builder import Builder
from ..compiler.constants import TensorConstant
from ..compiler.emit.calls import convert_arguments
from ..compiler.emit.emitter import Emitter
from ..compiler.emit.overloads import Argued, Match
from ..compiler.emit.scopes import Frame
from ..compiler.emit.unit import Unit
from ..compiler.ir import Callee, Graph, Value
from ..compiler.passes.eliminate_dead_code import eliminate_dead_code
from ..compiler.passes.fold_constants import fold_constants
from ..compiler.passes.pool_constants import pool_constants
from ..compiler.schema import Argument, FunctionSchema
from ..compiler.types import BOOL, FLOAT, INT, TENSOR, TENSOR_LIST, TupleType, Type, is_tensor, strip_optional
from ..lang.diagnostics import Abort, Diagnostics
from ..lang.source import NO_SPAN
from .arrays import Unsuitable, to_array
from .failure import RuntimeFailure
from .function import Function
from .recorded import Recorded
from .trace_check import check_trace
from .traced import TracedValue
from .traced_calls import Inliner

NOWHERE: Any = SimpleNamespace(span=NO_SPAN)
"""The place in source of what comes from Python."""
STRUCTURE = frozenset(("aten::dim", "prim::dtype", "aten::is_floating_point"))
"""Ops whose results are part of a trace, like the tensors' ranks and dtypes that they follow from."""


class _State(local):
    tracer: Tracer | None = None


_STATE = _State()


def trace(function: Callable[..., Any], *example: Any, check: bool = True) -> Function:
    """Run a Python function on values that record what is done with them; the record is a Function.

        f = gs.trace(lambda x, w: (x @ w).tanh().sum(1), x, w)

    Its parameters are those of the function for which examples are given: arrays, numbers, lists of arrays, tuples.
    Arrays from around the function become constants of the graph, copied. Operators, methods, `gs.ops`, and NumPy's
    common functions are recorded; a compiled function that is called is put in whole, its branches and loops kept, and
    differentiated by its own backward if it has one. Python's own control flow is not seen: the graph has the way that
    the example took, and a TracerWarning says so where it depended on data.

    With `check`, the function runs again on the example and on the same numbers in another order, and a TracerWarning
    says where the graph gives something else. RuntimeError for a trace inside a trace: call the function itself there.
    """
    if isinstance(function, Function):
        raise TypeError(f"'{function.name}' is compiled already: a trace is made of a Python function")
    if not callable(function):
        raise TypeError(f"gs.trace takes a function, not a {type(function).__name__}")
    if _STATE.tracer is not None:
        inner = getattr(function, "__name__", "function")
        raise RuntimeError(f"'{inner}' is traced inside the trace of '{_STATE.tracer.name}': call it there instead")
    tracer = Tracer(_name_of(function))
    values = [native(value, i) for i, value in enumerate(example)]
    inputs = [tracer.add_input(n, v) for n, v in zip(_parameters(function, len(example)), values, strict=True)]
    _STATE.tracer = tracer
    try:
        result = function(*inputs)
    finally:
        _STATE.tracer = None
        tracer.is_open = False
    traced = tracer.finish(result)
    if check:
        check_trace(function, traced, values)
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
    if kinds and kinds[-1] is inspect.Parameter.VAR_POSITIONAL:
        rest = names.pop()
        names += [f"{rest}_{i}" for i in range(count - len(names))]
    return names


def native(value: Any, index: int) -> Any:
    """An example argument as ops take it; TypeError for one of a type that has no place in a signature."""
    if isinstance(value, TracedValue):
        raise RuntimeError("a tracing value is the example of a trace: traces do not nest")
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [native(item, index) for item in value]
    if isinstance(value, tuple):
        return tuple([native(item, index) for item in value])
    try:
        return to_array(value.data if isinstance(value, Recorded) else value)
    except Unsuitable as error:
        note = "keep it out of the arguments: `gs.trace(lambda x: f(x, option), x)`"
        raise TypeError(f"example {index}: {error.message}; {note}") from None


class Tracer:
    """One trace: the graph so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True
        self._graph = Graph(name)
        self._inliner = Inliner(self._graph)
        self._builder = Builder(self._graph)
        self._unit = Unit({}, Diagnostics())
        self._emitter = Emitter(self._unit, self._builder, Frame(None, 0), name)
        self._arguments: list[Argument] = []
        self._constants: dict[int, tuple[Any, Value]] = {}

    def add_input(self, name: str, example: Any) -> Any:
        type = _type_of(example, name)
        self._arguments.append(Argument(name, type))
        return self._wrap(self._graph.body.add_input(type, name), example)

    def _wrap(self, value: Value, data: Any) -> Any:
        """What Python gets for a value of the graph: a tuple stays one, None and strings are themselves."""
        if isinstance(value.type, TupleType):
            parts = self._builder.unpack(value)
            return tuple([self._wrap(part, item) for part, item in zip(parts, data, strict=True)])
        if data is None or isinstance(data, str) or value.node.kind in STRUCTURE:
            return data
        if strip_optional(value.type) != value.type:
            value = self._builder.unwrap(value)
        return TracedValue(self, value, data)

    # --- calls ---

    def call(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a function on the example's values and put it into the graph."""
        plain = [_example(value) for value in args]
        outcome = function(*plain, **{name: _example(value) for name, value in kwargs.items()})
        arguments = [Argued(self.value_of(value), NO_SPAN) for value in args]
        arguments += [Argued(self.value_of(value), NO_SPAN, name) for name, value in kwargs.items()]
        results = self._inliner.insert(self._builder, function.callee, self._matched(function, arguments))
        data = [outcome] if len(results) == 1 else list(outcome)
        wrapped = [self._wrap(value, item) for value, item in zip(results, data, strict=True)]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def _matched(self, function: Function, arguments: Sequence[Argued]) -> list[Value]:
        """The arguments as the graph of the function takes them: defaults and conversions applied."""
        match = self._unit.resolver.resolve([function.schema], arguments)
        if not isinstance(match, Match):
            note = "a value computed of the arguments is passed as the type that it has in the graph"
            raise RuntimeFailure("R002", function.name, match[0].reason, span=function.graph.span, notes=[note])
        try:
            return convert_arguments(self._emitter, NOWHERE, match, arguments)
        except Abort as abort:
            raise RuntimeFailure("R002", function.name, str(abort)) from None

    def value_of(self, item: Any) -> Value:
        """The value of the graph that stands for what Python code has at hand; arrays become constants."""
        if isinstance(item, TracedValue):
            return self._own(item)
        if isinstance(item, Recorded):
            item = item.data
        if isinstance(item, tuple):
            return self._builder.tuple([self.value_of(part) for part in item])
        if isinstance(item, list) and not (item and all(isinstance(part, int | float) for part in item)):
            values = [self.value_of(part) for part in item]
            if not values:
                return self._builder.node("prim::ListConstruct", (), [TENSOR_LIST]).output
            return self._builder.list(values, TENSOR if all(is_tensor(v.type) for v in values) else None)
        if item is None or isinstance(item, bool | int | float | str | list):
            return self._builder.constant(item)
        return self._constant(item)

    def _own(self, item: TracedValue) -> Value:
        if item.tracer is not self or not self.is_open:
            raise RuntimeError(
                f"a tracing value of '{item.tracer.name}' is used outside its trace: return what is needed from the "
                "function that is traced"
            )
        return item.value

    def _constant(self, item: Any) -> Value:
        """One constant for each array, however often it is used."""
        known = self._constants.get(id(item))
        if known is None:
            try:
                constant = TensorConstant(to_array(item))
            except Unsuitable as error:
                raise TypeError(f"in the trace of '{self.name}': {error.message}") from None
            first = self._graph.body.param.next
            assert first is not None
            with self._builder.before(first):
                known = (item, self._builder.constant(constant))
            self._constants[id(item)] = known
        return known[1]

    def finish(self, result: Any) -> Function:
        """The Function that returns what the Python function returned."""
        self.is_open = True
        results = result if isinstance(result, tuple) else (result,)
        values = [self.value_of(_checked(item, self.name)) for item in results]
        self.is_open = False
        self._builder.returns(*values)
        for clean in (fold_constants, pool_constants, eliminate_dead_code):
            clean(self._graph)
        returns = tuple(Argument(f"result{i}", value.type) for i, value in enumerate(self._graph.outputs))
        schema = FunctionSchema(self.name, "", tuple(self._arguments), returns)
        return Function(Callee(schema, self._graph))


def _checked(result: Any, name: str) -> Any:
    if isinstance(result, dict | set):
        kind = type(result).__name__
        raise TypeError(f"'{name}' returns a {kind}: a trace returns arrays, numbers, lists and tuples")
    return result


def _example(value: Any) -> Any:
    """The example's value of an argument."""
    if isinstance(value, Recorded):
        return value.data
    if isinstance(value, list | tuple):
        return type(value)([_example(item) for item in value])
    return value


def _type_of(example: Any, name: str) -> Type:
    for python_type, type in ((bool, BOOL), (int, INT), (float, FLOAT), (np.ndarray, TENSOR)):
        if isinstance(example, python_type):
            return type
    if isinstance(example, tuple):
        return TupleType(tuple(_type_of(item, name) for item in example))
    if all(isinstance(item, np.ndarray) for item in example):
        return TENSOR_LIST
    raise TypeError(f"example '{name}': a list that is an argument holds arrays")
