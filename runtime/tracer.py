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
from ..compiler.types import (
    BOOL,
    FLOAT,
    INT,
    TENSOR,
    TENSOR_LIST,
    ListType,
    TupleType,
    Type,
    is_tensor,
    strip_optional,
    unify,
)
from ..lang.diagnostics import Abort, Diagnostics
from ..lang.source import NO_SPAN, Span
from .arrays import Unsuitable, dtype_code, on_host, to_array
from .failure import RuntimeFailure
from .function import Function
from .python_source import PythonSource
from .recorded import Recorded
from .trace_check import TooLong, check_trace
from .traced import TracedValue, annotation
from .traced_calls import Inliner

NOWHERE: Any = SimpleNamespace(span=NO_SPAN)
"""The place in source of what comes from Python."""
STRUCTURE = frozenset(("aten::dim", "prim::dtype", "aten::is_floating_point"))
"""Ops whose results are part of a trace, like the tensors' ranks and dtypes that they follow from."""
MORE_CALLS = 1000
"""A check is given up where it calls so many more functions than twice those of the trace: a loop may not end there."""


class _State(local):
    tracer: Tracer | None = None


_STATE = _State()


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
    if _STATE.tracer is not None:
        inner = getattr(function, "__name__", "function")
        raise RuntimeError(f"'{inner}' is traced inside the trace of '{_STATE.tracer.name}': call it there instead")
    names = _parameters(function, len(example))
    values = [native(on_host(value), i) for i, value in enumerate(example)]
    tracer = Tracer(_name_of(function), PythonSource().definition(function))
    traced = tracer.finish(tracer.run(function, names, values))
    if check:

        def again(arguments: Sequence[Any]) -> Any:
            other = Tracer(tracer.name, NO_SPAN, most_calls=2 * tracer.calls + MORE_CALLS)
            return _example(other.run(function, names, arguments))

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
        return to_array(value.peek() if isinstance(value, Recorded) else value)
    except Unsuitable as error:
        note = "keep it out of the arguments: `gs.trace(lambda x: f(x, option), x)`"
        raise TypeError(f"example {index}: {error.message}; {note}") from None


class Tracer:
    """One trace: the graph so far.

    One with `most_calls` is a check's: it gives no warnings, and TooLong where more functions are called.
    """

    def __init__(self, name: str, span: Span, *, most_calls: int | None = None) -> None:
        self.name = name
        self.is_open = True
        self.calls = 0
        self.warns = most_calls is None
        self._most_calls = most_calls
        self._graph = Graph(name, span=span)
        self._inliner = Inliner(self._graph)
        self._builder = Builder(self._graph)
        self._unit = Unit({}, Diagnostics())
        self._emitter = Emitter(self._unit, self._builder, Frame(None, 0), name)
        self._arguments: list[Argument] = []
        self._constants: dict[int, tuple[Any, Value]] = {}
        self._source = PythonSource()

    def run(self, function: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> Any:
        """What the Python function returns for tracing values."""
        inputs = [self.add_input(name, value) for name, value in zip(names, values, strict=True)]
        _STATE.tracer = self
        try:
            return function(*inputs)
        finally:
            _STATE.tracer = None
            self.is_open = False

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
        return self._record(function, args, kwargs, None)

    def operation(self, function: Function, args: tuple[Any, ...]) -> Any:
        """The same for what an operator or a method means, whose place is that of the operator in the user's code."""
        return self._record(function, args, {}, self._source.calling())

    def _record(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], place: Span | None) -> Any:
        self.calls += 1
        if self._most_calls is not None and self.calls > self._most_calls:
            raise TooLong
        plain = [_example(value) for value in args]
        outcome = function(*plain, **{name: _example(value) for name, value in kwargs.items()})
        with self._builder.span(place or self._source.calling()):
            arguments = [Argued(self.value_of(value), NO_SPAN) for value in args]
            arguments += [Argued(self.value_of(value), NO_SPAN, name) for name, value in kwargs.items()]
            results = self._inliner.insert(self._builder, function.callee, self._matched(function, arguments), place)
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
            item = item.peek()
        if isinstance(item, np.generic):
            item = item.item()
        if isinstance(item, tuple):
            return self._builder.tuple([self.value_of(part) for part in item])
        if isinstance(item, list):
            return self._list([self.value_of(part) for part in item])
        if item is None or isinstance(item, bool | int | float | str):
            return self._builder.constant(item)
        code = dtype_code(item)
        return self._constant(item) if code is None else self._builder.constant(code)

    def _list(self, values: Sequence[Value]) -> Value:
        if not values:
            return self._builder.node("prim::ListConstruct", (), [TENSOR_LIST]).output
        common = _common([TENSOR if is_tensor(value.type) else value.type for value in values])
        if common is None:
            kinds = " and ".join(sorted({annotation(value.type) for value in values}))
            raise TypeError(f"in the trace of '{self.name}': a list has elements of one type, not {kinds}")
        return self._builder.list(values, common)

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
                constant = TensorConstant(to_array(on_host(item)))
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
    """What a function returned, if a graph can; lists and tuples are looked into."""
    pending = [result]
    while pending:
        item = pending.pop()
        if isinstance(item, list | tuple):
            pending += item
        elif not isinstance(item, Recorded | bool | int | float | str | None):
            try:
                to_array(on_host(item))
            except Unsuitable as error:
                kind = type(item).__name__
                what = error.message if error.kind else f"'{name}' returns a value of type {kind}"
                raise TypeError(f"{what}: a trace returns arrays, numbers, lists and tuples") from None
    return result


def _example(value: Any) -> Any:
    """The example's value of an argument."""
    if isinstance(value, Recorded):
        return value.peek()
    if isinstance(value, list):
        return [_example(item) for item in value]
    return tuple([_example(item) for item in value]) if isinstance(value, tuple) else on_host(value)


def _type_of(example: Any, name: str) -> Type:
    for python_type, type in ((bool, BOOL), (int, INT), (float, FLOAT), (np.ndarray, TENSOR)):
        if isinstance(example, python_type):
            return type
    if isinstance(example, tuple):
        return TupleType(tuple(_type_of(item, name) for item in example))
    types = [_type_of(item, name) for item in example]
    common = _common(types) if types else TENSOR
    if common is None:
        kinds = " and ".join(sorted({annotation(type) for type in types}))
        raise TypeError(f"example '{name}': a list has elements of one type, not {kinds}")
    return ListType(common)


def _common(types: Sequence[Type]) -> Type | None:
    """What the elements of a list have in common: the same type, but for ints among floats."""
    common: Type | None = types[0]
    for type in types[1:]:
        common = unify(common, type) if common is not None else None
    return common
