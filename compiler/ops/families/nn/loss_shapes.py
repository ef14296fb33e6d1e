"""The shapes and dtypes of losses, and what shapes they take."""

from __future__ import annotations

from collections.abc import Sequence

from ....ops import fitting, rules, shapes
from ....types.dtypes import BOOL, INT64, UINT8, DType
from ....types.types import TensorType, Type
from ...arguments import Arguments, Shape, Shapes
from ...meta import Meta


def dtype_of_target(types: Sequence[Type]) -> Type:
    """The dtype that input and target share; that of the input where the target has none of a loss."""
    first, second = rules.tensor_at(types, 0).dtype, rules.tensor_at(types, 1).dtype
    return TensorType(first if first == second or (second and not second.is_floating) else None)


def dtype_of_logits(types: Sequence[Type]) -> Type:
    """That of a floating target."""
    second = rules.tensor_at(types, 1).dtype
    return TensorType(second) if second and second.is_floating else dtype_of_target(types)


def _is_reduced(a: Arguments) -> bool:
    """Whether a loss is one number; the codes of reductions are torch's."""
    return a["reduction"] not in (0, "none")


def elementwise_loss(a: Arguments) -> Shape:
    shape = shapes.all_broadcast(a)
    return () if _is_reduced(a) else shape


def require_floats(*dtypes: DType) -> None:
    """TypeError for scores and targets of another kind, as in torch."""
    if not all(dtype.is_floating for dtype in dtypes):
        found = " and ".join(map(str, dtypes))
        raise TypeError(f"expected floating input and target, but got {found}: write `target.to(input.dtype)`")


def require_classes(dtype: DType) -> None:
    """TypeError for targets that name no classes, as in torch."""
    if dtype not in (INT64, UINT8):
        raise TypeError(f"expected classes as int64 or uint8, but the target is {dtype}: write `target.long()`")


def nll_loss(a: Arguments) -> Shape:
    require_classes(a.tensor("target").dtype)
    return () if _is_reduced(a) else a.shape("target")


def nll_loss_forward(a: Arguments) -> Shapes:
    return [nll_loss(a), ()]


def cross_entropy(a: Arguments) -> Shape:
    """The target holds classes, or probabilities of all of them."""
    if _is_reduced(a):
        return ()
    shape, target = a.at(0), a.tensor("target")
    if target.shape == shape and target.dtype.is_floating:
        return shapes.with_sizes(shape, 1 if len(shape) > 1 else 0)
    return target.shape


def is_as_its_target(a: Arguments) -> None:
    shape, target = a.at(0), a.shape("target")
    if shape != target:
        raise fitting.misfit(a, f"the target's shape {list(target)} is not the input's {list(shape)}")
    shapes.broadcast(shape, *fitting.shapes_given(a, "weight", "pos_weight"))


def of_another_dtype(dtype: DType, target: DType) -> str:
    return f"binary_cross_entropy: expected a target of dtype {dtype}, but got {target}; convert it: `y.type_as(x)`"


def of_weights_of_another_dtype(dtype: DType, weight: DType) -> str:
    return f"expected weights of dtype {dtype}, as the scores have, but got {weight}; convert them: `weight.type_as(x)`"


def has_the_dtype_of_its_target(a: Arguments) -> None:
    dtype, target = a.tensor(a.schema.arguments[0].name).dtype, a.tensor("target").dtype
    if dtype != target:
        raise RuntimeError(of_another_dtype(dtype, target))
    is_as_its_target(a)


def has_no_bools(a: Arguments) -> None:
    """Differences of bools are none."""
    if BOOL in (a.tensor(a.schema.arguments[0].name).dtype, a.tensor("target").dtype):
        raise fitting.misfit(a, "an operand is of bools; convert it: `y.float()`")
    shapes.broadcast(a.at(0), a.shape("target"))


def has_numbers_for_targets(a: Arguments) -> None:
    if a.tensor("target").dtype == BOOL:
        raise fitting.misfit(a, "the target is of bools; convert it: `y.float()`")
    is_as_its_target(a)


def has_a_class_for_each_target(a: Arguments) -> None:
    _require_classes(a, a.at(0), a.shape("target"))


def has_classes(a: Arguments) -> None:
    """The target holds classes, or probabilities of all of them."""
    shape, target = a.at(0), a.tensor("target")
    if not target.dtype.is_floating:
        _require_classes(a, shape, target.shape)
    elif target.shape != shape or not shape:
        raise fitting.misfit(
            a, f"probabilities of shape {list(target.shape)} do not fit an input of shape {list(shape)}"
        )
    else:
        fitting.require_one_for_each(a, shape[0 if len(shape) == 1 else 1], "classes", "weight")


def _require_classes(a: Arguments, shape: Shape, target: Shape) -> None:
    axis = 0 if len(shape) == 1 else 1
    batch = shape[:axis] + shape[axis + 1 :]
    if not shape or target != batch:
        expected = f"expected a target of shape {list(batch)} for an input of shape {list(shape)}"
        raise fitting.misfit(a, f"{expected}, got {list(target)}")
    weights, dtype = a.get("weight"), a.tensor(a.schema.arguments[0].name).dtype
    if isinstance(weights, Meta) and weights.dtype != dtype:
        raise RuntimeError(of_weights_of_another_dtype(dtype, weights.dtype))
    for weight in fitting.shapes_given(a, "weight"):
        if weight != (shape[axis],):
            raise fitting.misfit(
                a, f"expected one weight for each of {shape[axis]} classes, but got shape {list(weight)}"
            )
