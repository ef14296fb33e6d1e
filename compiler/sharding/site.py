"""An op in a graph whose arguments are somewhere, and what says where its results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...lang.light_dataclasses import dataclass
from ..ops.meta import Meta
from ..ops.registry import Op
from .placements import REPLICATE, Placement


@dataclass(frozen=True, slots=True)
class Site:
    """An op in a graph: the abstract values of its arguments, where they are, and the abstract results."""

    op: Op
    values: Sequence[Any]
    placements: Sequence[Any]
    results: Sequence[Any]

    def named(self, name: str) -> Any:
        return self.values[self.op.schema.index_of(name)]

    def at(self, name: str) -> Placement:
        found = self.placements[self.op.schema.index_of(name)]
        return found if isinstance(found, Placement) else REPLICATE

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.named(name).shape)

    @property
    def tensors(self) -> list[tuple[Meta, Placement]]:
        pairs = zip(self.values, self.placements, strict=True)
        return [(value, place) for value, place in pairs if isinstance(value, Meta)]


ShardingRule = Callable[[Site], Sequence[Any]]
"""Where each result is. Raises: Forbidden."""
