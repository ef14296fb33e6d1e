"""How scans, reductions and lookups run on parts: along other dimensions than theirs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..ops.meta import Meta
from .labels import (
    Labelled,
    aten,
    dims_from_front,
    has_argument,
    labels_without,
    named_dims,
    paired,
    rank_of,
    rule_along,
    rule_of,
    tensors_of,
)
from .placements import Forbidden
from .site import ShardingRule, Site


def _first(site: Site, rank: int) -> Sequence[int]:
    return (0,)


def _last_two(site: Site, rank: int) -> Sequence[int]:
    return (rank - 2, rank - 1)


def _flipped(site: Site, rank: int) -> Sequence[int]:
    return dims_from_front(site.named("dims"), rank)


def _reduced(*, summed: bool = False) -> ShardingRule:
    """Of one tensor, over the dimensions named `dim`, or all."""

    def label(site: Site) -> Labelled:
        (meta, place), *_ = site.tensors
        rank = len(meta.shape)
        dims = dims_from_front(site.named("dim") if has_argument(site, "dim") else None, rank)
        if isinstance(site.named("dim") if has_argument(site, "dim") else None, int):
            dims = dims_from_front([site.named("dim")], rank)
        keeps = has_argument(site, "keepdim") and site.named("keepdim")
        labels: list[Hashable] = [*range(rank)]
        after = labels_without(labels, dims, keeps=keeps)
        if not summed:
            labels = [None if dim in dims else own for dim, own in enumerate(labels)]
        return Labelled([(meta, place, labels)], [after] * len(site.results), dims if summed else ())

    return rule_of(label)


# --- lookups ---


def _index_select(site: Site) -> Labelled:
    rank = rank_of(site, "self")
    (dim,) = dims_from_front([site.named("dim")], rank)
    labels: list[Hashable] = [*range(rank)]
    found = ["index"] * rank_of(site, "index")
    own = [None if d == dim else label for d, label in enumerate(labels)]
    result = ["index" if d == dim else label for d, label in enumerate(labels)]
    return Labelled(tensors_of(site, {"self": own, "index": found}), [result], (), [{0}])


def _index(site: Site) -> Labelled:
    """By one tensor of indices, at one dimension."""
    indices, places = site.values[1], site.placements[1]
    at = [dim for dim, index in enumerate(indices) if isinstance(index, Meta)]
    rank = rank_of(site, "self")
    if len(at) != 1 or indices[at[0]].dtype.name in ("bool", "uint8"):
        raise Forbidden("index takes whole tensors here")
    found: list[Hashable] = [("found", dim) for dim in range(len(indices[at[0]].shape))]
    labels: list[Hashable] = [dim if dim != at[0] else None for dim in range(rank)]
    tensors = [(site.named("self"), site.at("self"), labels), (indices[at[0]], places[at[0]], found)]
    return Labelled(tensors, [[*labels[: at[0]], *found, *labels[at[0] + 1 :]]], (), [{0}])


def _take(site: Site) -> Labelled:
    found: list[Hashable] = [*range(rank_of(site, "index"))]
    return Labelled(tensors_of(site, {"self": [None] * rank_of(site, "self"), "index": found}), [found], (), [{0}])


def _one_hot(site: Site) -> Labelled:
    labels: list[Hashable] = [*range(rank_of(site, "self"))]
    if site.named("num_classes") < 0:
        labels = [None] * len(labels)
    return Labelled(tensors_of(site, {"self": labels}), [[*labels, None]])


def _bucketize(site: Site) -> Labelled:
    labels: list[Hashable] = [*range(rank_of(site, "self"))]
    return Labelled(tensors_of(site, {"self": labels, "boundaries": [None]}), [labels])


def _embedding(weight: str, indices: str) -> ShardingRule:
    def label(site: Site) -> Labelled:
        rows: list[Hashable] = [*range(rank_of(site, indices))]
        return Labelled(tensors_of(site, {weight: [None, "columns"], indices: rows}), [[*rows, "columns"]], (), [{0}])

    return rule_of(label)


def _embedding_backward(gradient: str) -> ShardingRule:
    def label(site: Site) -> Labelled:
        rows: list[Hashable] = [*range(rank_of(site, "indices"))]
        is_linear = not site.named("scale_grad_by_freq")
        tensors = tensors_of(site, {gradient: [*rows, "columns"], "indices": rows})
        return Labelled(tensors, [[None, "columns"]], rows if is_linear else (), [{0}])

    return rule_of(label)


def _at_places(names: Sequence[str], linear: Sequence[set[int]] = ()) -> ShardingRule:
    """gather and scatter: all that is as long along a dimension other than theirs goes together there."""

    def label(site: Site) -> Labelled:
        rank = rank_of(site, names[0])
        if site.named("dim") is None:
            raise Forbidden(f"{site.op.schema.base_name} takes whole tensors")
        (dim,) = dims_from_front([site.named("dim")], rank)
        shapes = [site.shape(name) for name in names if isinstance(site.named(name), Meta)]
        same = [len({shape[d] for shape in shapes if len(shape) == rank}) == 1 and d != dim for d in range(rank)]
        labels = [d if same[d] else None for d in range(rank)]
        tensors = tensors_of(
            site,
            {
                n: labels if rank_of(site, n) == rank else [None] * rank_of(site, n)
                for n in names
                if isinstance(site.named(n), Meta)
            },
        )
        return Labelled(tensors, [labels] * len(site.results), (), linear)

    return rule_of(label)


def _gather(site: Site) -> Labelled:
    """As `_at_places`; what is looked up may also be cut along the dimension itself."""
    rank = rank_of(site, "self")
    (dim,) = dims_from_front([site.named("dim")], rank)
    pairs = [*zip(site.shape("self"), site.shape("index"), strict=True)]
    labels = [d if d != dim and a == b else None for d, (a, b) in enumerate(pairs)]
    index = ["found" if d == dim else label for d, label in enumerate(labels)]
    return Labelled(tensors_of(site, {"self": labels, "index": index}), [index], (), [{0}])


def _repeated_dim(site: Site, rank: int) -> Sequence[int]:
    return range(rank) if site.named("dim") is None else dims_from_front([site.named("dim")], rank)


LOOKUPS: dict[str, ShardingRule] = {
    "aten::cumsum": rule_along(named_dims, linear=True),
    **dict.fromkeys(aten("flip", "roll"), rule_along(_flipped, linear=True)),
    **dict.fromkeys(
        aten("cumprod", "logcumsumexp", "cummax", "cummin", "sort", "argsort", "topk", "glu"), rule_along(named_dims)
    ),
    **dict.fromkeys(("gs::softmin", "gs::normalize"), rule_along(named_dims)),
    **dict.fromkeys(aten("tril", "triu"), rule_along(_last_two, linear=True)),
    "aten::flipud": rule_along(_first, linear=True),
    "aten::fliplr": rule_along(lambda site, rank: (1,), linear=True),
    "aten::msort": rule_along(_first),
    **dict.fromkeys(
        aten("max.dim", "min.dim", "argmax", "argmin", "kthvalue", "mode", "median", "nanmedian"), _reduced()
    ),
    **dict.fromkeys(aten("all", "any", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm"), _reduced()),
    **dict.fromkeys(aten("nanmean", "aminmax", "max", "min"), _reduced()),
    **dict.fromkeys(aten("count_nonzero", "nansum"), _reduced(summed=True)),
    **dict.fromkeys(aten("max.other", "min.other"), paired(lambda site, rank: (), ("self", "other"))),
    "aten::index_select": rule_of(_index_select),
    "aten::gather": rule_of(_gather),
    "aten::index.Tensor": rule_of(_index),
    "aten::take": rule_of(_take),
    "aten::one_hot": rule_of(_one_hot),
    "aten::bucketize.Tensor": rule_of(_bucketize),
    "aten::take_along_dim": _at_places(("self", "indices")),
    "aten::embedding": _embedding("weight", "indices"),
    "gs::functional_embedding": _embedding("weight", "input"),
    "aten::embedding_dense_backward": _embedding_backward("grad_output"),
    "aten::embedding_backward": _embedding_backward("grad"),
    **dict.fromkeys(aten("scatter.src", "scatter.reduce"), _at_places(("self", "index", "src"))),
    "aten::scatter_add": _at_places(("self", "index", "src"), [{0, 2}]),
    "aten::scatter_reduce": _at_places(("self", "index", "src")),
    "aten::scatter.value": _at_places(("self", "index")),
    "aten::index_add": _at_places(("self", "index", "source"), [{0, 2}]),
    "aten::index_copy": _at_places(("self", "index", "source"), [{0, 2}]),
    **dict.fromkeys(aten("index_fill.int_Scalar", "index_fill.int_Tensor"), _at_places(("self", "index", "value"))),
    "aten::slice_scatter": _at_places(("self", "src"), [{0, 1}]),
    "aten::repeat_interleave.self_int": rule_along(_repeated_dim, linear=True),
}
"""By full name, or by the name of all overloads."""
