"""Overload resolution: which schema a call means, and what its arguments become.

Schemas are tried in the order declared, first as the types stand, then with conversions (int to float, bool to
number). The first that fits is meant. What a tuple of types resolves to is remembered, since programs repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span
from ..ir.node import Value
from ..ir.signature import Bindings, matches, substitute
from ..types.schema import Argument, FunctionSchema
from ..types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    INT_LIST,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    TENSOR_LIST,
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
    is_tensor,
    leaf_of,
    strip_optional,
)

KEYWORD_ALIASES = {
    **dict.fromkeys(("input", "x", "a", "x1"), "self"),
    **dict.fromkeys(("axis", "axes"), "dim"),
    "keepdims": "keepdim",
    "x2": "other",
    "split_size_or_sections": "split_size",
}
"""Names that torch's Python functions use for a schema's arguments."""

VARIADIC = frozenset(
    f"aten::{name}"
    for name in (
        *("einsum", "broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"),
        *("block_diag", "cartesian_prod", "chain_matmul"),
    )
)
"""Ops whose tensors may be given one by one instead of as a list."""


class Fitting(Enum):
    """What happens to an argument on its way into a call."""

    AS_IS = auto()
    TO_FLOAT = auto()
    TO_FLOAT_LIST = auto()
    TO_INT = auto()
    REPEAT = auto()
    """One number where the schema says `int[2]`: a list of as many."""
    TO_LIST = auto()
    """A tuple where a list is asked for."""
    EMPTY_LIST = auto()
    """`[]`, whose element type the schema decides."""
    FROM_TENSOR = auto()
    """The number in a tensor of one element."""
    FROM_TENSORS = auto()
    """A display of ints and of tensors of one element, where a list of ints is asked for."""
    TO_DEVICE = auto()
    """The name of a device."""


@dataclass(frozen=True, slots=True)
class FromArgument:
    """Argument number `index` of the call (positional ones first, then keywords), converted."""

    index: int
    conversion: Fitting


@dataclass(frozen=True, slots=True)
class Packed:
    """`x.view(2, 3)`: the call's arguments from `start` on, as one list; of a tensor, the int that it holds."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Default:
    """The schema's own default."""


@dataclass(frozen=True, slots=True)
class Match:
    """A schema and, for each of its arguments, where the value comes from."""

    schema: FunctionSchema
    sources: tuple[FromArgument | Packed | Default, ...]
    bound: dict[str, Type] = field(hash=False, compare=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a schema does not fit, and which argument of the call is to blame (None: the call as a whole)."""

    reason: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Argued:
    """One argument as written: its value, its span, its keyword."""

    value: Value
    span: Span
    keyword: str | None = None


class Resolver:
    """Finds the schema that a call means. One per compilation: it remembers what it found."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Match | list[Mismatch]] = {}

    def resolve(self, candidates: Sequence[FunctionSchema], arguments: Sequence[Argued]) -> Match | list[Mismatch]:
        """The match, or why each candidate, in order, does not fit."""
        key = (
            id(candidates[0]),
            len(candidates),
            *((a.value.type, a.keyword, _is_empty_list(a.value), _is_display(a.value)) for a in arguments),
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _resolve(candidates, arguments)
        return found


_FROM_TENSOR = (INT, FLOAT, NUMBER)
_LEVELS = (0, 1, 2)
"""Types as they stand; with conversions of numbers; with numbers made of tensors."""


def _resolve(candidates: Sequence[FunctionSchema], arguments: Sequence[Argued]) -> Match | list[Mismatch]:
    mismatches: list[Mismatch] = []
    for convert in _LEVELS:
        mismatches = []
        for schema in candidates:
            result = _match(schema, arguments, convert)
            if isinstance(result, Match):
                return result
            mismatches.append(result)
    return mismatches


def _match(schema: FunctionSchema, arguments: Sequence[Argued], convert: int) -> Match | Mismatch:
    positional = [i for i, a in enumerate(arguments) if a.keyword is None]
    keywords = _keywords(schema, arguments)
    if isinstance(keywords, Mismatch):
        return keywords
    start = _packed_start(schema, arguments, positional, convert)
    if start is not None:
        slots, packed = positional[:start], Packed(start, len(positional))
    elif len(positional) > len(schema.positional):
        return Mismatch(
            f"takes {len(schema.positional)} positional arguments, not {len(positional)}", len(schema.positional)
        )
    else:
        slots, packed = positional, None
    bound: Bindings = {}
    sources: list[FromArgument | Packed | Default] = []
    for i, argument in enumerate(schema.arguments):
        if packed is not None and i == start:
            sources.append(packed)
            continue
        if i < len(slots) and argument.name in keywords:
            return Mismatch(f"'{argument.name}' is given twice", keywords[argument.name])
        index = slots[i] if i < len(slots) else keywords.get(argument.name)
        if index is None:
            if argument.required:
                return Mismatch(f"needs '{argument.name}'")
            sources.append(Default())
            continue
        if argument.default in ([], ()) and arguments[index].value.type == NONE:
            # torch.nn.functional writes None where the schema has an empty list: `stride=None`.
            sources.append(Default())
            continue
        conversion = _fit(arguments[index].value, argument, bound, convert)
        # Where a number is wanted torch takes bools, but for the step of `trapezoid`.
        is_refused = conversion is Fitting.TO_INT or (argument.name == "dx" and arguments[index].value.type == BOOL)
        if is_refused and _takes_no_bool(schema):
            conversion = None
        if conversion is None:
            actual = arguments[index].value.type
            wanted = substitute(argument.type, bound)
            return Mismatch(f"'{argument.name}' must be {wanted}, not {actual}", index)
        sources.append(FromArgument(index, conversion))
    return Match(schema, tuple(sources), bound)


def _keywords(schema: FunctionSchema, arguments: Sequence[Argued]) -> dict[str, int] | Mismatch:
    names = {a.name for a in schema.arguments}
    result: dict[str, int] = {}
    for i, argument in enumerate(arguments):
        if argument.keyword is None:
            continue
        name = argument.keyword
        if name not in names:
            name = KEYWORD_ALIASES.get(name, name)
        if name not in names and name == "self" and schema.arguments:
            name = schema.arguments[0].name
        if name not in names:
            return Mismatch(f"has no argument '{argument.keyword}'", i)
        if name in result:
            return Mismatch(f"'{name}' is given twice", i)
        result[name] = i
    return result


def _packed_start(
    schema: FunctionSchema, arguments: Sequence[Argued], positional: list[int], convert: int
) -> int | None:
    """Where arguments given one by one begin that stand for the schema's only list: `x.view(2, 3)`."""
    formals = schema.positional
    if schema.name in VARIADIC:
        tensors = [i for i in positional if is_tensor(arguments[i].value.type)]
        start = len(formals) - 1
        is_one_tensor = formals[0].type == TENSOR
        return start if tensors and tensors == positional[start:] and not is_one_tensor else None
    start = 0 if formals and formals[0].type == INT_LIST else 1
    if len(formals) != start + 1 or formals[start].type != INT_LIST or len(positional) <= start:
        return None
    if formals[start].name == "self" and len(positional) == start + 1:
        # `max(2, 3)` is of both, and `sum(2)` of no list.
        return None
    if formals[start].fixed_size is not None:
        # One number stands for as many as the schema says.
        return None
    # A tensor stands for an int among sizes and dimensions; of what a method is called it is no item of a list.
    takes_tensors = convert > 1 and formals[start].name != "self"
    types = [arguments[i].value.type for i in positional[start:]]
    return start if all(type == INT or (takes_tensors and is_tensor(type)) for type in types) else None


def takes_sizes(schema: FunctionSchema, *, is_method: bool) -> bool:
    """Whether ints one by one, all that a call gives without a name, stand for the schema's list."""
    formals = schema.positional[is_method:]
    is_list = len(formals) == 1 and formals[0].type == INT_LIST and formals[0].fixed_size is None
    return is_list and formals[0].name != "self"


def _takes_no_bool(schema: FunctionSchema) -> bool:
    """Whether a bool stands for no int: in torch's own functions of tensors, not in Python's or a user's."""
    return (
        schema.name.startswith(("aten::", "gs::"))
        and bool(schema.returns)
        and is_tensor(leaf_of(schema.returns[0].type))
    )


def _fit(value: Value, argument: Argument, bound: Bindings, convert: int) -> Fitting | None:
    actual, formal = value.type, argument.type
    inner = strip_optional(formal)
    if isinstance(inner, ListType) and _is_empty_list(value):
        return Fitting.EMPTY_LIST if not isinstance(inner.element, VariableType) else Fitting.AS_IS
    if inner == NUMBER and actual == BOOL:
        # A bool stays one: beside a tensor of bools it promotes to bool. Overloads that ask for an int come first.
        return Fitting.AS_IS if convert else None
    if matches(actual, formal, bound):
        return Fitting.AS_IS
    if isinstance(inner, ListType):
        fitting = _fit_list(actual, inner, argument, bound, convert)
        return (
            Fitting.FROM_TENSORS
            if fitting is None and convert > 1 and inner == INT_LIST and _holds_ints(value)
            else fitting
        )
    if is_tensor(actual) and inner in _FROM_TENSOR:
        return Fitting.FROM_TENSOR if convert > 1 else None
    if inner == FLOAT and convert and actual in (INT, NUMBER, BOOL):
        return Fitting.TO_FLOAT
    if inner == INT and actual == BOOL and convert:
        return Fitting.TO_INT
    return Fitting.TO_DEVICE if inner == DEVICE and actual == STR else None


def _fit_list(actual: Type, formal: ListType, argument: Argument, bound: Bindings, convert: int) -> Fitting | None:
    if argument.fixed_size is not None:
        becomes_float = convert and formal.element == FLOAT and actual in (INT, NUMBER)
        becomes_number = convert > 1 and is_tensor(actual) and formal.element in _FROM_TENSOR
        if becomes_float or becomes_number or matches(actual, formal.element, bound):
            return Fitting.REPEAT
    if isinstance(actual, TupleType) and all(matches(e, formal.element, bound) for e in actual.elements):
        return Fitting.TO_LIST if actual.elements or not isinstance(formal.element, VariableType) else None
    if convert and formal.element == FLOAT and actual == ListType(INT):
        return Fitting.TO_FLOAT_LIST
    return None


def _holds_ints(value: Value) -> bool:
    """Whether a tuple, or a list written out in the call, is of ints and of tensors, which stand for them."""
    items = value.type.elements if isinstance(value.type, TupleType) else (TENSOR,) * _is_display(value)
    return bool(items) and all(item == INT or is_tensor(item) for item in items)


def _is_display(value: Value) -> bool:
    return value.node.kind == "prim::ListConstruct" and value.type == TENSOR_LIST and value.name_hint == ""


def _is_empty_list(value: Value) -> bool:
    return value.node.kind == "prim::ListConstruct" and not value.node.inputs and value.name_hint == ""


def element_type(formal: Type) -> Type:
    """T of List[T] or Optional[List[T]]."""
    inner = formal.element if isinstance(formal, OptionalType) else formal
    assert isinstance(inner, ListType)
    return inner.element
