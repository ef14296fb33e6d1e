"""How much memory f and df hold at once, estimated from shapes: liveness over the nodes, block by block.

A value takes memory from the node that makes it to the last one that uses it, a view none, what a graph returns to the
end. While df runs, all that it was handed stays: a backward may run again. In a loop, the state counts once, at its
size after the last round; what a round makes goes with the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...lang.trampoline import Walk, run
from ..analysis.captures import captures
from ..autodiff.gradient import Gradient, residuals_of
from ..ir.graph import Graph
from ..ir.kinds import carried, entering, is_loop
from ..ir.node import Block, Node, Value
from ..ir.rewrite import program_order
from ..ops.meta import Abstract
from ..shapes.propagate import UNKNOWN
from .problem import all_defined, known_values
from .storage import Storages, size_of


def estimate(gradient: Gradient, shapes: Sequence[Abstract]) -> tuple[int, int] | None:
    """Bytes at the peak of both halves, arguments and cotangents left out, and between them; None if not all is known.

    Between the halves live the real outputs and what df takes; the second number counts what lives for df only.
    """
    f, df = gradient.f, all_defined(gradient.df)
    known = known_values(f, shapes, _larger)
    if known is None:
        return None
    outputs = [known.get(value, UNKNOWN) for value in f.outputs]
    arguments = [outputs[i] for i in gradient.input_vjps]
    arguments += residuals_of(gradient, shapes, outputs)
    known_back = known_values(df, arguments, _larger)
    if known_back is None:
        return None
    try:
        forward, storages = _peak(f, known)
        backward, _ = _peak(df, known_back)
        return max(forward, storages.total(f.outputs) + backward), _between(gradient, storages)
    except _UnknownSize:
        return None


def between(gradient: Gradient, shapes: Sequence[Abstract]) -> int | None:
    """The second of these numbers alone."""
    f = gradient.f
    known = known_values(f, shapes, _larger)
    if known is None:
        return None
    try:
        return _between(gradient, _storages(f, known))
    except _UnknownSize:
        return None


def _between(gradient: Gradient, storages: _Sizes) -> int:
    f = gradient.f
    return storages.total(f.outputs) - storages.total(f.outputs[: gradient.num_real_outputs])


def _larger(left: Abstract, right: Abstract) -> Abstract:
    """Of what two rounds make, what takes more memory."""
    sizes = size_of(left), size_of(right)
    if sizes[0] is None or sizes[1] is None:
        return left if left is right else UNKNOWN
    return left if sizes[0] >= sizes[1] else right


class _UnknownSize(Exception):
    pass


class _Sizes(Storages):
    """Storages where every size must be known; inputs of the graph are free."""

    def total(self, values: Sequence[Value]) -> int:
        found = self.nbytes(values)
        if found is None:
            raise _UnknownSize
        return found

    def size(self, base: Value) -> int:
        found = self.base_bytes(base)
        if found is None:
            raise _UnknownSize
        return found


def _peak(graph: Graph, known: Mapping[Value, Abstract]) -> tuple[int, _Sizes]:
    storages = _storages(graph, known)
    return run(_block_peak(graph.body, storages)), storages


def _storages(graph: Graph, known: Mapping[Value, Abstract]) -> _Sizes:
    sizes = dict(known)
    for node in program_order(graph):
        if is_loop(node):
            # Inside, the state is as large as it gets.
            for place in carried(node):
                sizes[place.parameter] = sizes.get(place.output, UNKNOWN)
    storages = _Sizes(sizes, graph.inputs)
    storages.visit(graph.body)
    return storages


def _block_peak(block: Block, storages: _Sizes) -> Walk:
    """The most that is alive at once of what a block makes, its parameters included."""
    deaths = _deaths(block, storages)
    alive = frozenset[Value]().union(*(storages.bases(v) for v in block.inputs))
    current = sum(storages.size(base) for base in alive)
    peak = current
    for node in [*block.nodes, block.ret]:
        inside = 0
        for inner in node.blocks:
            inside = max(inside, (yield _block_peak(inner, storages)))
        dying = deaths.get(node, frozenset()) & alive
        born = frozenset(base for v in node.outputs for base in storages.bases(v) if base.node is node)
        made = sum(storages.size(base) for base in born)
        peak = max(peak, current + max(made, inside - _handed_over(node, dying, storages)))
        gone = dying | (deaths.get(node, frozenset()) & born)
        alive = (alive | born) - gone
        current += made - sum(storages.size(base) for base in gone)
    return peak


def _handed_over(node: Node, dying: frozenset[Value], storages: _Sizes) -> int:
    """Bytes of initial values that become the state of a loop."""
    if not is_loop(node):
        return 0
    initial = frozenset[Value]().union(*(storages.bases(v) for v in entering(node)))
    return sum(storages.size(base) for base in initial & dying)


def _deaths(block: Block, storages: _Sizes) -> dict[Node, frozenset[Value]]:
    """The bases that no node of the block after a given one uses, itself or by what is inside it."""
    last: dict[Value, Node] = {}
    for node in block.nodes:
        used = [*node.inputs, *(v for inner in node.blocks for v in captures(inner)), *node.outputs]
        for value in used:
            last.update(dict.fromkeys(storages.bases(value), node))
    for value in block.outputs:
        last.update(dict.fromkeys(storages.bases(value), block.ret))
    deaths: dict[Node, set[Value]] = {}
    for base, node in last.items():
        deaths.setdefault(node, set()).add(base)
    return {node: frozenset(bases) for node, bases in deaths.items()}
