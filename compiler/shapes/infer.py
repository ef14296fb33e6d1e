"""One op on abstract values: shapes by rule, dtypes by type, everything else by evaluation.

| Op | Its results |
|---|---|
| of lists, whatever they hold | what it gives for the abstract values themselves; UNKNOWN, if it COMPARES tensors |
| of tensors, that gives numbers | what it gives, if it is SHAPE_ONLY, else UNKNOWN: they are elements |
| of no tensors, that gives numbers | what it gives |
| POINTWISE | all tensors, broadcast together |
| declared with a rule (`shape`) | the rule's |
| VIEW | those of the op on arrays that share one element, which copies nothing |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from ..ops.arguments import Arguments, Shapes, Undecided
from ..ops.arrays import numpy_dtype
from ..ops.families.language.control import fit_gradients
from ..ops.families.language.properties import sum_to_size
from ..ops.meta import UNKNOWN, Meta, UnknownType, are_alike, is_defined, is_known, join
from ..ops.open_arrays import OpenArray, Unanswered, has_open_sizes, open_stand_in
from ..ops.registry import Op, Trait
from ..ops.shapes import all_broadcast
from ..types.dtypes import BY_NAME
from ..types.types import (
    BOOL,
    FLOAT,
    INT,
    Type,
    VariableType,
    is_tensor,
    leaf_of,
)
from .dtypes import result_dtypes

InferredResults = Sequence[Any]
MAX_REMEMBERED = 50_000
MAX_KEY = 8
_REMEMBERED: dict[Hashable, InferredResults] = {}
_SOME_NUMBER: dict[Type, Any] = {BOOL: True, INT: 1, FLOAT: 1.0}


def infer(op: Op, inputs: Sequence[Any], types: Sequence[Type] = ()) -> InferredResults:
    """One abstract value per result. Raises what the op raises for arguments that do not fit.

    `types` are the static types of the inputs, which say what an unknown number is. What was found is remembered: the
    same few ops on the same shapes come up in each layer, and each time that a graph is looked at.
    """
    key = _key(op, inputs, types)
    if key is None:
        return _inferred(op, inputs, types)
    try:
        found = _REMEMBERED.get(key)
    except TypeError:
        # Symbols of sizes are no keys, nor are the elements of an array that the graph holds.
        return _inferred(op, inputs, types)
    if found is None:
        if len(_REMEMBERED) >= MAX_REMEMBERED:
            _REMEMBERED.clear()
        found = _REMEMBERED[key] = _inferred(op, inputs, types)
    return found


def _key(op: Op, inputs: Sequence[Any], types: Sequence[Type]) -> Hashable:
    """What the results of an op follow from; None where lists among the arguments are long, or of lists."""
    key: list[Hashable] = [op.schema]
    for value in inputs:
        if type(value) is Meta:
            key.append(value)
        elif isinstance(value, list | tuple):
            if len(value) > MAX_KEY or any(isinstance(item, list | tuple) for item in value):
                return None
            key += (type(value), len(value), *map(_scalar_key, value))
        else:
            key.append(_scalar_key(value))
    if UnknownType not in map(type, inputs):
        return tuple(key)
    return (*key, *[kind for value, kind in zip(inputs, types, strict=False) if value is UNKNOWN])


def _scalar_key(value: Any) -> Hashable:
    """Zeros differ in their signs, and numbers in their types, which equality does not see."""
    return (type(value), repr(value)) if type(value) is float else (type(value), value)


def _inferred(op: Op, inputs: Sequence[Any], types: Sequence[Type]) -> InferredResults:
    count = len(op.schema.returns)
    moved = _MOVED.get(op.schema.full_name)
    if moved is not None:
        return [moved(*inputs)]
    if _is_generic(op):
        return _moved(op, inputs)
    if not any(is_tensor(leaf_of(result.type)) for result in op.schema.returns):
        require_fit(op, Arguments(op.schema, inputs))
        return _numbers(op, inputs)
    try:
        return _tensors(op, Arguments(op.schema, _with_numbers(op, inputs, types)), count)
    except Undecided:
        return [UNKNOWN] * count


def has_rule(op: Op) -> bool:
    """Whether the shapes of an op's results can be told; those of a composite op follow from its definition."""
    makes_tensors = any(is_tensor(leaf_of(result.type)) for result in op.schema.returns)
    return (
        not makes_tensors
        or op.schema.full_name in _MOVED
        or _is_generic(op)
        or op.shape is not None
        or op.has(Trait.POINTWISE | Trait.VIEW)
    )


def require_fit(op: Op, arguments: Arguments) -> None:
    """RuntimeError or IndexError where known arguments do not fit the op."""
    if op.fits is None:
        return
    try:
        op.fits(arguments)
    except Undecided:
        # What is not known before it runs is told when it runs.
        return


def moves_values(op: Op) -> bool:
    """Whether an op is of lists, or passes on what it is given: it computes no elements."""
    return op.schema.full_name in _MOVED or _is_generic(op)


# --- lists ---


def _is_generic(op: Op) -> bool:
    """Whether an op moves values about, of whatever type they are."""
    given, made = [a.type for a in op.schema.arguments], [r.type for r in op.schema.returns]
    gives_back = any(isinstance(leaf_of(type), VariableType) for type in made)
    if any(is_tensor(leaf_of(type)) for type in made) or any(isinstance(type, VariableType) for type in given):
        # What takes one value of any type, and gives none of it back, looks into it: its text, its place in a list.
        return gives_back
    return gives_back or any(isinstance(leaf_of(type), VariableType) for type in given)


def _moved(op: Op, inputs: Sequence[Any]) -> InferredResults:
    for argument, value in zip(op.schema.arguments, inputs, strict=True):
        if value is UNKNOWN and not isinstance(argument.type, VariableType):
            return [UNKNOWN]
    if op.has(Trait.COMPARES) and any(item is UNKNOWN or isinstance(item, Meta) for item in _leaves(inputs)):
        # Tensors of one shape are not for that equal.
        return [UNKNOWN]
    return [op.evaluate(*(list(value) if isinstance(value, list) else value for value in inputs))]


def _is_same(left: Any, right: Any) -> Any:
    """Only None is compared by identity."""
    if UNKNOWN in (left, right) or (left is not None and right is not None):
        return UNKNOWN
    return left is right


def _is_other(left: Any, right: Any) -> Any:
    same = _is_same(left, right)
    return same if same is UNKNOWN else not same


def _picked(items: Any, index: Any) -> Any:
    """An element of a list; what all have in common where it is not known which."""
    if not isinstance(items, list):
        return UNKNOWN
    if index is not UNKNOWN:
        return items[index]
    if not items:
        return UNKNOWN
    return items[0] if are_alike(items) else reduce(join, items)


def _fitted(gradients: Any, primal: Any, function: Any, argument: Any) -> Any:
    """The gradients in the length and the shapes of the list that they belong to."""
    if gradients is UNKNOWN or primal is UNKNOWN or UNKNOWN in (function, argument):
        return UNKNOWN
    return fit_gradients(gradients, primal, function, argument, _fitted_element, lambda p: p)


def _fitted_element(gradient: Any, primal: Any) -> Any:
    if not isinstance(gradient, Meta) or not isinstance(primal, Meta):
        return UNKNOWN
    sum_to_size(np.broadcast_to(np.float32(0), gradient.shape), primal.shape)
    return Meta(primal.shape, gradient.dtype)


def _spread(gradients: Any, like: Any) -> Any:
    """Gradients in the shapes of what they were summed from; what is undefined stays so."""
    if gradients is None or like is None:
        return gradients
    if isinstance(gradients, list) and isinstance(like, list) and len(gradients) == len(like):
        return [_spread(gradient, item) for gradient, item in zip(gradients, like, strict=True)]
    return Meta(like.shape, gradients.dtype) if isinstance(gradients, Meta) and isinstance(like, Meta) else UNKNOWN


def _filled(gradients: Any, primal: Any) -> Any:
    """What is undefined has the shape of the primal."""
    if gradients is None:
        return primal
    if not isinstance(gradients, list) or not isinstance(primal, list) or len(gradients) != len(primal):
        return gradients
    return [_filled(gradient, item) for gradient, item in zip(gradients, primal, strict=True)]


_MOVED: dict[str, Callable[..., Any]] = {
    "aten::__is__": _is_same,
    "aten::__isnot__": _is_other,
    "prim::grad_zeros": lambda primal: primal,
    "prim::grad_shapes": lambda primal: primal,
    "aten::__getitem__.t": _picked,
    "prim::grad_item": lambda gradients, index: None if gradients is None else _picked(gradients, index),
    "prim::grad_list": _filled,
    "prim::grad_fit": _fitted,
    "prim::grad_spread": _spread,
    "prim::no_grads": lambda like, count: UNKNOWN if count is UNKNOWN else [None] * count,
    "prim::grad_defined": is_defined,
}
"""Ops that the compiler makes of gradients and optionals, on abstract values."""


# --- numbers ---


def _numbers(op: Op, inputs: Sequence[Any]) -> InferredResults:
    count = len(op.schema.returns)
    has_tensor = any(isinstance(leaf, Meta) for leaf in _leaves(inputs))
    decided = op.has(Trait.SHAPE_ONLY) or not has_tensor
    if not decided or op.has(Trait.RANDOM) or not all(map(is_known, inputs)):
        return [UNKNOWN] * count
    return _unpacked(_evaluated(op, inputs), count)


def _evaluated(op: Op, inputs: Sequence[Any]) -> Any:
    """What an op gives for arrays that stand for tensors: of open sizes as they are, else as they are at hand."""
    if has_open_sizes(inputs):
        with suppress(Unanswered):
            return op.evaluate(*map(open_stand_in, inputs))
    return op.evaluate(*map(_stand_in, inputs))


def _leaves(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += value
        else:
            found.append(value)
    return found


def _unpacked(result: Any, count: int) -> InferredResults:
    return list(result) if count != 1 and isinstance(result, tuple) else [result]


def _with_numbers(op: Op, inputs: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """Some number for each that is unknown: in a pointwise op the shape and dtype follow from its type alone."""
    if not types or not op.has(Trait.POINTWISE):
        return list(inputs)
    return [
        _SOME_NUMBER.get(type, value) if value is UNKNOWN else value for value, type in zip(inputs, types, strict=True)
    ]


# --- tensors ---


def _tensors(op: Op, a: Arguments, count: int) -> InferredResults:
    require_fit(op, a)
    if op.has(Trait.POINTWISE):
        return [Meta(all_broadcast(a), result_dtypes(op, a, 1)[0])]
    if op.shape is not None:
        return _by_rule(op, a, op.shape(a), count)
    if op.has(Trait.VIEW) and all(map(is_known, a.values)):
        return [_abstract(result) for result in _unpacked(_evaluated(op, a.values), count)]
    return [UNKNOWN] * count


def _by_rule(op: Op, a: Arguments, shapes: Shapes, count: int) -> InferredResults:
    returns = op.schema.returns
    if count == 1 and isinstance(shapes, list):
        dtypes = result_dtypes(op, a, 1) * len(shapes)
        return [[_meta(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]]
    each = shapes if isinstance(shapes, list) else [shapes] * count
    dtypes = result_dtypes(op, a, count)
    triples = zip(returns, each, dtypes, strict=True)
    return [_meta(shape, dtype) if is_tensor(result.type) else UNKNOWN for result, shape, dtype in triples]


def _meta(shape: Any, dtype: Any) -> Any:
    return None if shape is None else Meta(shape, dtype)


def _stand_in(value: Any) -> Any:
    """An array of ones that share one element, for a Meta."""
    if isinstance(value, Meta):
        return np.broadcast_to(np.ones((), numpy_dtype(value.dtype)), value.shape)
    if isinstance(value, list | tuple):
        return type(value)(map(_stand_in, value))
    return value


def _abstract(value: Any) -> Any:
    if isinstance(value, OpenArray):
        return Meta(value.shape, BY_NAME[value.dtype.name])
    if isinstance(value, np.ndarray):
        return Meta.of(value)
    return type(value)(map(_abstract, value)) if isinstance(value, list | tuple) else value
