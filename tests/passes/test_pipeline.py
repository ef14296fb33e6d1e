from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import InvalidIR
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from gradscript.compiler.passes.simplification.fold_constants import fold_constants
from gradscript.compiler.pipeline import (
    EXECUTOR,
    PASSES,
    RECIPES,
    SIMPLIFY,
    GraphPass,
    InvalidPass,
    inline_keeping_pairs,
    observed,
    pass_name,
    run_passes,
    run_recipe,
    run_stage,
)
from gradscript.compiler.types.types import INT
from pass_running import run_to_fixpoint

TEXT = """\
graph f(%x : Tensor):
  %1 : int = prim::Constant[value=2]()
  %2 : int = aten::add.int(%1, %1)
  %3 : Tensor = aten::mul.Scalar(%x, %2)
  return (%3)
"""


def break_types(graph: Graph) -> bool:
    graph.inputs[0].type = INT
    return False


def test_a_broken_pass_is_reported_by_name() -> None:
    with pytest.raises(InvalidPass) as caught:
        run_passes(parse_ir(TEXT), [fold_constants, break_types, eliminate_dead_code])
    assert str(caught.value).startswith(
        "pass break_types left invalid IR: graph f: argument 'self' is Tensor, not int\n"
    )
    assert caught.value.pass_name == "break_types"
    assert isinstance(caught.value.__cause__, InvalidIR)


def test_verification_can_be_left_out() -> None:
    assert run_passes(parse_ir(TEXT), [break_types], verify_between=False) is False


def test_an_invalid_graph_is_nobodys_fault() -> None:
    graph = parse_ir(TEXT)
    break_types(graph)
    with pytest.raises(InvalidIR):
        run_passes(graph, SIMPLIFY)


def test_an_observer_sees_what_changed() -> None:
    seen: list[str] = []
    graph = parse_ir(TEXT)
    with observed(lambda one: seen.append(one.pass_name) if one.changed else None):
        run_to_fixpoint(graph, SIMPLIFY)
    assert seen[:2] == ["propagate_types", "fold_constants"] or seen[0] == "fold_constants"
    assert "peephole" not in seen
    assert str(graph) == (
        "graph f(%x : Tensor):\n"
        "  %1 : int = prim::Constant[value=4]()\n"
        "  %2 : Tensor = aten::mul.Scalar(%x, %1)\n"
        "  return (%2)\n"
    )


def test_names() -> None:
    assert pass_name(inline_keeping_pairs) == "inline_functions"
    assert all(name.isidentifier() for name in PASSES)


def test_observers_see_every_pass_of_every_recipe() -> None:
    seen: list[tuple[str, str]] = []
    with observed(lambda step: seen.append((step.recipe, step.pass_name))):
        run_recipe(parse_ir(TEXT), "trace")
        run_stage(parse_ir(TEXT), "finish")
    run_recipe(parse_ir(TEXT), "trace")
    expected = [("trace", pass_name(p)) for p in RECIPES["trace"]]
    assert seen == [*expected, *[("finish", pass_name(p)) for p in EXECUTOR["finish"]]]


def test_what_is_observed_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "trace", (break_types,))
    run_recipe(parse_ir(TEXT), "trace")
    with observed(lambda step: None), pytest.raises(InvalidPass, match="break_types"):
        run_recipe(parse_ir(TEXT), "trace")


def _remove_all(graph: Graph) -> bool:
    for node in list(graph.nodes):
        node.destroy()
    return True


def _unlink_twice(graph: Graph) -> bool:
    node = next(iter(graph.nodes))
    node.unlink()
    node.unlink()
    return True


def _insert_twice(graph: Graph) -> bool:
    first, *_, last = graph.nodes
    first.insert_before(last)
    return True


@pytest.mark.parametrize("pass_", [_remove_all, _unlink_twice, _insert_twice])
def test_a_users_pass_that_misuses_the_graph_is_named(pass_: GraphPass) -> None:
    unit = gs.CompilationUnit("def f(x):\n    return torch.sin(torch.exp(x)) * x\n")
    remove = gs.compiler_debug.register_pass("optimize", pass_)
    try:
        with pytest.raises(InvalidPass, match=f"pass {pass_.__name__} misuses the graph: aten::"):
            unit.f(np.ones(2))
    finally:
        remove()


@pytest.mark.parametrize("policy", ["save_all", "min_cut"])
def test_branches_that_shapes_decide_are_valid_after_each_pass(policy: str) -> None:
    """What the side that is not taken would give is not known as precisely as what the branch gives."""
    source = "def f(x, w):\n    y = torch.erf(x @ w) + x.sum(1, True)\n    return (y * y).mean()\n"
    ran: list[str] = []
    with observed(lambda step: ran.append(step.pass_name)):
        _, pullback = gs.vjp(gs.CompilationUnit(source).f, np.ones((4, 3)), np.ones((3, 3)), policy=policy)
        pullback(1.0)
    assert "specialize_autograd_zero" in ran
