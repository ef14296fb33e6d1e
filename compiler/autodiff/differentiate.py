"""Reverse-mode differentiation of a graph: Graph → Gradient.

Forward, each node through which a gradient may pass gets a rule: a formula of the library, the pair of the user's
function that it calls, or, for branches and loops, the gradients of their bodies. What a rule's backward will need
(the formula's context) is computed beside the node. In reverse, the rules build `df`; what that uses of the
forward becomes its captures, and each captured temporary becomes a further input of gradient, until nothing new is
captured: so the pair can itself be differentiated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...lang.diagnostics import CompileError, Diagnostic
from ...lang.trampoline import Walk, run
from ..analysis.captures import captures
from ..analysis.definedness import is_sure, may_be_uninitialized
from ..formulas.library import formula
from ..ir.builder import Builder
from ..ir.graph import Callee, GradPair, Graph, backward_of
from ..ir.node import Node, Value, copy_node, copy_nodes
from ..ir.rewrite import replace_node
from ..lift import callee_of
from ..ops.meta import UNKNOWN
from ..ops.registry import OPS, Trait
from ..passes.eliminate_dead_code import eliminate_dead_code
from ..pipeline import run_recipe
from ..types.types import NONE, TensorType, is_differentiable, is_tensor
from .aggregation import Aggregation, copy_repeated
from .aggregation import aggregation as chosen_aggregation
from .control_flow import prepare_branch, sure_type
from .draws import settle_draws
from .gradient import Gradient
from .loops import prepare_loop
from .registered import registered
from .requires_grad import answer_requires_grad
from .reverse import Reverse, Rule, gradient_type
from .rounds import Abstract, Rounds
from .rules import (
    STRUCTURAL,
    MissingRule,
    PairRule,
    PartialRule,
    StructuralRule,
    context_values,
    is_op_itself,
)
from .wrapper import differentiable_graph

_OF_GRADIENTS = frozenset({"prim::GradOf", "prim::AutogradZero", "prim::no_grads"})
"""Nodes of graphs in which there are gradients that may be undefined."""


def differentiate(
    graph: Graph,
    requires_grad: Sequence[bool] | None = None,
    *,
    temporaries: bool = True,
    rounds: Rounds | None = None,
    aggregation: Aggregation | None = None,
) -> Gradient:
    """The gradient of a graph with respect to the inputs that require one (None: every input that can have one).

    With `temporaries`, `df` also takes gradients of captured temporaries, for a caller that differentiates `df` on
    its own. One that makes a single graph of f and df, and differentiates that, needs none of them. `rounds` chooses
    what loops keep of their rounds; without it, it is what their backwards use. `aggregation` says what gradients that
    meet become, in branches and rounds too; without it, it is the one that was chosen for all (`choose_aggregation`).

    A graph that returns a closure is differentiated by it. Raises CompileError (E408) where a gradient would have to
    pass through an op that has none.
    """
    if graph.returns_closure:
        graph = differentiable_graph(callee_of(graph))
    if requires_grad is None:
        requires_grad = [True] * len(graph.inputs)
    shapes = rounds.shapes if rounds is not None else ()
    chosen = aggregation if aggregation is not None else chosen_aggregation()
    walk = _differentiate(graph, requires_grad, temporaries, rounds, shapes, chosen, lacks=False)
    return run(walk)  # type: ignore[no-any-return]


def _differentiate(
    graph: Graph,
    requires_grad: Sequence[bool],
    temporaries: bool,
    rounds: Rounds | None,
    shapes: Sequence[Abstract],
    aggregation: Aggregation,
    *,
    lacks: bool,
) -> Walk:
    """`shapes` are known for `rounds` only. `lacks` says that inputs may be gradients that are undefined."""
    lacks = lacks or any(node.kind in _OF_GRADIENTS for node in graph.all_nodes())
    f = _simplified(graph)
    active = {v for v, wanted in zip(f.inputs, requires_grad, strict=True) if wanted and is_differentiable(v.type)}
    answer_requires_grad(f, dict.fromkeys(active, True))
    wanted = [i for i, value in enumerate(f.inputs) if value in active]
    forward = _Forward(
        f, active, temporaries, rounds, dict(rounds.known(f, shapes)) if rounds is not None else {}, aggregation, lacks
    )
    yield forward.prepare()
    # What contexts are made of was written for tensors of any kind.
    run_recipe(f, "types")
    backward = _Backward(forward, wanted, temporaries)
    return backward.build()


def _simplified(graph: Graph) -> Graph:
    """A copy with functions that have no pair inlined. Where a gradient may be undefined, a branch asks if it is."""
    copied = graph.copy()
    run_recipe(copied, "before_autodiff")
    return copied


class _Forward:
    """The forward graph, rewritten so that every context is at hand, and a rule for each active node, in order."""

    def __init__(
        self,
        graph: Graph,
        active: set[Value],
        temporaries: bool,
        rounds: Rounds | None,
        known: dict[Value, Abstract],
        aggregation: Aggregation,
        lacks: bool,
    ) -> None:
        self.graph = graph
        self.aggregation = aggregation
        self.temporaries = temporaries
        self.lacks = lacks
        self._choose = rounds
        self._known = known
        self._around: Node | None = None
        self.active = active
        self.functions: dict[str, Callee] = dict(graph.functions)
        graph.functions = self.functions
        self.rules: list[Rule] = []
        self.num_real_outputs = len(graph.outputs)
        self._bodies: dict[Node, list[Value]] = {}
        self._rebuilt: dict[Value, Value] = {}

    def prepare(self) -> Walk:
        node = self.graph.body.param.next
        while node is not None and node is not self.graph.body.ret:
            if node.blocks:
                node = yield self._visit_blocks(node)
            elif any(value in self.active for value in node.inputs):
                node = self._visit(node)
            else:
                node = node.next
        for rule in self.rules:
            # What computes part of a context may have been rebuilt since, or replaced by its definition.
            formula = rule.formula if isinstance(rule, PartialRule) else rule
            if isinstance(formula, PairRule):
                formula.context = [self._current(value) for value in formula.context]
            if isinstance(rule, PartialRule):
                rule.body = [self._current(value) for value in rule.body]

    def _current(self, value: Value) -> Value:
        """What stands for a value now that nodes have been rebuilt and replaced."""
        while value in self._rebuilt:
            value = self._rebuilt[value]
        return value

    def _differentiate(self, body: Graph, requires_grad: Sequence[bool]) -> Walk:
        """The gradient of a body of a branch or loop. Functions that it came to call are this graph's too."""
        shapes = self._shapes_inside()
        gradient: Gradient = yield _differentiate(
            body, requires_grad, self.temporaries, self._choose, shapes, self.aggregation, lacks=self.lacks
        )
        if self._choose is not None and self._around is not None and self._around.kind == "prim::Loop":
            gradient = self._choose.kept(gradient, shapes, len(self._around.inputs) - 2)
        self.functions.update(gradient.f.functions)
        return gradient

    def _shapes_inside(self) -> list[Abstract]:
        """What is known of the inputs of the body that is differentiated next, as `body_graph` makes them."""
        if self._choose is None or self._around is None:
            return []
        blocks = self._around.blocks
        outside = dict.fromkeys(v for block in blocks for v in captures(block))
        return [self._known.get(value, UNKNOWN) for value in (*blocks[0].inputs, *outside)]

    def _visit_blocks(self, node: Node) -> Walk:
        """Give a branch or a loop its rule, which rebuilds it; the node to visit next."""
        outputs = list(node.outputs)
        self._around = node
        prepare = {"prim::If": prepare_branch, "prim::Loop": prepare_loop}[node.kind]
        rule: Rule | None = yield prepare(node, self.graph, self.active, self._differentiate, lacks=self.lacks)
        if rule is None:
            return node.next
        self.rules.append(rule)
        self._rebuilt.update(zip(outputs, rule.node.outputs, strict=False))
        self._known.update((new, self._known[v]) for v, new in self._rebuilt.items() if v in self._known)
        return rule.node.next

    def _visit(self, node: Node) -> Node | None:
        """Give an active node its rule; the node to visit next."""
        op = OPS.of(node.schema)
        if node.kind == "prim::TupleConstruct":
            _refuse_in_list(node)
        if node.kind in _NUMBER_OF_TENSOR:
            following = node.next
            checked = Builder(self.graph, before=node, span=node.span).op(_NUMBER_OF_TENSOR[node.kind], *node.inputs)
            self._rebuilt[node.output] = checked
            replace_node(node, [checked])
            return following
        outputs = [value for value in node.outputs if is_differentiable(value.type)]
        if not outputs or (op is not None and op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY)):
            return node.next
        before = node.previous
        assert before is not None
        if op is not None:
            self._prepare_op(node)
        elif node.kind == "prim::CallFunction":
            self._prepare_call(node)
        elif node.kind in STRUCTURAL:
            self.rules.append(StructuralRule(node, STRUCTURAL[node.kind]))
        else:
            self.rules.append(MissingRule(node))
        if node.owner is None or node in self._bodies:
            # Replaced by its definition, or preceded by a body now: go on with those.
            return before.next if node.owner is None or before.next is not node else node.next
        self.active.update(outputs)
        return node.next

    def _prepare_op(self, node: Node) -> None:
        assert node.schema is not None
        own = registered(node.schema)
        callee = own or formula(node.schema, [value.type for value in node.inputs])
        if callee is None:
            self.rules.append(MissingRule(node))
        elif callee.pair is None:
            self._replace(node, callee.graph)
        else:
            # A user's formula goes by its own name: its gradients are made to fit, as those of any pair of a user's.
            name = node.kind if own is None else own.schema.name
            if not is_op_itself(callee.pair, node):
                # A call of the formula's forward; it is inlined once nothing more is to be differentiated.
                self.functions[name] = callee
                node.kind, node.schema, node.attrs = "prim::CallFunction", None, {"callee": name}
            self.rules.append(PairRule(node, name, callee.pair, self._context(node, callee.pair)))

    def _prepare_call(self, node: Node) -> None:
        callee = self.functions[node.attr("callee")]
        if callee.pair is None:
            # A context is computed by copies of what the function does, its calls of helpers too.
            self._replace(node, callee.graph.without_closure())
            return
        name = settle_draws(node, self.functions)
        pair = self.functions[name].pair
        assert pair is not None
        if pair.body is None:
            self.rules.append(PairRule(node, name, pair, self._context(node, pair)))
        elif node not in self._bodies:
            self._bodies[node] = self._insert_body(node, pair)
        else:
            results = self._bodies.pop(node)
            rule = PairRule(node, name, pair, self._context(node, pair))
            self.rules.append(PartialRule(node, rule, results))

    def _insert_body(self, node: Node, pair: GradPair) -> list[Value]:
        """Compute the body of a partial pair in front of the node, on detached gradients."""
        assert pair.body is not None
        builder = Builder(self.graph, before=node, span=node.span)
        arguments = list(node.inputs)
        for i, value in enumerate(pair.backward.outputs):
            if value.type != NONE:
                arguments[i] = builder.op("aten::detach", arguments[i])
        env: dict[Value, Value] = dict(zip(pair.body.inputs, arguments, strict=True))
        return copy_nodes(pair.body.body, env, builder.insert)

    def _context(self, node: Node, pair: GradPair) -> list[Value]:
        assert node.next is not None
        return context_values(pair, node, Builder(self.graph, before=node.next, span=node.span))

    def _replace(self, node: Node, definition: Graph) -> None:
        builder = Builder(self.graph, before=node, span=node.span)
        env: dict[Value, Value] = dict(zip(definition.inputs, node.inputs, strict=True))
        results = copy_nodes(definition.body, env, builder.insert, node.span)
        for old, new in zip(node.outputs, results, strict=True):
            old.replace_uses_with(new)
            self._rebuilt[old] = new
        node.destroy()


class _Backward:
    """Builds `df` against the forward's values, then cuts the two apart."""

    def __init__(self, forward: _Forward, wanted: Sequence[int], temporaries: bool) -> None:
        self.forward = forward
        self.temporaries = temporaries
        self.wanted = wanted
        # A value that is returned twice takes two gradients, one per output.
        self.seeded = [i for i, v in enumerate(forward.graph.outputs) if v in forward.active]
        self.seeds = [forward.graph.outputs[i] for i in self.seeded]

    def build(self) -> Gradient:
        """Build until no further temporary is captured: each captured one takes a gradient itself."""
        while True:
            df = self._reverse()
            captured = self._captured(df)
            more = [v for v in captured if v in self.forward.active and v not in self.seeds and not self._is_input(v)]
            if not more or not self.temporaries:
                return self._cut(df, captured)
            self.seeds += more
            for node in reversed(list(df.nodes)):
                df.body.ret.replace_inputs(())
                node.destroy()

    def _reverse(self) -> Graph:
        f = self.forward.graph
        df = Graph(f"{f.name}_gradient", self.forward.functions, f.span, backward_of(f.title))
        builder = Builder(df, span=f.span)
        reverse = Reverse(
            df, builder, self.forward.active, self.forward.functions, aggregation=self.forward.aggregation
        )
        reverse.is_certain = len(self.seeds) == len(self.seeded)
        for value in self.seeds:
            name = f"grad_{value.name_hint}" if value.name_hint else ""
            reverse.add(value, df.body.add_input(gradient_type(value), name))
        reverse.run(self.forward.rules)
        reverse.builder.current_span = f.span
        reverse.settle(f.inputs)
        results = [reverse.gradient_or_zero(f.inputs[i]) for i in self.wanted]
        reverse.builder.returns(*results)
        if self.forward.aggregation.copy is not None:
            copy_repeated(df, self.forward.aggregation.copy)
        run_recipe(df, "after_autodiff", is_part=True)
        self._hoist_sizes(df)
        return df

    def _is_input(self, value: Value) -> bool:
        return value.node is self.forward.graph.body.param

    def _captured(self, df: Graph) -> list[Value]:
        """Values of the forward that df uses, constants left out: inputs first, each group in forward order."""
        used = {v for v in _used(df) if v.node.owner is self.forward.graph.body and v.node.kind != "prim::Constant"}
        graph = self.forward.graph
        ordered = [v for v in graph.inputs if v in used]
        ordered += [v for node in graph.nodes for v in node.outputs if v in used]
        return ordered

    def _hoist_sizes(self, df: Graph) -> None:
        """Take sizes of tensors that nothing else captures in the forward, so that the tensors are not kept."""
        f = self.forward.graph
        shape_nodes = [n for n in df.all_nodes() if _is_shape_query(n) and self._is_forward(n.inputs[0])]
        shape_nodes = [n for n in shape_nodes if not may_be_uninitialized(n.inputs[0])]
        if self.forward.lacks:
            # What is asked for where a gradient is there is not to be asked of one that is not.
            shape_nodes = [n for n in shape_nodes if n.kind == "prim::grad_defined" or is_sure(n.inputs[0])]
        asked = set(shape_nodes)
        kept = {v for v, user in _uses(df) if user not in asked}
        known: dict[tuple[object, ...], list[Value]] = {}
        for node in shape_nodes:
            if node.inputs[0] in kept or not all(v.node.kind == "prim::Constant" for v in node.inputs[1:]):
                continue
            constants = tuple(repr(v.node.attrs["value"]) for v in node.inputs[1:])
            key = (node.kind, node.inputs[0], constants)
            if key not in known:
                # Right behind the tensor, which need not live to the end for this.
                builder = Builder(f, before=node.inputs[0].node.next, span=f.span)
                env: dict[Value, Value] = {}
                for value in node.inputs[1:]:
                    copy_node(value.node, env, builder.insert)
                known[key] = copy_node(node, env, builder.insert).outputs
            for old, new in zip(node.outputs, known[key], strict=True):
                _keep_rank(node.inputs[0], old)
                old.replace_uses_with(new)
            node.destroy()

    def _is_forward(self, value: Value) -> bool:
        return value.node.owner is self.forward.graph.body or value.node.kind == "prim::Constant"

    def _cut(self, df: Graph, captured: Sequence[Value]) -> Gradient:
        f = self.forward.graph
        inputs = [v for v in captured if self._is_input(v)]
        temporaries = [v for v in captured if not self._is_input(v)]
        tensors = [v for v in temporaries if v in self.forward.active]
        temporaries = [*tensors, *(v for v in temporaries if v not in self.forward.active)]
        outputs = {v: i for i, v in reversed(list(enumerate(f.outputs)))}
        for value in (*self.seeds, *temporaries):
            if value not in outputs:
                outputs[value] = len(f.outputs)
                f.body.ret.add_input(value)
        self._replace_captures(df, [*inputs, *temporaries])
        eliminate_dead_code(f)
        position = {v: i for i, v in enumerate(f.inputs)}
        real = f.outputs[: self.forward.num_real_outputs]
        return Gradient(
            f,
            df,
            self.forward.num_real_outputs,
            (*self.seeded, *(outputs[v] for v in self.seeds[len(self.seeded) :])),
            tuple(self.wanted),
            tuple(position[v] for v in inputs),
            tuple(outputs[v] for v in temporaries),
            tuple(v in self.forward.active for v in real),
        )

    def _replace_captures(self, df: Graph, captured: Sequence[Value]) -> None:
        """Make the captures inputs of df, and repeat the constants that it uses."""
        env = {v: df.body.add_input(sure_type(v), v.name_hint) for v in captured}
        first = df.body.param.next
        assert first is not None
        builder = Builder(df, before=first)
        for value, _ in _uses(df):
            if value not in env and value.node.owner is self.forward.graph.body:
                copy_node(value.node, env, builder.insert)
        for node in _users(df):
            for i, value in enumerate(node.inputs):
                if value in env:
                    node.set_input(i, env[value])


_NUMBER_OF_TENSOR = {f"aten::{name}": f"aten::{name}.constant" for name in ("FloatImplicit", "ScalarImplicit")}
"""A number made of a tensor for an argument, and the op that refuses to where a gradient is asked for."""


_SIZED = ("aten::sum_to_size", "aten::_grad_sum_to_size", "aten::expand", "aten::new_zeros")
"""Ops that bring a tensor to a size."""


def _refuse_in_list(node: Node) -> None:
    """CompileError for a tuple with tensors that is put into a list, through which no gradient would come back.

    It may be put there in tuples, which hold it.
    """
    if any(is_differentiable(value.type) for value in node.inputs):
        holders = [node]
        for holder in holders:
            for use in holder.output.uses:
                if use.user.kind == "prim::TupleConstruct":
                    holders.append(use.user)
                elif use.user.kind == "prim::ListConstruct" or use.user.schema is not None:
                    message = f"no gradient flows through a list of {holder.output.type}"
                    note = "keep one list for each place of the tuples"
                    raise CompileError([Diagnostic("E408", message, node.span, (note,))])


def _users(graph: Graph) -> list[Node]:
    """Every node of a graph, the Return nodes of all blocks included."""
    nodes = list(graph.all_nodes())
    return [*nodes, *(b.ret for n in nodes for b in n.blocks), graph.body.ret]


def _uses(graph: Graph) -> Iterable[tuple[Value, Node]]:
    return [(value, node) for node in _users(graph) for value in node.inputs]


def _used(graph: Graph) -> set[Value]:
    return {value for value, _ in _uses(graph)}


def _keep_rank(tensor: Value, size: Value) -> None:
    """Write the rank of a tensor into the types of gradients that are brought to its size."""
    rank = tensor.type.rank if isinstance(tensor.type, TensorType) else None
    for use in size.uses if rank is not None else ():
        for value in use.user.outputs if use.user.kind in _SIZED and use.index == 1 else ():
            if isinstance(value.type, TensorType) and value.type.rank is None:
                value.type = TensorType(value.type.dtype, rank, value.type.requires_grad)


def _is_shape_query(node: Node) -> bool:
    op = OPS.of(node.schema)
    is_query = op is not None and op.has(Trait.SHAPE_ONLY) and bool(node.inputs)
    return is_query and not any(is_tensor(value.type) for value in node.outputs)
