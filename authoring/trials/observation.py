"""What runs of a function have reached: the sides of its branches, the turns of its loops, the lines of its backward.

Programs are walked op by op, so that each decision shows how far it was from going the other way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import RETURN, Block, Node, Value
from ...compiler.ops.arrays import Array
from ...compiler.types.dtypes import BOOL as BOOL_DTYPE
from ...compiler.types.types import BOOL, TensorType
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span
from .decisions import COMPARISONS, gaps_of
from .evaluation import Subject, repeatable
from .leaves import is_floating
from .trace import RunTrace

NEGATIVE, ZERO, POSITIVE = -1, 0, 1
MAX_STEPS = 20000
_OF_WHAT_IS_NO_NUMBER = frozenset(("isnan", "isinf", "isfinite"))
"""Masks of these are true, or false, of numbers that are not tried on both sides of all else."""
_TAKE_WHAT_IS_NO_NUMBER = frozenset((*_OF_WHAT_IS_NO_NUMBER, "nan_to_num", "nansum", "nanmean", "nanmedian"))
_BRANCHES = ("prim::If", "prim::Loop")
_LIKE_A_TIE = {"le": NEGATIVE, "gt": NEGATIVE, "lt": POSITIVE, "ge": POSITIVE}
"""By comparison, the side that gives what a tie gives."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way that a program may go: a side of a branch, or a sign of what a comparison compares."""

    node: Node
    way: int
    """Of a branch 1 (taken) or 0 (not); of a comparison the sign of left minus right; of masks 1 (true) or -1 (not)."""

    @property
    def span(self) -> Span:
        return self.node.span


@dataclass(slots=True)
class Reached:
    """What one run, or several, have reached."""

    nodes: set[Node] = field(default_factory=set)
    sides: set[Side] = field(default_factory=set)
    gaps: dict[tuple[Node, int], Array] = field(default_factory=dict)
    """By decision and number: the gaps of the last run."""
    signs: set[tuple[Node, int, int]] = field(default_factory=set)
    """By decision and number: the signs that its gaps had."""
    lost: list[Node] = field(default_factory=list)
    """The nodes of the backward that made what is not finite of what is, in the last run."""

    def add(self, other: Reached) -> None:
        self.nodes |= other.nodes
        self.sides |= other.sides
        self.signs |= other.signs

    def zero_gaps(self) -> set[tuple[Node, int]]:
        """The decisions that stand at a kink."""
        return {key for key, gap in self.gaps.items() if gap.size and (gap == 0).any()}


class Observer:
    """Runs one function forward and backward and sees where they go."""

    def __init__(self, subject: Subject) -> None:
        pair = subject.pair
        self.subject = subject
        self.forward = pair.forward if pair is not None else subject.function.graph.without_closure()
        self.backward = pair.backward if pair is not None else None
        self.reached = Reached()
        self.reached_empty = Reached()
        """What only runs on nothing have reached: no gradient was compared there."""
        self.steps = 0
        """How many ops have run."""
        self._plain: dict[int, Graph] = {}
        self._masks: dict[Node, bool] = {}
        """Which nodes join masks, of those that have run."""

    def see(self, values: Sequence[Any], seeds: Sequence[Any] | None = None) -> Reached | None:
        """What a run on these arguments reaches, the backward too if gradients are given; None if it fails."""
        reached = Reached()
        try:
            self._walk(reached, values, seeds)
        except Exception:  # any op may refuse its operands in its own way
            return None
        return reached

    @repeatable
    def _walk(self, reached: Reached, values: Sequence[Any], seeds: Sequence[Any] | None) -> None:
        walk = _Walk(reached, self._plain, self._masks)
        try:
            walk.run(self.forward, values)
        finally:
            self.steps += len(walk.steps)
        if self.backward is None or seeds is None or self.subject.pair is None:
            return
        context = walk.values[walk.results[-1]]
        given = [seeds[i] for i in self.subject.pair.grad_outputs]
        back = _Walk(reached, self._plain, self._masks, is_backward=True).run(self.backward, [context, *given])
        self.steps += len(back.steps)

    # --- what there is to reach ---

    def graphs(self) -> Iterator[Graph]:
        """The function's own text: its forward and its backward, not what they call."""
        yield self.forward
        if self.backward is not None:
            yield self.backward

    @cached_property
    def sides(self) -> list[Side]:
        """Every way that the function's own text may go, those aside that only raise."""
        found = []
        for graph in self.graphs():
            for node in graph.all_nodes():
                if node.kind == "prim::If" and not _is_condition(node) and not _asks_for_gradients(node):
                    found += [Side(node, 1 - i) for i, b in enumerate(node.blocks) if not _fails(b)]
                elif (_compares_tensors(node) or _joins_masks(node)) and not _steers_only(node):
                    found += [Side(node, way) for way in (NEGATIVE, POSITIVE)]
        return found

    @cached_property
    def asking_for_numbers(self) -> list[Node]:
        """What in the function's own text tells numbers from what is none."""
        nodes = (node for graph in self.graphs() for node in graph.all_nodes())
        return [node for node in nodes if node.schema is not None and node.schema.base_name in _TAKE_WHAT_IS_NO_NUMBER]

    def missing(self) -> list[Side]:
        """The sides that nothing has reached. Of a comparison in code that never ran the branch alone is told."""
        return [s for s in self.sides if s not in self.reached.sides and s.node in self.reached.nodes]

    def never_seen(self) -> list[Side]:
        """The same once all has been tried: a comparison whose outcome came about by a tie has been seen."""
        return [side for side in self.missing() if not self._came_by_a_tie(side)]

    def _came_by_a_tie(self, side: Side) -> bool:
        name = side.node.schema.base_name if side.node.schema is not None else ""
        return _LIKE_A_TIE.get(name) == side.way and Side(side.node, ZERO) in self.reached.sides

    def accept_empty(self) -> None:
        """Take what only runs on nothing have reached for reached: nothing else was found to."""
        self.reached.add(self.reached_empty)

    def unseen_lines(self) -> list[Span]:
        """Where nodes of the backward stand that never ran, a span for each line."""
        lines: dict[int, Span] = {}
        if self.backward is None:
            return []
        ran = {node.span.line for node in self.backward.all_nodes() if node in self.reached.nodes and node.span.end}
        for node in self.backward.all_nodes():
            counted = node.span.end and node.kind != "prim::RaiseException" and _counts(node)
            if counted and node not in self.reached.nodes and node.span.line not in ran:
                lines.setdefault(node.span.line, node.span)
        return list(lines.values())

    def lines(self) -> int:
        """How many lines of the backward hold code."""
        if self.backward is None:
            return 0
        return len({n.span.line for n in self.backward.all_nodes() if n.span.end and _counts(n)})


class _Walk(RunTrace):
    """A trace that remembers which nodes ran and which ways branches and comparisons went."""

    __slots__ = ("_is_backward", "_masks", "_plain", "_reached")

    def __init__(
        self, reached: Reached, plain: dict[int, Graph], masks: dict[Node, bool], *, is_backward: bool = False
    ) -> None:
        RunTrace.__init__(self, limit=MAX_STEPS)
        self._reached = reached
        self._plain = plain
        self._masks = masks
        self._is_backward = is_backward

    def _callee(self, graph: Graph, name: str) -> Graph:
        callee = graph.functions[name].graph
        return self._plain.setdefault(id(callee), callee.without_closure())

    def _node(self, node: Node, env: dict[Value, int], graph: Graph) -> None:
        self._reached.nodes.add(node)
        if node.kind == "prim::If":
            self._reached.sides.add(Side(node, int(bool(self.values[env[node.inputs[0]]]))))
        RunTrace._node(self, node, env, graph)

    def _op(self, node: Node, env: dict[Value, int]) -> None:
        for number, gap in enumerate(gaps_of(node, [self.values[env[value]] for value in node.inputs])):
            self._reached.gaps[node, number] = gap
            for way in (NEGATIVE, ZERO, POSITIVE):
                if gap.size and (np.sign(gap) == way).any():
                    self._reached.sides.add(Side(node, way))
                    self._reached.signs.add((node, number, way))
        RunTrace._op(self, node, env)
        if self._is_backward and self._loses(node, env):
            self._reached.lost.append(node)
        joins = self._masks.get(node)
        if joins is None:
            joins = self._masks[node] = _joins_masks(node)
        if joins:
            mask = np.asarray(self.values[env[node.output]])
            self._reached.sides.update(Side(node, way) for way in (1, -1) if (mask == (way > 0)).any())

    def _loses(self, node: Node, env: dict[Value, int]) -> bool:
        """Whether what is finite went in, and something else came out."""
        made = (self.values[env[value]] for value in node.outputs)
        if all(map(_is_finite, made)):
            return False
        return all(_is_finite(self.values[env[value]]) for value in node.inputs)


def _is_finite(value: Any) -> bool:
    """Whether an array or a number is; of anything else nothing is asked."""
    return not _floats(value) or bool(np.isfinite(value).all())


def _floats(value: Any) -> bool:
    return isinstance(value, float) or is_floating(value)


def _joins_masks(node: Node) -> bool:
    """Whether a node makes one mask of two."""
    masks = len(node.inputs) == 2 and all(isinstance(v.type, TensorType) and _is_truth(v) for v in node.inputs)
    if not masks or node.schema is None or not _is_truth(node.output):
        return False
    made_of = {value.node.schema.base_name for value in node.inputs if value.node.schema is not None}
    return not made_of & _OF_WHAT_IS_NO_NUMBER


def _fails(block: Block) -> bool:
    return any(node.kind == "prim::RaiseException" for node in block.nodes)


def _counts(node: Node) -> bool:
    return node.schema is not None or node.kind in _BRANCHES


def _is_condition(node: Node) -> bool:
    """Whether a branch is an `and` or an `or`: what follows from it is the branch that it decides."""
    return bool(node.outputs) and all(value.type == BOOL for value in node.outputs)


def _asks_for_gradients(node: Node) -> bool:
    """Whether a branch depends on which gradients are there, which no argument decides."""
    pending = [node.inputs[0].node]
    while pending:
        asked = pending.pop()
        if asked.kind == "prim::grad_defined":
            return True
        pending += [value.node for value in asked.inputs] if asked.kind == "aten::__or__.bool" else []
    return False


def _steers_only(node: Node) -> bool:
    """Whether what a node gives only decides branches, which are counted themselves."""
    pending, seen = list(node.outputs), set(node.outputs)
    while pending:
        for use in pending.pop().uses:
            if use.user.kind == "prim::If":
                continue
            owner = use.user.holder if use.user.kind == RETURN else None
            if use.user.kind == RETURN and (owner is None or not _is_condition(owner)):
                return False
            following = owner.outputs if owner is not None else use.user.outputs
            if owner is None and not any(_is_truth(value) for value in following):
                return False
            pending += [value for value in following if value not in seen]
            seen.update(following)
    return True


def _is_truth(value: Value) -> bool:
    return value.type == BOOL or (isinstance(value.type, TensorType) and value.type.dtype == BOOL_DTYPE)


def _compares_tensors(node: Node) -> bool:
    schema = node.schema
    if schema is None or schema.base_name not in COMPARISONS - {"eq", "ne"}:
        return False
    return schema.overload in ("Tensor", "Scalar")
