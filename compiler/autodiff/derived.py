"""The derivative of a function that has none of its own, as what a closure would have been lifted to.

    def f(x):                 def f(x):                     def backward(context, grad_output):
        y = torch.sin(x)  ─▶      y = torch.sin(x)              x, = context
        return y                  return y, (x,)                return grad_output * torch.cos(x)

Branches and loops are of either half what they are of a function: the context holds which way each went, and lists of
what each round kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...lang.diagnostics import CompileError
from ..analysis.definedness import type_when_there
from ..formulas.library import formula
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.node import Value, copy_nodes
from ..ir.rewrite import replace_node
from ..pipeline import run_recipe
from ..types.schema import Argument, FunctionSchema
from ..types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    TENSOR,
    UNDEFINED,
    ListType,
    TupleType,
    Type,
    is_differentiable,
    is_tensor,
)
from .differentiate import differentiate
from .flatten import flatten_signature, taken_apart
from .gradient import Gradient, residuals_of

_FILLED = "filled_"
"""What stands before the name of an op in that of its formula for lists of gradients that are all there."""


class NoGradient(ValueError):
    """A function has no derivative; the reason is the text."""


def derived_halves(callee: Callee) -> tuple[Callee, Callee]:
    """Forward and backward of a function without a pair, as two plain functions. NoGradient where there is none.

    Tuples are no obstacle: the backward takes a gradient for each tensor in them, and gives tuples of gradients.
    """
    schema = callee.schema
    try:
        graph = _filled(flatten_signature(callee.graph))
        gradient = differentiate(graph, temporaries=False, results_are_asked=True)
    except CompileError as error:
        raise NoGradient(f"'{schema.name}' has no gradient: {error.message}") from error
    if not gradient.output_vjps or not gradient.input_vjps:
        raise NoGradient(f"'{schema.name}' has no gradient: no tensor that it takes reaches what it returns")
    forward = _forward(gradient, callee.graph)
    backward = _backward(gradient, [value.type for value in callee.graph.inputs])
    taken = tuple(Argument(value.name_hint, value.type) for value in backward.inputs)
    return (
        Callee(FunctionSchema(schema.name, "", schema.arguments, _results(forward)), forward),
        Callee(FunctionSchema(backward.name, "", taken, _results(backward)), backward),
    )


def _filled(source: Graph) -> Graph:
    """A copy that calls the formulas for lists of gradients that are all there, where an op has such a one."""
    graph = source.copy()
    graph.functions = dict(graph.functions)
    for node in list(graph.all_nodes()):
        found = formula(node.schema, [v.type for v in node.inputs], _FILLED) if node.schema is not None else None
        if found is not None:
            graph.functions[node.kind] = found
            node.attrs = {"callee": node.kind}
            node.kind, node.schema = "prim::CallFunction", None
    return graph


def _results(graph: Graph) -> tuple[Argument, ...]:
    return tuple(Argument(f"result{i}", value.type) for i, value in enumerate(graph.outputs))


def _forward(gradient: Gradient, source: Graph) -> Graph:
    """f as it takes and gives tuples, and behind what it gives a tuple of what its backward takes."""
    f = gradient.f
    graph = Graph(source.name, f.functions, source.span)
    builder = Builder(graph, span=source.span)
    given = [graph.body.add_input(value.type, value.name_hint) for value in source.inputs]
    flat = [leaf for value in given for leaf in taken_apart(builder, value)]
    results = copy_nodes(f.body, dict(zip(f.inputs, flat, strict=True)), builder.insert)
    outputs = iter(results[: gradient.num_real_outputs])
    kept = residuals_of(gradient, flat, results)
    builder.returns(*(_rebuilt(builder, outputs, value.type) for value in source.outputs), builder.tuple(kept))
    for node in [node for node in graph.all_nodes() if node.kind == "prim::Uninitialized"]:
        assert node.owner is not None
        replace_node(node, [_anything(Builder(node.owner, node), node.output.type)])
    return graph


def _anything(builder: Builder, type: Type) -> Value:
    """A value of a type, for what no path reads: a caller hands a context on, and each of its elements has its type.

    Types are shallow, so this recurses.
    """
    if isinstance(type, TupleType):
        return builder.tuple([_anything(builder, element) for element in type.elements])
    if isinstance(type, ListType):
        return builder.list([], type.element)
    if is_tensor(type) or type == UNDEFINED:
        made = builder.op("aten::zeros", builder.list([], INT))
        made.type = type
        return made
    return builder.constant(_NUMBERS.get(type))


_NUMBERS: dict[Type, Any] = {INT: 0, FLOAT: 0.0, NUMBER: 0, BOOL: False, STR: "", DEVICE: "cpu"}


def _backward(gradient: Gradient, types: Sequence[Type]) -> Graph:
    """df on that tuple: one gradient for each parameter of f, None where there is none."""
    count = len(gradient.input_vjps)
    df = _with_gradients(gradient.df, count)
    vjps, captured = df.inputs[:count], df.inputs[count:]
    graph = Graph("backward", df.functions, df.span)
    builder = Builder(graph, span=df.span)
    context = graph.body.add_input(TupleType(tuple(value.type for value in captured)), "context")
    # One for each result that may have a gradient, also for one that no argument reaches.
    results_of_f = gradient.f.outputs[: gradient.num_real_outputs]
    given = [i for i, value in enumerate(results_of_f) if is_differentiable(value.type)]
    names = ["grad_output"] if len(given) == 1 else [f"grad_output{i}" for i in range(len(given))]
    parameters = {
        i: graph.body.add_input(_plain(results_of_f[i].type), name) for i, name in zip(given, names, strict=True)
    }
    env = {v: parameters[i] for v, i in zip(vjps, gradient.input_vjps, strict=True)}
    if captured:
        env |= zip(captured, builder.unpack(context, [value.name_hint for value in captured]), strict=True)
    results = dict(zip(gradient.output_vjps, copy_nodes(df.body, env, builder.insert), strict=True))
    leaves = (results.get(i) or builder.constant(None) for i in range(len(gradient.f.inputs)))
    builder.returns(*[_rebuilt(builder, leaves, type) for type in types])
    return graph


def _with_gradients(df: Graph, count: int) -> Graph:
    """A copy for gradients that are there."""
    copied = df.copy()
    for value in copied.inputs[:count]:
        value.type = type_when_there(value.type)
    while run_recipe(copied, "follow_gradients"):
        pass
    run_recipe(copied, "settle_gradients")
    return copied


def _plain(type: Type) -> Type:
    if isinstance(type, ListType) and is_tensor(type.element):
        return ListType(TENSOR)
    return TENSOR if is_tensor(type) else type


def _rebuilt(builder: Builder, leaves: Iterator[Value], type: Type) -> Value:
    """The next value, or the tuple of the next ones. Types are shallow, so this recurses."""
    if not isinstance(type, TupleType):
        return next(leaves)
    return builder.tuple([_rebuilt(builder, leaves, element) for element in type.elements])
