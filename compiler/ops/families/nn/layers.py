"""Parts of networks that are neither normalization, loss nor convolution: gating, similarity, attention, and dropout
by a mask that is given, `masked_dropout(input, mask, p)`.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ops import fitting, rules, shapes
from ....types.dtypes import BOOL
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape, ShapeRule
from ...arrays import Array, cast, compute_dtype, dtype_of, element, float_dtype, refuse_bools, result_dtype, widen
from ...dims import along, wrap_dim
from ...registry import Trait, declare
from ..linalg.products import product
from ..reductions.norms import vector_norm
from ..reductions.reductions import require_float
from ..reductions.scan import softmax


def _require_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _masked_dropout(input: Array, mask: Array, p: float) -> Array:
    """input * mask / (1 - p), where the mask is 1 for what stays; zeros for p = 1."""
    _require_probability(p)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    dtype = require_float("masked_dropout", dtype_of(input))
    wide = widen(input)
    return cast(wide * mask.astype(wide.dtype) * np.asarray(scale, wide.dtype), dtype)


def _native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Array:
    dtype = float_dtype(dtype_of(grad_output))
    wide = widen(cast(grad_output, dtype))
    return cast(wide * mask.astype(wide.dtype) * np.asarray(scale, wide.dtype), dtype)


def _glu(self: Array, dim: int) -> Array:
    axis = wrap_dim(dim, self.ndim)
    if self.ndim == 0 or self.shape[axis] % 2:
        raise RuntimeError(f"glu: halving dimension must be even, but dimension {axis} of shape {self.shape} is not")
    half = self.shape[axis] // 2
    wide = widen(self)
    value, gate = wide[along(axis, slice(half))], wide[along(axis, slice(half, None))]
    return cast(value / (1 + np.exp(-gate)), require_float("glu", dtype_of(self)))


def _cosine_similarity(x1: Array, x2: Array, dim: int, eps: float) -> Array:
    """x1 · x2 / (max(|x1|, eps) · max(|x2|, eps))."""
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity: eps must not be negative, but is {eps}")
    require_float("cosine_similarity", result_dtype(x1, x2))
    dtype = result_dtype(*np.broadcast_arrays(x1, x2))
    element(eps, compute_dtype(dtype))
    left, right = np.broadcast_arrays(widen(cast(x1, dtype)), widen(cast(x2, dtype)))
    axis = wrap_dim(dim, left.ndim)
    wide_dtype = dtype_of(left)
    norms = [np.maximum(vector_norm(side, 2, axis, False, wide_dtype), eps) for side in (left, right)]
    if left.ndim:
        norms = [np.expand_dims(norm, axis) for norm in norms]
    units = left.astype(np.float64) / norms[0] * (right / norms[1])
    return cast(np.sum(units, axis=axis if left.ndim else None), dtype)


def _pairwise_distance(x1: Array, x2: Array, p: float, eps: float, keepdim: bool) -> Array:
    refuse_bools("pairwise_distance", x1)
    refuse_bools("pairwise_distance", x2)
    shared = result_dtype(x1, x2)
    dtype = float_dtype(shared)
    difference = widen(cast(widen(cast(x1, shared)) - widen(cast(x2, shared)), compute_dtype(dtype)))
    return vector_norm(difference + np.asarray(eps, difference.dtype), p, -1, keepdim, dtype)


def _require_mask_fits(mask: Shape, scores: Shape) -> None:
    if not fitting.is_broadcast_to(mask, scores):
        message = f"attn_mask of shape {list(mask)} does not broadcast to the scores, of shape {list(scores)}"
        raise RuntimeError(f"scaled_dot_product_attention: {message}")


def _attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Array:
    """softmax(query @ keyᵀ · scale + mask) @ value; a row that is masked whole gives zeros."""
    if dropout_p:
        raise RuntimeError("scaled_dot_product_attention: dropout draws random numbers, as gs.dropout_attention does")
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: attn_mask and is_causal=True exclude each other")
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    wide = widen(query)
    factor = wide.dtype.type(query.shape[-1] ** -0.5 if scale is None else scale)
    scores = product(wide * factor, widen(key).swapaxes(-1, -2))
    mask = np.tri(*scores.shape[-2:]).astype(bool) if is_causal else attn_mask
    if mask is not None:
        _require_mask_fits(mask.shape, scores.shape)
        scores = np.where(mask, scores, -np.inf).astype(wide.dtype) if dtype_of(mask) == BOOL else scores + widen(mask)
    blocked = np.all(scores == -np.inf, axis=-1, keepdims=True)
    weights = np.where(blocked, np.zeros((), wide.dtype), softmax(scores, scores.ndim - 1))
    return cast(product(weights, widen(value)), dtype_of(query))


# --- what is known of results ---


def _glu_shape(a: Arguments) -> Shape:
    shape = a.shape("self")
    axis = wrap_dim(a["dim"], len(shape))
    if not shape or shape[axis] % 2:
        raise RuntimeError(f"glu: the dimension to halve must be even, but the shape is {list(shape)}")
    return shapes.with_sizes(shape, axis, shape[axis] // 2)


def _cosine_similarity_shape(a: Arguments) -> Shape:
    shape = shapes.all_broadcast(a)
    return shapes.with_sizes(shape, wrap_dim(a["dim"], len(shape))) if shape else ()


def _pairwise_distance_shape(a: Arguments) -> Shape:
    shape = shapes.all_broadcast(a)
    return (*shape[:-1], *((1,) if a["keepdim"] and shape else ()))


def _attention_shape(a: Arguments) -> Shape:
    query, key, value = a.shape("query"), a.shape("key"), a.shape("value")
    if a["enable_gqa"]:
        key, value = ((*x[:-3], query[-3], *x[-2:]) for x in (key, value))
    mask = a["attn_mask"]
    scores = shapes.matrix_product(query, (*key[:-2], key[-1], key[-2]))
    if mask is not None:
        _require_mask_fits(mask.shape, scores)
    return shapes.matrix_product(scores, value)


_Evaluate = Callable[..., Array]
_SIMPLE: tuple[tuple[str, _Evaluate, rules.TypeRule, ShapeRule], ...] = (
    (
        "gs::masked_dropout(Tensor input, Tensor mask, float p) -> Tensor",
        _masked_dropout,
        rules.widest(0, 1),
        shapes.all_broadcast,
    ),
    (
        "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
        _native_dropout_backward,
        rules.floating(rules.widest(0, 1)),
        shapes.all_broadcast,
    ),
    ("aten::glu(Tensor self, int dim=-1) -> Tensor", _glu, rules.same(), _glu_shape),
    (
        "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
        _cosine_similarity,
        rules.agreed(0, 1),
        _cosine_similarity_shape,
    ),
    (
        "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool keepdim=False) -> Tensor",
        _pairwise_distance,
        rules.floating(rules.agreed(0, 1)),
        _pairwise_distance_shape,
    ),
)

for _schema, _evaluate, _rule, _shape in _SIMPLE:
    declare(
        _schema,
        _evaluate,
        result=_rule,
        shape=_shape,
        dtype=shapes.promoted_when_broadcast if "::cosine_similarity" in _schema else None,
    )
declare(
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None,"
    " float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    _attention,
    traits=Trait.MATMUL | Trait.LIBRARY,
    result=rules.widest(0, 1, 2),
    shape=_attention_shape,
)
