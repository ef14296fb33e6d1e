"""Arguments of every type are drawn from types and asserts, and what is not checked, or not meant, is said."""

from __future__ import annotations

import gradscript as gs
import pytest

PLAIN = {
    "an int that is compared": (
        "x, n: int",
        "x * 2 if n > 17 else x * 1",
        "g * (FACTOR if n > 17 else 1), None",
    ),
    "a size that is compared": ("x", "x * 2 if x.size(0) > 10 else x * 1", "g * (FACTOR if x.size(0) > 10 else 1)"),
    "a text that is none of those named": (
        "x, mode: str = 'one'",
        "x * 1 if mode == 'one' else x * 2",
        "g * (1 if mode == 'one' else FACTOR), None",
    ),
    "a flag and an int together": (
        "x, flag: bool, n: int",
        "x * 2 if flag and n == 9 else x * 1",
        "g * (FACTOR if flag and n == 9 else 1), None, None",
    ),
    "an optional number": (
        "x, by: Optional[float] = None",
        "x * 2 if by is None else x * by",
        "g * (FACTOR if by is None else by), None",
    ),
    "a list of numbers": ("x, w: List[float]", "x * (2 * w[0])", "g * (FACTOR * w[0]), None"),
    "a tuple": ("x, p: Tuple[int, float]", "x * (2 * p[1])", "g * (FACTOR * p[1]), None"),
}


@pytest.mark.parametrize("case", PLAIN)
@pytest.mark.parametrize("factor", ["2", "3"])
def test_plain_arguments_reach_what_they_decide(case: str, factor: str) -> None:
    parameters, forward, backward = PLAIN[case]
    inner = f"    def backward(g):\n        return {backward}\n"
    source = f"def f({parameters}):\n{inner}\n    return {forward}, backward\n"
    report = gs.check(gs.CompilationUnit(source.replace("FACTOR", factor), "unit.gs").f)
    assert report.ok is (factor == "2"), str(report)


def checked(source: str, name: str = "f") -> gs.CheckReport:
    return gs.check(gs.CompilationUnit(source, "unit.gs")[name])


def test_a_name_is_no_reason_to_skip_floating_numbers() -> None:
    source = """
def f(x, target):
    def backward(g):
        return (2 * g * (x - target)).sum_to_size(x.size()), None

    return (x - target) ** 2, backward
"""
    (failure,) = checked(source).failures
    assert (failure.argument, failure.kind) == ("target", "none")


def test_an_argument_that_holds_no_numbers_is_said_not_to_be_checked() -> None:
    source = """
def f(x, mask):
    def backward(g):
        return (g * mask).sum_to_size(x.size()), None

    return torch.where(mask, x, 0.0), backward
"""
    report = checked(source)
    assert report.ok, str(report)
    assert "mask was not checked: it held bool" in str(report)


def test_sums_that_differentiation_makes_are_a_warning() -> None:
    source = """
def f(x, y):
    def backward(g):
        return g * y, g * x

    return x * y, backward
"""
    report = checked(source)
    assert report.ok
    assert [(w.argument, w.kind) for w in report.warnings] == [("x", "shape"), ("y", "shape")]
    assert "warning[shape]" in str(report)
    half = source.replace("return g * y", "return (g * y).sum_to_size(x.size())")
    assert [(f.argument, f.kind) for f in checked(half).failures] == [("y", "shape")]


def test_a_negative_number_of_rounds_is_a_warning() -> None:
    source = """
def f(x, n: int):
    y = torch.ones_like(x)
    for i in range(n):
        y = y * x

    def backward(g):
        return g * n * x ** (n - 1), None

    return y, backward
"""
    report = checked(source)
    assert report.ok, str(report)
    assert [w.kind for w in report.warnings] == ["value"]
    wrong = checked(source.replace("g * n *", "g * (n + 1) *"))
    assert [f.kind for f in wrong.failures] == ["value"]


def test_integer_results_have_nothing_to_differentiate() -> None:
    source = """
def f(x):
    def backward(g):
        return RETURNED

    return x.argmax(-1), backward
"""
    report = checked(source.replace("RETURNED", "None"))
    assert report.ok
    assert any("nothing to differentiate" in note for note in report.notes)
    (failure,) = checked(source.replace("RETURNED", "g * x")).failures
    assert "its results hold no floating numbers" in failure.message


def test_a_row_that_is_masked_altogether_is_no_fault() -> None:
    source = """
def f(x, mask):
    y = torch.softmax(x.masked_fill(~mask, float("-inf")), -1)

    def backward(g):
        return (y * (g - (g * y).sum(-1, keepdim=True))).sum_to_size(x.size()), None

    return y, backward
"""
    report = checked(source)
    assert report.ok, str(report)
    assert "mask was not checked" in str(report)


@pytest.mark.parametrize(
    ("backward", "hint"),
    [("g * 3 * x ** 3", "`3` should be 4"), ("(3 * g * x ** 3) * (x * 0 + 1)", "`3` should be 4")],
)
def test_the_number_that_a_person_wrote_wrong_is_named(backward: str, hint: str) -> None:
    source = f"def f(x):\n    def backward(g):\n        return {backward}\n\n    return x ** 4, backward\n"
    (failure,) = checked(source).failures
    assert hint in failure.message


def test_a_number_that_is_right_for_one_shape_only_is_no_hint() -> None:
    inner = "    def backward(g):\n        return (g / 3).expand(x.size())\n"
    source = f"def f(x):\n{inner}\n    return x.mean(), backward\n"
    (failure,) = checked(source).failures
    assert "should be" not in failure.message


def test_what_a_backward_refuses_by_itself_is_said() -> None:
    source = """
def f(x, n: int):
    def backward(g):
        if n == 4:
            raise ValueError("no gradient for four")
        return g * n, None

    return x * n, backward
"""
    report = checked(source)
    assert report.ok, str(report)
    assert any("no gradient for four" in note for note in report.notes)
    assert not checked(source.replace("if n == 4", "if x.dim() >= 0")).ok


GATHER = """
def f(x, idx: Tensor):
    def backward(g):
        return torch.zeros_like(x).SCATTER(1, idx, g), None

    assert x.dim() == 2 and idx.dim() == 2
    return x.gather(1, idx), backward
"""


@pytest.mark.parametrize("scatter", ["scatter_add", "scatter"])
def test_what_runs_without_elements_only_does_not_stand_for_the_rest(scatter: str) -> None:
    # Floating numbers fit as indices where there are none of them.
    report = checked(GATHER.replace("SCATTER", scatter))
    assert report.ok is (scatter == "scatter_add"), str(report)


def test_a_gradient_that_never_had_elements_is_not_right() -> None:
    head = "def f(x):\n    def backward(g):\n        return g * 3\n\n"
    (failure,) = checked(f"{head}    assert x.numel() == 0\n    return x * 2, backward\n").failures
    assert failure.kind == "no_inputs" and "with elements in 'x'" in failure.message


def test_examples_give_keyword_only_arguments_behind_the_others() -> None:
    source = """
def f(x, *, factor: float, how: Optional[str]):
    def backward(g):
        return g if how is None else g * factor, None, None

    return x * 1 if how is None else x * factor, backward


def f_examples():
    return ((torch.zeros([3]), 2.0, "much"), (torch.zeros([3]), 3.0, None))
"""
    report = checked(source)
    assert report.ok and report.coverage.plain["how"] == ["much", None], str(report)
