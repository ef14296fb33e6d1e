"""Gradients that are declared to be other than the derivative, and constants."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest


def unit(source: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(source, "unit.gs")


def surrogate(forward: str, gradient: str, parameters: str = "x") -> gs.Function:
    rest = ", None" * parameters.count(",")
    inner = f'    def backward(g):\n        return gs.surrogate({gradient}, "as meant"){rest}\n'
    return unit(f"def f({parameters}):\n{inner}\n    return {forward}, backward\n").f


@pytest.mark.parametrize(
    ("forward", "gradient"),
    [
        ("torch.round(x)", "g"),
        ("x * 1", "-g"),
        ("x.clamp(-1.0, 1.0)", "g"),
        ("(x > 0) * 1.0", "g / (1 + 10 * x.abs()) ** 2"),
        ("torch.sign(x)", "g * (x.abs() < 1)"),
    ],
)
def test_a_surrogate_is_no_mistake(forward: str, gradient: str) -> None:
    report = gs.check(surrogate(forward, gradient))
    assert report.ok, str(report)
    assert not report.warnings
    assert report.rows()[0][-1] == "surrogate"
    assert "x is a surrogate: as meant" in str(report)


@pytest.mark.parametrize(
    ("gradient", "kind"), [("g.sum()", "shape"), ("g / (x - x)", "nan"), ("g.to(torch.float32)", "dtype")]
)
def test_a_surrogate_has_the_shape_and_dtype_of_its_input(gradient: str, kind: str) -> None:
    assert kind in {failure.kind for failure in gs.check(surrogate("torch.round(x)", gradient)).failures}


@pytest.mark.parametrize("gradient", ["g * g", "g.clamp(-0.7, 0.7)", "g + 1"])
def test_a_surrogate_that_is_not_linear_says_so_or_is_a_mistake(gradient: str) -> None:
    (failure,) = gs.check(surrogate("torch.round(x)", gradient)).failures
    assert (failure.kind, failure.argument, failure.span.line) == ("surrogate", "x", 3)
    assert "linear=False" in " ".join(failure.notes)
    meant = f'    def backward(g):\n        return gs.surrogate({gradient}, "bent", linear=False)\n'
    report = gs.check(unit(f"def f(x):\n{meant}\n    return torch.round(x), backward\n").f)
    assert report.ok, str(report)
    assert report.rows()[0][-1] == "surrogate"


def test_other_arguments_are_checked_as_ever() -> None:
    source = """
def f(x, w):
    def backward(g):
        grad_w = g * torch.round(x) * FACTOR
        return gs.surrogate((g * w).sum_to_size(x.size()), "through"), grad_w.sum_to_size(w.size())

    return torch.round(x) * w, backward
"""
    assert gs.check(unit(source.replace("FACTOR", "1")).f).ok
    assert {f.argument for f in gs.check(unit(source.replace("FACTOR", "2")).f).failures} == {"w"}


def test_a_value_that_should_be_zero_tells_of_surrogates() -> None:
    source = "def f(x):\n    def backward(g):\n        return g\n\n    return torch.round(x), backward\n"
    (failure,) = gs.check(unit(source).f).failures
    assert any("gs.surrogate" in note for note in failure.notes)


def test_a_constant_stays_what_it_is() -> None:
    source = """
def half(x):
    return x * gs.constant(x)


def f(x):
    y = gs.constant(torch.exp(x))

    def backward(g):
        return g * y

    return x * y, backward
"""
    functions = unit(source)
    assert gs.grad(functions.half)(3.0) == 3.0
    for name in ("half", "f"):
        report = gs.check(functions[name])
        assert report.ok, str(report)
    assert not gs.check(unit(source.replace("g * y", "g * y * (1 + x)")).f).ok


def test_an_argument_that_is_a_constant_has_no_gradient() -> None:
    source = """
def f(x, target):
    target = gs.constant(target)

    def backward(g):
        return (2 * g * (x - target)).sum_to_size(x.size()), None

    return (x - target) ** 2, backward
"""
    report = gs.check(unit(source).f)
    assert report.ok, str(report)
    assert {row[0]: row[-1] for row in report.rows() if row[1] == "1st"} == {"x": "ok", "target": "constant"}


def test_source_and_lifted_text_say_it() -> None:
    inner = '    def backward(g):\n        return gs.surrogate(g, "why")\n'
    source = f"def f(x):\n{inner}\n    return gs.constant(x) + x, backward\n"
    function = unit(source).f
    assert 'gs.surrogate(g, "why")' in function.code
    assert 'gs.surrogate(g, "why")' in function.show("lifted")
    assert "gs.constant(x)" in function.show("lifted")
    again = gs.CompilationUnit(function.code).f
    np.testing.assert_array_equal(gs.vjp(again, np.ones(3))[1](np.ones(3))[0], np.ones(3))


HELD = {
    "a function of an argument": "z = (y * 2).detach()\n    return y * z * x",
    "straight through": "return x + (torch.round(x) - x).detach()",
    "in a loop": "for i in range(n):\n        x = x * y + (x * x).detach()\n    return x",
    "in a branch": "s = x.sum().detach() if n > 1 else x.mean()\n    return x * s",
    "under no_grad": "with torch.no_grad():\n        m = (x * x).sum() / 7\n    return x * m",
    "in what is called": "return called(x) + called(3 * x)",
    "written through": "z = x * 2\n    z.detach().mul_(y)\n    return z * z",
    "with a backward": """s = x.sum().detach()

    def backward(g):
        return g * s, None, None

    return x * s, backward""",
}
"""Functions of `x`, `y` and a number."""


@pytest.mark.parametrize("source", HELD.values(), ids=HELD)
def test_what_is_detached_is_held_still(source: str) -> None:
    called = "def called(x):\n    return x * x.detach()\n\n\n"
    report = gs.check(unit(f"{called}def f(x, y, n: int):\n    {source}\n").f)
    assert report.ok, str(report)
    assert not report.warnings


@pytest.mark.parametrize(
    ("forward", "gradient"), [("x * x.detach()", "2 * g * x"), ("x * x.sum().detach()", "g * x.sum() + g * x")]
)
def test_a_backward_that_moves_what_is_detached_is_wrong(forward: str, gradient: str) -> None:
    source = f"def f(x):\n    def backward(g):\n        return {gradient}\n\n    return {forward}, backward\n"
    (failure,) = gs.check(unit(source).f).failures
    assert (failure.kind, failure.argument, failure.span.line) == ("value", "x", 3)


def test_a_constant_in_the_forward_excuses_no_other_second_derivative() -> None:
    source = """
def f(x):
    s = x.sum().detach()

    def backward(g):
        return g * (s + torch.exp(x).detach())

    return x * s + torch.exp(x), backward
"""
    assert [failure.kind for failure in gs.check(unit(source).f).failures] == ["second_order"]


def test_a_function_that_calls_one_with_a_surrogate_has_one() -> None:
    source = """
def rounded(x):
    def backward(g):
        return gs.surrogate(g, "straight through")

    return torch.round(x), backward


def f(x, w):
    return rounded(3 * x) * w
"""
    report = gs.check(unit(source).f)
    assert report.ok, str(report)
    assert {row[0]: row[-1] for row in report.rows() if row[1] == "1st"} == {"x": "surrogate", "w": "ok"}
