"""The forward half: a rule for each node through which a gradient may pass, and what its backward needs beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ...lang.diagnostics import CompileError, Diagnostic
from ...lang.trampoline import Walk
from ..analysis.captures import captures
from ..analysis.floats import Floats
from ..formulas.library import formula
from ..ir.builder import Builder
from ..ir.graph import Callee, GradPair, Graph
from ..ir.node import Node, Value, copy_nodes
from ..ir.rewrite import constant_of, replace_node
from ..ops.meta import UNKNOWN, Abstract
from ..ops.registry import OPS, Trait
from ..types.dtypes import BY_CODE
from ..types.types import NONE, is_differentiable, is_subtype
from .aggregation import Aggregation
from .draws import settle_draws
from .flatten import without_tuples_inside
from .gradient import Gradient
from .kept_rounds import Rounds
from .registered import registered
from .reverse import ReverseRule
from .rules.active_state import follow_active
from .rules.branches import prepare_branch
from .rules.loops import prepare_loop
from .rules.nodes import (
    STRUCTURAL,
    MissingRule,
    PairRule,
    PartialRule,
    StructuralRule,
    context_values,
    is_op_itself,
)

_NUMBER_OF_TENSOR = {f"aten::{name}": f"aten::{name}.constant" for name in ("FloatImplicit", "ScalarImplicit")}
"""A number made of a tensor for an argument, and the op that refuses to where a gradient is asked for."""


class Forward:
    """The forward graph, rewritten so that every context is at hand, and a rule for each active node, in order.

    `inside` differentiates what branches and loops hold. `floats` are the tensors that are of floats for sure.
    """

    def __init__(
        self,
        graph: Graph,
        active: set[Value],
        temporaries: bool,
        rounds: Rounds | None,
        known: dict[Value, Abstract],
        aggregation: Aggregation,
        lacks: bool,
        inside: Callable[..., Walk],
        floats: Floats | None = None,
    ) -> None:
        self.graph = graph
        self.aggregation = aggregation
        self.temporaries = temporaries
        self.lacks = lacks
        self._choose = rounds
        self._differentiate_graph = inside
        self._floats = floats
        self._known = known
        self._around: Node | None = None
        self.active = active
        self.functions: dict[str, Callee] = dict(graph.functions)
        graph.functions = self.functions
        self.rules: list[ReverseRule] = []
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

    def _rebuild(self, old: Value, new: Value) -> None:
        """Say that one value stands for another from now on: what is known of it holds."""
        self._rebuilt[old] = new
        if old in self._known:
            self._known[new] = self._known[old]
        if self._floats is not None:
            self._floats.join(new, old)

    def _differentiate(self, body: Graph, requires_grad: Sequence[bool]) -> Walk:
        """The gradient of a body of a branch or loop. Functions that it came to call are this graph's too."""
        gradient: Gradient = yield self._differentiate_graph(
            body,
            requires_grad,
            self.temporaries,
            self._choose,
            self._shapes_inside(),
            self.aggregation,
            lacks=self.lacks,
            floating=[self._floats is not None and value in self._floats for value in self._inputs_inside()],
            is_part=True,
        )
        self.functions.update(gradient.f.functions)
        return gradient

    def _kept(self, gradient: Gradient) -> Gradient:
        """The gradient of a loop's body with what its rounds keep chosen, where that is asked for."""
        if self._choose is None:
            return gradient
        assert self._around is not None
        gradient = self._choose.kept(gradient, self._shapes_inside(), len(self._around.inputs) - 2)
        self.functions.update(gradient.f.functions)
        return gradient

    def _shapes_inside(self) -> list[Abstract]:
        """What is known of the inputs of the body that is differentiated next, as `body_graph` makes them."""
        if self._choose is None:
            return []
        return [self._known.get(value, UNKNOWN) for value in self._inputs_inside()]

    def _inputs_inside(self) -> list[Value]:
        """What the body that is differentiated next is given, in the order in which `body_graph` takes it."""
        assert self._around is not None
        blocks = self._around.blocks
        outside = dict.fromkeys(v for block in blocks for v in captures(block))
        return [*blocks[0].inputs, *outside]

    def _visit_blocks(self, node: Node) -> Walk:
        """Give a branch or a loop its rule, which rebuilds it; the node to visit next."""
        outputs = list(node.outputs)
        self._around = node
        prepare: Callable[..., Walk] = prepare_branch
        if node.kind == "prim::Loop":
            prepare = partial(prepare_loop, keep=self._kept, results=self._results)
        rule: ReverseRule | None = yield prepare(node, self.graph, self.active, self._differentiate, lacks=self.lacks)
        if rule is None:
            return node.next
        self.rules.append(rule)
        for old, new in zip(outputs, rule.node.outputs, strict=False):
            self._rebuild(old, new)
        return rule.node.next

    def _visit(self, node: Node) -> Node | None:
        """Give an active node its rule; the node to visit next."""
        if node.kind == "prim::TupleConstruct":
            _refuse_in_list(node)
        if node.kind in _NUMBER_OF_TENSOR:
            following = node.next
            checked = Builder(self.graph, before=node, span=node.span).op(_NUMBER_OF_TENSOR[node.kind], *node.inputs)
            self._rebuild(node.output, checked)
            replace_node(node, [checked])
            return following
        outputs = self._with_gradient(node)
        if not outputs:
            return node.next
        before = node.previous
        assert before is not None
        if node.kind in STRUCTURAL:
            self.rules.append(StructuralRule(node, STRUCTURAL[node.kind]))
        elif OPS.of(node.schema) is not None:
            self._prepare_op(node)
        elif node.kind == "prim::CallFunction":
            self._prepare_call(node)
        else:
            self.rules.append(MissingRule(node))
        if node.owner is None or node in self._bodies:
            # Replaced by its definition, or preceded by a body now: go on with those.
            return before.next if node.owner is None or before.next is not node else node.next
        self.active.update(outputs)
        return node.next

    def _with_gradient(self, node: Node) -> list[Value]:
        """The outputs that may have a gradient where an operand has one."""
        outputs = [value for value in node.outputs if is_differentiable(value.type)]
        if node.kind == "prim::CallFunction" and self.functions[node.attr("callee")].pair is not None:
            results = self.functions[node.attr("callee")].graph.outputs
            # A function with a backward of its own may give ints all the same, whose gradient nobody asks for.
            outputs = [v for v, made in zip(node.outputs, results, strict=False) if v in outputs and _is_floating(made)]
        if OPS.has(node.schema, Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY) or _gives_ints(node):
            return []
        return outputs

    def _results(self, node: Node, active: set[Value]) -> Iterable[Value]:
        """The outputs that have a gradient where these values have one, as far as it is known before a visit."""
        outputs = self._with_gradient(node)
        if not outputs or node.kind in STRUCTURAL:
            return outputs
        if node.kind == "prim::CallFunction":
            return outputs if self.functions[node.attr("callee")].pair is not None else ()
        callee = _formula_of(node)
        if callee is None or callee.pair is not None:
            return outputs
        inside = {own for own, given in zip(callee.graph.inputs, node.inputs, strict=True) if given in active}
        follow_active(callee.graph.body, inside, self._results)
        return [v for v, own in zip(node.outputs, callee.graph.outputs, strict=True) if own in inside]

    def _prepare_op(self, node: Node) -> None:
        assert node.schema is not None
        own = registered(node.schema)
        callee = _formula_of(node)
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
            self._replace(node, without_tuples_inside(callee.graph.without_closure()))
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
        body = without_tuples_inside(pair.body)
        env: dict[Value, Value] = dict(zip(body.inputs, arguments, strict=True))
        return copy_nodes(body.body, env, builder.insert)

    def _context(self, node: Node, pair: GradPair) -> list[Value]:
        assert node.next is not None
        builder = Builder(self.graph, before=node.next, span=node.span)
        context = context_values(pair, node, builder)
        if not self._asks_for_floats(node):
            return context
        return [builder.constant(True) if v.node.kind == "aten::is_floating_point" else v for v in context]

    def _asks_for_floats(self, node: Node) -> bool:
        """Whether a tensor is brought to the dtype of one that is floating for sure, as formulas do."""
        if node.kind != "aten::to.dtype":
            return False
        dtype = node.inputs[1].node
        if dtype.kind == "prim::Constant":
            # `_gives_ints` has let it pass.
            return True
        return dtype.kind == "prim::dtype" and self._floats is not None and dtype.inputs[0] in self._floats

    def _replace(self, node: Node, definition: Graph) -> None:
        builder = Builder(self.graph, before=node, span=node.span)
        env: dict[Value, Value] = dict(zip(definition.inputs, node.inputs, strict=True))
        results = copy_nodes(definition.body, env, builder.insert, node.span)
        for old, new in zip(node.outputs, results, strict=True):
            if is_subtype(old.type, new.type):
                # Definitions are written for tensors of any kind.
                new.type = old.type
            old.replace_uses_with(new)
            self._rebuild(old, new)
        node.destroy()


def _formula_of(node: Node) -> Callee | None:
    """A user's formula of a node's op, or the library's."""
    if node.schema is None:
        return None
    return registered(node.schema) or formula(node.schema, [value.type for value in node.inputs])


def _is_floating(value: Value) -> bool:
    """Whether a value may be of floats, as far as its node says."""
    return is_differentiable(value.type) and not _gives_ints(value.node)


def _gives_ints(node: Node) -> bool:
    """Whether a node is asked for a dtype of ints or bools, which have no gradients."""
    if node.schema is None:
        return False
    for argument, value in zip(node.schema.arguments, node.inputs, strict=True):
        if argument.name == "dtype" and value.node.kind == "prim::Constant":
            code = constant_of(value)
            return code is not None and not BY_CODE[code].is_floating
    return False


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
