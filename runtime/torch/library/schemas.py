"""What torch is told of an op: the text of its schema, made of the types of a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from keyword import kwlist

from ....compiler.types.schema import Argument
from ....compiler.types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    ListType,
    OptionalType,
    TensorType,
    Type,
    is_tensor,
    leaf_of,
)
from ....lang.diagnostics import CompileError, Diagnostic
from ...execution.compiled import Compiled

_SCALARS: dict[Type, str] = {
    # torch.compile knows such a number by a symbol, so that a size may be passed as one.
    INT: "SymInt",
    FLOAT: "float",
    BOOL: "bool",
    STR: "str",
    NUMBER: "Scalar",
    DEVICE: "Device",
}

_WORDS = frozenset((*kwlist, "inf", "nan"))
"""What torch reads as no name."""


def type_text(type: Type) -> str | None:
    """A type as torch's schemas write it; None where they have none: tuples, lists of lists."""
    if isinstance(type, TensorType):
        return "Tensor"
    if isinstance(type, OptionalType):
        inner = type_text(type.element)
        return None if inner is None else f"{inner}?"
    if isinstance(type, ListType):
        inner = type_text(type.element)
        return None if inner is None or isinstance(type.element, ListType) else f"{inner}[]"
    return _SCALARS.get(type)


def function_schema(function: Compiled) -> str:
    """The arguments and results of a function, in parentheses. CompileError (E411) for what torch has no type for."""
    arguments: list[str] = []
    for argument in function.schema.arguments:
        if argument.keyword_only and "*" not in arguments:
            arguments.append("*")
        arguments.append(_argument(function, argument))
    for result in function.schema.returns:
        if not _is_result(result.type):
            note = "return tensors, or lists of them, one behind the other"
            raise _inexpressible(function, f"'{function.name}' returns a {result.type}", note)
    if not function.schema.returns:
        raise _inexpressible(function, f"'{function.name}' returns nothing", "return a tensor")
    return schema_text(arguments, [result.type for result in function.schema.returns])


def schema_text(arguments: Sequence[str], results: Sequence[Type]) -> str:
    """What comes behind the name of an op."""
    returned = [type_text(type) or "" for type in results]
    return f"({', '.join(arguments)}) -> {returned[0] if len(returned) == 1 else '(' + ', '.join(returned) + ')'}"


def unique(names: Iterable[str]) -> list[str]:
    """The names, each with a number behind it where it was there before, or is a word of schemas."""
    found: list[str] = []
    for given in names:
        name = f"{given}_" if given in _WORDS else given
        count, fresh = 0, name
        while fresh in found:
            count += 1
            fresh = f"{name}_{count}"
        found.append(fresh)
    return found


def _argument(function: Compiled, argument: Argument) -> str:
    text = type_text(argument.type)
    if text is None:
        message = f"parameter '{argument.name}' of '{function.name}' is a {argument.type}"
        raise _inexpressible(function, message, "pass what is in it as parameters of their own, or as one list")
    return f"{text} {argument.name}{'' if argument.required else f'={_default(argument.default)}'}"


def _default(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_default, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def _is_result(type: Type) -> bool:
    return is_tensor(type) or (isinstance(type, ListType) and is_tensor(leaf_of(type)) and type_text(type) is not None)


def _inexpressible(function: Compiled, message: str, note: str) -> CompileError:
    text = f"{message}, for which an op of torch has no type"
    return CompileError([Diagnostic("E411", text, function.graph.span, (note,))])
