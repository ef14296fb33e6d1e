"""Rules for prim::Loop: the body is differentiated as a graph of its own, and its rounds run in reverse.

Forward, the loop also gathers what the backward of a round needs, in one list per value with an element for each round.
A loop with the attribute `segment` gathers its state instead, once in so many rounds; its backward runs the rounds of a
segment again, last segment first, and gathers their lists then: n rounds in segments of s hold n / s states, and the
values of s rounds. Rounds and sums are the same ones in the same order either way, and so are the gradients to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....lang.light_dataclasses import dataclass, field
from ....lang.trampoline import Walk
from ...analysis.captures import captures
from ...analysis.definedness import is_sure, may_be_uninitialized
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import entering
from ...ir.node import Block, Node, Value, copy_node, copy_nodes, walk
from ...ir.structure import SEGMENT, STAGE
from ...ops.registry import OPS, Trait
from ...types.types import INT, UNDEFINED, ListType, Type, is_differentiable, is_tensor, unify
from ..gradient import Gradient
from ..reverse import Reverse, gradient_type
from .active_state import GradientResults, active_state
from .branches import Differentiate, body_graph, copy_backward, owner
from .retold import holds_numbers, retold


@dataclass(slots=True)
class Round:
    """The gradient of one round: what it takes and gives, by number.

    Inputs of `gradient.f` are the index, the state (`carried` values), the values from `outside`; its outputs are the
    condition, the new state, and temporaries. `kept_inputs` and `kept_outputs` are those of them that `df` takes and
    that differ from round to round; `fixed` are those outputs that do not, computed in front of the loop, and `retold`
    those that nodes of the round, `retelling`, tell its backward again, from `sizes` computed there too.
    """

    gradient: Gradient
    outside: list[Value]
    carried: int
    fixed: dict[int, Value] = field(default_factory=dict)
    retold: set[int] = field(default_factory=set)
    retelling: list[Node] = field(default_factory=list)
    sizes: dict[Value, Value] = field(default_factory=dict)

    @property
    def kept_inputs(self) -> list[int]:
        return [i for i in self.gradient.captured_inputs if 0 < i <= self.carried]

    @property
    def kept_outputs(self) -> list[int]:
        return [i for i in self.gradient.captured_outputs if i not in self.fixed and i not in self.retold]

    @property
    def state(self) -> list[int]:
        """The carried values that have a gradient."""
        return [k for k in range(self.carried) if 1 + k in self.gradient.output_vjps]

    @property
    def through(self) -> list[int]:
        """The values from outside that have a gradient."""
        return [o for o in range(len(self.outside)) if self.outside_input(o) in self.gradient.output_vjps]

    def outside_input(self, o: int) -> int:
        return 1 + self.carried + o

    def kept_types(self, block: Block) -> list[Type]:
        """Of what is kept of each round. The body, `block`, may say less of what it is given than is known here."""
        f = self.gradient.f
        given = [(f.inputs[i].type, block.inputs[i].type) for i in self.kept_inputs]
        return [unify(*both) or both[0] for both in given] + [f.outputs[i].type for i in self.kept_outputs]

    def gradient_types(self) -> list[Type]:
        """Of the gradients of the state, then of the values from outside."""
        f = self.gradient.f
        numbers = [*(1 + k for k in self.state), *(self.outside_input(o) for o in self.through)]
        return [gradient_type(f.inputs[i]) for i in numbers]

    def fix(self, builder: Builder, *, lacks: bool) -> None:
        """Compute in front of the loop what of the shapes of values from outside the backward needs.

        In a graph that `lacks` some gradients, of values that are sure to be there.
        """
        f = self.gradient.f
        given = zip(f.inputs[1 + self.carried :], self.outside, strict=True)
        env: dict[Value, Value] = {inner: outer for inner, outer in given if not may_be_uninitialized(outer)}
        for i in self.gradient.captured_outputs:
            node = f.outputs[i].node
            if i > self.carried and _is_of_shape(node) and env.get(node.inputs[0]) is not None:
                if lacks and not is_sure(node.inputs[0]):
                    continue
                self.fixed[i] = copy_node(node, dict(env), builder.insert).output
        numbers = [inner for inner in env if holds_numbers(inner.type)]
        sizes = {n.output: n for n in f.body.nodes if _is_of_shape(n) and env.get(n.inputs[0]) is not None}
        sure = [size for size, n in sizes.items() if not lacks or is_sure(n.inputs[0])]
        wanted = {i: f.outputs[i] for i in self.kept_outputs}
        self.retelling, self.retold = retold(f.body, [f.inputs[0], *numbers, *sure], wanted)
        for size in dict.fromkeys(v for node in self.retelling for v in node.inputs if v in sizes):
            self.sizes[size] = copy_node(sizes[size], dict(env), builder.insert).output

    def retell(self, builder: Builder, index: Value) -> dict[int, Value]:
        """The numbers of a round that are not kept."""
        f = self.gradient.f
        env = {**self.sizes, f.inputs[0]: index, **dict(zip(f.inputs[1 + self.carried :], self.outside, strict=True))}
        for node in self.retelling:
            copy_node(node, env, builder.insert)
        return {i: env[f.outputs[i]] for i in sorted(self.retold)}

    def run(self, builder: Builder, index: Value, state: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Copy a round's f: its outputs, and the values to keep of it."""
        env: dict[Value, Value] = dict(zip(self.gradient.f.inputs, [index, *state, *self.outside], strict=True))
        results = copy_nodes(self.gradient.f.body, env, builder.insert)
        return results, [state[i - 1] for i in self.kept_inputs] + [results[i] for i in self.kept_outputs]


@dataclass(slots=True)
class KeptOfRounds:
    """The lists of what was kept of rounds, and the gradients of those lists, where somebody asks for them."""

    inputs: dict[int, Value] = field(default_factory=dict)
    outputs: dict[int, Value] = field(default_factory=dict)
    gradients: dict[Value, Value] = field(default_factory=dict)


def new_lists(builder: Builder, types: Sequence[Type]) -> list[Value]:
    return [builder.node("prim::ListConstruct", (), [ListType(type)]).output for type in types]


def reverse_rounds(
    builder: Builder,
    round: Round,
    count: Value,
    first: Value | None,
    start: Sequence[Value],
    kept: KeptOfRounds,
    node: Node,
) -> list[Value]:
    """A loop over `count` rounds in reverse: the gradients of the state, then of the values from outside.

    `start` are those so far, undefined ones among them. The lists begin with the round of number `first` (None: 0).
    """
    loop = builder.node("prim::Loop", [count, builder.constant(True), *start], blocks=1)
    (block,) = loop.blocks
    step = block.add_input(INT)
    types = round.gradient_types()
    current = [block.add_input(type) for type in types]
    b = Builder(block, span=node.span)
    place = b.op("aten::sub.int", b.op("aten::sub.int", count, 1), step)
    index = place if first is None else b.op("aten::add.int", first, place)
    b.returns(b.constant(True), *_reverse_round(b, round, index, place, current, kept))
    return [loop.add_output(type) for type in types]


def _reverse_round(
    b: Builder, round: Round, index: Value, place: Value, current: Sequence[Value], kept: KeptOfRounds
) -> list[Value]:
    """The gradients after one round, given those before it. The round's values are at `place` in the lists."""
    inputs: list[Value] = [index] * (1 + round.carried) + round.outside
    for i, values in kept.inputs.items():
        inputs[i] = b.op("aten::__getitem__.t", values, place)
    outputs = {i: b.op("aten::__getitem__.t", values, place) for i, values in kept.outputs.items()}
    outputs.update(round.fixed)
    outputs.update(round.retell(b, index))
    state, through = round.state, round.through
    vjps = {1 + k: g for k, g in zip(state, current, strict=False)}
    for i, values in kept.outputs.items():
        if values in kept.gradients:
            # A value that is kept may be one that the next round starts from: its gradients meet.
            more = b.op("prim::grad_item", kept.gradients[values], place)
            vjps[i] = _sum(b, vjps[i], more) if i in vjps else more
    found = copy_backward(b, round.gradient, vjps, inputs, outputs)
    results: list[Value] = []
    for k in state:
        gradient = found[1 + k]
        asked = kept.gradients.get(kept.inputs[1 + k]) if 1 + k in kept.inputs else None
        results.append(gradient if asked is None else _sum(b, gradient, b.op("prim::grad_item", asked, place)))
    for o, total in zip(through, current[len(state) :], strict=True):
        results.append(_sum(b, total, found[round.outside_input(o)]))
    return results


def _sum(builder: Builder, left: Value, right: Value) -> Value:
    defined = [value for value in (left, right) if value.type != UNDEFINED]
    if len(defined) < 2:
        return defined[0] if defined else left
    return builder.node("prim::AutogradAdd", defined, [left.type]).output


@dataclass(slots=True)
class LoopRule:
    """`kept` are the lists of the rebuilt loop: by round, or, where `segment` is given, the states at its segments."""

    node: Node
    round: Round
    count: Value
    kept: KeptOfRounds
    states: list[Value]
    segment: int | None

    @property
    def lists(self) -> list[Value]:
        return [*self.kept.inputs.values(), *self.kept.outputs.values(), *self.states]

    def emit(self, reverse: Reverse) -> None:
        outputs, round = self.node.outputs, self.round
        lists = [v for v in self.lists if v in reverse.gradients]
        gradients = [reverse.gradient_or_zero(outputs[k]) for k in round.state]
        gradients += [reverse.gradients[v] for v in lists]

        def body(builder: Builder) -> list[Value]:
            start = [*gradients[: len(round.state)], *(builder.undefined() for _ in round.through)]
            kept = KeptOfRounds(self.kept.inputs, self.kept.outputs, {v: reverse.gradients[v] for v in lists})
            if self.segment is None:
                return reverse_rounds(builder, round, self.count, None, start, kept, self.node)
            return self._reverse_segments(builder, self.segment, start, kept.gradients)

        results = reverse.grad_of("prim::Loop", gradients, self.node.span, body)
        targets = [self.node.inputs[2 + k] for k in round.state] + [round.outside[o] for o in round.through]
        for value, result in zip(targets, results, strict=True):
            reverse.add(value, result)

    def _reverse_segments(
        self, builder: Builder, length: int, start: Sequence[Value], asked: dict[Value, Value]
    ) -> list[Value]:
        """A loop over the segments, last one first: each runs its rounds again, then their backwards."""
        total = builder.op("aten::floordiv.int", builder.op("aten::add.int", self.count, length - 1), length)
        loop = builder.node("prim::Loop", [total, builder.constant(True), *start], blocks=1)
        (block,) = loop.blocks
        step = block.add_input(INT)
        types = self.round.gradient_types()
        current = [block.add_input(type) for type in types]
        b = Builder(block, span=self.node.span)
        place = b.op("aten::sub.int", b.op("aten::sub.int", total, 1), step)
        first = b.op("aten::mul.int", place, length)
        count = b.op("prim::min.int", b.op("aten::sub.int", self.count, first), length)
        state = [b.op("aten::__getitem__.t", values, place) for values in self.states]
        kept = self._run_again(b, count, first, state)
        results = reverse_rounds(b, self.round, count, first, current, kept, self.node)
        for n, k in enumerate(self.round.state):
            if self.states[k] in asked:
                results[n] = _sum(b, results[n], b.op("prim::grad_item", asked[self.states[k]], place))
        b.returns(b.constant(True), *results)
        return [loop.add_output(type) for type in types]

    def _run_again(self, builder: Builder, count: Value, first: Value, state: Sequence[Value]) -> KeptOfRounds:
        """The rounds of a segment, and the lists of what their backwards need."""
        round = self.round
        empty = new_lists(builder, round.kept_types(self.node.blocks[0]))
        loop = builder.node("prim::Loop", [count, builder.constant(True), *state, *empty], blocks=1)
        (block,) = loop.blocks
        step = block.add_input(INT)
        given = [block.add_input(v.type, v.name_hint) for v in self.node.blocks[0].inputs[1 : 1 + round.carried]]
        lists = [block.add_input(v.type) for v in empty]
        b = Builder(block, span=self.node.span)
        results, values = round.run(b, b.op("aten::add.int", first, step), given)
        kept = [b.op("aten::append.t", old, value) for old, value in zip(lists, values, strict=True)]
        b.returns(b.constant(True), *results[1 : 1 + round.carried], *kept)
        for value in (*state, *empty):
            loop.add_output(value.type)
        _mark_mirrored(loop)
        return _kept(round, loop.outputs[round.carried :])


def _mark_mirrored(loop: Node) -> None:
    for node in walk([loop]):
        if node.schema is not None or node.blocks:
            node.attrs[STAGE] = "mirror"
        for value in node.outputs:
            value.name_hint = f"{value.name_hint}_mirror" if value.name_hint else ""


def _is_of_shape(node: Node) -> bool:
    """Whether a node asks for no more than a size or a dtype of a tensor, or for a list's length, which never fails
    where there is one."""
    if node.kind == "aten::len.t":
        return True
    shape_only = OPS.has(node.schema, Trait.SHAPE_ONLY) and len(node.inputs) == len(node.outputs) == 1
    return shape_only and is_tensor(node.inputs[0].type) and not is_tensor(node.output.type)


def _kept(round: Round, lists: Sequence[Value]) -> KeptOfRounds:
    split = len(round.kept_inputs)
    inputs = dict(zip(round.kept_inputs, lists[:split], strict=True))
    return KeptOfRounds(inputs, dict(zip(round.kept_outputs, lists[split:], strict=True)))


def prepare_loop(
    node: Node,
    graph: Graph,
    active: set[Value],
    differentiate: Differentiate,
    *,
    keep: Callable[[Gradient], Gradient],
    results: GradientResults,
    lacks: bool,
) -> Walk:
    """Rebuild a prim::Loop on its body's forward half: the rule, or None if no gradient can pass.

    `keep` chooses what rounds keep, once it is known which parts of the state have gradients. `results` tells what of a
    node has one.
    """
    (block,) = node.blocks
    outside = captures(block)
    initial = entering(node)
    initially_active = [value in active for value in initial]
    outside_active = [value in active for value in outside]
    if not any(initially_active) and not any(outside_active):
        return None
    expected = carried_active = active_state(node, active, results)
    while True:
        mask = [False, *carried_active, *outside_active]
        gradient: Gradient = yield differentiate(body_graph("round", block, outside, graph, lacks=lacks), mask)
        before = initially_active if carried_active is expected else carried_active
        reached = [a or b for a, b in zip(before, gradient.active_outputs[1:], strict=True)]
        if reached == carried_active:
            break
        # Where less is reached than was expected, the rounds tell, one after the other.
        too_much = carried_active is expected and any(a and not b for a, b in zip(expected, reached, strict=True))
        carried_active = initially_active if too_much else reached
    if not any(carried_active):
        return None
    rule = _rebuild_loop(node, Round(keep(gradient), outside, len(initial)), lacks=lacks)
    for is_active, value in zip(carried_active, rule.node.outputs, strict=False):
        if is_active:
            active.add(value)
    active.update(v for v in rule.lists if is_differentiable(v.type))
    return rule


def _rebuild_loop(node: Node, round: Round, *, lacks: bool) -> LoopRule:
    length: int | None = node.attrs.get(SEGMENT)
    builder = Builder(owner(node), before=node, span=node.span)
    round.fix(builder, lacks=lacks)
    if length is None:
        loop, collected, total = _gathering_rounds(builder, node, round)
    else:
        loop, collected = _gathering_states(builder, node, round, length)
        total = loop.outputs[round.carried]
    for old, new in zip(node.outputs, loop.outputs, strict=False):
        new.name_hint = old.name_hint
        old.replace_uses_with(new)
    node.destroy()
    if length is None:
        return LoopRule(loop, round, total, _kept(round, collected), [], None)
    return LoopRule(loop, round, total, KeptOfRounds(), collected, length)


def _gathering_rounds(builder: Builder, node: Node, round: Round) -> tuple[Node, list[Value], Value]:
    """The loop with one more list per value to keep; those lists, and the count of its rounds."""
    trips, condition, *initial = node.inputs
    # Where nothing but the trip count ends the loop, it need not count.
    is_counted = _is_true(condition) and _is_true(round.gradient.f.outputs[0])
    counts = [] if is_counted else [builder.constant(0)]
    empty = new_lists(builder, round.kept_types(node.blocks[0]))
    loop = builder.node("prim::Loop", [trips, condition, *initial, *counts, *empty], blocks=1)
    index, state = _parameters(loop, node)
    loop.blocks[0].param.span = node.blocks[0].param.span
    count, lists = _more_parameters(loop, counts, "count"), _more_parameters(loop, empty)
    b = Builder(loop.blocks[0], span=node.span)
    results, values = round.run(b, index, state)
    more = [b.op("aten::add.int", so_far, 1) for so_far in count]
    kept = [b.op("aten::append.t", old, value) for old, value in zip(lists, values, strict=True)]
    b.returns(*results[: 1 + round.carried], *more, *kept)
    collected = _add_outputs(loop)[round.carried :]
    total = builder.op("prim::max.int", 0, trips) if is_counted else collected.pop(0)
    return loop, collected, total


def _gathering_states(builder: Builder, node: Node, round: Round, length: int) -> tuple[Node, list[Value]]:
    """A loop of loops: the outer one keeps the state at the start of each segment, the inner one runs its rounds."""
    trips, condition, *initial = node.inputs
    zero_rounds = builder.constant(0)
    empty = new_lists(builder, [v.type for v in node.blocks[0].inputs[1:]])
    total = builder.op("aten::floordiv.int", builder.op("aten::add.int", trips, length - 1), length)
    loop = builder.node("prim::Loop", [total, condition, *initial, zero_rounds, *empty], blocks=1)
    segment, state = _parameters(loop, node)
    (count,), lists = _more_parameters(loop, [zero_rounds], "count"), _more_parameters(loop, empty)
    b = Builder(loop.blocks[0], span=node.span)
    kept = [b.op("aten::append.t", old, value) for old, value in zip(lists, state, strict=True)]
    first = b.op("aten::mul.int", segment, length)
    rounds = b.op("prim::min.int", b.op("aten::sub.int", trips, first), length)
    going = b.constant(True)
    inner = b.node("prim::Loop", [rounds, going, *state, count, going], blocks=1)
    step, now = _parameters(inner, node)
    (so_far,), _ = _more_parameters(inner, [count], "count"), _more_parameters(inner, [going])
    inside = Builder(inner.blocks[0], span=node.span)
    results, _ = round.run(inside, inside.op("aten::add.int", first, step), now)
    inside.returns(*results[: 1 + round.carried], inside.op("aten::add.int", so_far, 1), results[0])
    *after, still = _add_outputs(inner)
    b.returns(b.constant(True) if _is_true(results[0]) else still, *after, *kept)
    return loop, _add_outputs(loop)[1 + round.carried :]


def _parameters(loop: Node, node: Node) -> tuple[Value, list[Value]]:
    """New parameters for a loop's body: the index, and the state of `node`'s."""
    (block,) = loop.blocks
    index = block.add_input(INT)
    return index, [block.add_input(v.type, v.name_hint) for v in node.blocks[0].inputs[1:]]


def _more_parameters(loop: Node, like: Sequence[Value], name: str = "") -> list[Value]:
    return [loop.blocks[0].add_input(value.type, name) for value in like]


def _add_outputs(loop: Node) -> list[Value]:
    return [loop.add_output(value.type, value.name_hint) for value in loop.blocks[0].inputs[1:]]


def _is_true(value: Value) -> bool:
    return value.node.kind == "prim::Constant" and value.node.attr("value") is True
