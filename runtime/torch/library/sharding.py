"""What DTensor is told of an op: the placements that its graph keeps to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ....compiler.ops.meta import Meta
from ....compiler.sharding.derive import RefusedSharding, ShardedStage, Way, ways
from ....compiler.sharding.placements import REPLICATE, Placement
from ....lang.light_dataclasses import dataclass, field
from ...values.torch_dtypes import dtypes_of_torch


@dataclass(frozen=True, slots=True)
class Staged:
    """What an op runs on abstract values: stages, on the `values` of its arguments and what is behind them.

    Its `results` are places in the row of values and of the stages' results, None for one that is not there. By number,
    results are gradients of `arguments`, cut as these are.
    """

    stages: Sequence[ShardedStage]
    values: Sequence[Any]
    results: Sequence[int | None]
    arguments: Mapping[int, int] = field(default_factory=dict)

    def keeps(self, way: Way) -> bool:
        """Whether gradients are in the places of their arguments."""
        pairs = [(way.results[result], way.arguments[argument]) for result, argument in self.arguments.items()]
        return all(
            (gradient is not None and gradient.kind == "shard") == (primal.kind == "shard")
            and (gradient is None or gradient.kind != "shard" or gradient == primal)
            for gradient, primal in pairs
            if primal is not None
        )


Stages = Callable[[Sequence[Any]], Staged]
"""From the abstract values of an op's arguments."""


def register_rules(op: Any, stages: Stages) -> None:
    """Give DTensor the rules of an op. Where torch has no distributed part there is nobody to give them to."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.tensor.experimental import register_sharding

    names = [argument.name for argument in op._schema.arguments]

    def acceptable(*args: Any, **kwargs: Any) -> list[tuple[list[Any], list[Any]]]:
        given = [*args, *(kwargs.get(name) for name in names[len(args) :])]
        values = [_abstract(value) for value in given]
        return [
            ([_torch(place) for place in way.results], [_torch(place) for place in way.arguments[: len(given)]])
            for way in derived(stages, values)
            if _is_even(way, given) or not any(place is not None and place.kind == "mean" for place in way.results)
        ]

    register_sharding(op)(acceptable)


def derived(stages: Stages, values: Sequence[Any]) -> list[Way]:
    """The ways to run an op in parts; at least that on whole tensors."""
    staged = stages(values)
    found: dict[Way, None] = {whole_way(staged, len(values)): None}
    for way in attempts(staged, len(values)):
        if isinstance(way, Way):
            found[way] = None
    return [*found]


def whole_way(staged: Staged, count: int) -> Way:
    """An op of so many arguments run on whole tensors."""
    places = [REPLICATE if isinstance(value, Meta) else None for value in staged.values[:count]]
    return Way(tuple(places), tuple([None if i is None else REPLICATE for i in staged.results]))


def attempts(staged: Staged, count: int) -> Iterator[Way | RefusedSharding]:
    """Every way that was looked at, of an op of so many arguments, and why it is none."""
    there = [i for i in staged.results if i is not None]
    if not staged.stages or not there:
        return
    for found in ways(staged.stages, staged.values, there):
        if isinstance(found, RefusedSharding):
            yield found
            continue
        row = iter(found.results)
        way = Way(found.arguments[:count], tuple([None if i is None else next(row) for i in staged.results]))
        if staged.keeps(way):
            yield way


def abstract_arguments(values: Sequence[Any]) -> list[Any]:
    """Arrays as what is known of them, in lists and tuples too."""
    return [_known_of(value) for value in values]


def _known_of(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_known_of, value))
    return Meta.of(value) if isinstance(value, np.ndarray) else value


def _abstract(value: Any) -> Any:
    meta = getattr(value, "tensor_meta", None)
    if meta is not None:
        return Meta(tuple(int(size) for size in meta.shape), dtypes_of_torch()[meta.dtype])
    return [*value] if isinstance(value, list | tuple) else value


def _is_even(way: Way, given: Sequence[Any]) -> bool:
    """Whether all devices of a mesh have parts of the same size."""
    cut = [
        (value, p.dim) for value, p in zip(given, way.arguments, strict=False) if p is not None and p.kind == "shard"
    ]
    return all(value.tensor_meta.shape[dim] % value.mesh.size() == 0 for value, dim in cut)


def _torch(place: Placement | None) -> Any:
    from torch.distributed.tensor import Partial, Replicate, Shard

    if place is None:
        return None
    made: Mapping[str, Callable[[], Any]] = {
        "replicate": Replicate,
        "shard": lambda: Shard(place.dim),
        "sum": lambda: Partial("sum"),
        "mean": lambda: Partial("avg"),
    }
    return made[place.kind]()
