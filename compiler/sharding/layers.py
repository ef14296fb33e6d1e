"""How losses, windows and norms run on parts: samples go apart, and often channels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ..ops.meta import Meta
from .labels import (
    Labelled,
    aten,
    from_the_right,
    has_argument,
    labels_without,
    leading,
    placed_by_labels,
    rank_of,
    rule_along,
    rule_of,
    tensors_of,
)
from .placements import MEAN, Forbidden
from .site import ShardingRule, Site

# --- losses ---

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def _loss(names: Sequence[str], whole: Mapping[str, int] | None = None) -> ShardingRule:
    """Of the elements of tensors that are broadcast together: all losses, their sum, or their mean, where all parts
    are as long."""

    def rule(site: Site) -> Sequence[Any]:
        reduction = _reduction_of(site)
        there = [name for name in names if isinstance(site.named(name), Meta)]
        rank = max(rank_of(site, name) for name in there)
        labels = from_the_right(rank)
        tensors = tensors_of(site, {name: labels[rank - rank_of(site, name) :] for name in there})
        if reduction == "none":
            return placed_by_labels(site.op.schema.base_name, Labelled(tensors, [labels]), site.results)
        if reduction not in ("sum", "mean"):
            raise Forbidden(f"{site.op.schema.base_name} takes whole tensors")
        (place,) = placed_by_labels(site.op.schema.base_name, Labelled(tensors, [[]], labels), site.results)
        return [MEAN if place.is_partial and reduction == "mean" else place]

    return rule


def _reduction_of(site: Site) -> Any:
    given = site.named("reduction")
    return _REDUCTIONS.get(given, given)


def _rows(site: Site, name: str) -> tuple[list[Hashable], list[Hashable]]:
    """The labels of scores of classes, and of what has one class for each row."""
    rank = rank_of(site, name)
    if rank_of(site, "target") != max(rank - 1, 0) or site.named("target").dtype.is_floating:
        raise Forbidden(f"{site.op.schema.base_name} takes whole tensors")
    scores: list[Hashable] = ["row", None, *range(2, rank)] if rank > 1 else [None] * rank
    return scores, labels_without(scores, [1], keeps=False) if rank > 1 else []


def _nll(site: Site) -> Labelled:
    """Of rows: a mean is over those that count, which no part knows."""
    name, reduction = site.op.schema.arguments[0].name, _reduction_of(site)
    if reduction == "mean":
        raise Forbidden("a mean is over the rows that count, and each device knows its own alone")
    scores, target = _rows(site, name)
    tensors = tensors_of(site, {name: scores, "target": target, "weight": [None]})
    if reduction == "none" and len(site.results) == 1:
        return Labelled(tensors, [target])
    # What nll_loss_forward gives besides is a sum.
    return Labelled(tensors, [target if reduction == "none" else [], [], []][: len(site.results)], target)


def _nll_backward(site: Site) -> Labelled:
    scores, target = _rows(site, "self")
    gradient = target if _reduction_of(site) == "none" else []
    names: dict[str, list[Hashable]] = {
        "grad_output": gradient,
        "self": scores,
        "target": target,
        "weight": [None],
        "total_weight": [],
    }
    return Labelled(tensors_of(site, names), [scores], (), [{0}])


# --- windows, batches ---


def _convolution(site: Site) -> Labelled:
    """Samples go apart, and so do the channels of the result; those of the input are summed over."""
    spatial = rank_of(site, "weight") - 2
    batch = ["sample"] if rank_of(site, "input") == spatial + 2 else []
    rest: list[Hashable] = [None] * spatial
    is_transposed = "transpose" in site.op.schema.name or (
        has_argument(site, "transposed") and site.named("transposed")
    )
    given, made = ("inner", "made") if site.named("groups") == 1 else (None, None)
    weight = [given, made] if is_transposed else [made, given]
    names: dict[str, list[Hashable]] = {"input": [*batch, given, *rest], "weight": [*weight, *rest], "bias": [made]}
    tensors = tensors_of(site, names)
    has_bias = len(tensors) == 3
    linear = [{0, 2}, {1, 2}] if has_bias else [{0}, {1}]
    return Labelled(tensors, [[*batch, made, *rest]], () if has_bias else ["inner"], linear)


def _convolution_input(site: Site) -> Labelled:
    """The gradient of a convolution in its input, of that size."""
    rest: list[Hashable] = [None] * (rank_of(site, "weight") - 2)
    batch = ["sample"] if rank_of(site, "grad_output") == len(rest) + 2 else []
    given, made = ("inner", "made") if site.named("groups") == 1 else (None, None)
    tensors = tensors_of(site, {"weight": [made, given, *rest], "grad_output": [*batch, made, *rest]})
    return Labelled(tensors, [[*batch, given, *rest]], ["made"], [{0}, {1}])


def _convolution_weight(site: Site) -> Labelled:
    """The gradient of a convolution in its weight, of that size."""
    rest: list[Hashable] = [None] * (len(site.named("weight_size")) - 2)
    batch = ["sample"] if rank_of(site, "input") == len(rest) + 2 else []
    given, made = ("inner", "made") if site.named("groups") == 1 else (None, None)
    tensors = tensors_of(site, {"input": [*batch, given, *rest], "grad_output": [*batch, made, *rest]})
    return Labelled(tensors, [[made, given, *rest]], ["sample"], [{0}, {1}])


def _leading(whole: int, *, linear: bool = False, names: Sequence[str] = ()) -> ShardingRule:
    """Of tensors of the same rank, whose last dimensions have to be whole, and the others go together."""

    def label(site: Site) -> Labelled:
        tensors = (
            tensors_of(site, dict.fromkeys(names, ())) if names else [(meta, place, ()) for meta, place in site.tensors]
        )
        if len({len(meta.shape) for meta, _, _ in tensors}) > 1:
            raise Forbidden(f"{site.op.schema.base_name} takes whole tensors")
        rank = len(tensors[0][0].shape)
        labels = leading(rank, rank - whole)
        shapes = {meta.shape[: rank - whole] for meta, _, _ in tensors}
        if len(shapes) > 1:
            raise Forbidden(f"{site.op.schema.base_name} takes whole tensors")
        results = [labels[: len(meta.shape)] for meta in site.results]
        return Labelled(
            [(m, p, labels) for m, p, _ in tensors], results, (), [{0}] if linear and len(tensors) == 1 else ()
        )

    return rule_of(label)


def _padded(name: str) -> ShardingRule:
    def label(site: Site) -> Labelled:
        (meta, place), *_ = site.tensors
        rank, pad = len(meta.shape), site.named("pad")
        amounts = [pad[2 * n : 2 * n + 2] for n in range(len(pad) // 2)]
        whole = [rank - 1 - n for n, amount in enumerate(amounts) if any(amount)]
        labels = from_the_right(rank, whole)
        is_linear = name == "adjoint" or (site.named("value") or 0) == 0
        return Labelled([(meta, place, labels)], [labels], (), [{0}] if is_linear else ())

    return rule_of(label)


def _attention(site: Site) -> Labelled:
    """Batches and heads go apart; so do queries, where no mask hangs on their places."""
    rank = rank_of(site, "query")
    mask = site.named("attn_mask")
    if (
        any(rank_of(site, name) != rank for name in ("key", "value"))
        or site.named("enable_gqa")
        or site.named("dropout_p")
    ):
        raise Forbidden("attention takes whole tensors here")
    batches: list[Hashable] = [*range(-rank, -2)]
    rows = None if site.named("is_causal") else "queries"
    names = {"query": [*batches, rows, None], "key": [*batches, None, None], "value": [*batches, None, "columns"]}
    if isinstance(mask, Meta):
        names["attn_mask"] = [*batches, rows, None][rank - len(mask.shape) :]
    return Labelled(tensors_of(site, names), [[*batches, rows, "columns"]], (), [{2}])


def _normed_by_channel(site: Site) -> Sequence[Any]:
    """Of a batch each channel is normalised alone; of given statistics, and of single samples, each sample as well."""
    rank, name = rank_of(site, "input"), site.op.schema.base_name
    is_alone = "instance" in name or not (has_argument(site, "training") and site.named("training"))
    labels: list[Hashable] = ["sample" if is_alone else None, "channel", *[None] * (rank - 2)]
    if is_alone and "instance" not in name:
        labels[2:] = range(2, rank)
    each = {each: ["channel"] for each in ("weight", "bias", "running_mean", "running_var")}
    return placed_by_labels(name, Labelled(tensors_of(site, {"input": labels, **each}), [labels]), site.results)


def _normed_by_group(site: Site) -> Labelled:
    labels: list[Hashable] = ["sample", *[None] * (rank_of(site, "input") - 1)]
    return Labelled(tensors_of(site, {"input": labels, "weight": [None], "bias": [None]}), [labels])


def _masked(site: Site) -> Labelled:
    (meta, place), (mask, at_mask) = site.tensors
    labels = from_the_right(len(meta.shape))
    return Labelled([(meta, place, labels), (mask, at_mask, labels)], [labels], (), [{0}])


def _behind_two(site: Site, rank: int) -> Sequence[int]:
    return range(2, rank)


LAYERS: dict[str, ShardingRule] = {
    **dict.fromkeys(
        aten("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"), _loss(("self", "target"))
    ),
    **dict.fromkeys(
        aten("mse_loss.str", "l1_loss.str", "smooth_l1_loss.str", "huber_loss.str", "soft_margin_loss.str"),
        _loss(("input", "target")),
    ),
    "aten::binary_cross_entropy": _loss(("self", "target", "weight")),
    "aten::binary_cross_entropy_with_logits": _loss(("self", "target", "weight", "pos_weight")),
    "aten::kl_div": _loss(("self", "target")),
    "aten::binary_cross_entropy.str": _loss(("input", "target", "weight")),
    "aten::binary_cross_entropy_with_logits.str": _loss(("input", "target", "weight", "pos_weight")),
    "aten::kl_div.str": _loss(("input", "target")),
    **dict.fromkeys(aten("nll_loss", "nll_loss_nd", "nll_loss_forward", "cross_entropy_loss"), rule_of(_nll)),
    "aten::nll_loss_backward": rule_of(_nll_backward),
    **dict.fromkeys(aten("conv1d", "conv2d", "conv3d", "convolution"), rule_of(_convolution)),
    **dict.fromkeys(aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), rule_of(_convolution)),
    "gs::conv_input": rule_of(_convolution_input),
    "gs::conv_weight": rule_of(_convolution_weight),
    **{
        name: _leading(n, linear="max" not in name)
        for n in (1, 2, 3)
        for kind in ("avg_pool", "adaptive_avg_pool", "max_pool", "adaptive_max_pool")
        for name in (f"aten::{kind}{n}d", f"aten::{kind}{n}d_with_indices", f"gs::{kind}{n}d_adjoint")
    },
    **dict.fromkeys(aten("pad", "constant_pad_nd"), _padded("forward")),
    "gs::pad_adjoint": _padded("adjoint"),
    "aten::scaled_dot_product_attention": rule_of(_attention),
    **dict.fromkeys(aten("batch_norm", "instance_norm"), _normed_by_channel),
    "aten::group_norm": rule_of(_normed_by_group),
    **dict.fromkeys(("gs::masked_dropout", "aten::native_dropout_backward"), rule_of(_masked)),
    **dict.fromkeys(("aten::interpolate", "gs::interpolate_adjoint"), rule_along(_behind_two, linear=True)),
    **dict.fromkeys(
        aten("inverse", "linalg_inv", "det", "linalg_det", "logdet", "cholesky", "linalg_cholesky", "matrix_exp"),
        _leading(2),
    ),
    **dict.fromkeys(
        aten("linalg_svdvals", "linalg_eigvalsh", "matrix_power", "slogdet", "linalg_slogdet"), _leading(2)
    ),
    "gs::cofactor": _leading(2),
    "aten::linalg_solve": _leading(2, names=("A", "B")),
    **dict.fromkeys(aten("pixel_shuffle", "pixel_unshuffle"), _leading(3, linear=True)),
}
"""By full name, or by the name of all overloads."""
