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

FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sum": ("sum", ("a", "axis", "keepdims")),
    "mean": ("mean", ("a", "axis", "keepdims")),
    "prod": ("prod", ("a", "axis", "keepdims")),
    "argmax": ("argmax", ("a", "axis", "keepdims")),
    "argmin": ("argmin", ("a", "axis", "keepdims")),
    "cumsum": ("cumsum", ("a", "axis")),
    "amax": ("amax", ("a", "axis", "keepdims")),
    "amin": ("amin", ("a", "axis", "keepdims")),
    "max": ("amax", ("a", "axis", "keepdims")),
    "min": ("amin", ("a", "axis", "keepdims")),
    "all": ("all", ("a", "axis", "keepdims")),
    "any": ("any", ("a", "axis", "keepdims")),
    "where": ("where", ("condition", "x", "y")),
    "concatenate": ("cat", ("arrays", "axis")),
    "stack": ("stack", ("arrays", "axis")),
    "reshape": ("reshape", ("a", "shape")),
    "transpose": ("permute", ("a", "axes")),
    "swapaxes": ("transpose", ("a", "axis1", "axis2")),
    "moveaxis": ("movedim", ("a", "source", "destination")),
    "expand_dims": ("unsqueeze", ("a", "axis")),
    "squeeze": ("squeeze", ("a", "axis")),
    "broadcast_to": ("broadcast_to", ("array", "shape")),
    "dot": ("matmul", ("a", "b")),
    "outer": ("outer", ("a", "b")),
    "tril": ("tril", ("m", "k")),
    "triu": ("triu", ("m", "k")),
    "flip": ("flip", ("m", "axis")),
    "zeros_like": ("zeros_like", ("a",)),
    "ones_like": ("ones_like", ("a",)),
    "clip": ("clamp", ("a", "a_min", "a_max")),
}
"""NumPy's functions, the op each is, and its parameters in the order of the op's arguments."""


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
    """What a NumPy function is on operands; TypeError for one that has no counterpart."""
    name = function.__name__
    entry = FUNCTIONS.get(name)
    if entry is None:
        raise TypeError(f"np.{name} does not take a recorded array: use its methods, or gs.ops")
    op, parameters = entry
    given = dict(zip(parameters, args, strict=False)) | dict(kwargs)
    unknown = [key for key in given if key not in parameters]
    if len(args) > len(parameters) or unknown:
        more = ", ".join(f"{key}=" for key in unknown) or "so many arguments"
        raise TypeError(f"np.{name} with {more} does not take a recorded array: use its methods, or gs.ops")
    return _call(op, name, given)


def _call(op: str, name: str, given: dict[str, Any]) -> Any:
    if name == "transpose":
        array, axes = given["a"], given.get("axes")
        return call_operator("permute", array, list(axes)) if axes is not None else array.T
    if "axis" in given and given["axis"] is None:
        del given["axis"]
    if "axis" not in given:
        given.pop("keepdims", None)
    first, *rest = given.items()
    values = [_listed(first[1]), *[_listed(value) for _, value in rest]]
    if "keepdims" in given:
        return call_operator(op, *values[:-1], keepdim=values[-1])
    return call_operator(op, *values)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
