"""A function and its derivative as one graph that returns a closure, as its author would have written it.

def f(x):                     def f(x):
    return torch.exp(x)  ─▶       exp_x = torch.exp(x)
                                  def backward(grad_output):
                                      return grad_output * exp_x
                                  return exp_x, backward
"""

from __future__ import annotations

from ...compiler.autodiff.derived import derived_halves
from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import Block, Value, copy_nodes
from ...compiler.passes.eliminate_dead_code import eliminate_dead_code
from ...compiler.types.types import CLOSURE, UNDEFINED
from ...compiler.unparse.programs import spelled


def joined(callee: Callee) -> Graph:
    """The graph of a function with its derivative as a closure. NoGradient where it has none."""
    forward, backward = derived_halves(callee)
    graph = Graph(callee.schema.name, {**forward.graph.functions, **backward.graph.functions}, callee.graph.span)
    builder = Builder(graph, span=callee.graph.span)
    env = {v: graph.body.add_input(v.type, v.name_hint) for v in forward.graph.inputs}
    *outputs, kept = copy_nodes(forward.graph.body, env, builder.insert)
    node = builder.node("prim::Function", (), [CLOSURE], attrs={"name": "backward"}, names=["backward"], blocks=1)
    _fill(node.blocks[0], backward.graph, kept)
    builder.returns(*outputs, node.output)
    graph = spelled(graph)
    _leave_out_zeros(closure_of(graph))
    eliminate_dead_code(graph)
    return graph


def _leave_out_zeros(closure: Block) -> None:
    """None for gradients that nobody computes."""
    for i, value in enumerate(closure.outputs):
        if value.type == UNDEFINED:
            closure.ret.set_input(i, Builder(closure).constant(None))


def _fill(block: Block, backward: Graph, kept: Value) -> None:
    """The closure's code: what the backward computes from the elements of its context, which are there around it."""
    context, *gradients = backward.inputs
    env = {value: block.add_input(value.type, value.name_hint) for value in gradients}
    env[context] = kept
    inner = Builder(block)
    results = copy_nodes(backward.body, env, inner.insert)
    for value in results:
        block.ret.add_input(value)
    for use in list(kept.uses):
        if use.user.kind == "prim::TupleUnpack" and use.user.owner is block:
            for output, element in zip(use.user.outputs, kept.node.inputs, strict=True):
                output.replace_uses_with(element)
            use.user.destroy()


def closure_of(graph: Graph) -> Block:
    """The code of the closure that a graph returns."""
    return graph.outputs[-1].node.blocks[0]
