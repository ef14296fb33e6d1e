"""The derivative of a closure as a closure in it: what differentiates a gradient once more.

def f(x):                                def f(x):
    def backward(grad_output):               def backward(grad_output):
        return grad_output * 2 * x   ─▶          def backward_of_backward(grad_grad_x):
    return x * x, backward                           return grad_grad_x * 2 * x, grad_grad_x * grad_output * 2
                                                 return grad_output * 2 * x, backward_of_backward
                                             return x * x, backward

It computes anew what the functions around it have computed and not kept by name, so that these stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.analysis.draws import is_random
from ...compiler.autodiff.derived import derived_halves
from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import Block, Node, Value, copy_node, copy_nodes
from ...compiler.ops.registry import OPS, Trait
from ...compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from ...compiler.types.schema import Argument, FunctionSchema
from ...compiler.types.types import CLOSURE, is_differentiable
from .joined import closure_parameters, closures_of, fill, written


def nested(graph: Graph) -> Graph:
    """A copy whose innermost closure returns one that is its derivative. NoGradient where it has none.

    ValueError where an op draws random numbers and has a gradient: the derivative would draw others.

    Before:
        def f(x):
            def backward(g):
                return g * 2 * x
            return torch.sin(x), backward
    After:
        def f(x):
            value = torch.sin(x)
            def backward(g):
                value_1 = g * 2 * x
                def backward_of_backward(grad_grad_x):
                    value_2 = g * 2
                    grad_self = (grad_grad_x * x).sum_to_size(value_2.size())
                    grad_other = (grad_grad_x * value_2).sum_to_size(x.size())
                    grad_g = grad_self * 2
                    return grad_g, grad_other
                return value_1, backward_of_backward
            return value, backward
    """
    graph = graph.copy()
    closures = closures_of(graph)
    inner = closures[-1]
    flat, drawn = _flat(graph, closures)
    forward, backward = derived_halves(Callee(_schema(flat), flat))
    name = f"{inner.node.attr('name')}_of_backward" if inner.node is not None else "backward"
    node = Builder(inner).node("prim::Function", (), [CLOSURE], attrs={"name": name}, names=[name], blocks=1)
    (block,) = node.blocks
    parameters = closure_parameters(graph, inner)
    env = dict(zip(forward.graph.inputs, [*inner.inputs, *parameters, *drawn], strict=True))
    *_, kept = copy_nodes(forward.graph.body, env, Builder(block).insert)
    fill(block, backward.graph, kept)
    block.ret.replace_inputs(block.outputs[: len(block.outputs) - len(drawn)])
    _name_parameters(block, inner, parameters)
    inner.ret.add_input(node.output)
    for around in (graph.body, *closures[:-1]):
        # Behind all that it may keep.
        around.outputs[-1].node.unlink().insert_before(around.ret)
    return written(graph)


def _flat(graph: Graph, closures: Sequence[Block]) -> tuple[Graph, list[Value]]:
    """What the innermost closure returns, of its parameters, those of the functions around it, and what these drew."""
    inner = closures[-1]
    flat = Graph("backward", graph.functions, graph.span)
    builder = Builder(flat, span=graph.span)
    env: dict[Value, Value] = {}
    for value in (*inner.inputs, *closure_parameters(graph, inner)):
        env[value] = flat.body.add_input(value.type, value.name_hint)
    drawn: list[Value] = []
    for block in (graph.body, *closures):
        for node in block.nodes:
            if is_random(node):
                drawn += node.outputs
                env |= {value: flat.body.add_input(value.type, value.name_hint) for value in node.outputs}
            elif node.kind != "prim::Function":
                copy_node(node, env, builder.insert)
    builder.returns(*(env.get(value, value) for value in inner.outputs if is_differentiable(value.type)))
    eliminate_dead_code(flat)
    if any(is_random(node) for node in flat.all_nodes()) or not all(_is_constant(value.node) for value in drawn):
        message = f"'{graph.name}' draws random numbers, which the gradient of its gradient would draw again"
        raise ValueError(f"{message}; take them as an argument")
    return flat, drawn


def _is_constant(node: Node) -> bool:
    return OPS.has(node.schema, Trait.NONDIFFERENTIABLE)


def _schema(graph: Graph) -> FunctionSchema:
    taken = tuple(Argument(value.name_hint, value.type) for value in graph.inputs)
    returned = tuple(Argument(f"result{i}", value.type) for i, value in enumerate(graph.outputs))
    return FunctionSchema(graph.name, "", taken, returned)


def _name_parameters(block: Block, around: Block, parameters: Sequence[Value]) -> None:
    """Each gradient of a gradient is called after whose gradient that is."""
    of = [p for p, value in zip(parameters, around.outputs, strict=True) if is_differentiable(value.type)]
    for value, parameter in zip(block.inputs, of, strict=True):
        value.name_hint = f"grad_grad_{parameter.name_hint}"
