"""What each policy keeps, by whose word, and what it looks like in the graphs."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
from gradscript.compiler.ir.node import Node, walk
from gradscript.compiler.recompute import Policy, policy
from gradscript.compiler.recompute.driver import save_all
from gradscript.compiler.recompute.mirror import mirror
from gradscript.compiler.recompute.peak import estimate
from gradscript.compiler.recompute.rebuild import rebuild
from recompute_support import (
    array,
    assert_same_bits,
    gradient_of,
    kept,
    measured_peak,
    problem_of,
    repeated,
    results,
    shapes_of,
    under,
)

LAYER = """
def f(x, w, b, v):
    z = x @ w + b
    h = F.gelu(z)
    return ((h @ v) ** 2).sum()
"""
LAYER_ARGUMENTS = [array(32, 16), array(16, 64), array(64), array(64, 4)]


def test_specifications() -> None:
    assert policy(None) == Policy("min_cut") and policy("mirror").name == "mirror"
    assert policy("budget=100") == policy(100) == Policy("budget", 100) and str(policy(100)) == "budget=100"
    assert policy(Policy("save_all")) == Policy("save_all")
    for bad in ("nothing", "budget", "budget=lots", "mirror=3", -1, 2.5, True):
        with pytest.raises(ValueError):
            policy(bad)  # type: ignore[arg-type]


def test_inputs_of_a_product_are_mirrored() -> None:
    """A product's backward uses its inputs: the activation in front of it is computed again, the product is not."""
    for spec in ("mirror", "min_cut"):
        found = under(gradient_of(LAYER, LAYER_ARGUMENTS), LAYER_ARGUMENTS, spec)
        assert found.policy == spec
        assert "h" in repeated(found) and {"z", "matmul"} <= kept(found)
        assert found.peak_after is not None and found.peak_before is not None
        assert found.peak_after < found.peak_before


def test_branches_that_share_an_entry() -> None:
    """Whether D's result is kept is one question for A, B and C."""
    source = """
def f(x, w):
    d = x @ w
    a = torch.exp(torch.sin(d))
    b = torch.exp(torch.cos(d))
    c = torch.exp(torch.tanh(d))
    return (a @ w).sum() + (b @ w).sum() + (c @ w).sum()
"""
    arguments = [array(16, 16), array(16, 16, seed=1)]
    found = under(gradient_of(source, arguments), arguments, "mirror")
    assert found.policy == "mirror" and kept(found) == {"d"}
    assert found.saved_bytes == 16 * 16 * 4


def test_frontier_is_pushed_forward() -> None:
    """Keeping what follows a reduction releases the matrix before it."""
    source = "def f(x, w):\n    s = torch.tanh((x @ w).sum(0))\n    return (torch.exp(s) * s).sum()\n"
    problem = problem_of(source, [array(64, 8), array(8, 8)], Policy("mirror"))
    names = {value.name_hint or value.node.kind for value in mirror(problem) if problem.nbytes(value)}
    assert "aten::matmul" not in names and names


def test_mirroring_that_lowers_no_peak_is_done_and_told() -> None:
    """Recomputing softmax beside its gradient holds as much at once as keeping it."""
    source = """
def f(x, w):
    h = x @ w
    y = torch.softmax(h * 2.0, 1)
    return (y * h).sum()
"""
    arguments = [array(64, 8), array(8, 64)]
    problem = problem_of(source, arguments, Policy("mirror"))
    plain = estimate(rebuild(problem, save_all(problem))[0], shapes_of(arguments))
    mirrored = estimate(rebuild(problem, mirror(problem))[0], shapes_of(arguments))
    assert plain is not None and mirrored is not None and mirrored[0] >= plain[0]
    found = under(gradient_of(source, arguments), arguments, "mirror")
    assert found.policy == "mirror" and (found.peak_before, found.peak_after) == (plain[0], mirrored[0])
    assert found.saved_bytes is not None and found.saved_bytes < plain[1]


@pytest.mark.usefixtures("op_by_op")  # estimates are those of ops
def test_estimates_are_near_what_is_measured() -> None:
    arguments = [array(256, 128), array(128, 512), array(512), array(512, 64)]
    gradient = gradient_of(LAYER, arguments)
    for spec in ("save_all", "min_cut"):
        found = under(gradient, arguments, spec)
        assert found.peak_after is not None
        assert 0.6 < measured_peak(found.gradient, arguments) / found.peak_after < 1.4


def test_predicate_is_honoured() -> None:
    def all_but_gelu(node: Node) -> bool:
        return node.kind != "aten::gelu"

    gradient = gradient_of(LAYER, LAYER_ARGUMENTS)
    for name in ("mirror", "min_cut", "recompute_all"):
        found = under(gradient, LAYER_ARGUMENTS, Policy(name, predicate=all_but_gelu))
        assert "h" in kept(found)
        mirrored = {n.kind for n in walk(found.gradient.df.nodes) if n.attrs.get("stage") == "mirror"}
        assert "aten::gelu" not in mirrored


def test_random_ops_run_once() -> None:
    """A predicate has no say in what is random: the seed is kept, and what follows from it may be drawn again."""
    source = "def f(x):\n    return torch.exp(F.dropout(torch.sin(x), 0.5)).sum()\n"
    arguments = [array(50)]
    found = under(gradient_of(source, arguments), arguments, Policy("recompute_all", predicate=lambda node: True))
    assert not any(n.kind == "gs::seed" for n in walk(found.gradient.df.nodes))


@pytest.mark.parametrize("spec", ["save_all", "mirror", "min_cut", "recompute_all"])
def test_words_of_the_source(spec: str) -> None:
    source = """
def f(x, w):
    h = gs.save(torch.tanh(x @ w))
    y = gs.recompute(torch.exp(h * 0.1) @ w)
    return (torch.sin(y * h) ** 2).sum()
"""
    arguments = [array(8, 8), array(8, 8, seed=1)]
    gradient = gradient_of(source, arguments)
    found = under(gradient, arguments, spec)
    assert "h" in kept(found) and "y" in repeated(found)
    reasons = {d.name: d.reason for d in found.decisions}
    assert reasons["h"] == "the source says gs.save" and reasons["y"] == "the source says gs.recompute"
    assert_same_bits(results(found.gradient, arguments), results(gradient, arguments))


def test_words_print_and_are_identities() -> None:
    source = "def f(x: Tensor) -> Tensor:\n    return torch.sin(gs.recompute(gs.save(x)))\n"
    unit = gs.CompilationUnit(source)
    assert unit.code == source
    x = array(4)
    plain = gs.CompilationUnit("def f(x):\n    return torch.sin(x)\n")
    assert unit.f(x).tobytes() == plain.f(x).tobytes()
    from gradscript.runtime.execution.compilation import compile_graph

    assert not any(node.kind.startswith("gs::") for node in compile_graph(unit.f.graph, None).all_nodes())


def test_names_and_stages() -> None:
    found = under(gradient_of(LAYER, LAYER_ARGUMENTS), LAYER_ARGUMENTS, "recompute_all").gradient
    mirrored = [n for n in found.df.nodes if n.attrs.get("stage") == "mirror"]
    assert {"aten::matmul", "aten::gelu"} <= {n.kind for n in mirrored}
    tensors = [v for n in mirrored for v in n.outputs if str(v.type).startswith("Tensor")]
    assert tensors and all("_mirror" in value.name_hint for value in tensors)
    assert not any("stage" in node.attrs for node in walk(found.f.nodes))
    again = gs.parse_ir(str(found.df))
    assert str(again) == str(found.df)


def test_views_and_inputs_are_free() -> None:
    source = "def f(x, w):\n    return (torch.sin(x.t()) @ w.t()).sum()\n"
    arguments = [array(8, 4), array(3, 8)]
    found = under(gradient_of(source, arguments), arguments, "save_all")
    free = [d for d in found.decisions if d.nbytes == 0]
    assert free and all("lives anyway" in d.reason for d in free)


def test_decisions_point_at_the_source() -> None:
    found = under(gradient_of(LAYER, LAYER_ARGUMENTS), LAYER_ARGUMENTS, "min_cut")
    lines = {d.name: d.span.line for d in found.decisions}
    assert lines["z"] == 3 and lines["h"] == 4


CHAIN = "def f(x):\n" + "    x = torch.sin(x) * 1.1\n" * 24 + "    return x.sum()\n"


def test_budget_on_a_chain() -> None:
    """Kept bytes stay under the budget, and the peak falls with them, as no cut of a uniform chain could have it."""
    arguments = [array(1000)]
    gradient = gradient_of(CHAIN, arguments)
    expected = results(gradient, arguments)
    plain = under(gradient, arguments, "save_all")
    assert plain.peak_after is not None
    for budget in (8_000, 16_000, 40_000):
        found = under(gradient, arguments, budget)
        assert found.policy == "budget" and found.saved_bytes is not None and found.saved_bytes <= budget
        assert found.peak_after is not None and found.peak_after < 0.6 * plain.peak_after
        assert_same_bits(results(found.gradient, arguments), expected)


def unreached(name: str, **options: Any) -> Any:
    unit = gs.CompilationUnit("def f(x, y):\n    return (x * x).sum()\n")
    return gs.grad(unit.f, ("x", "y").index(name), **options)


def test_unreached_arguments() -> None:
    with pytest.raises(gs.CompileError, match="cannot differentiate with respect to 'y': it does not reach") as error:
        unreached("y")
    assert error.value.code == "E409" and error.value.span.line == 1
    assert not unreached("y", allow_unused=True)(array(2), array(3)).any()
    assert unreached("x")(array(2), array(3)).shape == (2,)


def test_reaching_through_control_flow() -> None:
    source = """
def f(x, y, z, u):
    for i in range(3):
        if float(y.sum()) > 0:
            x = x * 2
        u = u * z
    return x.sum()
"""
    unit = gs.CompilationUnit(source)
    for index, reaches in enumerate((True, True, False, False)):
        if reaches:
            gs.grad(unit.f, index)
        else:
            with pytest.raises(gs.CompileError):
                gs.grad(unit.f, index)


def test_ops_without_a_gradient_are_named() -> None:
    unit = gs.CompilationUnit("def f(x):\n    y = x * 2\n    return torch.special.zeta(y, 2.0).sum()\n")
    with pytest.raises(gs.CompileError, match=r"zeta.* has no gradient") as error:
        gs.grad(unit.f)
    assert error.value.code == "E408" and error.value.span.line == 3


def test_one_gradient_for_two_arguments() -> None:
    """Each gets an array of its own."""
    unit = gs.CompilationUnit("def f(x, y, z: List[Tensor]):\n    return x + y + z[0] + z[1]\n")
    _, pullback = gs.vjp(unit.f, array(3), array(3), [array(3), array(3)])
    x, y, (first, second) = pullback(array(3))
    arrays = [x, y, first, second]
    assert not any(a is b for i, a in enumerate(arrays) for b in arrays[:i])
