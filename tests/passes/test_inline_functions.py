from __future__ import annotations

from typing import Any

from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes import inline_functions as module
from gradscript.compiler.passes.inline_functions import inline_functions
from gradscript.compiler.types.schema import parse_schema
from gradscript.compiler.types.types import TENSOR


def _functions(depth: int, calls: int) -> dict[str, Callee]:
    """`f0` negates; each other function calls the one before it so many times."""
    functions: dict[str, Callee] = {}
    for level in range(depth):
        graph = Graph(f"f{level}", functions)
        value = graph.body.add_input(TENSOR, "x")
        builder = Builder(graph)
        for _ in range(calls if level else 1):
            if level:
                value = builder.node("prim::CallFunction", [value], [TENSOR], attrs={"callee": f"f{level - 1}"}).output
            else:
                value = builder.op("aten::neg", value)
        builder.returns(value)
        functions[graph.name] = Callee(parse_schema(f"f{level}(Tensor x) -> Tensor"), graph)
    return functions


def _kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.all_nodes()]


def test_chains_of_calls_do_not_recurse() -> None:
    graph = _functions(3000, calls=1)["f2999"].graph.copy()
    assert inline_functions(graph)
    verify(graph)
    assert _kinds(graph) == ["aten::neg"]


def test_growth_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MAX_NODES", 1000)
    graph = _functions(40, calls=2)["f39"].graph.copy()
    assert inline_functions(graph)
    verify(graph)
    assert len(_kinds(graph)) <= 1100


def test_the_callee_is_left_alone() -> None:
    functions = _functions(2, calls=2)
    before = str(functions["f0"].graph)
    inline_functions(functions["f1"].graph.copy())
    assert str(functions["f0"].graph) == before


def test_pairs_can_be_kept() -> None:
    functions = _functions(3, calls=1)
    functions["f0"].pair = object()  # type: ignore[assignment]
    graph = functions["f2"].graph.copy()
    assert inline_functions(graph, keep_pairs=True)
    assert [node.attrs for node in graph.nodes] == [{"callee": "f0"}]
    assert not inline_functions(graph, keep_pairs=True)
    assert inline_functions(graph)
    assert _kinds(graph) == ["aten::neg"]


def test_unknown_names_and_other_units_stay() -> None:
    unknown = Graph("g")
    builder = Builder(unknown)
    x = unknown.body.add_input(TENSOR, "x")
    builder.returns(builder.node("prim::CallFunction", [x], [TENSOR], attrs={"callee": "f1"}).output)
    verify(unknown)
    assert not inline_functions(unknown)
    # Here `f0` means something else than it does to `f1`.
    unknown.functions = {"f1": _functions(2, calls=1)["f1"], "f0": _functions(1, calls=1)["f0"]}
    assert not inline_functions(unknown)


def test_a_closure_stays_behind() -> None:
    graph = parse_ir(
        'graph g(%x : Tensor): %y : Tensor = prim::CallFunction[callee="f"](%x) return (%y) '
        'graph f(%x : Tensor): %b : Closure = prim::Function[name="backward"]() block(%g : Tensor): return (%x) '
        "%y : Tensor = aten::exp(%x) return (%y, %b)"
    )
    assert inline_functions(graph)
    verify(graph)
    assert _kinds(graph) == ["aten::exp"]
