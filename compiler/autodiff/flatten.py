"""Tuples in signatures, taken apart: gradients belong to tensors and lists of tensors, not to tuples.

A graph is flattened before it is differentiated; `leaves` and `rebuilt` do the same to values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..passes.containers.lower_tuples import lower_tuples
from ..passes.inline_functions import inline_functions
from ..types.types import TupleType, Type


def flatten_signature(graph: Graph) -> Graph:
    """A copy with one input and one output per element of the tuples among them; the graph itself if it has none.

    Before:
        graph f(%pair : Tuple[Tensor, Tensor]):
          %x : Tensor, %y : Tensor = prim::TupleUnpack(%pair)
          %swapped : Tuple[Tensor, Tensor] = prim::TupleConstruct(%y, %x)
          return (%swapped)
    After:
        graph f(%pair_0 : Tensor, %pair_1 : Tensor):
          return (%pair_1, %pair_0)
    """
    if not any(isinstance(v.type, TupleType) for v in (*graph.inputs, *graph.outputs)):
        return graph
    flat = Graph(graph.name, graph.functions, graph.span, graph.title)
    copied = graph.copy()
    builder = Builder(flat, span=graph.span)
    env: dict[Value, Value] = {}
    for value in copied.inputs:
        env[value] = _assembled(builder, flat, value.type, value.name_hint)
    for node in list(copied.nodes):
        builder.insert(node.unlink())
    for old, new in env.items():
        old.replace_uses_with(new)
    outputs = list(copied.outputs)
    copied.body.ret.replace_inputs(())
    builder.returns(*(leaf for value in outputs for leaf in taken_apart(builder, value)))
    lower_tuples(flat)
    return flat


def without_tuples_inside(graph: Graph) -> Graph:
    """The graph as its nodes may stand in one that is being differentiated, whose own tuples are gone: what it calls
    put in, but for what has a backward of its own, and no tuple that a branch or a loop gives. Itself if it is that."""
    if not any(_gives_tuples(node, graph) for node in graph.all_nodes()):
        return graph
    copied = graph.copy()
    inline_functions(copied, keep_pairs=True)
    lower_tuples(copied)
    return copied


def _gives_tuples(node: Node, graph: Graph) -> bool:
    if node.kind == "prim::CallFunction":
        return graph.functions[node.attr("callee")].pair is None
    return bool(node.blocks) and any(isinstance(value.type, TupleType) for value in node.outputs)


def _assembled(builder: Builder, graph: Graph, type: Type, name: str) -> Value:
    """A value of the type, made of one new input per leaf. Types are shallow, so this recurses."""
    if not isinstance(type, TupleType):
        return graph.body.add_input(type, name)
    return builder.tuple([_assembled(builder, graph, t, f"{name}_{i}") for i, t in enumerate(type.elements)])


def taken_apart(builder: Builder, value: Value) -> Iterator[Value]:
    """The leaves of a value."""
    if not isinstance(value.type, TupleType):
        yield value
        return
    for element in builder.unpack(value):
        yield from taken_apart(builder, element)


def leaves(values: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """The values with tuples taken apart, by their types. None for a tuple stands for None in each place."""
    flat: list[Any] = []
    for value, type in zip(values, types, strict=True):
        if isinstance(type, TupleType):
            parts = (None,) * len(type.elements) if value is None else value
            flat += leaves(parts, type.elements)
        else:
            flat.append(value)
    return flat


def rebuilt(flat: Iterator[Any], types: Sequence[Type]) -> list[Any]:
    """The inverse of `leaves`."""
    return [tuple(rebuilt(flat, t.elements)) if isinstance(t, TupleType) else next(flat) for t in types]
