"""One function as the checker runs it: forward, gradient by its own backward, gradient by autodiff, second order.

Each evaluation starts from the same seed, so that all of them draw the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...compiler.autodiff import differentiate
from ...compiler.autodiff.differentiable import differentiable_graph
from ...compiler.autodiff.flatten import flatten_signature, leaves, rebuilt
from ...compiler.autodiff.rules.branches import copy_backward
from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Callee, Graph, backward_of
from ...compiler.ir.node import RETURN, Node, Value, copy_nodes
from ...compiler.link import reachable
from ...compiler.ops.registry import OPS, Trait
from ...compiler.passes.inline_functions import inline_functions
from ...compiler.specialize.optionals import specialize_optionals
from ...compiler.types.types import UNDEFINED, is_differentiable
from ...lang.diagnostics import CompileError
from ...runtime.execution.differentiated import CompiledGraph
from ...runtime.face.function import Function
from ...runtime.face.transforms import vjp
from ...runtime.failures.failure import RuntimeFailure
from ...runtime.plans.build import PlanCache
from ...runtime.plans.interpreter import run_plan
from ...runtime.plans.plan import ExecutionPlan
from ...runtime.settings.modes import settings
from ...runtime.settings.random import reseeded
from .decisions import COMPARISONS
from .holding import CONSTANTS, Constants
from .leaves import array_leaves, floating_leaves, is_floating
from .trace import RunTrace, TooLong, summed_like

repeatable = reseeded(0)
"""Decorates what is to draw the same random numbers in each call."""


SURROGATE = "gs::surrogate"
_PASS_ON = ("prim::ListConstruct", "aten::sum_to_size", "aten::_grad_sum_to_size")
"""What may stand between a surrogate and the gradient that is returned."""


class Subject:
    """A function under check. Values are one per parameter, as `Function.bind` gives them."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.schema = function.schema
        self.pair = function.pair
        self._plans = PlanCache()
        self.sums_where_broadcast = False
        self._joint: dict[tuple[Any, ...], Joint] = {}

    @cached_property
    def _forward(self) -> ExecutionPlan:
        return self._plans.plan(self.function.graph)

    @cached_property
    def is_pointwise(self) -> bool:
        """Whether every op of the forward works element by element, so that any shapes may be broadcast."""
        graph = self.function.graph.without_closure().copy()
        inline_functions(graph)
        ops = [OPS.of(node.schema) for node in graph.all_nodes() if node.schema is not None]
        return all(op is None or op.has(Trait.POINTWISE | Trait.SHAPE_ONLY) or not _on_tensors(op) for op in ops)

    @cached_property
    def sums_to_sizes(self) -> bool:
        """Whether the backward sums a gradient to its input's size: then it takes on broadcasting, for all of them."""
        if self.pair is None:
            return False
        graph = self.pair.backward.copy()
        inline_functions(graph)
        named = {node.schema.base_name for node in graph.all_nodes() if node.schema is not None}
        return bool(named & {"sum_to_size", "_grad_sum_to_size"})

    def detaches(self, index: int) -> bool:
        """Whether every use of a parameter in the forward is a detach, so that it is meant to be a constant."""
        return index in self._detached

    @cached_property
    def _detached(self) -> frozenset[int]:
        graph = self.function.graph.without_closure().copy()
        inline_functions(graph)
        inputs = [(i, value) for i, value in enumerate(graph.inputs) if value.uses]
        return frozenset(i for i, v in inputs if all(use.user.kind in CONSTANTS for use in v.uses))

    @cached_property
    def surrogates(self) -> dict[int, str]:
        """The parameters whose gradients the source says are meant to be other than the derivative, and why."""
        found: dict[int, str] = {}
        if self.pair is None:
            return self._called_surrogates()
        for i, output in enumerate(self.pair.backward.outputs[: len(self.schema.arguments)]):
            node = _surrogate_node(output)
            if node is not None:
                found[i] = str(node.inputs[1].node.attrs.get("value", ""))
        return found

    def _called_surrogates(self) -> dict[int, str]:
        """The same of a function that is differentiated through: what goes into a function that has one."""
        why = {}
        for callee in reachable(self.function.callee, self.function.name):
            outputs = callee.pair.backward.outputs if callee.pair is not None else []
            for node in filter(None, map(_surrogate_node, outputs)):
                why[callee.schema.name] = str(node.inputs[1].node.attrs.get("value", ""))
        if not why:
            return {}
        graph = self.function.graph
        goes_on = {n for n in graph.all_nodes() if n.kind == "prim::CallFunction" and _calls(graph, n, why)}
        return {i: next(iter(why.values())) for i, v in enumerate(graph.inputs) if _reaches(v, goes_on)}

    @cached_property
    def bent(self) -> frozenset[int]:
        """Those of `surrogates` that say that they are not linear in the gradients that they are given."""
        if self.pair is None:
            return frozenset(self.surrogates)
        found = {i: _surrogate_node(self.pair.backward.outputs[i]) for i in self.surrogates}
        linear = {i: node.inputs[2].node.attrs.get("value") for i, node in found.items() if node is not None}
        return frozenset(i for i, said in linear.items() if said is False)

    def surrogates_in(self, values: Sequence[Any], seeds: Sequence[Any]) -> frozenset[int]:
        """Those of `surrogates` that came by one in a run: a backward may give one in some branches only."""
        if not self.surrogates or self.pair is None:
            return frozenset(self.surrogates)
        *_, context = repeatable(run_plan)(self._plans.plan(self.pair.forward), values)
        given = [seeds[i] for i in self.pair.grad_outputs]
        try:
            trace = repeatable(RunTrace().run)(self.pair.backward, [context, *given])
        except (TooLong, RuntimeFailure, ValueError, TypeError):
            return frozenset(self.surrogates)
        return frozenset(i for i in self.surrogates if _came_by_a_surrogate(trace, trace.results[i]))

    @cached_property
    def _constants(self) -> Constants:
        graph = self.function.graph.without_closure()
        return Constants(graph, graph.outputs)

    @property
    def holds_constants(self) -> bool:
        """Whether the forward says of something that its results depend on that it is a constant."""
        return bool(self._constants)

    def held(self, values: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """The forward in which what it calls constant stays what it is at these values."""
        return repeatable(repeatable(self._constants.held)(values)) if self.holds_constants else self.forward

    def held_gradient(self, values: Sequence[Any]) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
        """The gradient by its own backward in which the same stays what it is."""
        pair = self.pair
        if pair is None or not self.holds_constants:
            return self.gradient
        forward = repeatable(Constants(pair.forward, pair.forward.outputs[:-1]).held)(values)
        backward = self._plans.plan(pair.backward)

        @repeatable
        def gradient(others: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
            context = forward(others)[-1]
            return self._summed(run_plan(backward, [context, *(seeds[i] for i in pair.grad_outputs)]), others)

        return gradient

    @cached_property
    def numbers(self) -> list[float]:
        """The numbers that the source names, in the function and in what it calls, in order."""
        found: dict[float, None] = {}
        for callee in reachable(self.function.callee, self.function.name):
            for node in callee.graph.all_nodes():
                value = node.attrs.get("value") if node.kind == "prim::Constant" else None
                if isinstance(value, int | float) and not isinstance(value, bool):
                    found[value] = None
        return list(found)

    @cached_property
    def compared(self) -> list[int | float]:
        """The numbers that the source compares numbers with, which decide what sizes and counts lead to."""
        found: dict[int | float, None] = {}
        for callee in reachable(self.function.callee, self.function.name):
            for node in callee.graph.all_nodes():
                if node.schema is None or node.schema.base_name not in COMPARISONS:
                    continue
                values = [value.node.attrs.get("value") for value in node.inputs if value.node.kind == "prim::Constant"]
                found.update((v, None) for v in values if isinstance(v, int | float) and not isinstance(v, bool))
        return list(found)

    @cached_property
    def _bare(self) -> Function:
        """The function without its backward."""
        return Function(Callee(self.schema, self.function.graph.without_closure()))

    # --- values ---

    @repeatable
    def forward(self, values: Sequence[Any]) -> list[Any]:
        """The outputs."""
        return run_plan(self._forward, values)

    def seeds(self, outputs: Sequence[Any], make: Callable[[Any], Any]) -> list[Any]:
        """A gradient for each output made from its floating arrays by `make`; None for an output that has none."""
        return [_seed(output, make) for output in outputs]

    @repeatable
    def gradient(self, values: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        """One gradient per parameter: by its own backward if it has one, else by autodiff.

        With `sums_where_broadcast` it is summed to the parameter's shape, as differentiation does.
        """
        if self.pair is None:
            return self._pulled_back(self.function, values, seeds)
        *_, context = run_plan(self._plans.plan(self.pair.forward), values)
        given = [seeds[i] for i in self.pair.grad_outputs]
        return self._summed(run_plan(self._plans.plan(self.pair.backward), [context, *given]), values)

    def _summed(self, results: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        gradients = list(results[: len(self.schema.arguments)])
        if not self.sums_where_broadcast:
            return gradients
        return [summed_like(gradient, value) for gradient, value in zip(gradients, values, strict=True)]

    @repeatable
    def autodiff(self, values: Sequence[Any], seeds: Sequence[Any], *, optimised: bool = False) -> list[Any]:
        """One gradient per parameter by `gs.vjp`, `optimised` for these very arguments as a user's call is."""
        with settings.optimize(optimised):
            return self._pulled_back(self.function, values, seeds)

    @repeatable
    def forward_gradient(self, values: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        """One gradient per parameter of the forward as the library differentiates it, whatever its backward says."""
        return self._pulled_back(self._bare, values, seeds)

    def _pulled_back(self, function: Function, values: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        positional = [v for a, v in zip(self.schema.arguments, values, strict=True) if not a.keyword_only]
        keywords = {a.name: v for a, v in zip(self.schema.arguments, values, strict=True) if a.keyword_only}
        outputs, pullback = vjp(function, *positional, **keywords)
        count = len(outputs) if isinstance(outputs, tuple) else 1
        return list(pullback(seeds[0] if count == 1 else tuple(seeds)))

    def second(self, values: Sequence[Any], seeds: Sequence[Any]) -> Joint:
        """The gradient as a function of arguments and output gradients, which can itself be differentiated."""
        absent = tuple(i for i, value in enumerate(values) if value is None)
        floating = tuple(bool(floating_leaves([value])) for value in values)
        key = (absent, floating, tuple(seed is None for seed in seeds))
        if key not in self._joint:
            self._joint[key] = Joint(self.function.callee, absent, floating, seeds)
        return self._joint[key]


def _surrogate_node(value: Value) -> Node | None:
    """What says that a gradient is a surrogate, whichever branch it comes from; None if nothing does."""
    pending, seen = [value], {value}
    while pending:
        made = pending.pop()
        if made.node.kind == SURROGATE:
            return made.node
        following = [block.outputs[made.index] for block in made.node.blocks] if made.node.kind == "prim::If" else []
        if made.node.kind in _PASS_ON:
            following = list(made.node.inputs)
        pending += [v for v in following if v not in seen]
        seen.update(following)
    return None


def _calls(graph: Graph, node: Node, names: Collection[str]) -> bool:
    """Whether what a node calls is one of these functions, or calls one."""
    name = node.attr("callee")
    return any(callee.schema.name in names for callee in reachable(graph.functions[name], name))


def _reaches(value: Value, nodes: Collection[Node]) -> bool:
    """Whether a value goes into one of these nodes."""
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            if use.user in nodes:
                return True
            owner = use.user.holder if use.user.kind == RETURN else None
            inside = [v for block in use.user.blocks for v in block.inputs]
            following = [*use.user.outputs, *inside, *(owner.outputs if owner is not None else ())]
            pending += [v for v in following if v not in seen]
            seen.update(following)
    return False


def _came_by_a_surrogate(trace: RunTrace, result: int) -> bool:
    made_by = {number: step for step in trace.steps for number in step.outputs}
    pending = [result]
    while pending:
        step = made_by.get(pending.pop())
        if step is not None and step.node.kind == SURROGATE:
            return True
        if step is not None and step.node.kind in _PASS_ON:
            pending += step.inputs
    return False


def _on_tensors(op: Any) -> bool:
    types = [*op.schema.arguments, *op.schema.returns]
    return any(is_differentiable(argument.type) for argument in types)


def _seed(output: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(output, list):
        items = [_seed(item, make) for item in output]
        return None if items and all(item is None for item in items) else items
    return make(output) if is_floating(output) else None


class Joint:
    """(arguments, output gradients) → gradients; `wrt` are the parameters that get a gradient.

    It is differentiated once, for arguments of any shapes, which is enough for what runs a few times on each.
    """

    def __init__(self, callee: Callee, absent: Sequence[int], floating: Sequence[bool], seeds: Sequence[Any]) -> None:
        graph, self.wrt, self.seeded = _joint_graph(callee, absent, floating, seeds)
        self._inputs = [value.type for value in graph.inputs]
        self._outputs = [value.type for value in graph.outputs]
        self._program = CompiledGraph(flatten_signature(graph), graph.title, whole=True, temporaries=False)

    def arguments(self, values: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        return [*values, *(seeds[i] for i in self.seeded)]

    @repeatable
    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of arguments, then of output gradients, given one cotangent per entry of `wrt`."""
        given = leaves(self.arguments(values, seeds), self._inputs)
        found = self._program.differentiate(tuple([None if v is None else bool(floating_leaves([v])) for v in given]))
        if isinstance(found, CompileError):
            raise CompileError(found.diagnostics)
        _, residuals = found.run(given)
        gradients = found.pull_back(given, leaves(cotangents, self._outputs), residuals)
        return rebuilt(iter(gradients), self._inputs)


def _joint_graph(
    callee: Callee, absent: Sequence[int], floating: Sequence[bool], seeds: Sequence[Any]
) -> tuple[Graph, list[int], list[int]]:
    graph = specialize_optionals(differentiable_graph(callee), absent)
    gradient = differentiate(graph, floating, temporaries=False)
    joint = Graph(f"{callee.schema.name}_gradient", gradient.df.functions, graph.span, backward_of(graph.title))
    builder = Builder(joint, span=graph.span)
    inputs = [joint.body.add_input(v.type, v.name_hint) for v in gradient.f.inputs]
    by_output: dict[int, Value] = {}
    for i, vjp_input in zip(gradient.input_vjps, gradient.df.inputs, strict=False):
        if i < gradient.num_real_outputs and seeds[i] is not None:
            by_output[i] = joint.body.add_input(vjp_input.type, f"grad_output{i}")
    outputs = copy_nodes(gradient.f.body, dict(zip(gradient.f.inputs, inputs, strict=True)), builder.insert)
    found = copy_backward(builder, gradient, by_output, inputs, outputs)
    kept = [(i, value) for i, value in found.items() if value.type != UNDEFINED]
    builder.returns(*(value for _, value in kept))
    return joint, [i for i, _ in kept], list(by_output)


def flat(values: Sequence[Any], like: Sequence[Any] | None = None) -> np.ndarray[Any, Any]:
    """The floating arrays of the values as one float64 vector; `like` says which there are, zeros for one missing."""
    if like is None:
        arrays = list(floating_leaves(values).values())
    else:
        found = array_leaves(values)
        arrays = [found[path] if path in found else np.zeros_like(leaf) for path, leaf in floating_leaves(like).items()]
    if len(arrays) == 1:
        return np.array(arrays[0], np.float64).ravel()
    parts = [np.asarray(leaf, np.float64).ravel() for leaf in arrays]
    return np.concatenate(parts) if parts else np.zeros(0)
