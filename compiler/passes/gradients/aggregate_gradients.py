"""Add three or more gradients that meet in one value by one n-ary sum, in place of a chain of sums of two.

Before:
    graph backward(%g : Tensor, %x : Tensor, %y : Tensor):
      %1 : int = prim::Constant[value=1]()
      %2 : Tensor = aten::mul.Tensor(%g, %x)
      %3 : Tensor = aten::mul.Tensor(%g, %y)
      %4 : Tensor = aten::mul.Tensor(%x, %y)
      %5 : Tensor = aten::add.Tensor(%2, %3, %1)
      %6 : Tensor = aten::add.Tensor(%5, %4, %1)
      return (%6)
After, dead nodes aside:
    graph backward(%g : Tensor, %x : Tensor, %y : Tensor):
      %1 : Tensor = aten::mul.Tensor(%g, %x)
      %2 : Tensor = aten::mul.Tensor(%g, %y)
      %3 : Tensor = aten::mul.Tensor(%x, %y)
      %4 : List[Tensor] = prim::ListConstruct(%1, %2, %3)
      %5 : Tensor = gs::add_n(%4)
      return (%5)

The terms are added in the same order, so every bit is the same; a chain makes an array for each of its sums, add_n
makes one. It stands where the last sum stood, and so holds its terms until then. A chain is therefore cut where that
could cost memory: between two of its sums, if something is computed there, at most one array may be kept for add_n
alone, since the chain would keep one too: the sum so far. Terms that are used later are there anyway.

A sum of as many terms as the cap, or more, stays a chain, which holds no term until the others are there.

Gradients of one value have one shape and one dtype, and the accounting relies on that; where types say otherwise, a
sum is left alone. Sums of gradients that may be undefined (prim::AutogradAdd) are left alone as well. A sum that a
user wrote is as good as one of gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Block, Node, Value, walk_blocks
from ...ir.rewrite import CONSTANT, constant_of, replace_node
from ...ops.registry import OPS, Trait
from ...types.types import TensorType, TupleType, Type, leaf_of

MIN_TERMS = 3
"""A sum of fewer is an add."""
_CAP = [8]
"""From so many terms on, they are added one after the other."""
_ADD = "aten::add.Tensor"
_AS_IT_IS = ("aten::sum_to_size", "aten::_grad_sum_to_size")
"""What gives its operand itself where there is nothing to do."""
_FRESH = Trait.POINTWISE | Trait.MATMUL
"""Ops whose result is an array of its own, no part of a larger one."""


def in_place_sum_cap() -> int:
    return _CAP[0]


def cap_in_place_sums(terms: int) -> None:
    """Have sums of fewer terms than this added up at once. What was compiled before does not know of it."""
    if type(terms) is not int or terms < MIN_TERMS - 1:
        raise ValueError(f"a cap on sums is a number of terms, {MIN_TERMS - 1} or more, not {terms!r}")
    _CAP[0] = terms


def aggregate_gradients(graph: Graph) -> bool:
    """Replace chains of sums by gs::add_n where that holds no more memory."""
    changed = False
    for block in [graph.body, *walk_blocks(graph.nodes)]:
        chains = _chains(block)
        if chains:
            lifetimes = _Lifetimes(block)
            for run in [run for chain in chains for run in _runs(chain, lifetimes)]:
                _replace(run)
                changed = True
    return changed


def _chains(block: Block) -> list[list[Node]]:
    """Sums of which each is the left operand of the next, and used nowhere else; two or more of them."""
    ending: dict[Value, list[Node]] = {}
    for node in block.nodes:
        if _is_sum(node):
            left = node.inputs[0]
            chain = ending.pop(left, []) if left.use_count == 1 else []
            chain.append(node)
            ending[node.output] = chain
    return [chain for chain in ending.values() if MIN_TERMS <= len(chain) + 1 < in_place_sum_cap()]


def _is_sum(node: Node) -> bool:
    """Whether a node adds two tensors, of one dtype and rank as far as the types tell."""
    if node.kind != _ADD:
        return False
    alpha = constant_of(node.inputs[2])
    left, right = node.inputs[0].type, node.inputs[1].type
    if type(alpha) is not int or alpha != 1 or not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return False
    return _agree(left.dtype, right.dtype) and _agree(left.rank, right.rank)


def _agree(left: object, right: object) -> bool:
    return left is None or right is None or left == right


def _runs(chain: Sequence[Node], lifetimes: _Lifetimes) -> Iterator[list[Node]]:
    """The parts of a chain that may become one sum each, in order."""
    run: list[Node] = []
    held = _Held(lifetimes)
    for node in chain:
        if run and not held.may_wait(run[-1], node):
            if len(run) + 1 >= MIN_TERMS:
                yield run
            run, held = [], _Held(lifetimes)
        for value in node.inputs[0 if not run else 1 : 2]:
            held.add(value)
        run.append(node)
    if len(run) + 1 >= MIN_TERMS:
        yield run


def _replace(run: Sequence[Node]) -> None:
    last = run[-1]
    builder = Builder.in_front_of(last)
    total = builder.op("gs::add_n", builder.list([*run[0].inputs[:2], *[node.inputs[1] for node in run[1:]]]))
    total.type = last.output.type
    replace_node(last, [total])
    for node in reversed(run[:-1]):
        node.destroy()


# --- lifetimes ---


class _Lifetimes:
    """Where the nodes of a block stand, before which of them memory is taken, and where values are used last."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.position = {node: i for i, node in enumerate(block.nodes)}
        self._taken = [0]
        for node in self.position:
            self._taken.append(self._taken[-1] + _takes_memory(node))
        self.position[block.ret] = len(self.position)

    def are_adjacent(self, first: Node, second: Node) -> bool:
        """Whether nothing between two nodes takes memory."""
        return self._taken[self.position[first] + 1] == self._taken[self.position[second]]

    def last_use(self, value: Value) -> int:
        """The position at which the block uses a value last, itself or in a block inside it."""
        return max(self._position(use.user) for use in value.uses)

    def _position(self, user: Node | None) -> int:
        while user is not None and user.owner is not self._block:
            user = user.holder
        return self.position[user] if user is not None else -1


class _Held:
    """The terms of a run so far, and how many of them are kept for its sum alone."""

    def __init__(self, lifetimes: _Lifetimes) -> None:
        self._lifetimes = lifetimes
        self._terms: set[Value] = set()
        self._used_until: list[tuple[int, int]] = []
        self._kept = 0

    def add(self, value: Value) -> None:
        if value not in self._terms:
            self._terms.add(value)
            heappush(self._used_until, (self._lifetimes.last_use(value), 1 if _is_fresh(value) else 2))

    def may_wait(self, last: Node, following: Node) -> bool:
        """Whether the terms may be held from the last sum to the following one."""
        if self._lifetimes.are_adjacent(last, following):
            return True
        end = self._lifetimes.position[following]
        while self._used_until and self._used_until[0][0] < end:
            self._kept += heappop(self._used_until)[1]
        return self._kept <= 1


def _takes_memory(node: Node) -> bool:
    if node.kind == CONSTANT:
        return False
    return bool(node.blocks) or any(_may_hold_tensor(value.type) for value in node.outputs)


def _may_hold_tensor(type: Type) -> bool:
    return isinstance(leaf_of(type), TensorType | TupleType)


def _is_fresh(value: Value) -> bool:
    """Whether an array is known to be no larger than its elements: a view keeps all of what it is a view of."""
    while value.node.kind in _AS_IT_IS:
        value = value.node.inputs[0]
    return OPS.has(value.node.schema, _FRESH)
