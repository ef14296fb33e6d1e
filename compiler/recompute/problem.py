"""What a policy decides on: the values of f that the backward uses or could recompute from, with bytes and prices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..analysis.captures import captures
from ..analysis.chains import MOST, far_reaching
from ..autodiff.gradient import Gradient
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ir.rewrite import splice
from ..ops.meta import Abstract, join
from ..ops.registry import OPS
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..shapes.propagate import UNKNOWN, Joining, ShapeError, propagate_shapes
from .policy import Holding, Predicate, is_light, is_repeatable
from .storage import Storages, may_hold_memory

SAVE, RECOMPUTE = "gs::save", "gs::recompute"
"""What the source says of a value."""
MOST_READ = 4
"""Tensors that a value is computed again from where no op of the library stands between kernels, so that these are few
and read what they are made of anyway; `MOST` else."""
_EQUALITIES = frozenset(("aten::eq.Tensor", "aten::ne.Tensor"))
_IN_ANY_ORDER = frozenset(("amax", "amin", "max", "min", "argmax", "argmin", "any", "all"))


class Problem:
    """A normalized gradient with what is known of it.

    `known` are the abstract values of f, None where shapes are not known. `wanted` are the values of f, inputs aside,
    that df uses. For the gradient of a loop's round, `carried` says how many inputs, behind the first, differ from
    round to round: they are not held anyway, and neither are the real outputs. `in_registers` as of Policy.
    """

    def __init__(
        self,
        plain: Gradient,
        shapes: Sequence[Abstract] | None,
        may_recompute: Predicate,
        carried: int | None = None,
        *,
        in_registers: bool = False,
        holds: Holding | None = None,
    ) -> None:
        self._holds = holds
        self.plain = plain
        self._carried = carried
        self.known = known_values(plain.f, shapes)
        self.nodes = list(plain.f.nodes)
        self.wanted = [plain.f.outputs[i] for i in plain.captured_outputs]
        self._may_recompute = may_recompute
        self.in_registers = in_registers
        self._decided: dict[Node, bool] = {}
        self._sources: dict[Node, list[Value]] = {}

    @property
    def is_straight(self) -> bool:
        """Whether shapes are known, and no rounds or branches stand in f."""
        return self.known is not None and not any(node.blocks for node in self.nodes)

    @cached_property
    def stands_for(self) -> dict[Value, Value]:
        """The inputs of df by what they are of f."""
        inputs = self.plain.df.inputs[len(self.plain.input_vjps) + len(self.plain.captured_inputs) :]
        return dict(zip(self.wanted, inputs, strict=True))

    @cached_property
    def storages(self) -> Storages:
        """Memory of the values of f; inputs and real outputs live anyway."""
        f = self.plain.f
        storages = Storages(self.known or {})
        storages.visit(f.body)
        if self._carried is None:
            held = [*f.inputs, *f.outputs[: self.plain.num_real_outputs]]
        else:
            held = [v for v in f.inputs if v not in self.costly]
        free = frozenset[Value]().union(*(storages.bases(v) for v in held))
        free_too = Storages(self.known or {}, free)
        free_too.visit(f.body)
        return free_too

    @cached_property
    def costly(self) -> list[Value]:
        """The inputs that cost their bytes to keep."""
        return [] if self._carried is None else self.plain.f.inputs[1 : 1 + self._carried]

    @cached_property
    def told(self) -> dict[Value, str]:
        """What the source says of bases: SAVE or RECOMPUTE."""
        found: dict[Value, str] = {}
        for node in self.nodes:
            if node.kind in (SAVE, RECOMPUTE):
                found.update(dict.fromkeys(self.storages.bases(node.output), node.kind))
        return found

    def word(self, value: Value) -> str | None:
        """What the source says of a value."""
        return next((self.told[base] for base in self.storages.bases(value) if base in self.told), None)

    def nbytes(self, value: Value) -> int | None:
        """What keeping a value costs."""
        return self.storages.nbytes([value])

    def is_input(self, value: Value) -> bool:
        return value.node is self.plain.f.body.param

    def sources(self, node: Node) -> list[Value]:
        """What a node uses, by what is inside it too; constants left out."""
        found = self._sources.get(node)
        if found is None:
            inside = [v for block in node.blocks for v in captures(block)]
            used = dict.fromkeys([*node.inputs, *inside])
            found = self._sources[node] = [v for v in used if v.node.kind != "prim::Constant"]
        return found

    def recomputable(self, node: Node) -> bool:
        """Whether a node may run again: by the source's word, else by the predicate."""
        found = self._decided.get(node)
        if found is None:
            found = self._decided[node] = self._decide(node)
        return found

    def _decide(self, node: Node) -> bool:
        words = {self.told[v] for v in node.outputs if v in self.told}
        if SAVE in words:
            return False
        if RECOMPUTE in words or node.kind in (SAVE, RECOMPUTE):
            return is_repeatable(node)
        return is_repeatable(node) and self._is_light(node) and node not in self._far_reaching

    def _is_light(self, node: Node) -> bool:
        return self._may_recompute(node) or self.is_held(node)

    @cached_property
    def is_held(self) -> Predicate:
        """Whether a node that runs again costs its arithmetic alone."""
        if self._holds is None or self.known is None:
            return lambda node: False
        held, compared = self._holds(self.plain.f, self.known), self._told_equal
        return lambda node: held(node) and (node not in compared or _is_in_any_order(node))

    @cached_property
    def _told_equal(self) -> set[Node]:
        """What is computed on the way to what is compared for equality, as an extreme is with what it was found among:
        a sum that runs again in another kernel may be added up in another order, and nothing be equal any more."""
        found, compared = set[Node](), list[Value]()
        for graph, stand_ins in ((self.plain.df, {v: k for k, v in self.stands_for.items()}), (self.plain.f, {})):
            compared += [v for node in graph.all_nodes() if node.kind in _EQUALITIES for v in node.inputs]
            seen = set(compared)
            while compared:
                value = compared.pop()
                found.add(value.node)
                new = [v for v in self.sources(value.node) if v not in seen]
                seen.update(new)
                compared += new
            compared = [stand_ins[value] for value in seen if value in stand_ins]
        return found

    @cached_property
    def _far_reaching(self) -> set[Node]:
        """What would read many tensors again, where what runs again is nowhere in memory."""
        if not self.in_registers or self.known is None:
            return set()
        most = MOST_READ if all(map(is_light, self.nodes)) else MOST
        return far_reaching(self.nodes, self.known, lambda n: is_repeatable(n) and self._is_light(n), most=most)

    def may_save(self, value: Value) -> bool:
        """Whether a value may be kept: not against the source's word, if it can be computed again at all."""
        if self.word(value) == RECOMPUTE and self._can_follow_word(value):
            return False
        return not may_hold_memory(value) or self.nbytes(value) is not None or value in self._wanted_set

    def _can_follow_word(self, value: Value) -> bool:
        bases = [b for b in self.storages.bases(value) if self.told.get(b) == RECOMPUTE]
        return all(self.is_input(base) or self.recomputable(base.node) for base in bases)

    @cached_property
    def _wanted_set(self) -> frozenset[Value]:
        return frozenset(self.wanted)

    @cached_property
    def region(self) -> list[Node]:
        """The nodes of f on which what df uses depends, as far as they may run again, in program order."""
        found: set[Node] = set()
        stack = [value.node for value in self.wanted]
        while stack:
            node = stack.pop()
            if node in found or node is self.plain.f.body.param or node.kind == "prim::Constant":
                continue
            found.add(node)
            if self.recomputable(node):
                stack += [value.node for value in self.sources(node)]
        return [node for node in self.nodes if node in found]

    def closure(self, checkpoints: set[Value]) -> set[Value]:
        """What must be kept where `checkpoints` may be and all else is recomputed as far as it can be."""
        saved: set[Value] = set()
        seen: set[Value] = set()
        stack = list(self.wanted)
        while stack:
            value = stack.pop()
            if value in seen or self.is_input(value) or value.node.kind == "prim::Constant":
                continue
            seen.add(value)
            if (value in checkpoints and self.may_save(value)) or not self.recomputable(value.node):
                saved.add(value)
            else:
                stack += self.sources(value.node)
        return saved


def known_values(
    graph: Graph, shapes: Sequence[Abstract] | None, combine: Joining = join
) -> dict[Value, Abstract] | None:
    """The abstract values of a graph; None where the inputs' are not known, or do not fit: running it will say so."""
    if shapes is None:
        return None
    try:
        return propagate_shapes(graph, shapes, combine)
    except ShapeError:
        return None


def all_defined(df: Graph) -> Graph:
    """A copy of a backward for gradients that are all there.

    Before:
        graph df(%g : Tensor, %h : Tensor, %x : Tensor):
          %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
            block():
              %2 : Tensor = aten::mul.Tensor(%g, %x)
              return (%2)
          %3 : Tensor = prim::AutogradAdd(%1, %h)
          return (%3)
    After:
        graph df(%g : Tensor, %h : Tensor, %x : Tensor):
          %1 : Tensor = aten::mul.Tensor(%g, %x)
          %2 : Tensor = prim::AutogradAdd(%1, %h)
          return (%2)
    """
    copied = df.copy()
    for node in [n for n in copied.all_nodes() if n.kind == "prim::GradOf"]:
        splice(node, node.blocks[0])
    eliminate_dead_code(copied)
    return copied


def _is_in_any_order(node: Node) -> bool:
    """Whether a node gives the same bits, whatever order it takes elements in."""
    return node.schema is not None and node.schema.base_name in _IN_ANY_ORDER


def short_op_name(node: Node) -> str:
    """A node's kind without namespace and overload: "relu" of aten::relu."""
    op = OPS.of(node.schema)
    return op.schema.base_name if op is not None else node.kind.rpartition("::")[2]


__all__ = ["RECOMPUTE", "SAVE", "UNKNOWN", "Problem", "all_defined", "known_values", "short_op_name"]
