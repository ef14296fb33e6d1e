"""NumPy's functions on operands: `np.exp(v)` is `v.exp()`, for those that have a counterpart of the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .snippets import call_operator, operate

UFUNCS: dict[str, str] = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "divide": "{} / {}",
    "true_divide": "{} / {}",
    "floor_divide": "{} // {}",
    "remainder": "{} % {}",
    "power": "{} ** {}",
    "matmul": "{} @ {}",
    "negative": "-{}",
    "positive": "{}",
    "invert": "~{}",
    "bitwise_and": "{} & {}",
    "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
    "greater": "{} > {}",
    "greater_equal": "{} >= {}",
    "equal": "{} == {}",
    "not_equal": "{} != {}",
    "absolute": "abs({})",
}
"""Ufuncs that are operators."""

_SAME_NAME = """exp exp2 expm1 log log2 log10 log1p sqrt square sin cos tan sinh cosh tanh sign floor ceil trunc
    isnan isinf isfinite logical_not reciprocal sigmoid"""
_SAME_NAME_BINARY = "maximum minimum logical_and logical_or logical_xor fmod hypot logaddexp logaddexp2 copysign"
_RENAMED = {
    **{name: name for name in f"{_SAME_NAME} {_SAME_NAME_BINARY}".split()},
    "fabs": "abs",
    "rint": "round",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "fmax": "fmax",
    "fmin": "fmin",
}
"""Ufuncs that are ops, under the ops' names."""

_REDUCED = {"a": "", "axis": "dim", "keepdims": "keepdim"}
_SPREAD = {"a": "", "axis": "dim", "ddof": "correction", "keepdims": "keepdim"}

FUNCTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "sum": ("sum", _REDUCED),
    "mean": ("mean", _REDUCED),
    "prod": ("prod", _REDUCED),
    "std": ("std", _SPREAD),
    "var": ("var", _SPREAD),
    "argmax": ("argmax", _REDUCED),
    "argmin": ("argmin", _REDUCED),
    "cumsum": ("cumsum", {"a": "", "axis": "dim"}),
    "cumprod": ("cumprod", {"a": "", "axis": "dim"}),
    "amax": ("amax", _REDUCED),
    "amin": ("amin", _REDUCED),
    "max": ("amax", _REDUCED),
    "min": ("amin", _REDUCED),
    "all": ("all", _REDUCED),
    "any": ("any", _REDUCED),
    "argsort": ("argsort", {"a": "", "axis": "dim"}),
    "where": ("where", {"condition": "", "x": "", "y": ""}),
    "concatenate": ("cat", {"arrays": "", "axis": "dim"}),
    "stack": ("stack", {"arrays": "", "axis": "dim"}),
    "vstack": ("vstack", {"tup": ""}),
    "hstack": ("hstack", {"tup": ""}),
    "reshape": ("reshape", {"a": "", "shape": ""}),
    "ravel": ("ravel", {"a": ""}),
    "transpose": ("permute", {"a": "", "axes": ""}),
    "swapaxes": ("transpose", {"a": "", "axis1": "", "axis2": ""}),
    "moveaxis": ("movedim", {"a": "", "source": "", "destination": ""}),
    "expand_dims": ("unsqueeze", {"a": "", "axis": ""}),
    "squeeze": ("squeeze", {"a": "", "axis": "dim"}),
    "broadcast_to": ("broadcast_to", {"array": "", "shape": ""}),
    "dot": ("matmul", {"a": "", "b": ""}),
    "outer": ("outer", {"a": "", "b": ""}),
    "tril": ("tril", {"m": "", "k": "diagonal"}),
    "triu": ("triu", {"m": "", "k": "diagonal"}),
    "flip": ("flip", {"m": "", "axis": "dims"}),
    "zeros_like": ("zeros_like", {"a": ""}),
    "ones_like": ("ones_like", {"a": ""}),
    "clip": ("clamp", {"a": "", "a_min": "min", "a_max": "max"}),
    "size": ("numel", {"a": ""}),
}
"""NumPy's functions: the op that each is, and what the op calls its parameters ("" for one that goes by its place)."""

_READINGS: dict[str, str] = {"shape": "{}.shape", "ndim": "{}.dim()", "transpose": "{}.T"}
"""Functions of an array alone that are expressions."""
_FLATTENING = {"concatenate": 0, "argsort": -1, "cumsum": None, "cumprod": None}
"""Functions that flatten arrays where `axis` is None, which ops do not, and the axis that is meant without one."""


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What `ufunc(*inputs)` is on operands; TypeError for what has no counterpart."""
    name = ufunc.__name__
    if method != "__call__" or kwargs:
        what = f"np.{name}.{method}" if method != "__call__" else f"np.{name} with {', '.join(kwargs)}="
        raise TypeError(f"{what} does not take a recorded array: use its methods, or its `.data`")
    if name in UFUNCS:
        return operate(UFUNCS[name], *inputs)
    if name not in _RENAMED:
        raise TypeError(f"np.{name} does not take a recorded array: use its methods, or gs.ops")
    return call_operator(_RENAMED[name], *[_as_array(value, inputs) for value in inputs])


def _as_array(value: Any, inputs: tuple[Any, ...]) -> Any:
    """A number as an array of the other operand's dtype: ops that are no operators take two tensors."""
    if not isinstance(value, int | float):
        return value
    dtypes = [other.dtype for other in inputs if not isinstance(other, int | float)]
    fits = dtypes[0].kind not in "biu" or type(value) is int
    return np.asarray(value, dtypes[0]) if fits else value


def array_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a NumPy function is on operands; TypeError for one that has no counterpart, or not for these arguments."""
    name = function.__name__
    if name in _READINGS and len(args) == 1 and not kwargs:
        return operate(_READINGS[name], *args)
    if name == "einsum" and not kwargs and args and isinstance(args[0], str):
        return call_operator("einsum", args[0], [*args[1:]])
    entry = FUNCTIONS.get(name)
    if entry is None or function.__module__ != "numpy":
        raise _refused(name)
    op, parameters = entry
    given = dict(zip(parameters, args, strict=False)) | dict(kwargs)
    unknown = [key for key in given if key not in parameters]
    if len(args) > len(parameters) or unknown:
        raise _refused(f"{name} with {', '.join(f'{key}=' for key in unknown) or 'so many arguments'}")
    return _call(op, name, given, parameters)


def _refused(what: str) -> TypeError:
    return TypeError(f"np.{what} does not take a recorded array: use its methods, or gs.ops")


def _call(op: str, name: str, given: dict[str, Any], parameters: Mapping[str, str]) -> Any:
    places = [key for key, keyword in parameters.items() if not keyword]
    missing = [key for key in places if key not in given]
    if missing:
        raise _refused(f"{name} without {missing[0]}=")
    if name in _FLATTENING and given.get("axis", _FLATTENING[name]) is None:
        raise _refused(f"{name} without an axis")
    if name == "dot" and max(getattr(given[side], "ndim", 0) for side in "ab") > 2:
        raise _refused("dot of more than two dimensions")
    if name in ("std", "var"):
        given.setdefault("ddof", 0)
    _settle_axis(name, given)
    keywords = {parameters[key]: _listed(value) for key, value in given.items() if key not in places}
    return call_operator(op, *[_listed(given[key]) for key in places], **keywords)


def _settle_axis(name: str, given: dict[str, Any]) -> None:
    """All axes by their numbers where an op has to be told; none where it goes without."""
    if given.get("axis") is not None:
        if name == "flip" and isinstance(given["axis"], int):
            given["axis"] = [given["axis"]]
        return
    given.pop("axis", None)
    every = list(range(given["a"].ndim)) if "a" in given and hasattr(given["a"], "ndim") else None
    if name == "flip":
        given["axis"] = list(range(given["m"].ndim))
    elif given.get("keepdims") and name not in ("argmax", "argmin"):
        given["axis"] = every
    elif name in ("std", "var", "argmax", "argmin"):
        given["axis"] = None
    else:
        given.pop("keepdims", None)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
