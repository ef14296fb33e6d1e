"""Passes that torch has under the same names, asked of the same graphs."""

from __future__ import annotations

import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes.batch_matmuls import batch_matmuls
from gradscript.compiler.passes.decompose_ops import decompose_ops
from gradscript.compiler.passes.loops.unroll_loops import unroll_loops
from gradscript.compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from gradscript.compiler.passes.simplification.remove_expands import remove_expands

torch = pytest.importorskip("torch")

from torch_graphs import both  # noqa: E402


def _count(graph: Graph, kind: str) -> int:
    return sum(node.kind == kind for node in graph.all_nodes())


def _tree(products: int, shape: str) -> str:
    """A sum of products: one behind the other, or in pairs."""
    inputs = ", ".join(f"%a{i} : Tensor, %b{i} : Tensor" for i in range(products))
    lines = [f"  %m{i} : Tensor = aten::mm(%a{i}, %b{i})" for i in range(products)]
    terms = [f"m{i}" for i in range(products)]
    while len(terms) > 1:
        left, right, *terms = terms
        made = f"s{len(terms)}"
        lines.append(f"  %{made} : Tensor = aten::add.Tensor(%{left}, %{right}, %k)")
        terms = [made, *terms] if shape == "line" else [*terms, made]
    head = f"graph f({inputs}):\n  %k : int = prim::Constant[value=1]()"
    return "\n".join([head, *lines, f"  return (%{terms[0]})", ""])


@pytest.mark.parametrize("shape", ["line", "pairs"])
@pytest.mark.parametrize("products", range(2, 9))
def test_trees_of_products(products: int, shape: str) -> None:
    graph, theirs = both(_tree(products, shape))
    batch_matmuls(graph)
    torch._C._jit_pass_batch_mm(theirs)
    assert _count(graph, "prim::mm_tree") == str(theirs).count("prim::MMTreeReduce")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("products", range(5, 12))
def test_products_that_share_a_side(products: int, side: str) -> None:
    inputs = ", ".join(f"%a{i} : Tensor" for i in range(products))
    lines = [f"  %m{i} : Tensor = aten::mm({'%w, ' if side == 'left' else ''}%a{i}" for i in range(products)]
    lines = [line + (")" if side == "left" else ", %w)") for line in lines]
    results = ", ".join(f"%m{i}" for i in range(products))
    graph, theirs = both("\n".join([f"graph f(%w : Tensor, {inputs}):", *lines, f"  return ({results})", ""]))
    batch_matmuls(graph)
    torch._C._jit_pass_batch_mm(theirs)
    batched = _count(graph, "prim::mm_shared_left") + _count(graph, "prim::mm_shared_right")
    assert batched == str(theirs).count("prim::MMBatchSide")


def test_implicit_expands() -> None:
    text = """\
graph f(%x : Tensor, %y : Tensor):
  %yes : bool = prim::Constant[value=True]()
  %no : bool = prim::Constant[value=False]()
  %s : List[int] = aten::size(%y)
  %1 : Tensor = aten::expand(%x, %s, %yes)
  %2 : Tensor = aten::expand(%x, %s, %no)
  %3 : Tensor = aten::mul.Tensor(%1, %2)
  return (%3)
"""
    graph, theirs = both(text)
    remove_expands(graph)
    torch._C._jit_pass_remove_expands(theirs)
    assert _count(graph, "aten::expand") == str(theirs).count("aten::expand(") == 1


@pytest.mark.parametrize("trips", [0, 1, 3, 8, None])
def test_loops(trips: int | None) -> None:
    constant = "" if trips is None else f"  %n : int = prim::Constant[value={trips}]()\n"
    text = (
        f"graph f(%x : Tensor{', %n : int' if trips is None else ''}):\n{constant}"
        "  %yes : bool = prim::Constant[value=True]()\n  %y : Tensor = prim::Loop(%n, %yes, %x)\n"
        "    block(%i : int, %z : Tensor):\n      %1 : Tensor = aten::tanh(%z)\n      return (%yes, %1)\n"
        "  return (%y)\n"
    )
    graph, theirs = both(text)
    unroll_loops(graph)
    eliminate_dead_code(graph)
    torch._C._jit_pass_loop_unrolling(theirs)
    torch._C._jit_pass_dce(theirs)
    assert _count(graph, "prim::Loop") == str(theirs).count("= prim::Loop(")
    assert _count(graph, "aten::tanh") == str(theirs).count("aten::tanh(")


def test_a_product_with_a_sum() -> None:
    typed = "Tensor[float32]"
    text = (
        f"graph f(%b : {typed}, %x : {typed}, %w : {typed}):\n  %k : int = prim::Constant[value=1]()\n"
        f"  %1 : {typed} = aten::addmm(%b, %x, %w, %k, %k)\n  return (%1)\n"
    )
    graph = parse_ir(text)
    theirs = torch._C.parse_ir(text.replace("graph f", "graph").replace(typed, "Float(*, *)"))
    torch._C._jit_pass_decompose_ops(theirs)
    decompose_ops(graph)
    assert (_count(graph, "aten::mm"), _count(graph, "aten::addmm")) == (1, 0)
    assert (str(theirs).count("aten::mm("), str(theirs).count("aten::addmm(")) == (1, 0)
