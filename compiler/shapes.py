"""What a graph computes for inputs of given shapes, without the elements: an abstract interpretation.

    x : Meta([8, 4], float32)     %1 = aten::sum.dim_IntList(%x, [1], True)     Meta([8, 1], float32)
                                  %2 = aten::size(%x)                           [8, 4]

An abstract value is a Meta for a tensor; the value itself for a number, a bool, a string or None that is known; a list
or tuple of such; UNKNOWN for what depends on elements. Ops answer by `shape_rules`: an op without a rule is
evaluated on arrays of ones, which cost no memory of their own. Branches that are decided are followed; others, and
the rounds of a loop, are joined. Calls are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..lang.trampoline import Walk, run
from .constants import TensorConstant
from .dtypes import BY_CODE
from .ir import Block, Graph, Node, Value
from .meta import UNKNOWN, Meta, UnknownType, is_known, join
from .ops.registry import OPS
from .shape_rules import infer

Abstract: TypeAlias = Any
"""Meta | bool | int | float | str | None | list | tuple | UNKNOWN."""

MAX_ROUNDS = 20_000
"""Of a loop; the values of one that takes longer are UNKNOWN."""

__all__ = ["UNKNOWN", "Abstract", "Meta", "UnknownType", "is_known", "propagate_shapes"]


def propagate_shapes(graph: Graph, arguments: Sequence[Abstract]) -> dict[Value, Abstract]:
    """The abstract value of every value in the graph, given one per input.

    Values inside a loop stand for all its rounds: what the rounds do not share is UNKNOWN. Values in a branch that is
    not taken are missing. ShapeError, with the node, where an op refuses its arguments.
    """
    walk = _Propagation(graph)
    walk.known.update(zip(graph.inputs, arguments, strict=True))
    run(walk.block(graph.body))
    return walk.known


class ShapeError(Exception):
    """An op that cannot be applied to arguments of these shapes; `.node` is where, `.__cause__` what it said."""

    def __init__(self, node: Node, error: Exception) -> None:
        self.node = node
        super().__init__(f"{node.kind}: {error}")


class _Propagation:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[Value, Abstract] = {}

    def block(self, block: Block) -> Walk:
        """Visit the nodes of a block whose parameters are known; returns the abstract results."""
        for node in block.nodes:
            inputs = [self.known.get(value, UNKNOWN) for value in node.inputs]
            control = _CONTROL.get(node.kind)
            results = (yield control(self, node, inputs)) if control is not None else self._simple(node, inputs)
            self.set_all(node.outputs, results)
        return [self.known.get(value, UNKNOWN) for value in block.outputs]

    def set_all(self, values: Sequence[Value], results: Sequence[Abstract]) -> None:
        for value, result in zip(values, results, strict=True):
            self.known[value] = result

    def _simple(self, node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
        structural = _STRUCTURAL.get(node.kind)
        try:
            if structural is not None:
                return structural(node, inputs)
            op = OPS.of(node.schema)
            return infer(op, inputs) if op is not None else [UNKNOWN] * len(node.outputs)
        except Exception as error:
            raise ShapeError(node, error) from error

    # --- control flow ---

    def branch(self, node: Node, inputs: list[Abstract]) -> Walk:
        if isinstance(inputs[0], bool):
            return (yield self.block(node.blocks[0 if inputs[0] else 1]))
        left = yield self.block(node.blocks[0])
        right = yield self.block(node.blocks[1])
        pairs = zip(node.blocks[0].outputs, left, node.blocks[1].outputs, right, strict=True)
        return [_either(*pair) for pair in pairs]

    def loop(self, node: Node, inputs: list[Abstract]) -> Walk:
        (body,) = node.blocks
        trips, condition, *carried = inputs
        decided = isinstance(trips, int) and trips <= MAX_ROUNDS and isinstance(condition, bool)
        if not decided:
            return (yield self._unbounded(body, carried))
        seen: dict[Value, Abstract] = {}
        turn = 0
        while turn < trips and condition is True:
            self.set_all(body.inputs, [turn, *carried])
            condition, *after = yield self.block(body)
            seen = self._joined(body, seen)
            turn += 1
            if not isinstance(condition, bool):
                return (yield self._unbounded(body, [join(a, b) for a, b in zip(carried, after, strict=True)]))
            carried = after
        self.known.update(seen)
        return carried

    def _unbounded(self, body: Block, carried: list[Abstract]) -> Walk:
        """Rounds nobody has counted: joined until nothing changes. Each round only forgets, so there are few."""
        while True:
            self.set_all(body.inputs, [UNKNOWN, *carried])
            _, *after = yield self.block(body)
            joined = [join(a, b) for a, b in zip(carried, after, strict=True)]
            if all(_is_same(a, b) for a, b in zip(joined, carried, strict=True)):
                return joined
            carried = joined

    def _joined(self, body: Block, seen: dict[Value, Abstract]) -> dict[Value, Abstract]:
        found = {value: self.known[value] for value in _values_in(body) if value in self.known}
        return {v: join(seen[v], a) if v in seen else a for v, a in found.items()} | {
            v: a for v, a in seen.items() if v not in found
        }

    def inside(self, node: Node, inputs: list[Abstract]) -> Walk:
        (block,) = node.blocks
        self.set_all(block.inputs, inputs[: len(block.inputs)])
        return (yield self.block(block))

    def call(self, node: Node, inputs: list[Abstract]) -> Walk:
        callee = self.graph.functions.get(node.attr("callee"))
        if callee is None:
            return [UNKNOWN] * len(node.outputs)
        inner = _Propagation(callee.graph)
        inner.known.update(zip(callee.graph.inputs, inputs, strict=True))
        results = yield inner.block(callee.graph.body)
        return results[: len(node.outputs)]

    def closure(self, node: Node, inputs: list[Abstract]) -> Walk:
        yield from ()
        return [UNKNOWN]


def _either(then: Value, left: Abstract, otherwise: Value, right: Abstract) -> Abstract:
    """The result of one branch or the other. What a branch leaves uninitialized, nobody reads after it."""
    if otherwise.node.kind == "prim::Uninitialized":
        return left
    return right if then.node.kind == "prim::Uninitialized" else join(left, right)


def _is_same(left: Abstract, right: Abstract) -> bool:
    return type(left) is type(right) and (left is right or left == right)


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
    return inputs[0] if isinstance(inputs[0], list | tuple) else [UNKNOWN] * len(node.outputs)


def _index(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    return [inputs[0][node.attr("index")] if isinstance(inputs[0], tuple) else UNKNOWN]


def _add(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    """A gradient that is missing (None) adds nothing."""
    defined = [value for value in inputs if value is not None]
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
    "prim::GradOf": _Propagation.inside,
    "prim::DifferentiableGraph": _Propagation.inside,
    "prim::CallFunction": _Propagation.call,
    "prim::Function": _Propagation.closure,
}
