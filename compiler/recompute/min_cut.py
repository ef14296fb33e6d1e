"""What to keep as a minimum cut.

Each node n that may run again is a vertex, and each value v another. On the side of the sink stands what the backward
has: a node that it runs again, a value that it has at hand.

    source ─ price(n) ─▶ n          n on the sink's side: it runs again, which costs its price
    n ─ bytes(v) ─▶ v               v at hand and n not run again: v is kept, which costs its bytes, and what a kernel
                                    writes for nothing else
    u ─ ∞ ─▶ n                      what runs again has what it uses at hand
    v ─ ∞ ─▶ sink                   so does what df uses

Inputs are at hand for nothing; those of a loop's round for their bytes, by an edge from the source. So the finite cuts
are the choices that work, the capacity of each is what it costs, and the minimum is exact. Of several the one that runs
least again is taken.

Source: the construction of a minimum cut with nodes split in two (Ford and Fulkerson), as PyTorch's min-cut
partitioner applies it to joint graphs; prices on nodes make recomputation itself cost something.
"""

from __future__ import annotations

from typing import TypeAlias

from ...lang.light_dataclasses import dataclass, field
from ..ir.node import Node, Value
from ..types.open_sizes import at_hand
from .flow import greatest_flow
from .prices import SCALE, price, writing
from .problem import Problem

Arc: TypeAlias = tuple[int, int]
_FINEST, _COARSEST = 6, 24
"""A budget weighs bytes by powers of two from 2**-6 to 2**24."""


@dataclass(slots=True)
class Network:
    """A flow network; capacities are whole numbers, None for no bound."""

    edges: dict[Arc, int | None] = field(default_factory=dict)
    count: int = 2
    """Vertices: 0 is the source, 1 the sink."""

    def vertex(self) -> int:
        self.count += 1
        return self.count - 1

    def connect(self, tail: int, head: int, capacity: int | None) -> None:
        """Add an edge; parallel ones add up."""
        earlier = self.edges.get((tail, head), 0)
        self.edges[tail, head] = None if capacity is None or earlier is None else capacity + earlier

    def sink_side(self) -> set[int]:
        """The vertices on the sink's side of a minimum cut, as few as there can be. ValueError if none is finite."""
        finite = {edge: at_hand(c) for edge, c in self.edges.items() if c is not None}
        bound = sum(finite.values()) + 1
        flow, sink_side = greatest_flow(self.count, {edge: finite.get(edge, bound) for edge in self.edges})
        if flow >= bound:
            raise ValueError("every cut has an edge without bound")
        return sink_side


def minimum_cut(problem: Problem, byte_weight: int = SCALE, price_weight: int = 1) -> set[Value]:
    """The values to keep so that the weighed sum of bytes and prices is least."""
    network = Network()
    vertices: dict[Value | Node, int] = {}
    for node in problem.region:
        vertices[node] = network.vertex()
        bound = price(problem, node) * price_weight if problem.recomputable(node) else None
        network.connect(0, vertices[node], bound)
        for value in node.outputs:
            vertices[value] = network.vertex()
            network.connect(vertices[node], vertices[value], _capacity(problem, value, byte_weight, price_weight))
    for value in problem.costly:
        vertices[value] = network.vertex()
        network.connect(0, vertices[value], (problem.nbytes(value) or 0) * byte_weight)
    for value in (problem.plain.f.inputs[i] for i in problem.plain.captured_inputs):
        if value in vertices:
            network.connect(vertices[value], 1, None)
    for node in problem.region:
        if not problem.recomputable(node):
            continue
        for value in problem.sources(node):
            if value in vertices:
                network.connect(vertices[value], vertices[node], None)
    for value in problem.wanted:
        if value in vertices:
            network.connect(vertices[value], 1, None)
    sink_side = network.sink_side()
    made = (v for node in problem.region if vertices[node] not in sink_side for v in node.outputs)
    return {value for value in made if vertices[value] in sink_side}


def _capacity(problem: Problem, value: Value, byte_weight: int, price_weight: int) -> int | None:
    """What keeping a value costs. One whose size is not known is kept if the plain gradient keeps it, else not."""
    if not problem.may_save(value) and problem.recomputable(value.node):
        return None
    size = problem.nbytes(value)
    return 1 if size is None else size * (byte_weight + writing(problem, value) * price_weight)


def within_budget(problem: Problem, budget: int) -> set[Value] | None:
    """The cut that runs least again, of those for a growing weight of bytes, that keeps at most so many; or None.

    The cuts for all weights are the corners of the trade of bytes against prices: between two corners there may be a
    choice that fits more tightly.
    """
    low, high = -_FINEST, _COARSEST
    best: set[Value] | None = None
    while low <= high:
        middle = (low + high) // 2
        saved = minimum_cut(problem, *_weights(middle))
        size = problem.storages.nbytes(saved)
        if size is not None and size <= budget:
            best, high = saved, middle - 1
        else:
            low = middle + 1
    return best


def _weights(exponent: int) -> tuple[int, int]:
    return (SCALE << exponent, 1) if exponent >= 0 else (SCALE, 1 << -exponent)
