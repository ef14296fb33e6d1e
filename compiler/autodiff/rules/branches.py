"""The rule for prim::If: each branch is differentiated as a graph of its own.

The forward node is rebuilt on the branches' `f`, so that it also returns what their backward needs: the temporaries of
the branch taken; those of the other are uninitialized. The backward runs the `df` of the branch taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....lang.diagnostics import CompileError, Diagnostic
from ....lang.light_dataclasses import dataclass
from ....lang.trampoline import Walk
from ...analysis.captures import captures
from ...analysis.definedness import is_sure, may_be_uninitialized
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Block, Node, Value, copy_node, copy_nodes
from ...types.types import TensorType, Type, is_differentiable, is_tensor, leaf_of
from ..gradient import Gradient, residuals_of
from ..reverse import Reverse, gradient_type
from .nodes import constants_used

Differentiate = Callable[[Graph, Sequence[bool]], Walk]
"""Graph, which inputs require a gradient → Gradient."""


def body_graph(name: str, block: Block, outside: Sequence[Value], graph: Graph, *, lacks: bool) -> Graph:
    """A block as a graph: its parameters, then the values from outside that it uses, as inputs.

    An input with a dtype is one that is there, so none is told of what no round before may have made, nor of what may
    be an undefined gradient, in a graph that `lacks` some: what uses it has it under its type, which a cast tells.
    """
    _refuse_tuples(block)
    body = Graph(name, graph.functions, graph.span, graph.title)
    env: dict[Value, Value] = {}
    for value in (*block.inputs, *outside):
        type = sure_type(value) if lacks or may_be_uninitialized(value) else value.type
        env[value] = body.body.add_input(type, value.name_hint)
    builder = Builder(body, span=graph.span)
    for value, given in env.items():
        if given.type != value.type or is_unsure_tensor(value):
            env[value] = builder.cast(given, value.type)
    for value in dict.fromkeys(constants_used(block)):
        copy_node(value.node, env, body.body.append)
    body.body.ret.replace_inputs(copy_nodes(block, env, body.body.append))
    return body


def is_unsure_tensor(value: Value) -> bool:
    """Whether a tensor, or a list of some, may not be there; of a number nothing is asked but what it is."""
    return is_tensor(leaf_of(value.type)) and may_be_uninitialized(value)


def _refuse_tuples(block: Block) -> None:
    """CompileError for a tuple with tensors that a branch or a loop gives whole, where it may be None: no gradient
    would come back through it. Others have been taken apart."""
    for value in block.outputs:
        node = value.node
        if node.kind == "prim::TupleConstruct" and any(is_differentiable(item.type) for item in node.inputs):
            message = f"no gradient flows through a {value.type} that may be None"
            note = "keep one optional for each place of the tuple, or a tuple that is always there"
            raise CompileError([Diagnostic("E408", message, node.span, (note,))])


def sure_type(value: Value) -> Type:
    """A value's type; no dtype for what control flow and gradients give, since one says that the tensor is there."""
    type = value.type
    return TensorType(None, type.rank) if isinstance(type, TensorType) and not is_sure(value) else type


def copy_backward(
    builder: Builder,
    gradient: Gradient,
    vjps: dict[int, Value],
    inputs: Sequence[Value],
    outputs: Mapping[int, Value] | Sequence[Value],
) -> dict[int, Value]:
    """Copy `df`. `vjps` and `outputs` are by number of f's output; the gradients, by number of f's input."""
    arguments = [vjps[i] if i in vjps else builder.undefined() for i in gradient.input_vjps]
    arguments += residuals_of(gradient, inputs, outputs)
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
                found = self._run_side(inner, gradient, extra, by_value)
                inner.returns(*(found[i] for i in wanted))
            return [branch.add_output(gradient_type(self.outside[i])) for i in wanted]

        results = reverse.grad_of("prim::If", gradients, self.node.span, body)
        for i, result in zip(wanted, results, strict=True):
            reverse.add(self.outside[i], result)

    def _run_side(
        self, builder: Builder, gradient: Gradient, extra: list[Value], by_value: dict[Value, Value]
    ) -> dict[int, Value]:
        outputs = dict(enumerate([*self.node.outputs[: gradient.num_real_outputs], *extra]))
        vjps = {i: by_value[v] for i, v in outputs.items() if v in by_value}
        return copy_backward(builder, gradient, vjps, self.outside, outputs)


def prepare_branch(node: Node, graph: Graph, active: set[Value], differentiate: Differentiate, *, lacks: bool) -> Walk:
    """Rebuild a prim::If on its branches' forward halves: the rule, or None if no gradient can pass."""
    outside = list(dict.fromkeys(v for block in node.blocks for v in captures(block)))
    mask = [value in active for value in outside]
    if not any(mask):
        return None
    gradients: list[Gradient] = []
    for block in node.blocks:
        gradients.append((yield differentiate(body_graph("branch", block, outside, graph, lacks=lacks), mask)))
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
    builder = Builder(owner(node), before=node, span=node.span)
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


def owner(node: Node) -> Block:
    assert node.owner is not None
    return node.owner
