"""Schemas against actual types: which arguments fit, what the type variables stand for, what a call gives."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops.registry import Op
from ..types.schema import Argument, FunctionSchema
from ..types.types import (
    NONE,
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
    is_subtype,
    strip_optional,
    unify,
)

Bindings = dict[str, Type]
"""What each type variable of a schema stands for in one call."""


def matches(actual: Type, formal: Type, bound: Bindings) -> bool:
    """Whether `actual` may stand where `formal` is asked for; a variable met on the way is bound or widened."""
    while not isinstance(formal, VariableType):
        if isinstance(formal, OptionalType) and actual != NONE:
            actual, formal = strip_optional(actual), formal.element
        elif isinstance(formal, ListType) and isinstance(actual, ListType):
            actual, formal = actual.element, formal.element
        else:
            return is_subtype(actual, formal)
    before = bound.get(formal.name)
    widened = actual if before is None else unify(before, actual)
    if widened is None:
        return False
    bound[formal.name] = widened
    return True


def argument_matches(actual: Type, argument: Argument, bound: Bindings) -> bool:
    """As `matches`; where a schema says `int[2]`, one int may stand for two."""
    if matches(actual, argument.type, bound):
        return True
    formal = strip_optional(argument.type)
    return argument.fixed_size is not None and isinstance(formal, ListType) and is_subtype(actual, formal.element)


def bind(schema: FunctionSchema, types: Sequence[Type]) -> Bindings | None:
    """The variables' meaning in a call with one type per argument; None where an argument does not fit."""
    bound: Bindings = {}
    if len(types) != len(schema.arguments):
        return None
    fits = all(argument_matches(t, a, bound) for t, a in zip(types, schema.arguments, strict=True))
    return bound if fits else None


def substitute(type: Type, bound: Bindings) -> Type:
    """The type with its variables replaced. A schema's types are shallow, so this recurses."""
    if isinstance(type, VariableType):
        return bound.get(type.name, type)
    if isinstance(type, OptionalType):
        return OptionalType(substitute(type.element, bound))
    if isinstance(type, ListType):
        return ListType(substitute(type.element, bound))
    if isinstance(type, TupleType):
        return TupleType(tuple(substitute(e, bound) for e in type.elements))
    return type


def result_types(op: Op, types: Sequence[Type]) -> tuple[Type, ...]:
    """One type per result of a call, type variables replaced."""
    found = op.result_types(types)
    if op.result is not None or not op.schema.is_generic:
        return found
    bound = bind(op.schema, types) or {}
    return tuple(substitute(type, bound) for type in found)
