from __future__ import annotations

import pytest
from gradscript.compiler.ir.builder import Builder, constant_type
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.compiler.types.types import (
    FLOAT,
    INT,
    INT_LIST,
    NONE,
    TENSOR,
    ListType,
    OptionalType,
    TensorType,
)
from gradscript.lang.source import Source, Span


@pytest.fixture
def graph() -> Graph:
    graph = Graph("f")
    graph.body.add_input(TensorType(FLOAT64, 2), "x")
    return graph


def test_defaults_and_constants_are_filled_in(graph: Graph) -> None:
    builder = Builder(graph)
    (x,) = graph.inputs
    builder.returns(builder.op("aten::add.Tensor", x, x, name="twice"))
    builder.op("aten::sum.dim_IntList", x, 0, keepdim=True)
    assert str(graph) == (
        "graph f(%x : Tensor[float64, rank=2]):\n"
        "  %1 : int = prim::Constant[value=1]()\n"
        "  %twice : Tensor[float64, rank=2] = aten::add.Tensor(%x, %x, %1)\n"
        "  %2 : List[int] = prim::Constant[value=[0]]()\n"
        "  %3 : bool = prim::Constant[value=True]()\n"
        "  %4 : None = prim::Constant[value=None]()\n"
        "  %5 : Tensor[float64] = aten::sum.dim_IntList(%x, %2, %3, %4)\n"
        "  return (%twice)\n"
    )
    verify(graph)


def test_lists_of_values_are_constructed(graph: Graph) -> None:
    builder = Builder(graph)
    (x,) = graph.inputs
    size = builder.op("aten::size.int", x, 0)
    value = builder.op("aten::reshape", x, [size, -1])
    assert value.node.inputs[1].node.kind == "prim::ListConstruct"
    assert builder.op("aten::reshape", x, []).node.inputs[1].type == INT_LIST
    verify(graph)


def test_several_results(graph: Graph) -> None:
    builder = Builder(graph)
    values, indices = builder.op_results("aten::max.dim", graph.inputs[0], 0, names=["values", "indices"])
    assert (values.name_hint, indices.name_hint) == ("values", "indices")


@pytest.mark.parametrize(
    "call",
    [
        lambda b, x: b.op("aten::mul.Tensor", x),
        lambda b, x: b.op("aten::neg", x, x),
        lambda b, x: b.op("aten::neg", x, out=x),
        lambda b, x: b.op("aten::neg", x, self=x),
    ],
)
def test_wrong_arguments(graph: Graph, call: object) -> None:
    with pytest.raises(TypeError):
        call(Builder(graph), graph.inputs[0])  # type: ignore[operator]


def test_insertion_points_nest(graph: Graph) -> None:
    source = Source("x", "f.grad")
    builder = Builder(graph)
    first = builder.constant(1)
    node = builder.node("prim::If", [builder.constant(True)], [INT], blocks=2)
    for block in node.blocks:
        with builder.at(block), builder.span(Span(source, 0, 1)):
            builder.returns(builder.constant(2))
    with builder.before(first.node):
        zero = builder.constant(0)
    builder.returns(node.output)
    assert [n.attrs.get("value") for n in graph.nodes] == [0, 1, True, None]
    assert str(node.blocks[0].outputs[0].node.span) == "f.grad:1:1"
    assert zero.node.span != Span(source, 0, 1)
    verify(graph)


def test_constant_types() -> None:
    assert constant_type(None) == NONE
    assert constant_type([1, None]) == ListType(OptionalType(INT))
    assert constant_type([[1.0]]) == ListType(ListType(FLOAT))
    for value in ([], [1, "a"], object()):
        with pytest.raises(ValueError):
            constant_type(value)


def test_tuples(graph: Graph) -> None:
    builder = Builder(graph)
    (x,) = graph.inputs
    pair = builder.tuple([x, builder.constant(1)])
    tensor, number = builder.unpack(pair)
    assert (tensor.type, number.type) == (x.type, INT)
    assert builder.tuple_index(pair, 1).type == INT
    assert builder.unwrap(builder.optional(x, TENSOR)).type == TENSOR
    verify(graph)
