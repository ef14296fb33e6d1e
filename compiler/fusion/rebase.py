"""Capture a tensor rather than a view of it: a view is made again in the backward, and nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping

from ...lang.light_dataclasses import replace
from ..autodiff.gradient import Gradient, residuals_of
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import PARAM, Node, Value, copy_node, copy_nodes
from ..ir.rewrite import CONSTANT
from ..ops.registry import OPS, Trait
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code

_TAKES = ("prim::ListUnpack", "aten::__getitem__.t")


def capture_bases(gradient: Gradient) -> Gradient:
    """The gradient with inputs of `f` captured in the place of captured outputs that are views of them."""
    chains = {i: chain for i in gradient.captured_outputs if (chain := _chain(gradient.f.outputs[i])) is not None}
    if not chains:
        return gradient
    position = {value: i for i, value in enumerate(gradient.f.inputs)}
    bases = {position[chain[0].inputs[0]] for chain in chains.values()}
    captured_inputs = sorted({*gradient.captured_inputs, *bases})
    captured_outputs = [i for i in gradient.captured_outputs if i not in chains]
    df = Graph(gradient.df.name, gradient.df.functions, gradient.df.span, gradient.df.title)
    builder = Builder(df, span=gradient.df.span)
    count = len(gradient.input_vjps)
    env = {value: df.body.add_input(value.type, value.name_hint) for value in gradient.df.inputs[:count]}
    inputs = {i: df.body.add_input(v.type, v.name_hint) for i, v in _inputs(gradient, captured_inputs).items()}
    outputs = {i: df.body.add_input(v.type, v.name_hint) for i, v in _values(gradient, captured_outputs).items()}
    outputs |= {i: _again(gradient.f.outputs[i], chain, inputs, position, builder) for i, chain in chains.items()}
    env |= dict(zip(gradient.df.inputs[count:], residuals_of(gradient, inputs, outputs), strict=True))
    builder.returns(*copy_nodes(gradient.df.body, env, builder.insert))
    rebased = replace(gradient, df=df, captured_inputs=tuple(captured_inputs), captured_outputs=tuple(captured_outputs))
    return _without_unused(rebased)


def _without_unused(gradient: Gradient) -> Gradient:
    """The gradient whose `f` returns no more than its results and what is captured."""
    count = gradient.num_real_outputs
    kept = [*range(count), *(i for i in gradient.captured_outputs if i >= count)]
    f = gradient.f.copy()
    f.body.ret.replace_inputs([f.outputs[i] for i in kept])
    eliminate_dead_code(f)
    captured = tuple(kept.index(i) for i in gradient.captured_outputs)
    return replace(gradient, f=f, captured_outputs=captured)


def _inputs(gradient: Gradient, indices: list[int]) -> dict[int, Value]:
    return {i: gradient.f.inputs[i] for i in indices}


def _values(gradient: Gradient, indices: list[int]) -> dict[int, Value]:
    return {i: gradient.f.outputs[i] for i in indices}


def _chain(value: Value) -> list[Node] | None:
    """The views that lead from an input of the graph to a value, first to last; None where there is more to it."""
    chain: list[Node] = []
    while value.node.kind != PARAM:
        node = value.node
        is_view = node.kind in _TAKES or OPS.has(node.schema, Trait.VIEW)
        if not is_view or not all(_is_fixed(argument) for argument in node.inputs[1:]):
            return None
        chain.append(node)
        value = node.inputs[0]
    return chain[::-1] or None


def _is_fixed(value: Value) -> bool:
    made = value.node
    return made.kind == CONSTANT or (
        made.kind == "prim::ListConstruct" and all(item.node.kind == CONSTANT for item in made.inputs)
    )


def _again(
    value: Value, chain: list[Node], inputs: Mapping[int, Value], position: Mapping[Value, int], builder: Builder
) -> Value:
    """The same views in another graph."""
    base = chain[0].inputs[0]
    env = {base: inputs[position[base]]}
    for node in chain:
        for argument in node.inputs[1:]:
            for fixed in (*argument.node.inputs, argument):
                if fixed not in env:
                    copy_node(fixed.node, env, builder.insert)
        copy_node(node, env, builder.insert)
    return env[value]
