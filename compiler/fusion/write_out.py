"""Loops for kernels: those whose state stays in registers are written out, all others stay and are compiled once.

    for i in range(4):                          x = x - (x * x - a) / (2 * x)
        x = x - (x * x - a) / (2 * x)    ─▶     …                                 one kernel, x in a register
    for w in weights:                           stays: the product reads its operand from memory and writes
        x = torch.relu(x @ w)                   its result there, round by round, written out or not

A round of a loop that stays reads its state from memory and writes it back, twice the bytes of the state, and takes a
launch for each kernel. Written out, rounds that kernels hold whole cost neither. Between rounds with an op of the
library there is memory all the same, so that writing them out gains nothing and costs a text for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.graph import Graph
from ..ir.node import Block, Node, Value, walk
from ..ops.registry import OPS, Trait
from ..shapes.infer import moves_values
from ..specialize.settle import settle_shapes
from ..specialize.straighten import trips_of, write_out
from ..types.types import is_tensor, leaf_of
from .borders import is_free
from .decompose import primitive_definition
from .elements.table import has_element_rule

MAX_WRITTEN = 512
"""Ops of all rounds of a loop together, as they stand in its body: what more would save is not worth the time that
planning and compiling them takes."""


def settle_for_kernels(graph: Graph, arguments: Sequence[Any], **how: bool) -> Mapping[Value, Any]:
    """As `settle_shapes`; of the loops those are written out for which that pays, and the others stay."""
    known = settle_shapes(graph, arguments, unroll=False, **how)
    while _write_out_loops(graph, known):
        known = settle_shapes(graph, arguments, unroll=False, **how)
    return known


def _write_out_loops(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Inner loops first: an outer one is looked at again when they are gone."""
    changed = False
    written: set[Node] = set()
    for loop in [node for node in graph.all_nodes() if node.kind == "prim::Loop"][::-1]:
        if any(inner in written for inner in loop.blocks[0].nodes):
            continue
        trips = trips_of(loop, known)
        if trips is not None and _pays(loop.blocks[0], trips):
            written.add(loop)
            write_out(loop, trips)
            changed = True
    return changed


def _pays(body: Block, trips: int) -> bool:
    nodes = [node for node in walk(body.nodes) if not is_free(node)]
    if trips * len(nodes) > MAX_WRITTEN:
        return False
    return trips <= 1 or all(map(_stays_in_kernels, nodes))


def _stays_in_kernels(node: Node) -> bool:
    """Whether what a node gives can stay in a kernel that computes it, or needs nobody to compute it.

    A branch does if the round decides it: what is in its blocks is asked for itself.
    """
    op = OPS.of(node.schema)
    if op is None:
        return node.kind not in ("prim::Loop", "prim::CallFunction") and not (
            node.kind == "prim::If" and _is_read(node.inputs[0])
        )
    if moves_values(op) or op.has(Trait.POINTWISE | Trait.REDUCTION | Trait.VIEW | Trait.SHAPE_ONLY | Trait.RANDOM):
        return True
    return not any(map(_holds_tensor, node.outputs)) or has_element_rule(op) or primitive_definition(op) is not None


def _is_read(value: Value) -> bool:
    """Whether a number is one that is read out of a tensor, or computed from such; `x is None` looks into none."""
    pending, seen = [value], {value}
    while pending:
        node = pending.pop().node
        op = OPS.of(node.schema)
        if op is None or op.has(Trait.SHAPE_ONLY):
            continue
        if any(is_tensor(leaf_of(argument.type)) for argument in op.schema.arguments):
            return True
        pending += [found for found in node.inputs if found not in seen]
        seen.update(node.inputs)
    return False


def _holds_tensor(value: Value) -> bool:
    return is_tensor(leaf_of(value.type))
