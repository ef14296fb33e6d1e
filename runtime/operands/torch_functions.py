"""torch's functions on operands: `torch.tanh(v)` and `F.relu(v)` are what they are in source. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...compiler.ops.registry import OPS
from .snippets import call_operator, operate, subscript

_OPERATORS: dict[str, str] = {
    "__floordiv__": "{} // {}",
    "__and__": "{} & {}",
    "__or__": "{} | {}",
    "__xor__": "{} ^ {}",
}
"""Methods of a tensor on the left that stand for operators and have no function of another name."""


def torch_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a function of torch is on operands; TypeError for one that has no counterpart."""
    name = function.__name__
    if name == "__getitem__":
        return subscript(*args)
    if name in _OPERATORS:
        return operate(_OPERATORS[name], *args)
    overloads = OPS.overloads(name)
    if not overloads:
        raise TypeError(f"torch.{name} does not take a recorded array: use its methods, or gs.ops")
    known = {argument.name for op in overloads for argument in op.schema.arguments}
    # What torch's Python functions fill in of their own: `inplace=False`, arguments that are out of use.
    given = {key: value for key, value in kwargs.items() if key in known or not (value is None or value is False)}
    given.pop("_stacklevel", None)
    return call_operator(name, *args, **given)
