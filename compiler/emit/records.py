"""Named tuples of a source text, as what their names stand for: `P(x, n)` makes a tuple whose elements have names."""

from __future__ import annotations

from collections.abc import Sequence

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics
from ..types.schema import Argument, FunctionSchema
from ..types.types import TupleType
from .outside import Environment, Outside, RecordType, environment_within
from .statements.parameters import parameters_of


def record_type(name: str, fields: tuple[Argument, ...], untyped: frozenset[str] = frozenset()) -> RecordType:
    """The named tuple of these fields."""
    type = TupleType(tuple(field.type for field in fields), tuple(field.name for field in fields))
    return RecordType(FunctionSchema(name, "", fields, (Argument("result0", type),)), untyped)


def with_records(definitions: Sequence[ast.Record], diagnostics: Diagnostics, around: Environment) -> Environment:
    """An environment that has the named tuples of a source text too; each may name those above it."""
    found: dict[str, Outside] = {}
    environment = environment_within(found, around)
    for definition in definitions:
        try:
            untyped = frozenset(field.name for field in definition.parameters if field.annotation is None)
            fields = parameters_of(definition, diagnostics, environment)
            found[definition.name] = record_type(definition.name, fields, untyped)
        except Abort:
            found[definition.name] = record_type(definition.name, ())
    return environment if definitions else around
