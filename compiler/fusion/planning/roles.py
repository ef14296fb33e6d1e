"""What becomes of each node of a graph: kernels compute it, an op of the library does, or there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from ...analysis.chains import far_reaching
from ...ir.graph import Graph
from ...ir.kinds import KindTrait, has
from ...ir.node import Node, Use, Value
from ...ir.rewrite import CONSTANT
from ...ops.meta import Meta, is_known
from ...scheduling.split import ChunkLimits
from ...types.dtypes import DType
from ...types.types import NUMBERS, is_tensor
from ..elements.joins import cat, joins_computed, joins_many
from ..elements.table import element_rule, suits_rule
from ..straight import Unfusable, why_left
from .joined import joins_apart
from .placement import MemoryPlacement
from .reductions import reduction_of
from .stacked import part_by_part
from .uniform import UniformDims

Supports = Callable[[str, DType], bool]
TAKES = ("prim::ListUnpack", "aten::__getitem__.t")
"""Tensors out of a list."""
MOST_READ_AGAIN = 16
"""Tensors that a value is computed from wherever it is needed, within what one kernel may read. With no limit the end
of a long chain would be computed from its beginning by each kernel that stores some of it, and the text of them all
would grow with the square of its length."""


class NodeRoles:
    """Asked of a graph whose values are put into `memory` meanwhile."""

    def __init__(self, graph: Graph, memory: MemoryPlacement, limits: ChunkLimits) -> None:
        self._graph = graph
        self._memory = memory
        self._limits = limits

    def classify(self, supports: Supports) -> None:
        """Find what kernels can compute: the rules and the reductions of `memory`."""
        uniform, known = UniformDims(self._memory), self._memory.known
        for node in self._graph.nodes:
            if node.blocks:
                raise Unfusable(why_left(node, known), node.span)
            reduction = reduction_of(node, known)
            if reduction is not None:
                reduced = uniform.reduced(node.output, reduction)
                found = part_by_part(node.output, reduced, known, self._memory.rules)
                self._memory.reductions[node.output] = found
                continue
            rule = element_rule(node, known, supports)
            if rule is cat and self._joins_in_memory(node):
                self._memory.joined.add(node)
                rule = rule if joins_computed(node, known) else None
            if rule is not None and suits_rule(rule, node, known):
                self._memory.rules[node] = rule
                uniform.learn(node, rule)

    def _joins_in_memory(self, node: Node) -> bool:
        """Whether so many tensors are put together that looking for each, where elements are needed, takes longer than
        to write and read them; kernels of parts need not look."""
        known, limits = self._memory.known, self._limits
        if limits.parts_apart and joins_apart(node, known):
            return joins_many(node, known)
        return joins_many(node, known, limits.joined)

    def kept_for_later(self) -> set[Node]:
        """What goes into memory so that kernels beyond an op of the library need not compute it from many tensors."""
        nodes = list(self._graph.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        far_off = len(nodes)
        behind: dict[Node, int] = {}
        for node in reversed(nodes):
            behind[node] = far_off
            if self._is_extern(node):
                far_off = place[node]

        def is_worth(node: Node) -> bool:
            users = [place.get(use.user, 0) for value in node.outputs for use in value.uses]
            return self._is_one_tensor(node) and max(users, default=0) > behind[node]

        known, shared = self._memory.known, self._stored_from(nodes)
        # Beyond the last of all nothing is asked for: without an op of the library there is none.
        kept = far_reaching(nodes, known, self._is_drawn, is_worth) if far_off < len(nodes) else set[Node]()
        joined = self._memory.joined.intersection(self._memory.rules)
        return kept | joined | far_reaching(nodes, known, self._is_drawn, shared.__contains__, MOST_READ_AGAIN)

    def _stored_from(self, nodes: Sequence[Node]) -> set[Node]:
        """Nodes with one tensor from which more is stored, reduced or passed on than one value."""
        needed: dict[Node, frozenset[Use]] = {}
        for node in reversed(nodes):
            found: set[Use] = set()
            for use in [use for value in node.outputs for use in value.uses]:
                found |= needed[use.user] if use.user in needed and self._is_drawn(use.user) else {use}
                if len(found) > 1:
                    # Two say as much as more.
                    break
            needed[node] = frozenset(islice(found, 2))
        return {node for node, found in needed.items() if len(found) > 1 and self._is_one_tensor(node)}

    @staticmethod
    def _is_one_tensor(node: Node) -> bool:
        return len(node.outputs) == 1 and is_tensor(node.output.type)

    def _is_drawn(self, node: Node) -> bool:
        """Whether kernels compute an element of what a node gives wherever they need it; a sum of nothing is one."""
        if node.kind in TAKES and node.inputs[0] in self._memory.lists:
            return False
        if node in self._memory.rules:
            return True
        reduction = self._memory.reductions.get(node.output) if len(node.outputs) == 1 else None
        return reduction is not None and not reduction.dims

    def _is_extern(self, node: Node) -> bool:
        """Whether an op of the library runs for a node."""
        if node.kind == CONSTANT or node in self._memory.rules or self.is_structure(node) or node.kind in TAKES:
            return False
        if self.is_same_number(node):
            return False
        return len(node.outputs) != 1 or node.output not in self._memory.reductions

    def is_same_number(self, node: Node) -> bool:
        """Whether it gives a number that each call has, as an optional one that is there."""
        is_number = has(node, KindTrait.SAME_VALUE) and node.output.type in NUMBERS
        return is_number and node.inputs[0] in self._memory.placed

    def is_structure(self, node: Node) -> bool:
        """What holds values together, or is known, and needs nobody to compute it."""
        if node.kind in ("prim::ListConstruct", "prim::TupleConstruct", "prim::Uninitialized", "prim::AutogradZero"):
            return True
        return not node.outputs or all(self._is_plain(value) for value in node.outputs)

    def _is_plain(self, value: Value) -> bool:
        known = self._memory.known.get(value)
        return is_known(known) and not isinstance(known, Meta) and not has_tensor(known)


def has_tensor(known: Any) -> bool:
    """Whether what is known of a value is of a tensor, or of several."""
    return isinstance(known, Meta) or (isinstance(known, list | tuple) and any(map(has_tensor, known)))
