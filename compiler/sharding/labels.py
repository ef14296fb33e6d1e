"""Rules told by labels: dimensions that go together have one label, as in einsum; one that has to be whole has none.

A label is cut in all tensors that have it, those aside that have a single element there, for which it is broadcast. A
result that has the label is cut there; one that has not, or a single element, is a partial sum if the label is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..ops.meta import Meta
from .placements import REPLICATE, SUM, Forbidden, Placement, shard
from .site import ShardingRule, Site

Labels: TypeAlias = Sequence[Hashable]
"""One for each dimension; None for one that has to be whole."""


class Labelled(NamedTuple):
    """Tensors with their labels, and the labels of results.

    What is `linear` are numbers of tensors: of such that are partial together, the results are partial sums.
    """

    tensors: Sequence[tuple[Meta, Placement, Labels]]
    results: Sequence[Labels]
    summed: Collection[Hashable] = ()
    linear: Sequence[Collection[int]] = ()


def placed_by_labels(name: str, op: Labelled, results: Sequence[Meta]) -> list[Placement]:
    """Where the results are. Forbidden where parts do not give parts of them."""
    partial = {i for i, (_, place, _) in enumerate(op.tensors) if place.is_partial}
    if partial:
        return _partial(name, op, partial, results)
    cuts = {label for meta, place, labels in op.tensors for label in _cut(name, meta, place, labels)}
    if not cuts:
        return [REPLICATE] * len(results)
    if len(cuts) > 1:
        raise Forbidden("the tensors are cut along different dimensions")
    (cut,) = cuts
    for meta, place, labels in op.tensors:
        for dim, label in enumerate(labels):
            if label == cut and place.kind != "shard" and meta.shape[dim] != 1:
                raise Forbidden("one tensor is cut along a dimension along which another one is whole")
    return [_result(name, cut, op, labels, meta) for labels, meta in zip(op.results, results, strict=True)]


def _cut(name: str, meta: Meta, place: Placement, labels: Labels) -> list[Hashable]:
    if place.kind != "shard":
        return []
    label = labels[place.dim]
    if label is None or list(labels).count(label) > 1:
        raise Forbidden(f"{name} needs dimension {place.dim} whole")
    if meta.shape[place.dim] == 1:
        raise Forbidden("the single element of a dimension that is broadcast cannot be cut")
    return [label]


def _result(name: str, cut: Hashable, op: Labelled, labels: Labels, meta: Meta) -> Placement:
    dims = [dim for dim, label in enumerate(labels) if label == cut and meta.shape[dim] != 1]
    if len(dims) == 1:
        return shard(dims[0])
    if dims or cut not in op.summed:
        raise Forbidden(f"{name} needs whole what is cut here")
    return SUM


def _partial(name: str, op: Labelled, partial: Collection[int], results: Sequence[Meta]) -> list[Placement]:
    places = {op.tensors[i][1] for i in partial}
    others = [place for i, (_, place, _) in enumerate(op.tensors) if i not in partial]
    if any(place != REPLICATE for place in others):
        raise Forbidden("partial results meet a tensor that is cut")
    is_linear = any(set(together) == set(partial) for together in op.linear)
    if not is_linear or len(places) > 1 or not all(meta.dtype.is_floating for meta in results):
        raise Forbidden(f"{name} is not linear in partial results")
    return [*places] * len(results)


# --- labels of a tensor ---


def from_the_right(rank: int, whole: Iterable[int] = ()) -> list[Hashable]:
    """Labels of tensors that are broadcast together; those of dimensions in `whole` have to be so."""
    kept: list[Hashable] = [*range(-rank, 0)]
    for dim in whole:
        kept[dim] = None
    return kept


def labels_without(labels: Labels, dims: Collection[int], *, keeps: bool) -> list[Hashable]:
    """The labels of what is reduced over some dimensions, which are kept with one element or go."""
    if keeps:
        return [None if dim in dims else label for dim, label in enumerate(labels)]
    return [label for dim, label in enumerate(labels) if dim not in dims]


def leading(rank: int, count: int) -> list[Hashable]:
    """The first `count` dimensions are labelled from the left, the others have to be whole."""
    return [dim if dim < count else None for dim in range(rank)]


def dims_from_front(dims: Any, rank: int) -> list[int]:
    """Dimensions counted from the front: of an int, of a list, all where it is None or empty."""
    chosen = [dims] if isinstance(dims, int) else dims
    return [*range(rank)] if not chosen else [dim % rank if rank else 0 for dim in chosen]


# --- rules ---

LabelRule = Callable[[Site], Labelled]


def rule_of(label: LabelRule) -> ShardingRule:
    def rule(site: Site) -> Sequence[Any]:
        results = [meta for meta in site.results if isinstance(meta, Meta)]
        return placed_by_labels(site.op.schema.base_name, label(site), results)

    return rule


def tensors_of(
    site: Site, labels: Mapping[str, Sequence[Hashable]]
) -> list[tuple[Meta, Placement, Sequence[Hashable]]]:
    """The tensors of these names that are there."""
    return [(site.named(n), site.at(n), own) for n, own in labels.items() if isinstance(site.named(n), Meta)]


def rank_of(site: Site, name: str) -> int:
    return len(site.named(name).shape)


def has_argument(site: Site, name: str) -> bool:
    return any(argument.name == name for argument in site.op.schema.arguments)


def rule_along(whole: Callable[[Site, int], Sequence[int]], *, linear: bool = False) -> ShardingRule:
    """Of one tensor, whose results have its dimensions; some of these have to be whole."""

    def label(site: Site) -> Labelled:
        (meta, place), *_ = site.tensors
        labels = from_the_right(len(meta.shape), whole(site, len(meta.shape)))
        return Labelled([(meta, place, labels)], [labels] * len(site.results), (), [{0}] if linear else ())

    return rule_of(label)


def paired(whole: Callable[[Site, int], Sequence[int]], names: Sequence[str], gone: bool = False) -> ShardingRule:
    """Of tensors that are broadcast together, with some dimensions whole, which go or stay."""

    def label(site: Site) -> Labelled:
        rank = max(rank_of(site, name) for name in names)
        dims = whole(site, rank)
        labels = from_the_right(rank, dims)
        tensors = tensors_of(site, {name: labels[rank - rank_of(site, name) :] for name in names})
        after = labels_without(labels, [dim % rank for dim in dims], keeps=not gone)
        return Labelled(tensors, [after] * len(site.results), (), [])

    return rule_of(label)


def aten(*names: str) -> tuple[str, ...]:
    return tuple([f"aten::{name}" for name in names])


def named_dims(site: Site, rank: int) -> Sequence[int]:
    """The dimensions that an argument `dim` names."""
    return dims_from_front(site.named("dim"), rank)
