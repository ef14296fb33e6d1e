"""Tensors that are put together: whether the kernels that compute with them are of one part each."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ...ir.node import Node
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...scheduling.pieces import LEAST_CALLED, LEAST_RUN, reaches
from ...types.open_sizes import is_open
from .reductions import reduction_of

_FOLLOWED = 8
"""Values that are looked at to find out what is reduced."""


def joins_apart(node: Node, known: Mapping[Any, Any]) -> bool:
    """Whether parts are long enough for kernels of their own, and nothing is reduced over all of them, as far as is
    seen of what follows element by element."""
    whole, dim = known[node.output], wrap_dim(known[node.inputs[1]], known[node.output].rank)
    parts = [part for part in known[node.inputs[0]] if part.rank == whole.rank]
    if any(is_open(part.shape[dim]) for part in parts):
        return False
    shortest = min([part.shape[dim] for part in parts], default=0)
    run = shortest * prod(whole.shape[dim + 1 :])
    if not reaches(run, LEAST_RUN) or not reaches(prod(whole.shape[:dim]) * run, LEAST_CALLED):
        return False
    pending = [node.output]
    for value in pending:
        for user in {use.user: None for use in value.uses}:
            reduction = reduction_of(user, known)
            if reduction is not None and dim in reduction.dims:
                return False
            for output in user.outputs if len(pending) < _FOLLOWED else ():
                meta = known.get(output)
                if isinstance(meta, Meta) and meta.shape == whole.shape and output not in pending:
                    pending.append(output)
    return True
