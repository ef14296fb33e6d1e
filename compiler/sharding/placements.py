"""Where the elements of a tensor are along one dimension of a mesh of devices."""

from __future__ import annotations

from typing import Literal

from ...lang.light_dataclasses import dataclass
from ..ir.node import Node


@dataclass(frozen=True, slots=True)
class Placement:
    """All of it on each device; cut along `dim`; or as terms of a `sum`, or parts of a `mean`, one on each device."""

    kind: Literal["replicate", "shard", "sum", "mean"] = "replicate"
    dim: int = 0

    @property
    def is_partial(self) -> bool:
        return self.kind in ("sum", "mean")

    def __str__(self) -> str:
        return f"shard({self.dim})" if self.kind == "shard" else _TEXTS[self.kind]


_TEXTS = {"replicate": "replicate", "sum": "partial(sum)", "mean": "partial(mean)"}
REPLICATE = Placement()
SUM = Placement("sum")
MEAN = Placement("mean")


def shard(dim: int) -> Placement:
    return Placement("shard", dim)


class Forbidden(Exception):
    """Parts of a tensor do not give parts of the result: `node` is where, the message why."""

    def __init__(self, reason: str, node: Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node
