"""Losses. A reduction is torch's code (0 none, 1 mean, 2 sum), or its name in the overloads called `str`.

Computed in float32 at least, added up in float64, rounded once. Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....lang.light_dataclasses import dataclass
from ....ops import rules, shapes
from ....types.dtypes import DType, promote
from ....types.lazy_numpy import np
from ....types.schema import parse_schema
from ...arguments import Check, ElementRule, ShapeRule
from ...arrays import Array, cast, dtype_of, result_dtype, widen
from ...registry import Trait, declare
from ..reductions.reductions import require_float
from ..reductions.scan import log_softmax
from . import loss_shapes

_R = Trait.REDUCTION
NONE, MEAN, SUM = 0, 1, 2
REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": SUM}


def reduction_code(name: str) -> int:
    """torch's code of a reduction; ValueError for an unknown name."""
    if name not in REDUCTIONS:
        raise ValueError(f'{name!r} is not a valid value for reduction: use "none", "mean" or "sum"')
    return REDUCTIONS[name]


def _reduced(loss: Array, reduction: int, dtype: DType) -> Array:
    if reduction == NONE:
        return cast(loss, dtype)
    total = np.sum(loss, dtype=np.float64)
    return cast(np.true_divide(total, loss.size) if reduction == MEAN else total, dtype)


def _operands(name: str, *arrays: Array) -> tuple[DType, list[Array]]:
    """The dtype of a loss, and its operands broadcast and in the precision to compute in."""
    try:
        whole = np.broadcast_arrays(*arrays)
    except ValueError:
        raise RuntimeError(f"{name}: shapes {', '.join(str(a.shape) for a in arrays)} do not fit") from None
    dtype = require_float(name, result_dtype(*whole))
    return dtype, [widen(cast(array, dtype)) for array in whole]


def _elementwise(name: str, loss: Callable[..., Array], *, as_first: bool = False) -> Callable[..., Array]:
    """An `evaluate(self, target, *parameters, reduction)` from the loss of each element.

    `as_first` has the result in the dtype of the first operand whatever the target's, as torch has it.
    """

    def evaluate(self: Array, target: Array, reduction: int, *parameters: float) -> Array:
        dtype, (x, y) = _operands(name, self, target)
        dtype = require_float(name, dtype_of(self)) if as_first else dtype
        return _reduced(loss(x, y, *(x.dtype.type(p) for p in parameters)), reduction, dtype)

    return evaluate


def _squared(x: Array, y: Array) -> Array:
    return np.square(x - y)


def _absolute(x: Array, y: Array) -> Array:
    return np.abs(x - y)


def _distance(self: Array, target: Array, reduction: int) -> Array:
    if np.bool_ in (self.dtype, target.dtype):
        raise RuntimeError("l1_loss: an operand is of bools; convert it: `y.float()`")
    found: Array = _elementwise("l1_loss", _absolute)(self, target, reduction)
    return found


def _smooth_l1(x: Array, y: Array, beta: Any) -> Array:
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, but got {beta}")
    size = np.abs(x - y)
    return size if beta == 0 else np.where(size < beta, size * size / beta / 2, size - beta / 2)


def _huber(x: Array, y: Array, delta: Any) -> Array:
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, but got {delta}")
    size = np.abs(x - y)
    return np.where(size <= delta, size * size / 2, delta * (size - delta / 2))


def _soft_margin(x: Array, y: Array) -> Array:
    return np.logaddexp(np.zeros((), x.dtype), -x * y)


def _cross_entropy_of_probability(self: Array, target: Array, weight: Array | None, reduction: int) -> Array:
    if self.shape != target.shape:
        raise ValueError(f"binary_cross_entropy: the target's shape {target.shape} is not the input's {self.shape}")
    if target.dtype != self.dtype:
        raise RuntimeError(loss_shapes.of_another_dtype(dtype_of(self), dtype_of(target)))
    dtype, (x, y) = _operands("binary_cross_entropy", self, target)
    if self.size and not (self.min() >= 0 and self.max() <= 1):
        raise RuntimeError("binary_cross_entropy: all elements of input should be between 0 and 1")
    floor = x.dtype.type(-100)
    loss = (y - 1) * np.maximum(np.log1p(-x), floor) - y * np.maximum(np.log(x), floor)
    return _reduced(loss if weight is None else loss * widen(weight), reduction, dtype)


def _cross_entropy_of_logit(
    self: Array, target: Array, weight: Array | None, pos_weight: Array | None, reduction: int
) -> Array:
    if self.shape != target.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({self.shape})")
    loss_shapes.require_floats(dtype_of(self), dtype_of(target))
    _, (x, y) = _operands("binary_cross_entropy_with_logits", self, target)
    # torch gathers the loss where 1 - target is.
    dtype = dtype_of(target)
    surprise = np.logaddexp(np.zeros((), x.dtype), -x)
    scale = 1 if pos_weight is None else (widen(pos_weight) - 1) * y + 1
    loss = (1 - y) * x + scale * surprise
    return _reduced(loss if weight is None else loss * widen(weight), reduction, dtype)


def _kl_div(self: Array, target: Array, reduction: int, log_target: bool) -> Array:
    _, (x, y) = _operands("kl_div", self, target)
    dtype = result_dtype(self, target)
    if not (dtype_of(self).is_floating and dtype_of(target).is_floating):
        raise RuntimeError(f"kl_div: expected floating tensors, but got {dtype_of(self)} and {dtype_of(target)}")
    # torch takes functions of the target alone in the target's dtype.
    own = dtype_of(target)
    if log_target:
        return _reduced(_rounded(np.exp(y), own, dtype) * (y - x), reduction, dtype)
    entropy = np.where(y == 0, np.zeros((), x.dtype), y * np.log(np.where(y == 0, x.dtype.type(1), y)))
    return _reduced(_rounded(entropy, own, dtype) - y * x, reduction, dtype)


def _rounded(wide: Array, own: DType, result: DType) -> Array:
    """Rounded to a dtype of its own, where the result has more digits than that."""
    return wide if own == result else widen(cast(wide, own)).astype(wide.dtype)


def _kl_div_named(self: Array, target: Array, reduction: str, log_target: bool) -> Array:
    if reduction != "batchmean":
        return _kl_div(self, target, reduction_code(reduction), log_target)
    wide = _kl_div(widen(self), widen(target), SUM, log_target)
    return cast(wide / (self.shape[0] if self.ndim else 1), result_dtype(self, target))


def _classes_last(name: str, self: Array, target: Array) -> Array:
    """Class scores with the classes as last dimension; RuntimeError where the target does not fit."""
    axis = 0 if self.ndim == 1 else 1
    batch = self.shape[:axis] + self.shape[axis + 1 :]
    if self.ndim == 0 or target.shape != batch:
        raise RuntimeError(
            f"{name}: expected a target of shape {batch} for an input of shape {self.shape}, got {target.shape}"
        )
    return np.moveaxis(self, axis, -1)


def _class_weights(
    name: str, target: Array, classes: int, weight: Array | None, ignore_index: int, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Each target as an index that is safe to use, and its weight: 0 for an ignored one."""
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    if kept.any() and (int(safe.min()) < 0 or int(safe.max()) >= classes):
        wrong = safe[(safe < 0) | (safe >= classes)].flat[0]
        raise IndexError(f"{name}: Target {wrong} is out of bounds for {classes} classes.")
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"{name}: expected one weight for each of {classes} classes, but got shape {weight.shape}")
    if not classes or weight is None:
        return safe, kept.astype(dtype)
    return safe, np.where(kept, weight.astype(dtype)[safe], np.zeros((), dtype))


def _nll(scores: Array, target: Array, weight: Array | None, ignore_index: int, dtype: DType) -> tuple[Array, Array]:
    """Losses and weights, one for each target; wide. `dtype` is what the scores had before they were."""
    if weight is not None and dtype_of(weight) != dtype:
        raise RuntimeError(loss_shapes.of_weights_of_another_dtype(dtype, dtype_of(weight)))
    loss_shapes.require_classes(dtype_of(target))
    wide = _classes_last("nll_loss", scores, target)
    safe, weights = _class_weights("nll_loss", target, wide.shape[-1], weight, ignore_index, wide.dtype)
    if not safe.size:
        return np.zeros(safe.shape, wide.dtype), weights
    picked = np.take_along_axis(wide, safe[..., None], -1)[..., 0]
    return np.where(target == ignore_index, np.zeros((), wide.dtype), -picked * weights), weights


def _weighted(loss: Array, weights: Array, reduction: int) -> Array:
    """Losses whose mean is over the weights; not yet rounded."""
    if reduction == NONE:
        return loss
    total = np.sum(loss, dtype=np.float64)
    return np.asarray(total / np.sum(weights, dtype=np.float64) if reduction == MEAN else total)


def _nll_loss(self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> Array:
    loss, weights = _nll(widen(self), target, weight, ignore_index, dtype_of(self))
    return cast(_weighted(loss, weights, reduction), dtype_of(self))


def _nll_loss_forward(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    loss, weights = _nll(widen(self), target, weight, ignore_index, dtype_of(self))
    total = np.sum(weights, dtype=np.float64) if reduction != NONE else 0.0
    return cast(_weighted(loss, weights, reduction), dtype_of(self)), cast(total, dtype_of(self))


def _nll_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    """-weight[target] · grad_output at each target's class, over the total weight for a mean."""
    wide = widen(self)
    result = np.zeros(self.shape, wide.dtype)
    last = _classes_last("nll_loss_backward", result, target)
    safe, weights = _class_weights("nll_loss_backward", target, last.shape[-1], weight, ignore_index, wide.dtype)
    grad = widen(grad_output) / widen(total_weight) if reduction == MEAN else widen(grad_output)
    if safe.size:
        value = np.where(target == ignore_index, np.zeros((), wide.dtype), -weights * grad)
        np.put_along_axis(last, safe[..., None], value[..., None], -1)
    return cast(result, dtype_of(self))


def _cross_entropy(
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dtype = require_float("cross_entropy_loss", dtype_of(self))
    if self.ndim == 0:
        raise RuntimeError("cross_entropy_loss: expected scores of classes, but the input is 0-d")
    axis = 0 if self.ndim == 1 else 1
    scores = log_softmax(widen(self), axis)
    if dtype_of(target).is_floating and target.shape == self.shape:
        dtype = promote(dtype, dtype_of(target))
        return cast(_soft_cross_entropy(scores, target, weight, reduction, label_smoothing), dtype)
    loss, weights = _nll(scores, target, weight, ignore_index, dtype)
    sharp = _weighted(loss, weights, reduction)
    if not label_smoothing:
        return cast(sharp, dtype)
    spread = -np.sum(_scaled(scores, weight), axis=axis)
    spread = np.where(target == ignore_index, np.zeros((), spread.dtype), spread)
    share = label_smoothing / self.shape[axis]
    return cast((1 - label_smoothing) * sharp + share * _weighted(spread, weights, reduction), dtype)


def _scaled(scores: Array, weight: Array | None) -> Array:
    if weight is None:
        return scores
    return scores * widen(weight).reshape(-1, *(1,) * max(scores.ndim - 2, 0))


def _soft_cross_entropy(
    scores: Array, target: Array, weight: Array | None, reduction: int, label_smoothing: float
) -> Array:
    """The loss for a target of class probabilities; its mean is over the batch. Not yet rounded."""
    axis = 0 if scores.ndim == 1 else 1
    classes = scores.shape[axis]
    wanted = widen(target)
    if label_smoothing:
        wanted = wanted * wanted.dtype.type(1 - label_smoothing) + wanted.dtype.type(label_smoothing / classes)
    loss = -np.sum(_scaled(scores, weight) * wanted, axis=axis)
    if reduction == NONE:
        return np.asarray(loss)
    total = np.sum(loss, dtype=np.float64)
    # torch divides by elements per class, which is none where there are no classes.
    return np.asarray(np.true_divide(total, loss.size if classes else 0) if reduction == MEAN else total)


def _by_name(evaluate: Callable[..., Any], position: int) -> Callable[..., Any]:
    """The same with the reduction's name in place of its code."""

    def named(*arguments: Any) -> Any:
        code = reduction_code(arguments[position])
        return evaluate(*arguments[:position], code, *arguments[position + 1 :])

    return named


_TARGET = "Tensor self, Tensor target"
_WEIGHTED = f"{_TARGET}, Tensor? weight=None"


@dataclass(frozen=True)
class _Loss:
    """A loss of an input and a target, in its two spellings: with the reduction as a code, and as a name."""

    name: str
    evaluate: Callable[..., Array]
    before: str = _TARGET
    after: str = ""
    result: rules.TypeRule = loss_shapes.dtype_of_target
    shape: ShapeRule = loss_shapes.elementwise_loss
    dtype: ElementRule | None = None
    fits: Check | None = None
    aliases: tuple[str, ...] = ()


_LOSSES = (
    _Loss("mse_loss", _elementwise("mse_loss", _squared), dtype=shapes.promoted_when_broadcast),
    _Loss(
        "l1_loss",
        _distance,
        dtype=shapes.promoted_when_broadcast,
        fits=loss_shapes.has_no_bools,
    ),
    _Loss(
        "smooth_l1_loss",
        _elementwise("smooth_l1_loss", _smooth_l1),
        after=", float beta=1.",
        dtype=shapes.promoted_when_broadcast,
    ),
    _Loss(
        "huber_loss", _elementwise("huber_loss", _huber, as_first=True), after=", float delta=1.", result=rules.like()
    ),
    _Loss("soft_margin_loss", _elementwise("soft_margin_loss", _soft_margin, as_first=True), result=rules.like()),
    _Loss(
        "binary_cross_entropy",
        _cross_entropy_of_probability,
        _WEIGHTED,
        dtype=shapes.promoted_when_broadcast,
        fits=loss_shapes.has_the_dtype_of_its_target,
    ),
    _Loss(
        "binary_cross_entropy_with_logits",
        _cross_entropy_of_logit,
        f"{_WEIGHTED}, Tensor? pos_weight=None",
        result=loss_shapes.dtype_of_logits,
        fits=loss_shapes.has_numbers_for_targets,
    ),
    _Loss(
        "nll_loss",
        _nll_loss,
        _WEIGHTED,
        ", int ignore_index=-100",
        shape=loss_shapes.nll_loss,
        fits=loss_shapes.has_a_class_for_each_target,
    ),
    _Loss(
        "cross_entropy_loss",
        _cross_entropy,
        _WEIGHTED,
        ", int ignore_index=-100, float label_smoothing=0.",
        shape=loss_shapes.cross_entropy,
        fits=loss_shapes.has_classes,
        aliases=("cross_entropy",),
    ),
)


def _declare_loss(loss: _Loss, schema: str, evaluate: Callable[..., Array]) -> None:
    declare(
        schema,
        evaluate,
        traits=_R,
        result=loss.result,
        shape=loss.shape,
        dtype=loss.dtype,
        fits=loss.fits,
        aliases=loss.aliases,
    )


for _loss in _LOSSES:
    # huber_loss is younger than the arguments that stand before the reduction of the others.
    _star = "" if _loss.name == "huber_loss" else "*, "
    _before = _loss.before.replace("self", "input")
    _text = f'aten::{_loss.name}.str({_before}, {_star}str reduction="mean"{_loss.after}) -> Tensor'
    _declare_loss(_loss, f"aten::{_loss.name}({_loss.before}, int reduction=1{_loss.after}) -> Tensor", _loss.evaluate)
    _declare_loss(_loss, _text, _by_name(_loss.evaluate, parse_schema(_text).index_of("reduction")))

declare(
    f"aten::kl_div({_TARGET}, int reduction=1, *, bool log_target=False) -> Tensor",
    _kl_div,
    traits=_R,
    result=loss_shapes.dtype_of_target,
    shape=loss_shapes.elementwise_loss,
)
declare(
    'aten::kl_div.str(Tensor input, Tensor target, *, str reduction="mean", bool log_target=False) -> Tensor',
    _kl_div_named,
    traits=_R,
    result=loss_shapes.dtype_of_target,
    shape=loss_shapes.elementwise_loss,
)
declare(
    f"aten::nll_loss_nd({_WEIGHTED}, int reduction=1, int ignore_index=-100) -> Tensor",
    _nll_loss,
    traits=_R,
    result=rules.like(),
    shape=loss_shapes.nll_loss,
    fits=loss_shapes.has_a_class_for_each_target,
)
declare(
    "aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index)"
    " -> (Tensor output, Tensor total_weight)",
    _nll_loss_forward,
    traits=_R,
    result=rules.results(rules.like(), rules.like(rank=0)),
    shape=loss_shapes.nll_loss_forward,
    fits=loss_shapes.has_a_class_for_each_target,
)
declare(
    "aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction,"
    " int ignore_index, Tensor total_weight) -> Tensor",
    _nll_loss_backward,
    result=rules.same(1),
    shape=shapes.shape_of("self"),
)
