"""Ops that only the compiler makes: what loops, conversions, subscripts and gradients stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from .....lang.diagnostics import counted
from ....types.dtypes import BOOL, DEFAULT_FLOAT, INT64
from ....types.lazy_numpy import np
from ....types.types import TensorType
from ... import rules, shapes
from ...arguments import Arguments, Shape
from ...arrays import Array, cast, dtype_of
from ...dims import axes_of
from ...registry import OPS, Trait, declare
from .properties import sum_to_size

GradientPlus = Callable[[Array, Array], Array]
"""The sum of two gradients of one tensor."""

# Emission


def _range_length(start: int, stop: int, step: int) -> int:
    """In arithmetic, which open sizes have, where `range` takes numbers."""
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    if step < 0:
        start, stop, step = stop, start, -step
    return (stop - start + step - 1) // step if start < stop else 0


def _derive_index(index: int, start: int, step: int) -> int:
    return start + index * step


def _float_list(values: list[int]) -> list[float]:
    return [float(value) for value in values]


def _index_tensor(indices: list[int]) -> Array:
    return np.asarray(indices, dtype=np.int64)


# --- what is known of results ---


def _updated_shape(a: Arguments) -> Shape:
    """A write does not change the shape of what is written."""
    new, old = a.shape("new"), a.shape("old")
    if new != old:
        raise RuntimeError(f"output with shape {list(old)} doesn't match the broadcast shape {list(new)}")
    return old


declare("aten::__range_length(int lo, int hi, int step) -> int", _range_length)
declare("aten::__derive_index(int index, int start, int step) -> int", _derive_index)
declare("aten::_float_list(int[] values) -> float[]", _float_list)
declare(
    "aten::_index_tensor(int[] indices) -> Tensor",
    _index_tensor,
    traits=Trait.NONDIFFERENTIABLE,
    result=lambda types: TensorType(INT64, 1),
    shape=shapes.nested_lists,
    dtype=lambda a: INT64,
)

# Writes


def _updated(new: Array, old: Array) -> Array:
    """What an in-place op leaves of `old`: its result in the dtype of `old`, whose shape it must have."""
    if new.shape != old.shape:
        raise RuntimeError(f"output with shape {list(old.shape)} doesn't match the broadcast shape {list(new.shape)}")
    result, wanted = dtype_of(new), dtype_of(old)
    if result != wanted and (wanted == BOOL or (result.is_floating and not wanted.is_floating)):
        raise RuntimeError(f"result type {result} can't be cast to the desired output type {wanted}")
    return cast(new, wanted)


declare(
    "aten::_updated(Tensor new, Tensor old) -> Tensor",
    _updated,
    result=lambda types: rules.tensor_at(types, 1),
    shape=_updated_shape,
)

declare(
    "aten::_replaced(Tensor old, Tensor new) -> Tensor",
    lambda old, new: new,
    result=lambda types: rules.tensor_at(types, 0),
    shape=shapes.shape_of("old"),
)

declare(
    "aten::_overwritten(Tensor old, Tensor new) -> Tensor",
    lambda old, new: new,
    result=lambda types: rules.tensor_at(types, 1),
    shape=shapes.shape_of("new"),
)

# Differentiation


def _grad_size(primal: Array | None) -> list[int]:
    return list(primal.shape) if primal is not None else []


def _grad_dtype(primal: Array | None) -> int:
    return (dtype_of(primal) if primal is not None else DEFAULT_FLOAT).code


def _grad_zeros(primal: list[Any] | None) -> list[Any]:
    """Zeros for a list of tensors, or of such lists; nothing for what a branch not taken left uninitialized."""
    return [_zeros_for(item) for item in primal or ()]


def _zeros_for(primal: Any) -> Any:
    if primal is None:
        return None
    return _grad_zeros(primal) if isinstance(primal, list) else np.zeros_like(primal)


def grad_shapes(primal: list[Any]) -> list[Any]:
    """What stands for a list of tensors where only their shapes and dtypes are asked: an element of each, repeated."""
    return [
        grad_shapes(item) if isinstance(item, list) else np.broadcast_to(np.zeros((), item.dtype), item.shape)
        for item in primal
    ]


def no_grads(like: list[Any], count: int) -> list[None]:
    """So many undefined gradients, of the kind that the elements of a list are."""
    return [None] * count


def is_gradient_there(gradient: Any) -> bool:
    """Whether a gradient is there; of a list, whether one of its elements is."""
    return any(map(is_gradient_there, gradient)) if isinstance(gradient, list) else gradient is not None


def _grad_item(gradients: list[Any] | None, index: int) -> Any:
    return None if gradients is None else gradients[index]


def sum_of_two(left: Array, right: Array) -> Array:
    """The sum of two gradients of one tensor."""
    found: Array = OPS.named("aten::add.Tensor").evaluate(left, right)
    return found


def added_gradients(left: Any, right: Any, plus: GradientPlus | None = None) -> Any:
    """The sum of two gradients, of which either may be undefined, as may be their elements if they are lists; `plus`
    adds two tensors."""
    if left is None or right is None:
        return right if left is None else left
    if not isinstance(left, list):
        return (plus or sum_of_two)(left, right)
    if len(left) != len(right):
        raise ValueError(f"a gradient of {len(left)} tensors is added to one of {len(right)}")
    return [added_gradients(a, b, plus) for a, b in zip(left, right, strict=True)]


def grad_add_item(
    gradients: list[Any] | None, gradient: Any, index: int, count: int, plus: GradientPlus | None = None
) -> Any:
    """The gradients of a list, with one more for one of its elements; `plus` adds two tensors."""
    return add_item_in_place(None if gradients is None else [*gradients], gradient, index, count, plus)


def add_item_in_place(
    gradients: list[Any] | None, gradient: Any, index: int, count: int, plus: GradientPlus | None = None
) -> Any:
    """As `grad_add_item`, into the list itself."""
    total = [None] * count if gradients is None else gradients
    if len(total) != count:
        raise ValueError(f"a gradient of {len(total)} tensors is added to one of {count}")
    if not -count <= index < count:
        raise IndexError(f"list index {index} out of range in a list of {count}")
    total[index] = added_gradients(total[index], gradient, plus)
    return total


def grad_add_select(gradients: Array | None, gradient: Array | None, size: list[int], dim: int, index: int) -> Any:
    """The gradient of a tensor, with one more for one of its slices."""
    return add_select_in_place(None if gradients is None else gradients.copy(), gradient, size, dim, index)


def add_select_in_place(gradients: Array | None, gradient: Array | None, size: list[int], dim: int, index: int) -> Any:
    """As `grad_add_select`, into the array itself, where that has the shape and the dtype of the sum."""
    if gradient is None:
        return gradients
    total = np.zeros(tuple(size), gradient.dtype) if gradients is None else gradients
    if _is_plain(total, size, gradient) and total.ndim and -total.shape[dim] <= index < total.shape[dim]:
        part = np.moveaxis(total, dim, 0)[index, ...]
        if part.shape == gradient.shape:
            part += gradient
            return total
    zeros = np.zeros(tuple(size), gradient.dtype)
    scattered = OPS.named("aten::select_scatter").evaluate(zeros, gradient, dim, index)
    return added_gradients(total, scattered)


def grad_add_slice(gradients: Array | None, gradient: Array | None, size: list[int], *at: Any) -> Any:
    """The gradient of a tensor, with one more for some of its slices: of a dimension, from, to, and in which steps."""
    return add_slice_in_place(None if gradients is None else gradients.copy(), gradient, size, *at)


def add_slice_in_place(gradients: Array | None, gradient: Array | None, size: list[int], *at: Any) -> Any:
    """As `grad_add_slice`, into the array itself, where that has the shape and the dtype of the sum."""
    if gradient is None:
        return gradients
    total = np.zeros(tuple(size), gradient.dtype) if gradients is None else gradients
    dim, *ends = at
    if _is_plain(total, size, gradient) and total.ndim and ends[-1] > 0:
        part = np.moveaxis(np.moveaxis(total, dim, 0)[slice(*ends)], 0, dim)
        if part.shape == gradient.shape:
            part += gradient
            return total
    zeros = np.zeros(tuple(size), gradient.dtype)
    return added_gradients(total, OPS.named("aten::slice_scatter").evaluate(zeros, gradient, *at))


def _is_plain(total: Array, size: Sequence[int], gradient: Array) -> bool:
    """Whether parts of a sum can be added to where they lie."""
    return total.shape == tuple(size) and total.dtype == gradient.dtype and total.flags.writeable


def grad_list(gradients: list[Any] | None, primal: list[Any] | None, zeros: Callable[[Any], Any] = _zeros_for) -> Any:
    """The gradients of a list, with zeros for those that are undefined."""
    if gradients is None:
        return [zeros(item) for item in primal or ()]
    pairs = zip(gradients, primal or (), strict=True)
    return [grad_list(g, p, zeros) if isinstance(p, list) else zeros(p) if g is None else g for g, p in pairs]


class GradientMisfit(ValueError):
    """What the backward of `function` gave for a list, its `argument`, is no list of gradients of the elements."""

    def __init__(self, function: str, argument: str, message: str) -> None:
        super().__init__(message)
        self.function = function
        self.argument = argument


def fit_gradients(
    gradients: Any,
    primal: Any,
    function: str,
    argument: str,
    fit: Callable[[Any, Any], Any],
    zeros: Callable[[Any], Any],
) -> Any:
    """A list's gradient, by element: each made to fit by `fit`, one that is None by `zeros`.

    Types are shallow, so this recurses. GradientMisfit where lengths or shapes differ.
    """
    if gradients is None or primal is None:
        return zeros(primal) if gradients is None else gradients
    if not isinstance(primal, list):
        try:
            return fit(gradients, primal)
        except ValueError:
            message = (
                f"an element has shape {list(gradients.shape)}, where that of '{argument}' has {list(primal.shape)}"
            )
            raise GradientMisfit(function, argument, f"in the gradient of '{argument}', {message}") from None
    if len(gradients) != len(primal):
        held = f"has {counted(len(gradients), 'element')}, and '{argument}' has {len(primal)}"
        raise GradientMisfit(function, argument, f"the gradient of '{argument}' {held}")
    return [fit_gradients(g, p, function, argument, fit, zeros) for g, p in zip(gradients, primal, strict=True)]


def _grad_fit(gradients: list[Any], primal: list[Any], function: str, argument: str) -> Any:
    return fit_gradients(gradients, primal, function, argument, lambda g, p: sum_to_size(g, p.shape), _zeros_for)


def _grad_spread(gradients: list[Any], like: list[Any]) -> list[Any]:
    """The inverse, for the gradient of a gradient: each element broadcast to what it was summed from."""
    return [
        _grad_spread(g, x) if isinstance(x, list) else g if g is None or x is None else np.broadcast_to(g, x.shape)
        for g, x in zip(gradients, like, strict=True)
    ]


def _scalar_seed(output: Array) -> Array:
    if output.size != 1:
        raise ValueError(
            f"a gradient is taken of one number, and the output has shape {list(output.shape)}: "
            "sum it, or use gs.vjp with a cotangent"
        )
    if output.dtype.kind in "biu":
        raise ValueError(f"a gradient is taken of a floating number, and the output is one of {dtype_of(output)}")
    return np.ones_like(output)


# The value of a branch that was not taken is uninitialized; its size is asked for all the same, and never used.
declare("prim::grad_size(Tensor primal) -> int[]", _grad_size, traits=Trait.SHAPE_ONLY)
declare("prim::grad_dtype(Tensor primal) -> int", _grad_dtype, traits=Trait.SHAPE_ONLY)
declare("prim::grad_zeros(t[] primal) -> t[]", _grad_zeros, traits=Trait.NONDIFFERENTIABLE)
declare("prim::grad_item(t[] gradients, int index) -> t", _grad_item)
declare("prim::grad_shapes(t[] primal) -> t[]", grad_shapes, traits=Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY)
declare("prim::grad_list(t[] gradients, t[] primal) -> t[]", grad_list)
declare("prim::grad_fit(t[] gradients, t[] primal, str function, str argument) -> t[]", _grad_fit)
declare("prim::grad_spread(t[] gradients, t[] like) -> t[]", _grad_spread)
declare(
    "prim::grad_add_item(t[] gradients, t gradient, int index, int count) -> t[]",
    grad_add_item,
    traits=Trait.NONDIFFERENTIABLE,
)
declare(
    "prim::grad_add_select(Tensor gradients, Tensor gradient, int[] size, int dim, int index) -> Tensor",
    grad_add_select,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.agreed(0, 1),
    shape=lambda a: shapes.sum_with(a["gradients"], tuple(a["size"])),
)
declare(
    "prim::grad_add_slice(Tensor gradients, Tensor gradient, int[] size, int dim, int? start, int? end, int step)"
    " -> Tensor",
    grad_add_slice,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.agreed(0, 1),
    shape=lambda a: shapes.sum_with(a["gradients"], tuple(a["size"])),
)
declare("prim::no_grads(t[] like, int count) -> t[]", no_grads, traits=Trait.NONDIFFERENTIABLE)
declare("prim::grad_defined(t gradient) -> bool", is_gradient_there, traits=Trait.SHAPE_ONLY)
declare(
    "prim::scalar_seed(Tensor output) -> Tensor",
    _scalar_seed,
    traits=Trait.NONDIFFERENTIABLE,
    result=lambda types: types[0],
    shape=shapes.shape_of("output"),
)

# Sizes, for the formulas


def _kept_size(size: Sequence[int], dim: Sequence[int] | int | None) -> list[int]:
    """The size of a reduction's result with the reduced dimensions kept as 1."""
    axes = axes_of(dim, len(size))
    return [1 if axis in axes else length for axis, length in enumerate(size)]


def _reduced_count(size: Sequence[int], dim: Sequence[int] | int | None) -> int:
    """How many elements of a tensor of that size a reduction over `dim` makes one of."""
    return prod(size[axis] for axis in axes_of(dim, len(size)))


def _broadcast_numel(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of elements of two tensors of these sizes, broadcast together."""
    return prod(shapes.broadcast(left, right))


declare("gs::kept_size(int[] size, int[1]? dim) -> int[]", _kept_size)
declare("gs::reduced_count(int[] size, int[1]? dim) -> int", _reduced_count)
declare("gs::broadcast_numel(int[] left, int[] right) -> int", _broadcast_numel)
