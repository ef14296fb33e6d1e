"""`gs.export`: a function as the text of a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiler.types.types import ListType, Type, is_tensor
from ...runtime.face.function import Function
from ...runtime.values.arrays import is_torch

if TYPE_CHECKING:
    from ...compiler.recompute import Policy


def export(function: Function, *args: Any, policy: Policy | str | int | None = None, **kwargs: Any) -> str:
    """The text of a Python module with the function's kernels in Triton, plain torch beside them, an op of
    torch.library and its test. It imports torch and triton alone.

        text = gs.export(cu.swiglu)                    arguments of likely shapes are found
        text = gs.export(cu.norm, x, weight)           for arguments of as many dimensions; sizes may be any
        text = gs.export(cu.norm, policy="recompute_all")

    CompileError (E412) for what no module can hold, with the line and what to do; ValueError for an unknown policy;
    TypeError for what is no function of a unit.
    """
    from .exporter import exported

    return exported(function, values_for(function, args, kwargs), policy)


def values_for(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """One value for each parameter: those given, or found. CompileError (E412) where none are found that run."""
    from .exporter import export_failure, require_tensors
    from .guesses import guessed

    if not isinstance(function, Function):
        raise TypeError(f"gs.export takes a function of a unit, not {type(function).__name__}")
    names = [a.name for a in function.schema.arguments]
    unknown = [name for name in kwargs if name not in names]
    if unknown or len(args) > len(names):
        raise TypeError(f"'{function.name}' takes {', '.join(names) or 'nothing'}")
    require_tensors(function)
    given = dict(zip(names, map(_plain, args), strict=False)) | {name: _plain(value) for name, value in kwargs.items()}
    # What is wrong with an argument is told as a call tells it.
    function.bind((), {a.name: _stand_in(a.type) for a in function.schema.arguments if a.required} | given)
    found = guessed(function, given)
    if found is None:
        note = "give arguments, or write a function beside it, NAME_examples, that returns those of one call"
        raise export_failure(function, "no arguments were found on which it runs and gives floating numbers", note)
    return found


def _stand_in(type: Type) -> Any:
    """Some value of one of the types that are exported."""
    if is_tensor(type):
        return np.zeros(())
    kinds = {"int": 1, "float": 1.0, "number": 1.0, "bool": False, "str": ""}
    return kinds.get(str(type), [] if isinstance(type, ListType) else None)


def _plain(value: Any) -> Any:
    """A tensor as an array of its shape and dtype: what is in it does not matter, but for indices."""
    if not is_torch(value):
        return np.asarray(value) if hasattr(value, "__array__") else value
    try:
        tensor = value.detach().cpu().resolve_neg()
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    except (TypeError, NotImplementedError, RuntimeError):
        return value  # a tensor of another kind than arrays are, of which the run tells
