"""A trace in the making: the graph of what Python code does with tracing values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiler.emit.emitter import Emitter
from ...compiler.emit.resolve import convert_arguments
from ...compiler.emit.scopes import Frame
from ...compiler.emit.unit import SourceUnit
from ...compiler.ir.builder import Builder
from ...compiler.ir.constants import TensorConstant
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import Value
from ...compiler.pipeline import run_recipe
from ...compiler.spelling.overloads import Argued, Match
from ...compiler.types.schema import Argument, FunctionSchema
from ...compiler.types.types import (
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
from ...compiler.unparse.literals import annotation
from ...lang.diagnostics import Abort, Diagnostics
from ...lang.source import NO_SPAN, Span
from ..execution.compiled import Compiled
from ..failures.failure import RuntimeFailure
from ..operands.python_source import PythonSource
from ..values.arrays import dtype_code, on_host, to_array
from ..values.containers import MAX_DEPTH, is_too_deep, parts
from ..values.recorded import Recorded
from ..values.unsuitable import Unsuitable
from .calls import Inliner
from .check import RunTooLong
from .traced import TracedValue

if TYPE_CHECKING:
    from ..tape.custom import TapeFunction

NOWHERE: Any = SimpleNamespace(span=NO_SPAN)
"""The place in source of what comes from Python."""
STRUCTURE = frozenset(("aten::dim", "prim::dtype", "aten::is_floating_point"))
"""Ops whose results are part of a trace, like the tensors' ranks and dtypes that they follow from."""


CallCustom = Callable[["Tracer", "type[TapeFunction]", Sequence[Any]], Any]
"""Records a call of a gs.tape.Function: it makes a trace of its own for it, and so stands above this one."""


class Tracer:
    """One trace: the graph so far.

    One with `most_calls` is a check's: it gives no warnings, and RunTooLong where more functions are called.
    """

    def __init__(self, name: str, span: Span, custom: CallCustom, *, most_calls: int | None = None) -> None:
        self.name = name
        self._custom = custom
        self.is_open = True
        self.calls = 0
        self.warns = most_calls is None
        self._most_calls = most_calls
        self._graph = Graph(name, span=span)
        self._inliner = Inliner(self._graph)
        self._builder = Builder(self._graph)
        self._unit = SourceUnit({}, Diagnostics())
        self._emitter = Emitter(self._unit, self._builder, Frame(None, 0), name)
        self._arguments: list[Argument] = []
        self._constants: dict[int, tuple[Any, Value]] = {}
        self._source = PythonSource()

    def run(self, function: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> Any:
        """What the Python function returns for tracing values."""
        inputs = [self.add_input(name, value) for name, value in zip(names, values, strict=True)]
        try:
            return function(*inputs)
        finally:
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

    def call(self, function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a function on the example's values and put it into the graph."""
        return self._record(function, args, kwargs, None)

    def operation(self, function: Compiled, args: tuple[Any, ...]) -> Any:
        """The same for what an operator or a method means, whose place is that of the operator in the user's code."""
        return self._record(function, args, {}, self._source.calling())

    def custom(self, function: type[TapeFunction], args: tuple[Any, ...]) -> Any:
        """Record a call of a gs.tape.Function with the backward that it has."""
        return self._custom(self, function, args)

    def _record(self, function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any], place: Span | None) -> Any:
        self.calls += 1
        if self._most_calls is not None and self.calls > self._most_calls:
            raise RunTooLong
        plain = [example_of(value) for value in args]
        outcome = function(*plain, **{name: example_of(value) for name, value in kwargs.items()})
        with self._builder.span(place or self._source.calling()):
            arguments = [Argued(self.value_of(value), NO_SPAN) for value in args]
            arguments += [Argued(self.value_of(value), NO_SPAN, name) for name, value in kwargs.items()]
            results = self._inliner.insert(self._builder, function.callee, self._matched(function, arguments), place)
            data = [outcome] if len(results) == 1 else list(outcome)
            wrapped = [self._wrap(value, item) for value, item in zip(results, data, strict=True)]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def _matched(self, function: Compiled, arguments: Sequence[Argued]) -> list[Value]:
        """The arguments as the graph of the function takes them: defaults and conversions applied."""
        match = self._unit.resolver.resolve([function.schema], arguments)
        if not isinstance(match, Match):
            note = "a value computed of the arguments is passed as the type that it has in the graph"
            raise RuntimeFailure("R002", function.title, match[0].reason, span=function.graph.span, notes=[note])
        try:
            return convert_arguments(self._emitter, NOWHERE, match, arguments)
        except Abort as abort:
            raise RuntimeFailure("R002", function.title, str(abort)) from None

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

    def finish(self, result: Any) -> Callee:
        """The function that returns what the Python function returned."""
        self.is_open = True
        results = result if isinstance(result, tuple) else (result,)
        values = [self.value_of(_checked(item, self.name)) for item in results]
        self.is_open = False
        self._builder.returns(*values)
        run_recipe(self._graph, "trace")
        returns = tuple(Argument(f"result{i}", value.type) for i, value in enumerate(self._graph.outputs))
        schema = FunctionSchema(self.name, "", tuple(self._arguments), returns)
        return Callee(schema, self._graph)


def _checked(result: Any, name: str) -> Any:
    """What a function returned, if a graph can; lists and tuples are looked into, each once."""
    if is_too_deep(result):
        raise TypeError(f"'{name}' returns lists more than {MAX_DEPTH} levels deep, or in themselves")
    for item in parts([result]):
        if not isinstance(item, Recorded | bool | int | float | str | None):
            try:
                to_array(on_host(item))
            except Unsuitable as error:
                kind = type(item).__name__
                what = error.message if error.kind else f"'{name}' returns a value of type {kind}"
                raise TypeError(f"{what}: a trace returns arrays, numbers, lists and tuples") from None
    return result


def example_of(value: Any) -> Any:
    """The example's value of an argument."""
    if isinstance(value, Recorded):
        return value.peek()
    if isinstance(value, list):
        return [example_of(item) for item in value]
    return tuple([example_of(item) for item in value]) if isinstance(value, tuple) else on_host(value)


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
