"""Arguments checked and converted, by the types of a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...compiler.types.lazy_numpy import np
from ...compiler.types.schema import Argument
from ...compiler.types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ListType,
    OptionalType,
    ScalarKind,
    TensorType,
    TupleType,
    Type,
)
from .arrays import describe_argument, dtype_code, to_array
from .unsuitable import Unsuitable

Convert = Callable[[Any], Any]
"""From what a user passes to what ops take; raises Unsuitable."""

OPEN = ("SymInt", "SymFloat")
"""The types of numbers that torch's tracers leave open: torch.compile those that differ from call to call."""


def argument_converter(argument: Argument, tensor: Convert = to_array) -> Convert:
    """The conversion of an argument of a function; one number may stand for a list of a fixed size."""
    convert, size = converter(argument.type, tensor), argument.fixed_size
    if size is None:
        return convert
    return lambda value: convert([value] * size if _is_number(value) else value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) or type(value).__name__ in OPEN


def converter(type: Type, tensor: Convert = to_array) -> Convert:
    """The conversion to a type, by `tensor` to a Tensor. Types are as deep as an annotation, so this recurses."""
    if isinstance(type, TensorType):
        return tensor
    if isinstance(type, OptionalType):
        return _optional(converter(type.element, tensor))
    if isinstance(type, ListType):
        return _list(type, converter(type.element, tensor))
    if isinstance(type, TupleType):
        return _tuple(type, [converter(element, tensor) for element in type.elements])
    return _SCALARS.get(type, _anything) if isinstance(type, ScalarKind) else _anything


def _anything(value: Any) -> Any:
    return value


def _needed(what: str, value: Any, note: str = "") -> Unsuitable:
    return Unsuitable(f"{what} is needed, not {describe_argument(value)}", note)


# --- scalars ---


def to_int(value: Any) -> int:
    """An int, or the code of a dtype."""
    if type(value) is int:
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    if type(value).__name__ == "SymInt":
        return value
    code = dtype_code(value)
    if code is None:
        raise _needed("an int", value, _int_advice(value))
    return code


def _int_advice(value: Any) -> str:
    if isinstance(value, bool | np.bool_ | float | np.floating):
        return "convert it: `int(…)`"
    return "take the number out of it: `x.item()`" if _is_single(value) else ""


def _is_single(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0


def to_float(value: Any) -> float:
    """A float; an int becomes one."""
    if type(value).__name__ in OPEN:
        return value.__sym_float__() if type(value).__name__ == "SymInt" else value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        note = "convert it: `float(…)`" if isinstance(value, bool | np.bool_) else ""
        raise _needed("a float", value, note or ("take the number out of it: `x.item()`" if _is_single(value) else ""))
    try:
        return float(value)
    except OverflowError as error:
        raise _needed("a float", value, "the int is too large for one") from error


def to_number(value: Any) -> int | float:
    """An int or a float as it is."""
    if type(value).__name__ in OPEN:
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise _needed("a number", value, "take the number out of it: `x.item()`" if _is_single(value) else "")
    return int(value) if isinstance(value, int | np.integer) else float(value)


def to_bool(value: Any) -> bool:
    if type(value).__name__ == "SymBool":
        # What is told of it decides how the function goes on: torch writes a guard.
        return bool(value)
    if not isinstance(value, bool | np.bool_):
        raise _needed("a bool", value, "convert it: `bool(…)`" if isinstance(value, int) or _is_single(value) else "")
    return bool(value)


def to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise _needed("a str", value)
    return str(value)


def to_device(value: Any) -> str:
    """A device's name."""
    if isinstance(value, str) or (type(value).__module__ == "torch" and type(value).__name__ == "device"):
        return str(value)
    raise _needed("a Device", value, 'pass its name: "cpu"')


def to_none(value: Any) -> None:
    if value is not None:
        raise _needed("None", value)


_SCALARS: dict[Type, Convert] = {
    INT: to_int,
    FLOAT: to_float,
    NUMBER: to_number,
    BOOL: to_bool,
    STR: to_str,
    DEVICE: to_device,
    NONE: to_none,
}


# --- compound types ---


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _list(type: ListType, convert: Convert) -> Convert:
    takes_arrays = type.element in (INT, FLOAT, BOOL, NUMBER)
    of_tensors = isinstance(type.element, TensorType)

    def to_list(value: Any) -> list[Any]:
        if takes_arrays and isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise _needed(f"a {type}", value, "put the tensor into a list: `[x]`" if of_tensors else "")
        items = [*value]
        return _elements(items, [convert] * len(items))

    return to_list


def _tuple(type: TupleType, converts: list[Convert]) -> Convert:
    def to_tuple(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _needed(f"a {type}", value)
        if len(value) != len(converts):
            raise Unsuitable(f"a {type} is needed, not a {value.__class__.__name__} of {len(value)} elements")
        return tuple(_elements(value, converts))

    return to_tuple


def _elements(values: list[Any] | tuple[Any, ...], converts: list[Convert]) -> list[Any]:
    result = []
    for i, (value, convert) in enumerate(zip(values, converts, strict=True)):
        try:
            result.append(convert(value))
        except Unsuitable as error:
            raise Unsuitable(f"element {i}: {error.message}", error.note, kind=error.kind) from error
    return result
