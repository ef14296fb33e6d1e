"""The step of a backward that is wrong, where no change of a term says it: what it should have made is solved for."""

from __future__ import annotations

import gradscript as gs
import pytest
from gradscript.authoring.trials.report import Failure

TWO_LINES = """
def f(x, w):
    y = torch.tanh(x)

    def backward(g):
        slope = SLOPE
        inner = g * w * slope
        grad_w = (g * y).sum_to_size(w.size())
        return inner.sum_to_size(x.size()), grad_w

    return y * w, backward
"""

SHARED = """
def f(x, w):
    def backward(g):
        inner = INNER
        grad_x = (inner * w).sum_to_size(x.size())
        grad_w = (inner * x).sum_to_size(w.size())
        return grad_x, grad_w

    return torch.sin(x * w), backward
"""


def failures(source: str) -> list[Failure]:
    return list(gs.check(gs.CompilationUnit(source, "unit.gs").f).failures)


@pytest.mark.parametrize("slope", ["y * y", "1 - y", "(1 - y * y) * y", "1 + y * y", "2 - y * y"])
def test_the_line_of_a_value_that_is_used_later(slope: str) -> None:
    assert not failures(TWO_LINES.replace("SLOPE", "1 - y * y"))
    (failure,) = failures(TWO_LINES.replace("SLOPE", slope))
    assert (failure.argument, failure.span.line) == ("x", 6), failure


@pytest.mark.parametrize("inner", ["g * torch.sin(x * w)", "g / torch.cos(x * w)", "g * torch.cos(x / w)"])
def test_what_several_gradients_are_computed_by_is_wrong_once(inner: str) -> None:
    assert not failures(SHARED.replace("INNER", "g * torch.cos(x * w)"))
    found = failures(SHARED.replace("INNER", inner))
    assert {(failure.argument, failure.span.line) for failure in found} == {("x", 4), ("w", 4)}, found


def test_a_wrong_shape_is_told_where_a_factor_was_lost() -> None:
    source = """
def f(x):
    y = torch.logsumexp(x, [-1], keepdim=True)

    def backward(g):
        share = g
        return share * 1.0

    return y, backward
"""
    (failure,) = failures(source)
    assert failure.kind == "shape"
    assert failure.span.line in (6, 7)


def test_decompositions_read_one_triangle() -> None:
    source = """
def f(x):
    root = torch.linalg.cholesky(x)

    def backward(g):
        inner = root.mT.matmul(g).tril()
        inner = inner - 0.5 * torch.diag_embed(torch.diagonal(inner, 0, -2, -1), 0, -2, -1)
        whole = torch.linalg.solve(root.mT, inner)
        whole = torch.linalg.solve(root.mT, whole.mT).mT
        return FACTOR * (whole + whole.mT)

    return root, backward
"""
    assert gs.check(gs.CompilationUnit(source.replace("FACTOR", "0.5")).f).ok
    assert not gs.check(gs.CompilationUnit(source.replace("FACTOR", "0.6")).f).ok


def test_a_comparison_that_a_tie_decides_is_reached() -> None:
    source = """
def f(x):
    y = torch.relu(x)

    def backward(g):
        return torch.where(y <= 0, 0.0, g)

    return y, backward
"""
    report = gs.check(gs.CompilationUnit(source).f)
    assert report.ok, str(report)


def test_examples_are_all_meant_and_varied_in_numbers() -> None:
    source = """
def f(x, scale: float = 1.0):
    def backward(g):
        return g OP scale, None

    return x * scale, backward


def f_examples():
    return [(torch.zeros([3, 4]), 1.0)]
"""
    assert gs.check(gs.CompilationUnit(source.replace("OP", "*")).f).ok
    assert not gs.check(gs.CompilationUnit(source.replace("OP", "/")).f).ok


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            """
def f(x, k: int):
    assert k >= 1
    outs = [x]
    for i in range(k):
        outs.append(outs[-1] * 0.5)

    def backward(gs: List[Tensor]):
        acc = torch.zeros_like(x)
        f = 1.0
        for g in gs:
            acc = acc + g * f
            f = 0.5
        return acc, None

    return outs, backward
""",
            ("acc = acc + g * f", "f = 0.5"),
        ),
        (
            """
def f(xs: List[Tensor], w):
    total = torch.zeros_like(w)
    for x in xs:
        total = total + x * w

    def backward(g):
        acc = torch.zeros_like(w)
        for x in xs:
            acc = g * x
        return [(g * w).sum_to_size(x.size()) for x in xs], acc.sum_to_size(w.size())

    return total, backward
""",
            ("acc = g * x",),
        ),
    ],
)
def test_of_what_runs_in_every_round_no_change_of_one_round_is_told(text: str, written: tuple[str, ...]) -> None:
    report = gs.check(gs.CompilationUnit(text).f)
    (failure,) = report.failures
    assert "is off by" in failure.message
    assert "should be" not in failure.message and "lacks" not in failure.message
    lines = [number for number, line in enumerate(text.split("\n"), 1) if line.strip() in written]
    told = [span.line for span in (failure.span, *failure.also) if span is not None]
    assert set(told) & set(lines)
