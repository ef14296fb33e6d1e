"""Second-order formulas: a backward that carries its own backward becomes a call that carries a pair.

    backward(context, grads)  ─▶  call f.backward(grads…, inputs…, context…)

The call's pair is the inner closure's. Where that gives gradients for the inputs of f as well, they are the whole
derivative, and the context's elements get none; where it gives those of `grads` only, the rest is found by
differentiating the body.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....lang.light_dataclasses import replace
from ...ir.builder import Builder
from ...ir.graph import Callee, GradPair, Graph
from ...ir.node import Value, copy_node
from ...types.schema import Argument, FunctionSchema


def call_backward(
    builder: Builder, functions: dict[str, Callee], pair: GradPair, arguments: Sequence[Value]
) -> list[Value]:
    """Emit the call; `arguments` are gradients, then inputs of the function, then elements of its context."""
    name = _register(functions, pair)
    types = [value.type for value in pair.backward.outputs]
    return builder.node("prim::CallFunction", arguments, types, attrs={"callee": name}).outputs


def _register(functions: dict[str, Callee], pair: GradPair) -> str:
    name = f"{pair.schema.name}.backward"
    while name in functions and functions[name].pair is not None and functions[name].graph.span != pair.backward.span:
        name += "_"
    if name not in functions:
        functions[name] = _callee(name, pair)
    return name


def _callee(name: str, pair: GradPair) -> Callee:
    second = pair.second
    assert second is not None
    grads = [Argument(v.name_hint or f"grad{i}", v.type) for i, v in enumerate(pair.backward.inputs[1:])]
    inputs = [Argument(a.name, a.type) for a in pair.schema.arguments]
    context = [Argument(c.name, c.type) for c in pair.context]
    returns = tuple(Argument(f"result{i}", v.type) for i, v in enumerate(pair.backward.outputs))
    schema = FunctionSchema(name, "", _named_apart([*grads, *inputs, *context]), returns)
    body = _spread(pair.backward, schema, len(grads), name)
    is_partial = len(second.backward.outputs) == len(grads)
    forward = _spread(second.forward, schema, len(grads), name)
    backward = _padded(second.backward, len(schema.arguments))
    third = _padded_pair(second.second, len(schema.arguments), len(context))
    own = GradPair(schema, forward, backward, second.context, second.grad_outputs, third, body if is_partial else None)
    return Callee(schema, body, own)


def _named_apart(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    """The parameters, each under a name of its own: an element of the context may be an input."""
    found: dict[str, Argument] = {}
    for argument in arguments:
        name = argument.name
        while name in found:
            name += "_"
        found[name] = replace(argument, name=name)
    return tuple(found.values())


def _spread(graph: Graph, schema: FunctionSchema, num_grads: int, name: str) -> Graph:
    """A graph of (context tuple, gradients…) as one of (gradients…, inputs…, context's elements…)."""
    spread = Graph(name, graph.functions, graph.span, graph.title)
    parameters = [spread.body.add_input(a.type, a.name) for a in schema.arguments]
    packed, *grads = graph.inputs
    env: dict[Value, Value] = dict(zip(grads, parameters[:num_grads], strict=True))
    builder = Builder(spread, span=graph.span)
    for node in graph.nodes:
        if packed in node.inputs and node.kind == "prim::TupleUnpack":
            elements = parameters[len(parameters) - len(node.outputs) :]
            env |= zip(node.outputs, elements, strict=True)
        else:
            copy_node(node, env, builder.insert)
    builder.returns(*(env.get(v, v) for v in graph.outputs))
    return spread


def _padded_pair(pair: GradPair | None, count: int, context: int) -> GradPair | None:
    """The pair of a backward that is padded to `count` results.

    A closure further in that says something of the inputs around it has an input more for each element of the context.
    """
    if pair is None:
        return None
    is_whole = len(pair.backward.outputs) > len(pair.schema.arguments) - 1
    given = len(pair.backward.outputs) + context * is_whole
    forward, backward = _padded(pair.forward, count, beside=1), _padded(pair.backward, given)
    return replace(pair, forward=forward, backward=backward, second=_padded_pair(pair.second, given, context))


def _padded(graph: Graph, count: int, beside: int = 0) -> Graph:
    """The graph with None returned for the inputs that it says nothing of; the last `beside` outputs stay the last."""
    padded = graph.copy()
    builder = Builder(padded, span=graph.span)
    given = len(graph.outputs) - beside
    missing = [builder.constant(None) for _ in range(count - given)]
    builder.returns(*padded.outputs[:given], *missing, *padded.outputs[given:])
    return padded
