"""What of a program is in memory: under which name, in which layout, and from which step on.

The planner puts values there, and a group that reads what an earlier one only computes has it stored: both speak of
memory through one MemoryPlacement.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...kernel_ir.layout import Layout, StridedView, views_of
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ...types.dtypes import FLOAT32
from ..elements.joins import cat, padded_element, select_scatter, slice_scatter, stack
from ..elements.pointwise import add_gradients, cast_element, functions_within, pointwise_element, same_element
from ..elements.reads import embedding, filled_element, gathered_element, index_select, subscripted
from ..elements.rule import ElementReader
from ..elements.views import flip, repeat, view
from ..statistics import statistics_of
from .growth import MOST_AGAIN, ProgramWork
from .reductions import Reduction

WORK_OF_FUNCTION = 16
"""What computing one takes, as a sine, beside what an element takes that is a sum or lies elsewhere."""
BEFORE = -1
"""The step after which inputs and constants are there."""
_READS_ALL = (
    *(pointwise_element, cast_element, same_element, add_gradients, view, flip, repeat),
    *(gathered_element, index_select, embedding, subscripted, padded_element),
)
"""What has an element of each of its tensors read; of what is put together, one part may be there before another."""


class Holder(Protocol):
    """A kernel in the making, as far as memory is concerned: its place among the steps, and what it can store."""

    order: int

    def try_store(self, value: Value, name: str) -> bool:
        """Store a tensor in the buffer `name`; False where that cannot be."""


class MemoryPlacement:
    """The tensors of a graph that are in memory, and what groups have asked to be.

    `known` is what `settle_shapes` found; `rules` and `reductions` say what kernels can compute of the rest, `turns`
    whether programs write along another axis than they read along.
    """

    def __init__(self, graph: Graph, known: Mapping[Value, Any], *, turns: bool = True) -> None:
        self.known = dict(known)
        self.turns = turns
        self.layouts: dict[str, Layout] = {}
        self.lists: dict[Value, tuple[tuple[str, ...], int]] = {}
        self.rules: dict[Node, ElementReader] = {}
        self.reductions: dict[Value, Reduction] = {}
        self.placed: dict[Value, tuple[str, int]] = {}
        self.joined = set[Node]()
        """Tensors that are put together in memory."""
        self.held_in: dict[Value, Holder] = {}
        self.wanted: list[tuple[Value, str]] = []
        self.kept: set[Value] = set()
        """What is in memory so that it is not computed again, not by kernels that run before either."""
        self.most_again = MOST_AGAIN
        self.done = ProgramWork()
        self.overgrown: Value | None = None
        """What the last trial would have computed too often."""
        self._graph = graph
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The last number of each name that was given: all up to it are taken, by trials that failed too."""
        self._work: dict[Value, int] = {}
        self._views: dict[Node, list[StridedView] | None] = {}
        self._first: dict[Value, int] = {}
        """Before which step no kernel computes an element of a value, as far as that is known."""

    def place(self, value: Value, order: int, layout: Layout | None = None) -> str:
        """Give a value a name and, if it is a tensor, a layout: it is there after step `order`."""
        name = self.new_name(value)
        if layout is not None:
            self.layouts[name] = layout
        self.placed[value] = (name, order)
        return name

    def where(self, value: Value, before: int) -> str | None:
        """The name of a tensor that is in memory before a step; None for one that is not to be read there.

        What an earlier group computes without storing it is put down as wanted.
        """
        placed = self.placed.get(value)
        if placed is not None:
            name, order = placed
            return name if order < before else None
        holder = self.held_in.get(value)
        if holder is None or holder.order >= before:
            return None
        name = self.place(value, holder.order, self.layout_for(value))
        self.wanted.append((value, name))
        return name

    def layout_for(self, value: Value) -> Layout:
        """How a tensor is stored: in order, and a statistic of halves that kernels alone read, in float32."""
        meta: Meta = self.known[value]
        if meta.dtype.is_half and value in self._statistics and self._stays_in_kernels(value):
            meta = Meta(meta.shape, FLOAT32)
        return Layout.contiguous(meta)

    @cached_property
    def _statistics(self) -> set[Value]:
        return statistics_of(self._graph, self.known)

    def _stays_in_kernels(self, value: Value) -> bool:
        """Whether kernels alone read a value, views of it, or what is the same, so that nobody sees in what dtype it
        is."""
        pending = [value]
        for found in pending:
            for use in found.uses:
                if OPS.has(use.user.schema, Trait.VIEW) or self._passes_on(use.user, found):
                    pending += use.user.outputs
                elif use.user not in self.rules and self.reductions.keys().isdisjoint(use.user.outputs):
                    return False
        return True

    def _passes_on(self, node: Node, value: Value) -> bool:
        """Whether what a node gives may lie where the value does: a sum of nothing, a conversion to what it is."""
        if len(node.outputs) != 1 or self.known.get(node.output) != self.known[value]:
            return False
        reduction = self.reductions.get(node.output)
        return (
            reduction.is_copy
            if reduction is not None
            else self.rules.get(node) in (same_element, cast_element, add_gradients)
        )

    def number(self, value: Value) -> tuple[str, int]:
        """The name of a number that is computed or given at run time, and after which step it is there."""
        return self.placed[value]

    def visited(self, node: Node) -> None:
        """A node was planned, all before it too: from now on kernels may compute with what it gives."""
        for value in node.outputs:
            if value in self.held_in:
                self._first[value] = self.held_in[value].order
            elif value in self.reductions or self._reads_all(node):
                self._first[value] = max((self._first.get(one, BEFORE) for one in node.inputs), default=BEFORE)
            elif self.rules.get(node) in (cat, stack):
                parts = node.inputs[0].node.inputs
                self._first[value] = min((self._first.get(one, BEFORE) for one in parts), default=BEFORE)
            elif node not in self.rules and value in self.placed:
                self._first[value] = self.placed[value][1]

    def _reads_all(self, node: Node) -> bool:
        """Whether an element of what a node gives is computed with one of each of its tensors."""
        rule = self.rules.get(node)
        if rule in (slice_scatter, select_scatter):
            # A gradient of a slice is nothing but what is in it.
            return self.rules.get(node.inputs[0].node) is filled_element
        return rule in _READS_ALL

    def kept_until(self, value: Value) -> int:
        """After which step all is there that a value follows from, and that no kernel computes, or is not to compute
        again: a kernel before that need not be tried."""
        found, pending, seen = self._first.get(value, BEFORE), [value], {value}
        for before in pending if self.kept else ():
            placed = self.placed.get(before)
            if before in self.kept:
                found = max(found, self.placed[before][1])
            elif placed is None:
                new = [v for v in before.node.inputs if v not in seen]
                pending += new
                seen.update(new)
        return found

    def work_of(self, value: Value) -> int:
        """What it takes to compute an element from those that it follows from."""
        found = self._work.get(value)
        if found is None:
            is_computed = self.rules.get(value.node) is pointwise_element
            functions = functions_within(value.node, self.known) if is_computed else 0
            found = self._work[value] = 1 + WORK_OF_FUNCTION * functions
        return found

    def views(self, node: Node) -> list[StridedView] | None:
        """What a view op does to the addresses of its first argument."""
        if node not in self._views:
            op = OPS.of(node.schema)
            first = self.known.get(node.inputs[0])
            assert op is not None and isinstance(first, Meta)
            arguments = [self.known.get(value) for value in node.inputs]
            self._views[node] = views_of(op, arguments, 0, Layout.contiguous(first))
        return self._views[node]

    # --- trials ---

    def mark(self) -> int:
        return len(self.wanted)

    def take_back(self, mark: int) -> None:
        """Forget what was wanted since the mark."""
        for value, _ in self.wanted[mark:]:
            del self.placed[value]
        del self.wanted[mark:]

    # --- names ---

    def new_name(self, value: Value) -> str:
        is_output = any(use.user is self._graph.body.ret for use in value.uses)
        return self.unique(value.name_hint or ("result" if is_output else "t"))

    def unique(self, base: str) -> str:
        number = self._numbers.get(base, 0)
        name = f"{base}_{number}" if number else base
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        self._numbers[base] = number
        return name
