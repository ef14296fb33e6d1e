"""What a report holds, how arguments are found or given, and what each kind of failure says."""

from __future__ import annotations

import json

import gradscript as gs
import numpy as np
import pytest


def unit(source: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(source, "unit.gs")


SIGN = """
def silu(x):
    s = torch.sigmoid(x)

    def backward(grad_output):
        return grad_output * s * (1 - x * (1 - s))

    return x * s, backward
"""


def test_the_report_is_text_and_data() -> None:
    report = gs.check(unit(SIGN).silu)
    (failure,) = report.failures
    assert (failure.argument, failure.kind, failure.order) == ("x", "value", 1)
    assert failure.message == "the gradient of 'x' is wrong: `x * (1 - s)` has the wrong sign"
    assert failure.span is not None and (failure.span.line, failure.span.column) == (6, 39)
    text = str(report)
    assert text.startswith("silu: 1 failure\n")
    assert "   6 |         return grad_output * s * (1 - x * (1 - s))\n" in text
    assert "     |                                       ^^^^^^^^^^^\n" in text
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is False
    assert data["failures"][0]["span"]["text"] == "x * (1 - s)"
    assert {"argument", "order", "tried", "shapes", "dtype", "max_error", "verdict"} == set(data["cases"][0])


def test_the_same_function_gives_the_same_report() -> None:
    assert str(gs.check(unit(SIGN).silu)) == str(gs.check(unit(SIGN).silu))


def test_shapes_cover_broadcasting_numbers_single_elements_and_nothing() -> None:
    source = """
def mul(a, b):
    def backward(g):
        return (g * b).sum_to_size(a.size()), (g * a).sum_to_size(b.size())

    return a * b, backward
"""
    shapes = {case.shapes for case in gs.check(unit(source).mul).cases}
    for wanted in [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), ()), ((1,), (1,))]:
        assert wanted in shapes
    assert any(0 in shape for pair in shapes for shape in pair)
    assert {case.dtype for case in gs.check(unit(source).mul).cases} == {"float64", "float32"}


def test_an_example_is_what_is_tried() -> None:
    report = gs.check(unit(SIGN).silu, np.linspace(-1, 1, 7))
    assert {case.shapes for case in report.cases} == {((7,),)}
    assert not report.ok


def test_keyword_arguments_of_an_example() -> None:
    source = """
def scaled(x, *, by: float):
    def backward(g):
        return g * by, None

    return x * by, backward
"""
    assert gs.check(unit(source).scaled, np.arange(3.0), by=2.0).ok


def test_an_example_that_does_not_run_is_a_failure() -> None:
    report = gs.check(unit(SIGN).silu, "no tensor")
    assert [failure.kind for failure in report.failures] == ["no_inputs"]


def test_without_arguments_that_fit_the_author_is_told_what_to_write() -> None:
    source = """
def picky(x):
    assert x.dim() == 2 and x.size(0) == 17 and x.size(1) == 19

    def backward(g):
        return g * 2

    return x * 2, backward
"""
    (failure,) = gs.check(unit(source).picky).failures
    assert failure.kind == "no_inputs"
    assert "def picky_examples(): return [(x,), …]" in str(failure)
    beside = source + "\n\ndef picky_examples():\n    return [torch.zeros([17, 19])]\n"
    report = gs.check(unit(beside).picky)
    assert report.ok, str(report)
    assert {case.shapes for case in report.cases} == {((17, 19),)}


@pytest.mark.parametrize(
    "returned",
    [
        "return [(torch.zeros([3]), 2), (torch.ones([2, 2]), 3)]",
        "return (torch.zeros([3]), 2), (torch.ones([2, 2]), 3)",
        "return torch.zeros([3]), 2",
    ],
)
def test_forms_of_examples_beside_a_formula(returned: str) -> None:
    source = f"""
def times(x, n: int):
    def backward(g):
        return g * n, None

    return x * n, backward


def times_examples():
    {returned}
"""
    report = gs.check(unit(source).times)
    assert report.ok, str(report)
    assert ((3,),) in {case.shapes for case in report.cases}


def test_a_function_without_a_backward_is_checked_by_autodiff() -> None:
    source = "def f(x, y):\n    return torch.tanh(x * y) + x\n"
    report = gs.check(unit(source).f)
    assert report.ok, str(report)
    assert {case.order for case in report.cases} == {1, 2}


def test_a_gradient_that_is_none_is_right_where_nothing_depends_on_the_input() -> None:
    source = """
def first(x, y):
    def backward(g):
        return g, None

    return x * 1, backward
"""
    assert gs.check(unit(source).first).ok


def test_an_input_that_is_detached_needs_no_gradient() -> None:
    source = """
def loss(x, target):
    def backward(g):
        return (2 * g * (x - target)).sum_to_size(x.size()), None

    return (x - target.detach()) ** 2, backward
"""
    report = gs.check(unit(source).loss)
    assert report.ok, str(report)


def test_shapes_that_are_not_meant_can_be_ruled_out() -> None:
    source = """
def cosine(a, b):
    na = (a * a).sum(-1, keepdim=True).sqrt()
    nb = (b * b).sum(-1, keepdim=True).sqrt()
    c = (a * b).sum(-1, keepdim=True) / (na * nb)

    def backward(g):
        g = g.unsqueeze(-1)
        return g * (b / (na * nb) - c * a / (na * na)), g * (a / (na * nb) - c * b / (nb * nb))

    return c.squeeze(-1), backward
"""
    source = source.replace("return g * (b", "return (g * (b")
    source = source.replace("(na * na)),", "(na * na))).sum_to_size(a.size()),")
    assert "if it is not meant for these, `assert` so" in str(gs.check(unit(source).cosine))
    narrowed = source.replace("def cosine(a, b):\n", "def cosine(a, b):\n    assert a.size() == b.size()\n")
    report = gs.check(unit(narrowed).cosine)
    assert report.ok, str(report)


def test_a_backward_may_refuse_shapes_unless_the_function_is_pointwise() -> None:
    source = """
def product(x, w):
    def backward(g):
        return g @ w.t(), x.t() @ g

    return x @ w, backward
"""
    report = gs.check(unit(source).product)
    assert report.ok
    assert any("takes shapes that the backward does not" in warning.message for warning in report.warnings)
    assert {warning.argument for warning in report.warnings} <= {"x", "w"}
    assert "unsupported" in {case.verdict for case in report.cases}


def test_a_backward_that_cannot_be_differentiated_is_a_note() -> None:
    source = """
def f(x):
    def backward(g):
        return g * 2

    return x * 2, backward
"""
    report = gs.check(unit(source).f)
    assert report.ok


def test_something_else_than_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"gs\.check takes a Function"):
        gs.check(lambda x: x)  # type: ignore[arg-type]


def test_asserted_domains_are_found() -> None:
    source = """
def logit(p):
    assert bool((p > 0).all()) and bool((p < 1).all()), "probabilities"

    def backward(g):
        return g / (p * (1 - p))

    return torch.log(p / (1 - p)), backward
"""
    report = gs.check(unit(source).logit)
    assert report.ok, str(report)


def test_missing_and_extra_terms_are_told_apart() -> None:
    missing = """
def f(x, y):
    def backward(g):
        return (g * y).sum_to_size(x.size()), (g * x).sum_to_size(y.size())

    return x * y + x * x * x, backward
"""
    assert "a term is missing: `+ 3 * " in gs.check(unit(missing).f).failures[0].message
    extra = missing.replace("x * y + x * x * x", "x * y").replace("(g * y)", "(g * y + g * torch.sin(x))")
    assert "`g * torch.sin(x)` should not be there" in gs.check(unit(extra).f).failures[0].message


HINTS = {
    "torch.where(x > t, x, torch.log1p(torch.exp(x)))": (
        "torch.where(x > t, g * 0.5, g * torch.sigmoid(x))",
        "`0.5` should be 1",
    ),
    "torch.where(x.abs() <= 1 + t * t, x * x, x.abs() * (2 + 2 * t * t) - (1 + t * t) ** 2)": (
        "torch.where(x.abs() <= 1 + t * t, g * 2 * x, g * 2 * torch.sign(x))",
        "is off by",
    ),
    "x ** 3 * (t * t + 1)": ("g * 3 * x ** 3 * (t * t + 1)", "`3` should be 2"),
}
"""By forward of a tensor and a number: a backward, and what is true of it whatever the number is."""


@pytest.mark.parametrize("forward", HINTS)
def test_what_is_told_holds_for_other_numbers_too(forward: str) -> None:
    backward, told = HINTS[forward]
    head = "def f(x, t: float = 20.0):\n    def backward(g):\n"
    source = f"{head}        return {backward}, None\n    return {forward}, backward\n"
    (failure,) = gs.check(unit(source).f).failures
    assert told in failure.message
    assert "times what it should be" not in failure.message


def test_a_gradient_that_is_zero_here_and_there_is_not_told_to_be_zero() -> None:
    source = """
def f(x, alpha):
    assert alpha.dim() == 0

    def backward(g):
        e = torch.exp(x)
        return torch.where(x > 0, g, g * alpha * e), (g * e).sum()

    return torch.where(x > 0, x, alpha * (torch.exp(x) - 1)), backward
"""
    (failure,) = gs.check(unit(source).f).failures
    assert failure.argument == "alpha"
    assert "zero" not in failure.message


def test_other_shapes_are_no_reason_where_numbers_are() -> None:
    source = """
def f(x):
    y = x.sum()
    z = x * 2 if bool(y > 137.5) else x * 3

    def backward(g):
        return g * 3

    return z, backward
"""
    (failure,) = gs.check(unit(source).f).failures
    assert not any("other shapes" in note for note in failure.notes)


def test_a_second_derivative_that_is_no_number_is_told_so() -> None:
    source = """
def f(x):
    def backward(g):
        return torch.where(x > 0, g * torch.log(x) + g, g * 0)

    return torch.where(x > 0, torch.xlogy(x, x), x * 0), backward
"""
    (failure,) = gs.check(unit(source).f).failures
    assert "holds NaN" in failure.message
    assert any("torch.where(x > 0, x, 1.0)" in note for note in failure.notes)


def test_numbers_that_take_another_branch_of_as_many_steps_are_no_evidence() -> None:
    source = """
def f(x, t: float = 2.0):
    def backward(g):
        if t > 1.0:
            return -g * torch.cos(x), None
        return g.sum().expand(x.size()) * torch.exp(torch.clone(x)), None

    return torch.sin(x) if t > 1.0 else torch.exp(x), backward
"""
    assert {failure.kind for failure in gs.check(unit(source).f).failures} == {"value"}


def test_gradients_that_differentiation_sums_to_no_dimensions_are_right_to_second_order() -> None:
    unit = gs.CompilationUnit("""
def rms_norm(x, weight, eps: float = 1e-6):
    rstd = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)

    def backward(dy):
        unit = x * rstd
        dw = (dy * unit).sum(dim=tuple(range(dy.dim() - 1)))
        dx = (dy * weight - unit * (unit * dy * weight).mean(dim=-1, keepdim=True)) * rstd
        return dx, dw, None

    return x * rstd * weight, backward
""")
    report = gs.check(unit.rms_norm)
    assert report.ok, report
