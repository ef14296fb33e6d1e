"""Rules for prim::If and prim::Loop: each body is differentiated as a graph of its own.

The forward node is rebuilt on the bodies' `f`, so that it also returns what their backward needs: for a branch the
temporaries of the branch taken (those of the other are uninitialized), for a loop one list per temporary with an
element for each round. The backward runs the `df` of the branch taken, or the rounds in reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...lang.trampoline import Walk
from ..builder import Builder
from ..ir import Block, Graph, Node, Value, copy_node, copy_nodes
from ..symbolic_script import captures
from ..types import INT, UNDEFINED, ListType, Type, is_differentiable
from .gradient import Gradient
from .reverse import Reverse, gradient_type, materialize
from .rules import constants_used

Differentiate = Callable[[Graph, Sequence[bool], Sequence[bool]], Walk]
"""Graph, which inputs require a gradient, which of those must get one even if it is zero → Gradient."""


def body_graph(name: str, block: Block, outside: Sequence[Value], graph: Graph) -> Graph:
    """A block as a graph: its parameters, then the values from outside that it uses, as inputs."""
    body = Graph(name, graph.functions, graph.span)
    env: dict[Value, Value] = {}
    for value in (*block.inputs, *outside):
        env[value] = body.body.add_input(value.type, value.name_hint)
    for value in dict.fromkeys(constants_used(block)):
        copy_node(value.node, env, body.body.append)
    body.body.ret.replace_inputs(copy_nodes(block, env, body.body.append))
    return body


def run_backward(
    builder: Builder,
    gradient: Gradient,
    vjps: dict[int, Value],
    inputs: Sequence[Value],
    outputs: dict[int, Value],
    zero: Callable[[], Value],
) -> dict[int, Value]:
    """Copy `df`. `vjps` and `outputs` are by number of f's output; the gradients, by number of f's input."""
    arguments = [vjps[i] if i in vjps else zero() for i in gradient.input_vjps]
    arguments += [inputs[i] for i in gradient.captured_inputs]
    arguments += [outputs[i] for i in gradient.captured_outputs]
    env: dict[Value, Value] = dict(zip(gradient.df.inputs, arguments, strict=True))
    results = copy_nodes(gradient.df.body, env, builder.insert)
    return dict(zip(gradient.output_vjps, results, strict=True))


# Branches


@dataclass(slots=True)
class BranchRule:
    """`sides` are, per branch: its gradient, and f's outputs beyond the real ones as outputs of the node."""

    node: Node
    outside: list[Value]
    sides: list[tuple[Gradient, list[Value]]]

    def emit(self, reverse: Reverse) -> None:
        given = [v for v in self.node.outputs if is_differentiable(v.type)]
        gradients = [reverse.gradient_or_zero(v) for v in given]
        by_value = dict(zip(given, gradients, strict=True))
        wanted = [i for i in self.sides[0][0].output_vjps if self.outside[i] in reverse.active]

        def body(builder: Builder) -> list[Value]:
            branch = builder.node("prim::If", [self.node.inputs[0]], blocks=2)
            for block, (gradient, extra) in zip(branch.blocks, self.sides, strict=True):
                inner = Builder(block, span=self.node.span)
                found = self._run_side(inner, reverse, gradient, extra, by_value)
                inner.returns(*(found[i] for i in wanted))
            return [branch.add_output(gradient_type(self.outside[i])) for i in wanted]

        results = reverse.grad_of("prim::If", gradients, self.node.span, body)
        for i, result in zip(wanted, results, strict=True):
            reverse.add(self.outside[i], result)

    def _run_side(
        self, builder: Builder, reverse: Reverse, gradient: Gradient, extra: list[Value], by_value: dict[Value, Value]
    ) -> dict[int, Value]:
        outputs = dict(enumerate([*self.node.outputs[: gradient.num_real_outputs], *extra]))
        vjps = {i: by_value[v] for i, v in outputs.items() if v in by_value}
        return run_backward(builder, gradient, vjps, self.outside, outputs, lambda: _zero(builder))


def _zero(builder: Builder) -> Value:
    return builder.node("prim::AutogradZero", (), [UNDEFINED]).output


def prepare_branch(node: Node, graph: Graph, active: set[Value], differentiate: Differentiate) -> Walk:
    """Rebuild a prim::If on its branches' forward halves: the rule, or None if no gradient can pass."""
    outside = list(dict.fromkeys(v for block in node.blocks for v in captures(block)))
    mask = [value in active for value in outside]
    if not any(mask):
        return None
    gradients: list[Gradient] = []
    for block in node.blocks:
        gradients.append((yield differentiate(body_graph("branch", block, outside, graph), mask, mask)))
    if not any(any(g.active_outputs) for g in gradients):
        return None
    branch, sides = _rebuild_branch(node, outside, gradients)
    for i, value in enumerate(branch.outputs[: len(node.outputs)]):
        if any(g.active_outputs[i] for g in gradients):
            active.add(value)
    for _, extra in sides:
        active.update(v for v in extra if is_differentiable(v.type))
    return BranchRule(branch, outside, sides)


def _rebuild_branch(
    node: Node, outside: Sequence[Value], gradients: Sequence[Gradient]
) -> tuple[Node, list[tuple[Gradient, list[Value]]]]:
    builder = Builder(_owner(node), before=node, span=node.span)
    branch = builder.node("prim::If", [node.inputs[0]], blocks=2)
    real = [branch.add_output(v.type, v.name_hint) for v in node.outputs]
    results: list[list[Value]] = []
    for block, gradient in zip(branch.blocks, gradients, strict=True):
        env: dict[Value, Value] = dict(zip(gradient.f.inputs, outside, strict=True))
        results.append(copy_nodes(gradient.f.body, env, block.append))
    sides: list[tuple[Gradient, list[Value]]] = []
    for i, gradient in enumerate(gradients):
        extra = [branch.add_output(v.type, v.name_hint) for v in gradient.f.outputs[gradient.num_real_outputs :]]
        sides.append((gradient, extra))
        other = Builder(branch.blocks[1 - i], span=node.span)
        results[1 - i] += [] if i else [other.uninitialized(v.type) for v in extra]
        if i:
            # The first side's temporaries stand before the second's in every list of results.
            count = len(sides[0][1])
            results[0] += [other.uninitialized(v.type) for v in extra]
            real_count = gradient.num_real_outputs
            own = results[1][real_count : len(results[1]) - count]
            results[1] = [*results[1][:real_count], *results[1][len(results[1]) - count :], *own]
    for block, values in zip(branch.blocks, results, strict=True):
        block.ret.replace_inputs(values)
    for old, new in zip(node.outputs, real, strict=True):
        old.replace_uses_with(new)
    node.destroy()
    return branch, sides


def _owner(node: Node) -> Block:
    assert node.owner is not None
    return node.owner


# Loops


@dataclass(slots=True)
class LoopRule:
    """`kept` maps what a round's `df` takes (numbers of f's inputs and outputs) to the lists of it, by round."""

    node: Node
    gradient: Gradient
    outside: list[Value]
    carried: int
    count: Value
    kept_inputs: dict[int, Value] = field(default_factory=dict)
    kept_outputs: dict[int, Value] = field(default_factory=dict)

    def emit(self, reverse: Reverse) -> None:
        outputs = self.node.outputs
        lists = [v for v in (*self.kept_inputs.values(), *self.kept_outputs.values()) if v in reverse.gradients]
        state = [k for k in range(self.carried) if 1 + k in self.gradient.output_vjps]
        through = [o for o in range(len(self.outside)) if self._outside_input(o) in self.gradient.output_vjps]
        gradients = [reverse.gradient_or_zero(outputs[k]) for k in state]
        gradients += [reverse.gradients[v] for v in lists]

        def body(builder: Builder) -> list[Value]:
            start = [materialize(builder, g, outputs[k]) for g, k in zip(gradients, state, strict=False)]
            start += [materialize(builder, _zero(builder), self.outside[o]) for o in through]
            return self._emit_loop(builder, start, state, through, {v: reverse.gradients[v] for v in lists})

        results = reverse.grad_of("prim::Loop", gradients, self.node.span, body)
        targets = [self.node.inputs[2 + k] for k in state] + [self.outside[o] for o in through]
        for value, result in zip(targets, results, strict=True):
            reverse.add(value, result)

    def _outside_input(self, o: int) -> int:
        return 1 + self.carried + o

    def _emit_loop(
        self, builder: Builder, start: Sequence[Value], state: list[int], through: list[int], lists: dict[Value, Value]
    ) -> list[Value]:
        loop = builder.node("prim::Loop", [self.count, builder.constant(True), *start], blocks=1)
        (block,) = loop.blocks
        step = block.add_input(INT)
        current = [block.add_input(v.type) for v in start]
        b = Builder(block, span=self.node.span)
        last = b.op("aten::sub.int", self.count, 1)
        index = b.op("aten::sub.int", last, step)
        inputs, outputs = self._values_at(b, index)
        vjps = {1 + k: g for k, g in zip(state, current, strict=False)}
        for i, kept in self.kept_outputs.items():
            if kept in lists and i not in vjps:
                vjps[i] = b.op("prim::grad_item", lists[kept], index)
        found = run_backward(b, self.gradient, vjps, inputs, outputs, lambda: _zero(b))
        results: list[Value] = []
        for k in state:
            kept_list = self.kept_inputs.get(1 + k)
            gradient = found[1 + k]
            if kept_list in lists:
                more = b.op("prim::grad_item", lists[kept_list], index)
                gradient = b.node("prim::AutogradAdd", [gradient, more], [gradient.type]).output
            results.append(gradient)
        for o, sum in zip(through, current[len(state) :], strict=True):
            more = found[self._outside_input(o)]
            results.append(b.node("prim::AutogradAdd", [sum, more], [sum.type]).output)
        b.returns(b.constant(True), *results)
        return [loop.add_output(v.type) for v in start]

    def _values_at(self, builder: Builder, index: Value) -> tuple[list[Value], dict[int, Value]]:
        """What `df` may capture of the round at `index`: f's inputs, and f's outputs by number."""
        inputs: list[Value] = [index] * (1 + self.carried) + self.outside
        for i, kept in self.kept_inputs.items():
            inputs[i] = builder.op("aten::__getitem__.t", kept, index)
        outputs = {i: builder.op("aten::__getitem__.t", kept, index) for i, kept in self.kept_outputs.items()}
        return inputs, outputs


def prepare_loop(node: Node, graph: Graph, active: set[Value], differentiate: Differentiate) -> Walk:
    """Rebuild a prim::Loop on its body's forward half: the rule, or None if no gradient can pass."""
    (block,) = node.blocks
    outside = captures(block)
    initial = node.inputs[2:]
    carried_active = [value in active for value in initial]
    outside_active = [value in active for value in outside]
    if not any(carried_active) and not any(outside_active):
        return None
    while True:
        mask = [False, *carried_active, *outside_active]
        dense = [False, *carried_active, *(False for _ in outside)]
        gradient: Gradient = yield differentiate(body_graph("round", block, outside, graph), mask, dense)
        reached = [a or b for a, b in zip(carried_active, gradient.active_outputs[1:], strict=True)]
        if reached == carried_active:
            break
        carried_active = reached
    if not any(carried_active):
        return None
    rule = _rebuild_loop(node, outside, gradient)
    for is_active, value in zip(carried_active, rule.node.outputs, strict=False):
        if is_active:
            active.add(value)
    lists = (*rule.kept_inputs.values(), *rule.kept_outputs.values())
    active.update(v for v in lists if is_differentiable(v.type))
    return rule


def _rebuild_loop(node: Node, outside: list[Value], gradient: Gradient) -> LoopRule:
    builder = Builder(_owner(node), before=node, span=node.span)
    trips, condition, *initial = node.inputs
    carried = len(initial)
    kept_inputs = [i for i in gradient.captured_inputs if 0 < i <= carried]
    kept_outputs = list(gradient.captured_outputs)
    types: list[Type] = [gradient.f.inputs[i].type for i in kept_inputs]
    types += [gradient.f.outputs[i].type for i in kept_outputs]
    empty = [builder.node("prim::ListConstruct", (), [ListType(t)]).output for t in types]
    zero = builder.constant(0)
    loop = builder.node("prim::Loop", [trips, condition, *initial, zero, *empty], blocks=1)
    (block,) = loop.blocks
    index = block.add_input(INT)
    state = [block.add_input(v.type, v.name_hint) for v in node.blocks[0].inputs[1:]]
    count = block.add_input(INT, "count")
    lists = [block.add_input(v.type) for v in empty]
    b = Builder(block, span=node.span)
    env: dict[Value, Value] = dict(zip(gradient.f.inputs, [index, *state, *outside], strict=True))
    results = copy_nodes(gradient.f.body, env, b.insert)
    values = [state[i - 1] for i in kept_inputs] + [results[i] for i in kept_outputs]
    kept = [b.op("aten::append.t", old, value) for old, value in zip(lists, values, strict=True)]
    b.returns(*results[: 1 + carried], b.op("aten::add.int", count, 1), *kept)
    outputs = [loop.add_output(v.type, v.name_hint) for v in node.outputs]
    total = loop.add_output(INT, "count")
    collected = [loop.add_output(v.type) for v in empty]
    for old, new in zip(node.outputs, outputs, strict=True):
        old.replace_uses_with(new)
    node.destroy()
    split = len(kept_inputs)
    return LoopRule(
        loop,
        gradient,
        outside,
        carried,
        total,
        dict(zip(kept_inputs, collected[:split], strict=True)),
        dict(zip(kept_outputs, collected[split:], strict=True)),
    )
