"""A backward as the straight line of ops that one run of it executed, which can be run again with a change in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.constants import runtime_value
from ...compiler.ir.graph import Graph
from ...compiler.ir.kinds import KindTrait, has
from ...compiler.ir.node import Block, Node, Value
from ...compiler.ops.arrays import Array
from ...compiler.ops.registry import OPS
from ...lang.light_dataclasses import dataclass, field
from ...runtime.plans.operations import STRUCTURAL, NodeFunction

MAX_STEPS = 2000


class TooLong(Exception):
    """The run takes more steps than are worth keeping."""


@dataclass(slots=True)
class TracedStep:
    """One op that ran: it took and made the values with these numbers."""

    node: Node
    evaluate: NodeFunction
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UseSite:
    """A use of a value: operand `position` of a step; step -1 stands for the result itself."""

    step: int
    position: int


@dataclass(slots=True)
class RunTrace:
    """Branches and loops are unrolled as they went, calls of functions of the unit are inlined."""

    values: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    sources: list[Value] = field(default_factory=list)
    steps: list[TracedStep] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    limit: int = MAX_STEPS
    _ways: dict[tuple[int, int], list[TracedStep]] = field(default_factory=dict)

    def run(self, graph: Graph, arguments: Sequence[Any]) -> RunTrace:
        """Execute a graph and keep what happens."""
        with np.errstate(all="ignore"):
            inputs = [self._new(value, given) for value, given in zip(graph.inputs, arguments, strict=True)]
            env = dict(zip(graph.inputs, inputs, strict=True))
            self.results = self._block(graph.body, env, graph)
        return self

    def _new(self, source: Value, value: Any) -> int:
        self.values.append(value)
        self.names.append(source.name_hint)
        self.sources.append(source)
        return len(self.values) - 1

    def _block(self, block: Block, env: dict[Value, int], graph: Graph) -> list[int]:
        for node in block.nodes:
            self._node(node, env, graph)
        return [env[value] for value in block.outputs]

    def _node(self, node: Node, env: dict[Value, int], graph: Graph) -> None:
        if has(node, KindTrait.KNOWN):
            env[node.output] = self._new(node.output, runtime_value(node.attrs.get("value")))
        elif node.kind == "prim::If":
            taken = node.blocks[0 if self.values[env[node.inputs[0]]] else 1]
            env.update(zip(node.outputs, self._block(taken, env, graph), strict=True))
        elif node.kind == "prim::Loop":
            self._loop(node, env, graph)
        elif node.kind == "prim::CallFunction":
            callee = self._callee(graph, node.attr("callee"))
            inner = dict(zip(callee.inputs, [env[v] for v in node.inputs], strict=True))
            env.update(zip(node.outputs, self._block(callee.body, inner, callee), strict=True))
        elif node.kind in ("prim::unchecked_unwrap_optional", "prim::unchecked_cast"):
            env[node.output] = env[node.inputs[0]]
        else:
            self._op(node, env)

    def _callee(self, graph: Graph, name: str) -> Graph:
        return graph.functions[name].graph.without_closure()

    def _loop(self, node: Node, env: dict[Value, int], graph: Graph) -> None:
        (block,) = node.blocks
        trips, condition, *carried = [env[value] for value in node.inputs]
        round_number = 0
        while round_number < self.values[trips] and self.values[condition]:
            env[block.inputs[0]] = self._new(block.inputs[0], round_number)
            env.update(zip(block.inputs[1:], carried, strict=True))
            condition, *carried = self._block(block, env, graph)
            round_number += 1
        env.update(zip(node.outputs, carried, strict=True))

    def _op(self, node: Node, env: dict[Value, int]) -> None:
        if len(self.steps) >= self.limit:
            raise TooLong
        op = OPS.of(node.schema)
        evaluate = op.evaluate if op is not None else STRUCTURAL[node.kind](node)
        inputs = tuple(env[value] for value in node.inputs)
        made = evaluate(*(self.values[i] for i in inputs))
        several = [made] if len(node.outputs) == 1 else list(made) if node.outputs else []
        outputs = tuple(self._new(v, value) for v, value in zip(node.outputs, several, strict=True))
        env.update(zip(node.outputs, outputs, strict=True))
        self.steps.append(TracedStep(node, evaluate, inputs, outputs))

    # --- what a result is made of ---

    def steps_of(self, result: int) -> list[int]:
        """The numbers of the steps that a value depends on, last first."""
        needed, found = {result}, []
        for number in range(len(self.steps) - 1, -1, -1):
            step = self.steps[number]
            if needed.intersection(step.outputs):
                found.append(number)
                needed.update(step.inputs)
        return found

    def rerun(self, result: int, changed: int, made: Any) -> Any:
        """The value `result` if step `changed` had made something else; None where that cannot run."""
        step = self.steps[changed]
        values: dict[int, Any] = dict(zip(step.outputs, [made] if len(step.outputs) == 1 else made, strict=True))
        for later in self._between(changed, result):
            out = later.evaluate(*(values.get(i, self.values[i]) for i in later.inputs))
            values.update(zip(later.outputs, [out] if len(later.outputs) == 1 else out, strict=True))
        return values.get(result, self.values[result])

    def _between(self, changed: int, result: int) -> list[TracedStep]:
        """The steps by which a value depends on what a step made, in order."""
        found = self._ways.get((changed, result))
        if found is None:
            touched, found = set(self.steps[changed].outputs), []
            for number in reversed(self.steps_of(result)):
                later = self.steps[number]
                if number > changed and not touched.isdisjoint(later.inputs):
                    touched.update(later.outputs)
                    found.append(later)
            self._ways[changed, result] = found
        return found

    def operand(self, site: UseSite, result: int) -> Any:
        number = result if site.step < 0 else self.steps[site.step].inputs[site.position]
        return self.values[number]

    def with_operand(self, site: UseSite, result: int, operand: Any) -> Any:
        """The result if one use of a value had met another value; None where that cannot run."""
        if site.step < 0:
            return operand
        step = self.steps[site.step]
        operands = [self.values[i] for i in step.inputs]
        operands[site.position] = operand
        return self.with_made(site.step, result, lambda: step.evaluate(*operands))

    def with_made(self, step: int, result: int, make: Callable[[], Any]) -> Any:
        """The result if a step had made what `make` returns; None where that cannot run."""
        try:
            with np.errstate(all="ignore"):
                return self.rerun(result, step, make())
        except Exception:  # any op may refuse a changed operand in its own way
            return None


def took_the_same_steps(one: RunTrace, other: RunTrace) -> bool:
    """Whether two runs went the same way, so that what has a number in the one has it in the other."""
    return len(one.steps) == len(other.steps) and all(
        a.node is b.node for a, b in zip(one.steps, other.steps, strict=True)
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_written_number(trace: RunTrace, step: TracedStep, operand: int) -> bool:
    """Whether an operand is a number that the source writes, not a default."""
    source, value = trace.sources[operand], trace.values[operand]
    if not is_number(value):
        return False
    if source.node.kind != "prim::Constant":
        return bool(source.name_hint)
    return source.node.span != step.node.span and bool(source.node.span.end)


def sum_to(array: Array, shape: tuple[int, ...]) -> Array | None:
    """An array summed over what was broadcast from a shape; None where it was not."""
    if array.ndim < len(shape):
        return None
    extra = array.ndim - len(shape)
    summed = array.sum(tuple(range(extra))) if extra else array
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and summed.shape[i] != 1)
    summed = summed.sum(axes, keepdims=True) if axes else summed
    return summed if summed.shape == shape else None


def summed_like(gradient: Any, value: Any) -> Any:
    """A gradient summed over what its parameter was broadcast to; as it is where that does not fit."""
    if isinstance(gradient, list):
        # One of another length, or for no list at all, is a finding about the backward.
        if not isinstance(value, list) or len(gradient) != len(value):
            return gradient
        return [summed_like(g, v) for g, v in zip(gradient, value, strict=True)]
    if gradient is None or not isinstance(value, np.ndarray):
        return gradient
    summed = sum_to(np.asarray(gradient), value.shape)
    return gradient if summed is None else np.asarray(summed)
