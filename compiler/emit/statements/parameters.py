"""Parameters: their types and defaults."""

from __future__ import annotations

from typing import Any

from ....lang import ast
from ....lang.diagnostics import Diagnostics
from ...ir.builder import constant_type, default_fits
from ...types.dtypes import ALIASES, BY_NAME
from ...types.schema import NO_DEFAULT, Argument, DefaultValue
from ...types.types import FLOAT, INT, TENSOR, ListType, OptionalType, TupleType, Type, strip_optional
from ..annotations import broadcast_size, dotted_name, resolve_type
from ..constants import VaryingExpression, constant_value
from ..emitter import described
from ..outside import Environment, nothing


def parameters_of(
    node: ast.FunctionDef | ast.Record, diagnostics: Diagnostics, environment: Environment = nothing
) -> tuple[Argument, ...]:
    """The parameters of a function as its schema has them. Raises Abort for a type or default that makes no sense."""
    return tuple(_parameter(p, diagnostics, environment) for p in node.parameters)


def _parameter(node: ast.Parameter, diagnostics: Diagnostics, environment: Environment) -> Argument:
    default: DefaultValue | Any = NO_DEFAULT
    type: Type = TENSOR
    fixed_size = None if node.annotation is None else broadcast_size(node.annotation)
    if node.default is not None:
        default = _default(node.default, diagnostics, environment, _is_dtype(node.annotation))
    if node.annotation is not None:
        type = resolve_type(node.annotation, diagnostics, environment)
    elif node.default is not None:
        # An unannotated parameter is a Tensor, unless its default says otherwise.
        type = OptionalType(TENSOR) if default is None else _type_of_default(default)
    if fixed_size is not None and isinstance(default, int | float):
        default = (default,) * fixed_size
    if node.default is not None:
        default = _converted(default, strip_optional(type))
        if not default_fits(default, type):
            notes = [_NO_TUPLE.format(type)] if isinstance(strip_optional(type), TupleType) else []
            message = f"the default {node.default.span.text} is not {described(type)}"
            if notes:
                message = f"{described(type)} has no default"
            raise diagnostics.fail("E301", message, node.default.span, *notes)
    return Argument(node.name, type, default, node.keyword_only, fixed_size)


_NO_TUPLE = "take an `Optional[{}] = None`, and test it; or a list"


def _is_dtype(annotation: ast.Expr | None) -> bool:
    return annotation is not None and dotted_name(annotation) == "torch.dtype"


def _default(node: ast.Expr, diagnostics: Diagnostics, environment: Environment, is_dtype: bool) -> Any:
    """A constant, as no deeper than a tuple of numbers; of a dtype its code."""
    module, _, name = dotted_name(node).rpartition(".")
    if is_dtype and module == "torch" and (name in BY_NAME or name in ALIASES):
        return (BY_NAME.get(name) or ALIASES[name]).code
    reason = ""
    try:
        value = constant_value(node, environment)
        if not isinstance(value, tuple) or not any(isinstance(item, tuple) for item in value):
            return value
    except VaryingExpression as error:
        reason = f": {error.reason}" if error.reason else ""
    raise diagnostics.fail(
        "E102",
        f"a default that is no constant{reason}",
        node.span,
        "defaults are numbers, `float('inf')`, strings, bools, None, lists of them, and what is computed of numbers",
    )


def _type_of_default(default: Any) -> Type:
    if default == ():
        return ListType(INT)
    return constant_type(default)


def _converted(default: Any, type: Type) -> Any:
    """An int where a float is asked for is a float, in a list too."""
    if isinstance(type, ListType) and isinstance(default, tuple):
        return tuple(_converted(item, type.element) for item in default)
    is_int = isinstance(default, int) and not isinstance(default, bool)
    return float(default) if is_int and type == FLOAT else default
