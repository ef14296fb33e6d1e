"""Graphs as deep and as long as input can make them."""

from __future__ import annotations

from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Value
from gradscript.compiler.types.types import BOOL, INT, TENSOR, TupleType


def nested(depth: int) -> Graph:
    """An If in a Loop in an If … each of which gives a tuple made of what the inner one gives."""
    graph = Graph("nested")
    x, c = graph.body.add_input(TENSOR, "x"), graph.body.add_input(BOOL, "c")
    builder = Builder(graph)
    pair = TupleType((TENSOR, INT))
    block = graph.body
    for level in range(depth):
        with builder.at(block):
            if level % 2:
                initial = builder.tuple([x, builder.constant(level)])
                node = builder.node("prim::Loop", [builder.constant(3), c, initial], [pair], blocks=1)
                node.blocks[0].add_input(INT, "i")
                node.blocks[0].add_input(pair)
                block.ret.add_input(node.output)
                node.blocks[0].ret.add_input(c)
            else:
                node = builder.node("prim::If", [c], [pair], blocks=2)
                block.ret.add_input(node.output)
                with builder.at(node.blocks[1]):
                    builder.returns(builder.tuple([builder.op("aten::neg", x), builder.constant(level)]))
        block = node.blocks[0]
    with builder.at(block):
        block.ret.add_input(builder.tuple([x, builder.constant(0)]))
    return graph


def long(length: int) -> Graph:
    """A chain of ops, with constants, common subexpressions and dead code along it."""
    graph = Graph("long")
    value: Value = graph.body.add_input(TENSOR, "x")
    builder = Builder(graph)
    for step in range(length // 5):
        left = builder.op("aten::mul.Scalar", value, step % 7)
        right = builder.op("aten::mul.Scalar", value, step % 7)
        value = builder.op("aten::mul.Tensor", left, right, name="value")
    builder.returns(value)
    return graph
