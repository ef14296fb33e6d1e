"""What a graph computes for inputs of given shapes, without the elements: an abstract interpretation.

    x : Meta([8, 4], float32)     %1 = aten::sum.dim_IntList(%x, [1], True)     Meta([8, 1], float32)
                                  %2 = aten::size(%x)                           [8, 4]

An abstract value is a Meta for a tensor; the value itself for a number, a bool, a string or None that is known; a list
or tuple of such; UNKNOWN for what depends on elements. Ops answer by the rules of `shaping`, those that are written
in the language by their definitions. Branches that are decided are followed; others, and the rounds of a loop, are
joined, and one that is sure to fail is left out. Calls are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..lang.trampoline import Walk, run
from .autodiff.formulas import formula
from .constants import TensorConstant
from .dtypes import BY_CODE, promote
from .ir import Block, Graph, Node, Value
from .meta import UNKNOWN, Meta, UnknownType, is_known, join
from .ops.composite import is_composite
from .ops.registry import OPS, Op
from .rewrite import constant_of
from .shaping import infer
from .shaping.rules import broadcast
from .steady_rounds import advanced, has_steady_shapes, progress

Abstract: TypeAlias = Any
"""Meta | bool | int | float | str | None | list | tuple | UNKNOWN."""

MAX_ROUNDS = 20_000
"""Of a loop; the values of one that takes longer are UNKNOWN."""

STEADY_AFTER = 2
"""Rounds that are looked at before the rest is taken to be like them, where that can be told."""

__all__ = ["UNKNOWN", "Abstract", "Meta", "UnknownType", "is_known", "propagate_shapes"]


Combine: TypeAlias = Callable[[Abstract, Abstract], Abstract]
"""What stands for a value that a loop makes twice."""


def propagate_shapes(graph: Graph, arguments: Sequence[Abstract], combine: Combine = join) -> dict[Value, Abstract]:
    """The abstract value of every value in the graph, given one per input.

    Values inside a loop stand for all its rounds, as `combine` says: what rounds do not share is UNKNOWN. Values in a
    branch that is not taken are missing. ShapeError, with the node, where an op that is sure to run refuses its
    arguments.
    """
    walk = _Propagation(graph, combine)
    walk.known.update(zip(graph.inputs, arguments, strict=True))
    results = run(walk.block(graph.body))
    if isinstance(results, ShapeError):
        raise results from results.__cause__
    return walk.known


class ShapeError(Exception):
    """An op that cannot be applied to arguments of these shapes; `.node` is where, `.__cause__` what it said."""

    def __init__(self, node: Node, error: Exception) -> None:
        self.node = node
        super().__init__(f"{node.kind}: {error}")


class _Propagation:
    def __init__(self, graph: Graph, combine: Combine) -> None:
        self.graph = graph
        self.combine = combine
        self.known: dict[Value, Abstract] = {}

    def block(self, block: Block) -> Walk:
        """Visit the nodes of a block whose parameters are known; the abstract results, or the ShapeError it ends in."""
        for node in block.nodes:
            inputs = [self.known.get(value, UNKNOWN) for value in node.inputs]
            control = _CONTROL.get(node.kind)
            op = OPS.of(node.schema)
            if control is not None:
                results = yield control(self, node, inputs)
            elif op is not None and is_composite(op):
                results = yield self.composite(op, inputs)
            else:
                results = _simple(node, op, inputs)
            if isinstance(results, ShapeError):
                return results
            self.set_all(node.outputs, results)
        return [self.known.get(value, UNKNOWN) for value in block.outputs]

    def set_all(self, values: Sequence[Value], results: Sequence[Abstract]) -> None:
        for value, result in zip(values, results, strict=True):
            self.known[value] = result

    # --- control flow ---

    def branch(self, node: Node, inputs: list[Abstract]) -> Walk:
        if isinstance(inputs[0], bool):
            return (yield self.block(node.blocks[0 if inputs[0] else 1]))
        left = yield self.block(node.blocks[0])
        right = yield self.block(node.blocks[1])
        if isinstance(left, ShapeError):
            return right
        if isinstance(right, ShapeError):
            return left
        pairs = zip(node.blocks[0].outputs, left, node.blocks[1].outputs, right, strict=True)
        return [_either(*pair) for pair in pairs]

    def loop(self, node: Node, inputs: list[Abstract]) -> Walk:
        (body,) = node.blocks
        trips, condition, *carried = inputs
        if not (isinstance(trips, int) and trips <= MAX_ROUNDS and isinstance(condition, bool)):
            return (yield self._unbounded(body, carried))
        inside = _values_in(body)
        seen: dict[Value, Abstract] = {}
        turn = 0
        while turn < trips and condition is True:
            self.set_all(body.inputs, [turn, *carried])
            results = yield self.block(body)
            if isinstance(results, ShapeError):
                return results
            condition, *after = results
            self._join_into(seen, inside)
            turn += 1
            if not isinstance(condition, bool):
                carried = yield self._unbounded(body, [join(a, b) for a, b in zip(carried, after, strict=True)])
                self._join_into(seen, inside)
                break
            if turn == STEADY_AFTER and turn < trips - 1:
                after, turn = self._skipped(body, carried, after, turn, trips)
            carried = after
        self.known.update(seen)
        return carried

    def _skipped(
        self, body: Block, before: list[Abstract], after: list[Abstract], turn: int, trips: int
    ) -> tuple[list[Abstract], int]:
        """What is carried into the last round, and its number, if all rounds have the same shapes."""
        steps = None
        if constant_of(body.outputs[0]) is True and has_steady_shapes(body, self.known):
            steps = progress(before, after)
        return (after, turn) if steps is None else (advanced(after, steps, trips - 1 - turn), trips - 1)

    def _unbounded(self, body: Block, carried: list[Abstract]) -> Walk:
        """Rounds nobody has counted: joined until nothing changes. Each round only forgets, so there are few."""
        while True:
            self.set_all(body.inputs, [UNKNOWN, *carried])
            results = yield self.block(body)
            if isinstance(results, ShapeError):
                return carried
            joined = [join(a, b) for a, b in zip(carried, results[1:], strict=True)]
            if all(_is_same(a, b) for a, b in zip(joined, carried, strict=True)):
                return joined
            carried = joined

    def _join_into(self, seen: dict[Value, Abstract], inside: Sequence[Value]) -> None:
        """Add what a round has found of the values inside a loop."""
        for value in inside:
            if value in self.known:
                found = self.known[value]
                seen[value] = self.combine(seen[value], found) if value in seen else found

    def inside(self, node: Node, inputs: list[Abstract]) -> Walk:
        (block,) = node.blocks
        self.set_all(block.inputs, inputs[: len(block.inputs)])
        return (yield self.block(block))

    def gradient(self, node: Node, inputs: list[Abstract]) -> Walk:
        """Runs unless no gradient is there."""
        if all(value is None for value in inputs):
            return [None] * len(node.outputs)
        results = yield self.inside(node, inputs)
        if all(value is None or value is UNKNOWN for value in inputs):
            return [UNKNOWN] * len(node.outputs)
        return results

    def call(self, node: Node, inputs: list[Abstract]) -> Walk:
        callee = self.graph.functions.get(node.attr("callee"))
        if callee is None:
            return [UNKNOWN] * len(node.outputs)
        return (yield self.results_of(callee.graph, inputs, len(node.outputs)))

    def composite(self, op: Op, inputs: list[Abstract]) -> Walk:
        callee = formula(op.schema)
        assert callee is not None, f"{op.schema.full_name} is written in the language"
        return (yield self.results_of(callee.graph, inputs, len(op.schema.returns)))

    def results_of(self, graph: Graph, inputs: Sequence[Abstract], count: int) -> Walk:
        """The first results of another graph; a closure behind them is left out."""
        inner = _Propagation(graph, self.combine)
        inner.known.update(zip(graph.inputs, inputs, strict=True))
        results = yield inner.block(graph.body)
        return results if isinstance(results, ShapeError) else results[:count]

    def closure(self, node: Node, inputs: list[Abstract]) -> Walk:
        yield from ()
        return [UNKNOWN]


def _simple(node: Node, op: Op | None, inputs: list[Abstract]) -> Sequence[Abstract] | ShapeError:
    """A node without blocks."""
    structural = _STRUCTURAL.get(node.kind)
    try:
        if structural is not None:
            return structural(node, inputs)
        if op is None:
            return [UNKNOWN] * len(node.outputs)
        return infer(op, inputs, [value.type for value in node.inputs])
    except Exception as error:
        failed = ShapeError(node, error)
        failed.__cause__ = error
        return failed


def _either(then: Value, left: Abstract, otherwise: Value, right: Abstract) -> Abstract:
    """The result of one branch or the other. What a branch leaves uninitialized, nobody reads after it."""
    if otherwise.node.kind == "prim::Uninitialized":
        return left
    return right if then.node.kind == "prim::Uninitialized" else join(left, right)


def _is_same(left: Abstract, right: Abstract) -> bool:
    return left is right or (type(left) is type(right) and repr(left) == repr(right))


def _values_in(block: Block) -> list[Value]:
    found, stack = list(block.inputs), [block]
    while stack:
        for node in stack.pop().nodes:
            found += node.outputs
            for inner in node.blocks:
                found += inner.inputs
                stack.append(inner)
    return found


# --- structural kinds ---


def _constant(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    value = node.attr("value")
    return [Meta.of(value.array) if isinstance(value, TensorConstant) else value]


def _unpack(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    (packed,) = inputs
    if not isinstance(packed, list | tuple):
        return [UNKNOWN] * len(node.outputs)
    if len(packed) != len(node.outputs):
        raise ValueError(f"{len(node.outputs)} values are taken out of {len(packed)}")
    return packed


def _index(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    return [inputs[0][node.attr("index")] if isinstance(inputs[0], tuple) else UNKNOWN]


def _add(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    """A gradient that is missing (None) adds nothing."""
    defined = [value for value in inputs if value is not None]
    tensors = [value for value in defined if isinstance(value, Meta)]
    if len(tensors) == 2:
        left, right = tensors
        return [Meta(broadcast(left.shape, right.shape), promote(left.dtype, right.dtype))]
    if len(defined) == 2 and UNKNOWN in defined:
        return [UNKNOWN]
    return [defined[0] if defined else None]


def _materialize(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    gradient, size, dtype = inputs
    if gradient is not None:
        return [gradient]
    known = isinstance(size, list) and is_known(size) and isinstance(dtype, int)
    return [Meta(tuple(size), BY_CODE[dtype]) if known else UNKNOWN]


def _cast(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    return inputs[:1]


_STRUCTURAL: dict[str, Callable[[Node, list[Abstract]], Sequence[Abstract]]] = {
    "prim::Constant": _constant,
    "prim::Uninitialized": lambda node, inputs: [UNKNOWN],
    "prim::TupleConstruct": lambda node, inputs: [tuple(inputs)],
    "prim::TupleUnpack": _unpack,
    "prim::TupleIndex": _index,
    "prim::ListConstruct": lambda node, inputs: [list(inputs)],
    "prim::ListUnpack": _unpack,
    "prim::AutogradAdd": _add,
    "prim::AutogradZero": lambda node, inputs: [None],
    "prim::MaterializeGrad": _materialize,
    "prim::unchecked_unwrap_optional": _cast,
    "prim::unchecked_cast": _cast,
}
_CONTROL: dict[str, Callable[[_Propagation, Node, list[Abstract]], Walk]] = {
    "prim::If": _Propagation.branch,
    "prim::Loop": _Propagation.loop,
    "prim::GradOf": _Propagation.gradient,
    "prim::DifferentiableGraph": _Propagation.inside,
    "prim::CallFunction": _Propagation.call,
    "prim::Function": _Propagation.closure,
}
