"""Graphs that are straight lines of known shapes, which kernels are planned for, and why another is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...lang.source import NO_SPAN, Span
from ..ir.graph import Graph
from ..ir.kinds import sources
from ..ir.node import Node, Value
from ..ir.structure import spelled
from ..ops.registry import OPS, Trait
from ..types.types import is_tensor


class Unfusable(Exception):
    """A graph that is no straight line, or of unknown shapes; the message says why, and `span` where that lies."""

    def __init__(self, message: str, span: Span = NO_SPAN) -> None:
        super().__init__(message)
        self.span = span


class Unrepeatable(Unfusable):
    """A gradient that kernels can be made of, but that is not to be differentiated again."""


def told(node: Node) -> str:
    """What a message calls what a node gives."""
    name = spelled(node)
    return f"the result of {name}" if name else "what is computed there"


def require_straight(graph: Graph, known: Mapping[Value, Any]) -> None:
    """Unfusable for a graph with branches or loops that are not settled, and where something is done: printed, raised.

    Kernels are made of what results are made of, so what has none would not be done.
    """
    for node in graph.nodes:
        if OPS.has(node.schema, Trait.SIDE_EFFECT):
            raise Unfusable(f"{node.kind} does something", node.span)
        if node.kind in ("prim::If", "prim::Loop"):
            raise Unfusable(why_left(node, known), node.span)


def why_left(node: Node, known: Mapping[Value, Any]) -> str:
    """Why control flow has not been settled: a loop that has its number of rounds is not worth writing out."""
    trips = known.get(node.inputs[0]) if node.kind == "prim::Loop" else None
    if type(trips) is int and known.get(node.blocks[0].outputs[0]) is True:
        return "a loop is not written out"
    if node.kind == "prim::Loop" and not _reads_tensors(node.inputs[0], node.blocks[0].outputs[0]):
        return "a loop goes on until a number that it computes says so; `for i in range(n)` counts its rounds"
    return f"{'a loop' if node.kind == 'prim::Loop' else 'a branch'} depends on what is in tensors"


def _reads_tensors(*values: Value) -> bool:
    """Whether some op takes a tensor on the way to one of these."""
    pending, seen = [*values], set(values)
    while pending:
        value = pending.pop()
        given = [*value.node.inputs, *sources(value), *(v for block in value.node.blocks for v in block.outputs)]
        if any(is_tensor(v.type) for v in given):
            return True
        pending += [v for v in given if v not in seen]
        seen.update(given)
    return False
