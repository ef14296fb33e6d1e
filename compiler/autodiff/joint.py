"""f and df in one graph: what `gs.grad` compiles, and what a second derivative differentiates."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.definedness import Definedness, State, post_order
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value, copy_nodes
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..pipeline import run_recipe
from ..types.types import UNDEFINED, ListType, OptionalType
from .differentiate import differentiate
from .gradient import Gradient
from .reverse import materialize
from .rules.branches import copy_backward


def gradient_graph(graph: Graph, wrt: Sequence[int], *, with_value: bool, as_tuple: bool, name: str) -> Graph:
    """A graph of the same inputs that returns the gradients of its one output, a number, for the inputs `wrt`.

    With `with_value` the output comes first; with `as_tuple` the gradients are one tuple. They have the dtypes of
    the inputs. Where no gradient comes back, it is one of zeros. ValueError for an output of ints or bools.
    """
    requires_grad = [i in wrt for i in range(len(graph.inputs))]
    gradient = differentiate(graph, requires_grad, temporaries=False)
    dtype = getattr(gradient.f.outputs[0].type, "dtype", None)
    if dtype is not None and not dtype.is_floating:
        raise ValueError(f"a gradient is taken of a floating number; '{graph.title}' returns one of {dtype}")
    joint = Graph(name, gradient.df.functions, graph.span, f"the gradient of {graph.title}")
    builder = Builder(joint, span=graph.span)
    inputs, outputs = _forward(gradient, joint, builder)
    seed = builder.op("prim::scalar_seed", outputs[0])
    found = copy_backward(builder, gradient, {0: seed}, inputs, outputs)
    gradients = [found.get(i) or builder.undefined() for i in wrt]
    builder.returns(outputs[0], *gradients)
    run_recipe(joint, "joint")
    _settle(joint, [inputs[i] for i in wrt], with_value, as_tuple)
    eliminate_dead_code(joint)
    return joint


def pullback_graph(gradient: Gradient) -> Graph:
    """A graph of the vjps of f's real outputs and of f's inputs that returns what df does, for all f's inputs.

    `gradient` is one without gradients for temporaries: they are computed here.
    """
    df = gradient.df
    joint = Graph(df.name, df.functions, df.span, df.title)
    builder = Builder(joint, span=df.span)
    vjps = [joint.body.add_input(v.type, v.name_hint) for v in df.inputs[: len(gradient.input_vjps)]]
    inputs, outputs = _forward(gradient, joint, builder)
    found = copy_backward(builder, gradient, dict(zip(gradient.input_vjps, vjps, strict=True)), inputs, outputs)
    builder.returns(*(found[i] for i in gradient.output_vjps))
    run_recipe(joint, "joint")
    eliminate_dead_code(joint)
    return joint


def _forward(gradient: Gradient, joint: Graph, builder: Builder) -> tuple[list[Value], list[Value]]:
    """f's inputs in a joint graph, and its outputs."""
    inputs = [joint.body.add_input(v.type, v.name_hint) for v in gradient.f.inputs]
    env: dict[Value, Value] = dict(zip(gradient.f.inputs, inputs, strict=True))
    return inputs, list(copy_nodes(gradient.f.body, env, builder.insert))


def _settle(joint: Graph, primals: Sequence[Value], with_value: bool, as_tuple: bool) -> None:
    """Zeros for what turned out undefined, the inputs' dtypes, and the results as asked for."""
    value, *gradients = joint.outputs
    builder = Builder(joint, span=joint.span)
    states = Definedness(joint)
    for node in post_order(joint):
        states.visit(node)
    fitted = [_fitted(builder, g, p, states[g]) for g, p in zip(gradients, primals, strict=True)]
    if as_tuple and (with_value or len(fitted) == 1):
        fitted = [builder.tuple(fitted)]
    builder.returns(*([value] if with_value else []), *fitted)


def _fitted(builder: Builder, gradient: Value, primal: Value, state: State) -> Value:
    """The gradient in the dtype of its input, as torch's engine leaves it; zeros where there is none."""
    if isinstance(primal.type, OptionalType):
        primal = builder.unwrap(primal)
    if isinstance(primal.type, ListType):
        return materialize(builder, gradient, primal)
    if gradient.type == UNDEFINED:
        return builder.op("aten::zeros_like", primal)
    if state is not State.NONZERO:
        gradient = materialize(builder, gradient, primal)
    return builder.op("aten::type_as", gradient, primal, name=gradient.name_hint)
