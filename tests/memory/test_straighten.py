"""straighten: the same results, without loops whose rounds are known and without lists of tensors."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.specialize import straighten as module
from gradscript.compiler.specialize.straighten import straighten
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan

PROGRAMS = {
    "loop": "def f(x, n: int):\n    for i in range(n):\n        x = torch.sin(x) * (i + 1)\n    return x\n",
    "nested": (
        "def f(x, n: int):\n    for i in range(n):\n        for j in range(i):\n            x = x * j + torch.cos(x)\n"
        "    return x\n"
    ),
    "branch in a loop": (
        "def f(x, n: int):\n    for i in range(n):\n        if i % 2 == 0:\n            x = torch.sin(x)\n"
        "        else:\n            x = x + 1\n    return x\n"
    ),
    "lists": (
        "def f(x, n: int):\n    kept: List[Tensor] = []\n    for row in x.unbind(0):\n        kept.append(row * n)\n"
        "    return torch.stack(kept)\n"
    ),
    "by size": "def f(x, n: int):\n    for i in range(x.size(0)):\n        x = x * n\n    return x\n",
    "no rounds": "def f(x, n: int):\n    for i in range(n - 10):\n        x = torch.sin(x)\n    return x\n",
}
X = np.random.default_rng(0).standard_normal((3, 4))


def graph_of(source: str) -> Graph:
    (function,) = gs.CompilationUnit(source).functions.values()
    return function.graph


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.all_nodes()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_known_rounds_are_written_out(name: str) -> None:
    graph = graph_of(PROGRAMS[name])
    straight = straighten(graph, [Meta((3, 4), FLOAT64), 5])
    verify(straight)
    assert not {"prim::Loop", "prim::If"} & set(kinds(straight))
    assert "aten::append.t" not in kinds(straight)
    (expected,) = run_plan(build_plan(graph), [X, 5])
    (found,) = run_plan(build_plan(straight), [X, 5])
    np.testing.assert_array_equal(found, expected)


def test_the_graph_itself_stays() -> None:
    graph = graph_of(PROGRAMS["loop"])
    before = str(graph)
    straighten(graph, [Meta((3, 4), FLOAT64), 5])
    assert str(graph) == before


def test_a_loop_with_a_condition_stays() -> None:
    source = "def f(x):\n    while bool(x.sum() < 10):\n        x = x * 2\n    return x\n"
    assert "prim::Loop" in kinds(straighten(graph_of(source), [Meta((3,), FLOAT64)]))


def test_a_loop_that_is_too_long_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NODES", 400)
    body = "".join("        x = torch.sin(x) * 2\n" for _ in range(30))
    graph = graph_of(f"def f(x, n: int):\n    for i in range(n):\n{body}    return x\n")
    assert "prim::Loop" in kinds(straighten(graph, [Meta((3,), FLOAT64), 50]))
    assert "prim::Loop" not in kinds(straighten(graph, [Meta((3,), FLOAT64), 2]))


def test_a_list_argument_is_taken_by_its_elements() -> None:
    source = (
        "def f(xs: List[Tensor]):\n    total = xs[0]\n    for i in range(1, len(xs)):\n        total = total * xs[i]\n"
        "    return total\n"
    )
    straight = straighten(graph_of(source), [[Meta((2,), FLOAT64)] * 4])
    assert kinds(straight).count("aten::mul.Tensor") == 3
    assert "aten::__getitem__.t" not in kinds(straight)
    values: list[Any] = [np.full(2, float(i + 1)) for i in range(4)]
    np.testing.assert_array_equal(run_plan(build_plan(straight), [values])[0], [24.0, 24.0])


def test_shapes_that_do_not_fit_leave_the_graph() -> None:
    graph = graph_of("def f(x, y):\n    return x @ y\n")
    straight = straighten(graph, [Meta((2, 3), FLOAT64), Meta((2, 3), FLOAT64)])
    assert kinds(straight) == kinds(graph)


def test_a_function_with_a_backward_of_its_own_stays_a_call() -> None:
    source = (
        "def g(x):\n    def backward(grad):\n        return grad * 3\n    return x * 2, backward\n\n\n"
        "def f(x, n: int):\n    for i in range(n):\n        x = g(x)\n    return x\n"
    )
    graph = gs.CompilationUnit(source).f.graph
    assert kinds(straighten(graph, [Meta((3,), FLOAT64), 3])).count("prim::CallFunction") == 3
    assert "prim::CallFunction" not in kinds(straighten(graph, [Meta((3,), FLOAT64), 3], keep_pairs=False))
