"""Function schemas: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

The notation is that of torch's native_functions, which is where an op's argument names and defaults come from.
"""

from __future__ import annotations

import re
from functools import cache, cached_property

from ...lang.light_dataclasses import dataclass
from .types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
)

DefaultValue = int | float | bool | str | None | tuple["DefaultValue", ...]


class NoDefault:
    """The type of NO_DEFAULT, which marks an argument that must be given (None is a default of its own)."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = NoDefault()


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter or result. `fixed_size` is N of `int[N]`: a single int stands for N of them.

    `has_gradient` says that a gradient is taken with respect to the parameter, which must then be floating.
    """

    name: str
    type: Type
    default: DefaultValue | NoDefault = NO_DEFAULT
    keyword_only: bool = False
    fixed_size: int | None = None
    is_dtype: bool = False
    has_gradient: bool = False

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT


@dataclass(frozen=True, eq=False)
class FunctionSchema:
    """Name, overload, arguments and results of an op or a function. Compared by identity: one object each."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @cached_property
    def full_name(self) -> str:
        """`aten::add.Tensor`, the kind that a node shows."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @cached_property
    def base_name(self) -> str:
        """`add` of `aten::add.Tensor`."""
        return self.name.rpartition("::")[2]

    @cached_property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.keyword_only)

    @cached_property
    def is_generic(self) -> bool:
        """Whether what a result is hangs on what a type variable stands for."""
        parts = [result.type for result in self.returns]
        for type in parts:
            if isinstance(type, OptionalType | ListType):
                parts.append(type.element)
            elif isinstance(type, TupleType):
                parts += type.elements
        return any(isinstance(type, VariableType) for type in parts)

    def index_of(self, name: str) -> int:
        """Position of the argument called `name`; ValueError where there is none."""
        return [a.name for a in self.arguments].index(name)

    @cached_property
    def _text(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.keyword_only and "*" not in parts:
                parts.append("*")
            default = "" if argument.required else f"={_default_text(argument.default)}"
            parts.append(f"{argument.type} {argument.name}{default}")
        results = ", ".join(str(r.type) for r in self.returns)
        return f"{self.full_name}({', '.join(parts)}) -> {results if len(self.returns) == 1 else f'({results})'}"

    def __str__(self) -> str:
        return self._text


def _default_text(default: object) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(_default_text, default))}]"
    return f'"{default}"' if isinstance(default, str) else str(default)


_SCALARS: dict[str, Type] = {
    "Tensor": TENSOR,
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "Scalar": NUMBER,
    "number": NUMBER,
    "Device": DEVICE,
    "None": NONE,
    "ScalarType": INT,
    "MemoryFormat": INT,
    "Layout": INT,
}
_HEAD = re.compile(r"\s*([\w:]+?)(?:\.(\w+))?\(")
_ARROW = re.compile(r"\s*->\s*(\()?")
_ARGUMENT = re.compile(
    r"\s*(?:(?P<star>\*)|(?P<base>\w+)(?P<suffix>(?:\[\d*\]|\?)*)(?:\s+(?P<name>\w+)(?:=(?P<default>\[[^\]]*\]|\"[^\"]*\"|[^,()\s]+))?)?)\s*"
)


_KNOWN: dict[tuple[str, bool, str], Argument] = {}
"""Arguments by their text: those of five hundred ops are two hundred different ones."""


class SchemaError(ValueError):
    """A schema string that does not parse: a mistake in an op's declaration."""


@cache
def parse_schema(text: str) -> FunctionSchema:
    """Read a schema string; SchemaError says where it stops making sense."""
    head = _HEAD.match(text)
    if not head:
        raise SchemaError(f"no name and '(' at the start of schema {text!r}")
    arguments, position = _parse_arguments(text, head.end())
    arrow = _ARROW.match(text, position)
    if not arrow:
        raise SchemaError(f"expected '->' at {text[position:]!r} of schema {text!r}")
    if arrow.group(1):
        returns, end = _parse_arguments(text, arrow.end())
    else:
        returns, end = _parse_arguments(text + ")", arrow.end())
    if text[end:].strip():
        raise SchemaError(f"unexpected {text[end:]!r} at the end of schema {text!r}")
    return FunctionSchema(head.group(1), head.group(2) or "", arguments, returns)


def _parse_arguments(text: str, position: int) -> tuple[tuple[Argument, ...], int]:
    """Arguments up to and past the closing parenthesis."""
    arguments: list[Argument] = []
    keyword_only = False
    while True:
        match = _ARGUMENT.match(text, position)
        if match and match.group("star"):
            keyword_only = True
        elif match:
            key = (match.group().strip(), keyword_only, "" if match.group("name") else str(len(arguments)))
            known = _KNOWN.get(key)
            if known is None:
                known = _KNOWN[key] = _argument(text, match, keyword_only, len(arguments))
            arguments.append(known)
        position = match.end() if match else position
        if position >= len(text) or text[position] not in ",)":
            raise SchemaError(f"unexpected {text[position : position + 20]!r} in schema {text!r}")
        position += 1
        if text[position - 1] == ")":
            return tuple(arguments), position


def _argument(text: str, match: re.Match[str], keyword_only: bool, index: int) -> Argument:
    base = match.group("base")
    type: Type = _SCALARS[base] if base in _SCALARS else VariableType(base)
    if base not in _SCALARS and len(base) > 2:
        raise SchemaError(f"unknown type {base!r} in schema {text!r}")
    fixed_size = None
    for size in re.findall(r"\[\d*\]|\?", match.group("suffix")):
        if size == "?":
            type = OptionalType(type)
        else:
            type = ListType(type)
            fixed_size = int(size[1:-1]) if len(size) > 2 else fixed_size
    default = match.group("default")
    return Argument(
        match.group("name") or f"result{index}",
        type,
        NO_DEFAULT if default is None else _parse_default(default),
        keyword_only,
        fixed_size,
        base == "ScalarType",
    )


def _parse_default(text: str) -> DefaultValue:
    constants: dict[str, DefaultValue] = {"None": None, "True": True, "False": False}
    if text in constants:
        return constants[text]
    if text.startswith("["):
        return tuple(_parse_default(item.strip()) for item in text[1:-1].split(",") if item.strip())
    if text.startswith('"'):
        return text[1:-1]
    try:
        return int(text)
    except ValueError:
        return float(text)
