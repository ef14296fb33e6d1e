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

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from ..ir.graph import Graph
from ..ir.kinds import sources
from ..ir.node import PARAM, Block, Node, Value, walk
from ..ops.dims import axes_of
from ..ops.meta import UNKNOWN, Meta, is_known
from ..ops.registry import OPS, Op, Trait
from ..shapes.infer import moves_values
from ..specialize.settle import settle_shapes
from ..specialize.straighten import trips_of, write_out
from ..types.types import FLOAT, is_tensor, leaf_of
from .borders import LIST, is_free
from .decompose import primitive_definition
from .elements.table import has_element_rule
from .planning.reductions import is_reduction, reduction_of
from .seeds import takes_any_number

MAX_WRITTEN = 512
"""Ops of all rounds of a loop together, as they stand in its body: what more would save is not worth the time that
planning and compiling them takes."""
MAX_ACROSS = 8
"""Reductions of all rounds together, where each goes over other axes than elements are read along: what a round gives
goes through memory all the same."""


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
        if trips is not None and _pays(loop.blocks[0], trips, known):
            written.add(loop)
            write_out(loop, trips)
            changed = True
    return changed


def _pays(body: Block, trips: int, known: Mapping[Value, Any]) -> bool:
    nodes = [node for node in walk(body.nodes) if not is_free(node)]
    if trips * len(nodes) > MAX_WRITTEN:
        return False
    if trips <= 1:
        return True
    return all(_stays_in_kernels(node, known) for node in nodes) and trips * _across(nodes, known) <= MAX_ACROSS


def _across(nodes: Sequence[Node], known: Mapping[Value, Any]) -> int:
    """How many of the nodes reduce over leading axes alone; none where others go along rows, with which a small tile
    is held whole."""
    found = [reduced for node in nodes if (reduced := _reduced_axes(node, known)) is not None]
    along = [last in axes for axes, last in found]
    return 0 if any(along) else len(found)


def _reduced_axes(node: Node, known: Mapping[Value, Any]) -> tuple[Collection[int], int] | None:
    """The axes over which a node reduces, and the last axis; None where it reduces nothing, or over unknown ones."""
    op = OPS.of(node.schema)
    operand = known.get(node.inputs[0]) if node.inputs else None
    if op is None or not isinstance(operand, Meta) or operand.rank < 2:
        return None
    reduction = reduction_of(node, known)
    if reduction is not None:
        return (reduction.dims, operand.rank - 1) if reduction.dims else None
    dims = [known.get(v) for a, v in zip(op.schema.arguments, node.inputs, strict=True) if a.name == "dim"]
    is_made_of_one = (
        not op.has(Trait.POINTWISE | Trait.VIEW | Trait.SHAPE_ONLY) and primitive_definition(op) is not None
    )
    if not is_made_of_one or not dims or not isinstance(dims[0], int | list):
        return None
    return axes_of(dims[0], operand.rank), operand.rank - 1


def _stays_in_kernels(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether what a node gives can stay in a kernel that computes it, or needs nobody to compute it.

    A branch does if the round decides it: what is in its blocks is asked for itself.
    """
    op = OPS.of(node.schema)
    if op is None:
        return node.kind not in ("prim::Loop", "prim::CallFunction") and not (
            node.kind == "prim::If" and _is_read(node.inputs[0], known)
        )
    if not any(map(_holds_tensor, node.outputs)):
        return not _is_taken_from_tensor(op)
    numbers = [value for i, value in enumerate(node.inputs) if not (_holds_tensor(value) or _comes(op, i, value))]
    return _is_by_kernels(op) and not any(_is_read(value, known) for value in numbers)


def _comes(op: Op, index: int, value: Value) -> bool:
    """Whether kernels take a number as it comes, whatever it is."""
    return value.type == FLOAT or takes_any_number(op, index)


@cache
def _is_by_kernels(op: Op) -> bool:
    """Whether kernels compute what an op gives: as it is, or all that it is made of. A convolution of one dimension is
    made of one of the library's, and a scan, which combines elements too, is no reduction of a kernel's."""
    pending, seen = [op], {op}
    while pending:
        one = pending.pop()
        if moves_values(one) or one.has(Trait.POINTWISE | Trait.VIEW | Trait.SHAPE_ONLY | Trait.RANDOM):
            continue
        if is_reduction(one) or has_element_rule(one):
            continue
        made_of = primitive_definition(one)
        if made_of is None:
            return False
        for node in made_of.graph.all_nodes():
            found = OPS.of(node.schema)
            if found is not None and found not in seen and any(map(_holds_tensor, node.outputs)):
                seen.add(found)
                pending.append(found)
    return True


def _is_read(value: Value, known: Mapping[Value, Any]) -> bool:
    """Whether a number is one that is read out of a tensor, or computed from such; `x is None` looks into none.

    Loops and branches hand numbers through, and lists of them. What a backward is given and nobody knows was read too.
    """
    pending, seen = [value], {value}
    while pending:
        one = pending.pop()
        if _holds_tensor(one):
            continue
        op = OPS.of(one.node.schema)
        if one.node.kind == PARAM and one.node.holder is None and not is_known(known.get(one, UNKNOWN)):
            return True
        if op is None:
            came = [*sources(one), *(one.node.inputs if one.node.kind == LIST else ())]
        elif _is_taken_from_tensor(op):
            return True
        else:
            came = [] if op.has(Trait.SHAPE_ONLY) else one.node.inputs
        fresh = [found for found in came if found not in seen]
        pending += fresh
        seen.update(fresh)
    return False


def _is_taken_from_tensor(op: Op) -> bool:
    """Whether what an op gives, a number, is in a tensor."""
    return not op.has(Trait.SHAPE_ONLY) and any(is_tensor(leaf_of(argument.type)) for argument in op.schema.arguments)


def _holds_tensor(value: Value) -> bool:
    return is_tensor(leaf_of(value.type))
