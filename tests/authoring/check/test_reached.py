"""What a check goes after: sizes, branches, kinks; and what it says it has not seen."""

from __future__ import annotations

import gradscript as gs
import pytest


def checked(source: str, name: str = "f") -> gs.CheckReport:
    return gs.check(gs.CompilationUnit(source, "unit.gs")[name])


# --- sizes ---

CONVOLUTION = """
def f(x, w, b):
    def backward(g):
        gx = F.conv_transpose2d(g, w)
        gw = F.conv2d(x.transpose(0, 1), g.transpose(0, 1)).transpose(0, 1)
        return gx, gw, g.sum((0, 2, 3))

    return F.conv2d(x, w, b), backward
"""


def test_every_dimension_is_nothing_one_two_and_more() -> None:
    report = checked(CONVOLUTION)
    assert report.ok, str(report)
    inputs = [case.shapes[0] for case in report.cases if case.argument == "x"]
    for axis in range(4):
        sizes = {shape[axis] for shape in inputs}
        assert len(sizes) >= 3, (axis, sizes)
    assert {0, 1, 2} <= set(report.coverage.batch)
    assert max(report.coverage.batch) > 2


@pytest.mark.parametrize(
    ("right", "wrong", "argument"),
    [
        ("g.sum((0, 2, 3))", "g[0].sum((1, 2))", "b"),
        ("g.sum((0, 2, 3))", "g.mean(0).sum((1, 2))", "b"),
        (
            "F.conv2d(x.transpose(0, 1), g.transpose(0, 1))",
            "F.conv2d(x[:1].transpose(0, 1), g[:1].transpose(0, 1))",
            "w",
        ),
    ],
)
def test_what_is_right_for_one_sample_only_is_wrong(right: str, wrong: str, argument: str) -> None:
    report = checked(CONVOLUTION.replace(right, wrong))
    assert argument in {failure.argument for failure in report.failures}, str(report)


def test_sizes_that_go_together_stay_together() -> None:
    source = """
def f(logits, target):
    logp = torch.log_softmax(logits, -1)
    onehot = torch.zeros_like(logits).scatter(-1, target.unsqueeze(-1), 1.0)

    def backward(g):
        return (torch.exp(logp) - onehot) * g / target.numel(), None

    return -logp.gather(-1, target.unsqueeze(-1)).mean(), backward
"""
    report = checked(source)
    assert report.ok, str(report)
    assert len({case.shapes for case in report.cases}) > 3


# --- branches ---


@pytest.mark.parametrize(
    "condition", ["x > 20.0", "x < -1000.0", "x * x > 5e4", "(x > 3.0) & (x < 3.05)", "torch.exp(x) > 1e9"]
)
def test_a_side_that_drawn_numbers_do_not_take_is_found(condition: str) -> None:
    source = f"""
def f(x):
    def backward(g):
        return torch.where({condition}, 3 * g, g)

    return torch.where({condition}, 2 * x, x), backward
"""
    report = checked(source)
    assert "value" in {failure.kind for failure in report.failures}, str(report)
    assert any("`3` should be 2" in failure.message for failure in report.failures), str(report)


@pytest.mark.parametrize("condition", ["x.sum() > 300.0", "x.max() > 77.0 and x.min() < -5.0", "(x == 3.0).all()"])
def test_a_branch_that_drawn_numbers_do_not_take_is_found(condition: str) -> None:
    source = f"""
def f(x):
    rare = bool({condition.replace(" and ", ") and bool(")})

    def backward(g):
        if rare:
            return g * 5
        return g * 2

    if rare:
        y = x * 4
    else:
        y = x * 2
    return y, backward
"""
    report = checked(source)
    assert {"value", "kink"} & {failure.kind for failure in report.failures}, str(report)


def test_what_was_not_reached_is_not_right() -> None:
    source = """
def f(x):
    secret = bool((torch.sin(1e6 * x.sum()) == 0.123456789).all())

    def backward(g):
        if secret:
            return g * 5
        return g

    return x * 1, backward
"""
    report = checked(source)
    assert [failure.kind for failure in report.failures] == ["unreached"], str(report)
    assert "`secret` was never taken" in str(report) or "was never taken" in str(report)
    assert len(report.coverage.lines_never_run) == 1
    assert report.coverage.lines_never_run[0].line == 7


def test_an_assertion_is_no_branch() -> None:
    source = """
def f(p):
    assert p.dim() >= 0 and bool((p >= 0).all()), "no negative numbers"

    def backward(g):
        return g * 2 * p

    return p * p, backward
"""
    report = checked(source)
    assert report.ok, str(report)


# --- kinks ---


def pointwise(forward: str, backward: str) -> gs.CheckReport:
    return checked(f"def f(x):\n    def backward(g):\n        return {backward}\n\n    return {forward}, backward\n")


@pytest.mark.parametrize(
    ("forward", "right", "wrong"),
    [
        ("torch.relu(x)", "g * (x > 0)", "g * (x >= 0)"),
        ("torch.abs(x)", "g * torch.sign(x)", "torch.where(x >= 0, g, -g)"),
        ("x.clamp(-0.5, 0.25)", "g * ((x >= -0.5) & (x <= 0.25))", "g * ((x > -0.5) & (x < 0.25))"),
        ("torch.where(x > 7.5, x, 2 * x)", "torch.where(x > 7.5, g, 2 * g)", "torch.where(x >= 7.5, g, 2 * g)"),
        ("F.hardtanh(x)", "g * ((x > -1) & (x < 1))", "g * ((x >= -1) & (x < 1))"),
        ("F.relu6(x * 2)", "2 * g * ((x > 0) & (x < 3))", "2 * g * ((x > 0) & (x <= 3))"),
    ],
)
def test_a_kink_is_held_to_the_conventions(forward: str, right: str, wrong: str) -> None:
    report = pointwise(forward, right)
    assert report.ok, str(report)
    assert report.coverage.kinks
    assert [failure.kind for failure in pointwise(forward, wrong).failures] == ["kink"]


def test_where_kinks_cancel_the_derivative_counts() -> None:
    forward = "x.clamp(min=0.0) + torch.log1p(torch.exp(-x.abs()))"
    report = pointwise(forward, "g * torch.sigmoid(x)")
    assert report.ok, str(report)
    assert report.coverage.kinks
    assert [
        failure.kind for failure in pointwise(forward, "g * torch.where(x == 0, 0.25, torch.sigmoid(x))").failures
    ] == ["kink"]


def test_a_tie_is_held_to_the_conventions() -> None:
    source = """
def f(x, y):
    def backward(g):
        return (g * (x >= y)).sum_to_size(x.size()), (g * (x < y)).sum_to_size(y.size())

    return torch.maximum(x, y), backward
"""
    kinds = {(failure.argument, failure.kind) for failure in checked(source).failures}
    assert kinds == {("x", "kink"), ("y", "kink")}
    halves = source.replace("g * (x >= y)", "g * ((x > y) + 0.5 * (x == y))").replace(
        "g * (x < y)", "g * ((x < y) + 0.5 * (x == y))"
    )
    assert checked(halves).ok, str(checked(halves))


def test_nan_where_the_derivative_is_finite_is_told() -> None:
    (failure,) = checked("def f(x):\n    return torch.where(x > 0, torch.log(x), x)\n").failures
    assert failure.kind == "nan"
    assert "torch.where(x > 0, x, 1.0)" in str(failure)
    report = pointwise("torch.where(x > 0, torch.log(x), x)", "torch.where(x > 0, g / x, g)")
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("value", "right", "wrong"),
    [
        ("torch.nan_to_num(x)", "g * torch.isfinite(x)", "g"),
        ("torch.nansum(x)", "g.expand(x.size()) * ~torch.isnan(x)", "g.expand(x.size())"),
        ("torch.where(torch.isinf(x), 1.0, x)", "torch.where(torch.isinf(x), 0.0, g)", "g"),
    ],
)
def test_what_tells_numbers_from_others_is_held_to_the_conventions_there(value: str, right: str, wrong: str) -> None:
    assert pointwise(value, right).ok, str(pointwise(value, right))
    assert [failure.kind for failure in pointwise(value, wrong).failures] == ["kink"]


def test_what_indices_point_into_has_one_row_and_two() -> None:
    source = """
def f(table, ids):
    assert table.dim() == 2 and ids.dim() == 1

    def backward(g):
        made = torch.zeros_like(table).index_add(0, ids, g)
        return made, None

    return table[ids], backward
"""
    report = checked(source)
    assert report.ok, str(report)
    assert {1, 2} <= {case.shapes[0][0] for case in report.cases}
    wrong = checked(source.replace("return made,", "return made * 2 if table.size(0) == 1 else made,"))
    assert [failure.kind for failure in wrong.failures] == ["value"]


def test_places_that_are_copied_into_are_named_once() -> None:
    report = checked("""
def f(x, index, source):
    assert x.dim() == 1 and index.dim() == 1 and source.dim() == 1

    def backward(g):
        return g.index_fill(0, index, 0), None, g.index_select(0, index)

    return torch.index_copy(x, 0, index, source), backward
""")
    assert report.ok, str(report)


@pytest.mark.parametrize("size", ["x.numel() > 100", "x.dim() > 0 and x.size(0) >= 250"])
def test_sizes_that_the_program_compares_with_are_tried(size: str) -> None:
    right = f"def f(x):\n    def backward(g):\n        return g * 2 if {size} else g * 2\n    return x * 2, backward\n"
    assert checked(right).ok, str(checked(right))
    (failure,) = checked(right.replace("return g * 2 if", "return g * 3 if")).failures
    assert "`3` should be 2" in failure.message


BATCHES = """
def f(x, factor):
    y = torch.cholesky_solve(x, factor)

    def backward(g):
        gx = torch.cholesky_solve(g, factor)
        product = gx.matmul(y.mT)
        gf = -(product + product.mT).matmul(factor.tril()).tril()
        return gx.sum_to_size(x.size()), gf.sum_to_size(factor.size())

    return y, backward
"""


def test_batches_that_are_broadcast_are_tried_of_square_matrices_too() -> None:
    assert checked(BATCHES).ok, str(checked(BATCHES))
    for name in ("x", "factor"):
        report = checked(BATCHES.replace(f".sum_to_size({name}.size())", ""))
        assert [f.argument for f in (*report.failures, *report.warnings)] == [name], str(report)


# --- what no comparison points at ---


@pytest.mark.parametrize(
    ("value", "gradient", "convention"),
    [
        ("x.prod()", "g * x.prod() / x", None),
        ("torch.norm(x)", "g * x / torch.norm(x)", 0.0),
        ("F.softplus(x)", "g * torch.exp(x) / (1 + torch.exp(x))", 1.0),
        ("torch.logsumexp(x.reshape(-1), 0)", "g * torch.exp(x) / torch.exp(x).sum()", None),
        ("x.std()", "g * (x - x.mean()) / ((x.numel() - 1) * x.std())", 0.0),
    ],
)
def test_a_backward_that_divides_by_nothing_or_overflows(value: str, gradient: str, convention: float | None) -> None:
    report = checked(f"def f(x):\n    def backward(g):\n        return {gradient}\n\n    return {value}, backward\n")
    (failure,) = report.failures
    assert (failure.argument, failure.kind) == ("x", "nan")
    assert failure.span is not None and failure.span.line == 3
    assert convention is None or failure.message.endswith(f"the convention is {convention:.4g}")


@pytest.mark.parametrize(
    ("value", "gradient"),
    [
        ("torch.sqrt(x)", "g / (2 * torch.sqrt(x))"),
        ("torch.log(x)", "g / x"),
        ("1 / x", "-g / (x * x)"),
        ("torch.tanh(x)", "g * 4 / (torch.exp(x) + torch.exp(-x)) ** 2"),
        ("torch.exp(x)", "g * torch.exp(x)"),
        ("torch.softmax(x, -1)", "torch.softmax(x, -1) * (g - (g * torch.softmax(x, -1)).sum(-1, keepdim=True))"),
    ],
)
def test_infinite_slopes_and_ends_of_domains_are_no_failures(value: str, gradient: str) -> None:
    report = checked(f"def f(x):\n    def backward(g):\n        return {gradient}\n\n    return {value}, backward\n")
    assert report.ok, str(report)


def test_what_rounding_hides_is_no_failure() -> None:
    source = """
def f(x):
    s = torch.sigmoid(x)

    def backward(g):
        return g * 1e-9 * s * (1 - s)

    return 1e6 + 1e-9 * s, backward
"""
    report = checked(source)
    assert report.ok, str(report)


def test_at_an_end_of_a_domain_the_convention_is_a_warning() -> None:
    report = checked(
        "def f(x, y):\n"
        "    def backward(g):\n"
        "        return (g * torch.log(y)).sum_to_size(x.size()), (g * x / y).sum_to_size(y.size())\n\n"
        "    return torch.xlogy(x, y), backward\n"
    )
    assert report.ok, str(report)
    assert {warning.kind for warning in report.warnings} == {"nan"}


# --- hints about what decides ---


@pytest.mark.parametrize(
    ("gradient", "hint"),
    [
        ("torch.where(x.abs() > 12345.0, g, g * 2)", "`g` is 0.5 times what it should be"),
        ("torch.where((-0.01 < x) & (x < 0.012), g, g * 2)", "`g` is 0.5 times what it should be"),
        ("g * n if n != 37 else g * (n + 1)", "`1` should be 0"),
    ],
)
def test_no_hint_only_moves_a_border_out_of_sight(gradient: str, hint: str) -> None:
    factor, rest = ("n", ", None") if "n " in gradient else ("2", "")
    head = "def f(x, n: int):" if rest else "def f(x):"
    report = checked(
        f"{head}\n    def backward(g):\n        return {gradient}{rest}\n\n    return x * {factor}, backward\n"
    )
    assert report.failures[0].message.endswith(hint), str(report)


@pytest.mark.parametrize(
    "body",
    [
        "return torch.linalg.matrix_power(x, 3)",
        "return torch.softmax(torch.relu(x @ y) @ z, -1)",
        "return torch.softmax(x @ y.mT, -1) @ z",
        "return torch.linalg.multi_dot([x, y, z])",
        "return x @ y @ x",
        "return torch.inner(x, y)",
        "return torch.vstack([x, y])",
    ],
)
def test_derived_branches_on_dimensions_are_reached_or_no_gap(body: str) -> None:
    parameters = ", ".join(name for name in "xyz" if f"{name}" in body.replace("linalg.matrix_power", ""))
    function = gs.CompilationUnit(f"def f({parameters}):\n    {body}\n").f
    report = gs.check(gs.CompilationUnit(gs.derive(function)).f)
    assert report.ok, str(report)


def test_a_mistake_for_one_number_of_dimensions_is_found() -> None:
    source = """
def f(x, y, z):
    def backward(g):
        factor = 2.0 if x.dim() == 3 and y.dim() == 2 and z.dim() == 1 else 1.0
        inner = g.unsqueeze(-1) if z.dim() == 1 else g
        right = z.unsqueeze(-1) if z.dim() == 1 else z
        grad_left = inner @ right.mT
        left = x @ y
        grad_right = (left.mT @ inner).sum_to_size(right.size()).reshape(z.size())
        grad_x = (grad_left @ y.mT).sum_to_size(x.size())
        return grad_x * factor, (x.mT @ grad_left).sum_to_size(y.size()), grad_right

    assert x.dim() > 1 and y.dim() > 1
    return x @ y @ z, backward
"""
    report = gs.check(gs.CompilationUnit(source).f)
    assert {failure.argument for failure in report.failures} == {"x"}, str(report)


def test_a_branch_on_a_high_number_of_dimensions_is_not_excused() -> None:
    source = """
def f(x, y):
    def backward(g):
        return g @ y.mT if x.dim() < 7 else g @ y, x.mT @ g

    assert x.dim() == 2 or x.dim() == 9
    return x @ y, backward
"""
    report = gs.check(gs.CompilationUnit(source).f)
    assert "unreached" in {failure.kind for failure in report.failures}, str(report)


def test_examples_are_broadcast_where_a_backward_sums_to_sizes() -> None:
    source = """
def scaled(x, w, rows: Tensor):
    def backward(g):
        picked = torch.zeros_like(x).index_add(0, rows, g * w)
        return picked.sum_to_size(x.size()), g * x[rows], None

    return x[rows] * w, backward


def scaled_examples():
    return [(torch.zeros([4, 3]), torch.zeros([2, 3]), torch.tensor([3, 0]))]
"""
    report = gs.check(gs.CompilationUnit(source).scaled)
    assert {(failure.argument, failure.kind) for failure in report.failures} == {("w", "shape")}, str(report)


def test_nothing_that_was_never_tried_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that the search found fitting may be refused when they are drawn anew."""

    def refused(*arguments: object) -> None:
        raise gs.RuntimeFailure("R101", "f", "refused")

    monkeypatch.setattr("gradscript.authoring.check.run_trial", refused)
    report = checked("def f(x):\n    def backward(g):\n        return g * 2\n\n    return x * 2, backward\n")
    assert not report.ok
    assert "it raises on all arguments that were tried" in str(report)
