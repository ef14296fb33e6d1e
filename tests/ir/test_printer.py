from __future__ import annotations

import pytest
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.printer import print_node, quote
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.types.types import INT, TENSOR
from gradscript.lang.source import Source, Span

MUL = """\
graph mul(%self : Tensor, %other : Tensor):
  %backward : Closure = prim::Function[name="backward"]()
    block(%grad_output : Tensor):
      %1 : Tensor = aten::mul.Tensor(%grad_output, %other)
      return (%1)
  %2 : Tensor = aten::mul.Tensor(%self, %other)
  return (%2, %backward)
"""


def test_the_running_example() -> None:
    graph = parse_ir(MUL)
    assert graph.text() == str(graph) == MUL


def test_parts_print_on_their_own() -> None:
    node = next(parse_ir(MUL).nodes)
    assert print_node(node).startswith('%backward : Closure = prim::Function[name="backward"]()\n')


@pytest.mark.parametrize(
    ("hints", "names"),
    [
        (["x", "x", "x"], ["x", "x.1", "x.2"]),
        (["x.1", "x", "x.7.2"], ["x", "x.1", "x.2"]),
        (["", "3", ""], ["1", "2", "3"]),
        (["größe", "a b", "..1"], ["größe", "a_b", "."]),
    ],
)
def test_names_are_unique(hints: list[str], names: list[str]) -> None:
    graph = Graph("f")
    values = [graph.body.add_input(TENSOR, hint) for hint in hints]
    Builder(graph).returns(*values)
    text = graph.text()
    assert text.splitlines()[-1] == f"  return ({', '.join('%' + name for name in names)})"
    assert parse_ir(text).text() == text


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 2**70, True, None, 0.1, -0.0, 1e300, float("inf"), -float("inf"), 5e-324),
        *("", 'a"b\\', "\n\r\t\x00\x85\u2028", "\ud800", "\ud83d\ude00", "😀\U0010ffff", "#", "%x", "é"),
        *([1, 2], [[1.0], [2.0, 3.0]], ["a", "b"], [True]),
    ],
)
def test_constants_read_back(value: object) -> None:
    graph = Graph("f")
    builder = Builder(graph)
    builder.returns(builder.constant(value))
    text = graph.text()
    again = parse_ir(text)
    assert next(again.nodes).attr("value") == value
    assert type(next(again.nodes).attr("value")) is type(value)
    assert again.text() == text


def test_odd_constants_read_back() -> None:
    graph = Graph("f")
    builder = Builder(graph)
    builder.constant(-(16**5000))
    builder.constant(float("nan"))
    builder.list([], INT)
    text = graph.text()
    assert parse_ir(text).text() == text


def test_a_surrogate_pair_stays_two_code_points() -> None:
    assert quote("\ud83d\ude00") != quote("😀")


def test_spans_are_comments() -> None:
    graph = Graph("f")
    source = Source("a = b\nc = d\n", "odd\nname.grad")
    builder = Builder(graph, span=Span(source, 6, 7))
    builder.returns(builder.constant(1))
    text = graph.text(with_spans=True)
    assert "prim::Constant[value=1]()  # odd?name.grad:2:1\n" in text
    assert parse_ir(text).text() == graph.text()


@pytest.mark.parametrize("name", ["f", "f.backward", "<lambda>", "", "two words", "inf", "return"])
def test_graph_names_read_back(name: str) -> None:
    graph = Graph(name)
    assert parse_ir(graph.text()).name == name
