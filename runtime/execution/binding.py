"""From the arguments of a call to the inputs of a graph, as Python binds them and as the schema types them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...compiler.ir.graph import Graph
from ...compiler.ops.arrays import dtype_of
from ...compiler.types.lazy_numpy import np
from ...compiler.types.schema import Argument, FunctionSchema
from ...compiler.types.types import is_tensor
from ...lang.diagnostics import did_you_mean
from ...lang.source import Span
from ..failures.failure import RuntimeFailure
from ..values.arrays import all_native, describe_argument, is_torch, to_array
from ..values.conversion import Convert, argument_converter
from ..values.recorded import RecordedCall, taker_of
from ..values.unsuitable import Unsuitable


class Binder:
    """Binds calls of one function. `span` is the function's place, for messages; `tensor` converts to a Tensor."""

    def __init__(self, name: str, arguments: Sequence[Argument], span: Span, tensor: Convert = to_array) -> None:
        self._name = name
        self._arguments = tuple(arguments)
        self._span = span
        self._converters = [_converter(argument, tensor) for argument in arguments]
        self._positional = [argument for argument in arguments if not argument.keyword_only]
        self._all_positional = len(self._positional) == len(self._arguments)
        self._only_tensors = all(is_tensor(a.type) and not a.has_gradient for a in arguments)
        self._names = [argument.name for argument in arguments]

    @classmethod
    def of(cls, schema: FunctionSchema, graph: Graph, tensor: Convert = to_array) -> Binder:
        """That of a function: `graph` is its graph."""
        return cls(graph.title, schema.arguments, graph.span, tensor)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """One converted value per argument of the schema; RuntimeFailure where something does not fit.

        RecordedCall where it is no array because something in its place takes the call.
        """
        if kwargs or not self._all_positional or len(args) != len(self._arguments):
            args = self._complete(args, kwargs)
        if self._only_tensors and all_native(args):
            return [*args]
        try:
            return [convert(value) for convert, value in zip(self._converters, args)]  # noqa: B905 - lengths checked
        except Unsuitable:
            taker = taker_of(args)
            if taker is not None:
                raise RecordedCall(taker) from None
            raise self._unsuitable(args) from None

    def _unsuitable(self, values: Sequence[Any]) -> RuntimeFailure:
        """The failure of the first value that does not convert: found again, so that the usual case stays quick."""
        for argument, convert, value in zip(self._arguments, self._converters, values, strict=True):
            try:
                convert(value)
            except Unsuitable as error:
                code = "R003" if error.kind else "R002"
                message = f"argument '{argument.name}': {error.message}"
                return self._failure(code, message, argument.name, error.note)
        raise AssertionError("every argument converts after all")

    def _complete(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional arguments, keyword arguments and defaults in the order of the schema."""
        if len(args) > len(self._positional):
            raise self._too_many(args)
        given = dict(zip(self._names, args))  # noqa: B905 - there may be fewer
        for name, value in kwargs.items():
            if not isinstance(name, str):
                raise TypeError(f"the arguments to bind by name are a dict of names, not of {type(name).__name__}")
            if name not in self._names:
                message = f"there is no argument '{name}'"
                raise self._failure("R001", message, name, *did_you_mean(name, self._names), self._signature())
            if name in given:
                raise self._failure("R001", f"argument '{name}' is given twice", name)
            given[name] = value
        missing = [a.name for a in self._arguments if a.required and a.name not in given]
        if missing:
            named = " and ".join(f"'{name}'" for name in missing)
            noun = "argument" if len(missing) == 1 else "arguments"
            raise self._failure("R001", f"{noun} {named} missing", missing[0], self._signature())
        return tuple([given.get(a.name, a.default) for a in self._arguments])

    def _too_many(self, args: tuple[Any, ...]) -> RuntimeFailure:
        count = len(self._positional)
        message = f"{len(args)} positional arguments, and at most {count} are taken"
        keyword_only = [a.name for a in self._arguments if a.keyword_only]
        notes = [f"pass '{keyword_only[0]}' by its name"] if keyword_only else []
        return self._failure("R001", message, None, *notes, self._signature())

    def _signature(self) -> str:
        parts: list[str] = []
        for argument in self._arguments:
            if argument.keyword_only and "*" not in parts:
                parts.append("*")
            parts.append(f"{argument.name}: {argument.type}{'' if argument.required else f' = {argument.default!r}'}")
        return f"it takes ({', '.join(parts)})"

    def _failure(self, code: str, message: str, argument: str | None, *notes: str) -> RuntimeFailure:
        shown = [note for note in notes if note]
        return RuntimeFailure(code, self._name, message, argument=argument, span=self._span, notes=shown)


def _converter(argument: Argument, tensor: Convert) -> Convert:
    """The conversion of an argument, of which a gradient is perhaps taken."""
    convert = argument_converter(argument, tensor)
    if not argument.has_gradient:
        return convert

    def convert_floating(value: Any) -> Any:
        converted = convert(value)
        if converted is None:
            note = f"give a tensor for '{argument.name}', or leave it out of argnums"
            raise Unsuitable("there is no gradient with respect to None", note)
        if not _is_floating(converted):
            note = f"convert it: `{argument.name}.astype(float)`, or `{argument.name}.double()` for a torch tensor"
            if isinstance(value, list | tuple):
                note = (
                    f"convert it: `[item.astype(float) for item in {argument.name}]`, `item.double()` of torch tensors"
                )
            raise Unsuitable(f"there is no gradient with respect to {_not_floating(value)}", note)
        return converted

    return convert_floating


def _not_floating(value: Any) -> str:
    """What of an argument is not floating, in a few words."""
    if not isinstance(value, list | tuple):
        return describe_argument(value)
    index = next(i for i, item in enumerate(value) if isinstance(item, int) or not _is_floating(item))
    return f"element {index}, {_not_floating(value[index])}"


def _is_floating(value: Any) -> bool:
    """Whether every tensor of an argument is floating. What is none, a tape or a tracer takes care of."""
    if isinstance(value, list):
        return all(map(_is_floating, value))
    if isinstance(value, np.ndarray):
        return dtype_of(value).is_floating
    return not is_torch(value) or value.is_floating_point()
