"""f and df in one graph: what `gs.grad` compiles, and what a second `gs.grad` differentiates."""

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
from .reverse import materialize
from .rules.branches import run_backward


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
    inputs = [joint.body.add_input(v.type, v.name_hint) for v in gradient.f.inputs]
    outputs = copy_nodes(gradient.f.body, dict(zip(gradient.f.inputs, inputs, strict=True)), builder.insert)
    seed = builder.op("prim::scalar_seed", outputs[0])
    found = run_backward(builder, gradient, {0: seed}, inputs, outputs)
    gradients = [found.get(i) or builder.undefined() for i in wrt]
    builder.returns(outputs[0], *gradients)
    run_recipe(joint, "joint")
    _settle(joint, [inputs[i] for i in wrt], with_value, as_tuple)
    eliminate_dead_code(joint)
    return joint


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
