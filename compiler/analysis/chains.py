"""Values that follow from many tensors: each of them would be read again where such a value is computed again.

x1 = x + tanh(a1)        from x and a1
x2 = x1 + tanh(a2)       from x, a1 and a2: a tensor of its own, or what follows reads three
x3 = x2 + tanh(a3)       from x2 and a3
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from heapq import nlargest
from typing import Any

from ..ir.node import Node, Value
from ..ops.meta import Meta

MOST = 2
"""Tensors as large as itself that a value is computed again from: a third is a tensor written once, and read."""


def far_reaching(
    nodes: Iterable[Node],
    known: Mapping[Value, Any],
    is_computed: Callable[[Node], bool],
    is_worth: Callable[[Node], bool] = lambda node: True,
    most: int = MOST,
) -> set[Node]:
    """The nodes whose results follow from more tensors than `most`, as far as that `is_worth` a tensor of its own.

    `is_computed` says which nodes can be computed in passing; what others give is in memory, and so is what is given.
    """
    sources: dict[Value, frozenset[Value]] = {}
    found: set[Node] = set()

    @cache
    def nbytes(value: Value) -> int:
        return _nbytes(known.get(value))

    for node in nodes:
        if not is_computed(node):
            continue
        size = max(map(nbytes, node.outputs), default=0)
        if not size:
            sources.update(dict.fromkeys(node.outputs, frozenset[Value]()))
            continue
        taken: set[Value] = set()
        for value in node.inputs:
            before = sources.get(value)
            if before is None:
                taken.add(value)
            else:
                taken |= before
        large = [value for value in taken if nbytes(value) >= size]
        if len(large) > most and is_worth(node):
            found.add(node)
            continue
        # More than these say nothing more of what follows, and would make a long sum's work grow with its square.
        largest = large if len(large) <= most else nlargest(most + 1, large, key=nbytes)
        sources.update(dict.fromkeys(node.outputs, frozenset(largest)))
    return found


def _nbytes(known: Any) -> int:
    if isinstance(known, list):
        return sum(map(_nbytes, known))
    return known.nbytes if isinstance(known, Meta) else 0
