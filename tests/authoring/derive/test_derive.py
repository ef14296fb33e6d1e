"""Derived backwards: what they say, that the check passes them, and how long they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from click.testing import CliRunner
from derived_lengths import LONGEST, lengths
from derived_right import derived_failures
from gradscript.authoring.cli.main import main
from gradscript.authoring.derive.comparison import compared
from gradscript.authoring.derive.measuring import gradients, reference_gradients, weights_like
from gradscript.authoring.derive.placing import with_functions
from gradscript.authoring.derive.writes import with_writes
from gradscript.authoring.lint.linter import lint
from gradscript.compiler.formulas.library import formula_names
from gradscript.lang.source import Source
from gradscript.stdlib_grads import path_of
from mpmath import MPContext
from right_forwards import FORWARDS

BACKWARDS = {
    "x * torch.sigmoid(x)": "return grad_output * sigmoid_x * (x * (1 - sigmoid_x) + 1)",
    "torch.tanh(x)": "return grad_output * (1 - tanh_x * tanh_x)",
    "(x - 1) ** 2 / 2": "return grad_output * difference",
    "x * 1 + 0": "return grad_output",
    "-(-x)": "return grad_output",
    "x * x": "return grad_output * x * 2",
    "x.sum()": "return grad_output.expand(x_size)",
    "torch.exp(x)": "return grad_output * exp_x",
    "x / 2 + x / 2": "return grad_output",
}
"""Functions of x, and the last line of their backwards."""

PROGRAMS = {
    "broadcast": "def f(a, b, c):\n    return a * b + c\n",
    "reused": "def f(x, w):\n    h = torch.tanh(x) * w\n    return h * h + h\n",
    "norm": (
        "def f(x, w, eps: float = 1e-5):\n    m = x.mean(-1, keepdim=True)\n"
        "    v = ((x - m) ** 2).mean(-1, keepdim=True)\n    return (x - m) / torch.sqrt(v + eps) * w\n"
    ),
    "error": "def f(x, y):\n    return ((x - y) ** 2).mean()\n",
    "softmax": "def f(x):\n    e = torch.exp(x)\n    return e / e.sum(-1, keepdim=True)\n",
    "branch": (
        "def f(x, y):\n    if x.sum() > 0:\n        z = x * y\n    else:\n        z = x - y\n    return z * 2\n"
    ),
    "loop": "def f(x, n: int):\n    for i in range(n):\n        x = x * torch.sin(x)\n    return x\n",
    "list": (
        "def f(x, y):\n    parts = [x, y * 2]\n    parts.append(x * y)\n    t = parts[0]\n"
        "    for p in parts:\n        t = t * p\n    return t\n"
    ),
    "several": "def f(x, y):\n    return x * y, torch.exp(x)\n",
    "unlike": ("def f(x, y):\n    v = (x * y).sum(0, keepdim=True)\n    w = x + torch.tanh(v)\n    return w.sum()\n"),
    "one side": "def f(x, y):\n    z = x * 2\n    if x.sum() > 0:\n        z = z * y\n    return z\n",
    "no round": "def f(x, y, n: int):\n    z = x\n    for i in range(n):\n        z = z * torch.sin(y)\n    return z\n",
    "taken over": ("def f(x, y):\n    u = x * 1\n    for i in range(2):\n        u = y\n    return u * x\n"),
    "name bound anew": "def f(x):\n    x = x * x\n    return x\n",
    "number over a tensor": "def f(x):\n    return 1.5 / (2 + torch.exp(x))\n",
    "absent or not": (
        "def f(x, y: Optional[Tensor] = None):\n    if y is not None:\n        z = x * y\n"
        "    else:\n        z = x * 2\n    return z\n"
    ),
    "formula of several": "def f(x):\n    return F.layer_norm(x, [x.size(-1)]) * x\n",
    "clamped": "def f(x, y):\n    return torch.where(x > y, x * x, y)\n",
}


def _derived(text: str, name: str = "f") -> str:
    return gs.derive(gs.CompilationUnit(text)[name])


@pytest.mark.parametrize(("expression", "backward"), BACKWARDS.items())
def test_simplified(expression: str, backward: str) -> None:
    text = _derived(f"def f(x):\n    return {expression}\n")
    assert [line.strip() for line in text.splitlines() if line.startswith("        ")][-1] == backward


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_check_passes_it(name: str) -> None:
    text = _derived(PROGRAMS[name])
    unit = gs.CompilationUnit(text)
    report = gs.check(unit.f)
    assert report.ok, f"{text}\n{report}"
    assert gs.derive(unit.f) == text.rstrip("\n") + "\n"


@pytest.mark.parametrize("name", ["reused", "error", "softmax", "branch", "one side", "several", "absent or not"])
def test_to_second_order(name: str) -> None:
    text = gs.derive(gs.CompilationUnit(PROGRAMS[name]).f, order=2)
    unit = gs.CompilationUnit(text)
    assert unit.f.pair is not None and unit.f.pair.second is not None
    report = gs.check(unit.f)
    assert report.ok, f"{text}\n{report}"
    assert gs.derive(unit.f, order=2) == text.rstrip("\n") + "\n"


def test_second_order_of_an_authors_backward() -> None:
    text = "def f(x):\n    # the forward\n    def backward(g):\n        # mine\n        return 2 * g * x\n\n"
    derived = gs.derive(gs.CompilationUnit(text + "    return x * x, backward\n").f, order=2)
    assert derived.startswith("def f(x):\n    # the forward\n    def backward(g):\n        # mine\n")
    assert derived.count("def ") == 3 and gs.check(gs.CompilationUnit(derived).f).ok


def test_a_function_in_one_line() -> None:
    for head in ("def f(x): ", "def f(\n    x,\n): "):
        text = gs.derive(gs.CompilationUnit(head + "return x * x  # squared\n").f)
        assert "        return grad_output * x * 2\n" in text and gs.check(gs.CompilationUnit(text).f).ok


def test_files_of_the_library_are_derived_as_it_is_compiled() -> None:
    found = CliRunner().invoke(main, ["derive", str(path_of("losses.grad")), "mse_loss_1", "--json"])
    assert found.exit_code == 0 and "def backward(grad_output" in json.loads(found.stdout)[0]["functions"]["mse_loss_1"]


GROWN = {
    "read at its end": "ys.append(ys[-1] * torch.sin(x))",
    "read at its start": "ys.append(ys[i] * ys[i])",
    "read in a branch": "ys.append(ys[-1] * x if i % 2 == 0 else ys[0] + ys[-1].sin())",
    "read whole": "t = x * 0.5\n        for y in ys:\n            t = t + y.sin()\n        ys.append(t)",
}


@pytest.mark.parametrize("name", some_of(GROWN))
def test_second_derivatives_of_lists_that_are_read_while_they_grow(name: str) -> None:
    text = f"def f(x, n: int):\n    ys = [x]\n    for i in range(n):\n        {GROWN[name]}\n    return ys[-1]\n"
    loss = "\n\ndef loss(x):\n    y = f(x, 3)\n    return (y * y).sum()\n"
    derived = gs.derive(gs.CompilationUnit(text).f, order=2)
    assert gs.derive(gs.CompilationUnit(derived).f, order=2) == derived
    x, weights = torch.linspace(-1.0, 1.3, 4, dtype=torch.float64), torch.linspace(1.0, 2.0, 4, dtype=torch.float64)
    found = gs.vjp(gs.grad(gs.CompilationUnit(derived + loss).loss), x.numpy())[1](weights.numpy())
    known: dict[str, Any] = {"torch": torch}
    exec(text + loss, known)
    leaf = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(known["loss"](leaf), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first, leaf, weights)
    np.testing.assert_allclose(found[0], second.numpy(), rtol=1e-12)


SECONDS = {
    "of a size that is a list without elements": "x.new_full([], 0.5) * x * x",
    "of lists": "torch.cat([x * x, torch.sin(x)]) * torch.stack([x, x]).sum()",
    "written into": "torch.index_put(x * x, [x > 0.3], torch.zeros([]))",
}


@pytest.mark.parametrize("name", SECONDS)
def test_second_derivatives_through_what_was_written(name: str) -> None:
    """The gradient of a gradient is the one that the body without the nested backward has."""
    plain = gs.CompilationUnit(f"def f(x):\n    return {SECONDS[name]}\n")
    loss = "\n\ndef loss(x):\n    y = f(x)\n    return (y * y).sum()\n"
    units = [gs.CompilationUnit(plain.f.code + loss), gs.CompilationUnit(gs.derive(plain.f, order=2) + loss)]
    x = np.linspace(-1.0, 1.3, 6).reshape(2, 3)
    first, second = [gs.vjp(gs.grad(unit.loss), x) for unit in units]
    np.testing.assert_allclose(second[0], first[0], rtol=1e-12)
    np.testing.assert_allclose(second[1](np.ones_like(x))[0], first[1](np.ones_like(x))[0], rtol=1e-12)


def test_third_order() -> None:
    unit = gs.CompilationUnit(gs.derive(gs.CompilationUnit("def f(x):\n    return x ** 5\n").f, order=3))
    third = gs.grad(gs.grad(gs.grad(unit.f)))
    assert third(2.0) == pytest.approx(240.0)
    assert unit.f.code.count("def ") == 4


def test_random_numbers_are_not_drawn_again() -> None:
    function = gs.CompilationUnit("def f(x):\n    return F.dropout(x * x, 0.5, True)\n").f
    with pytest.raises(ValueError, match="take them as an argument"):
        gs.derive(function, order=2)


@pytest.mark.parametrize("order", [0, -1, True, 1.5, "2"])
def test_of_no_order(order: object) -> None:
    with pytest.raises(ValueError, match="to order 1, 2 and so on"):
        gs.derive(gs.CompilationUnit(PROGRAMS["reused"]).f, order=order)  # type: ignore[arg-type]


def test_lists_of_gradients_are_there() -> None:
    text = _derived("def f(x, n: int):\n    return (x * x).chunk(n)\n")
    assert "grad_defined" not in text and "grad_list" not in text
    text += "\n\ndef f_examples():\n    return [(torch.ones([4, 3]), 2), (torch.ones([3]), 3)]\n"
    report = gs.check(gs.CompilationUnit(text).f)
    assert report.ok, f"{text}\n{report}"


def test_goes_through_lists_by_item() -> None:
    text = _derived("def f(x, widths: List[int]):\n    return torch.constant_pad_nd(x, widths)\n")
    assert "[-item for item in widths]" in text


def test_results_that_nothing_uses_have_no_terms() -> None:
    """Of the mean and the deviation that a layer_norm gives beside its result there are no gradients."""
    text = _derived("def f(x, w):\n    return F.layer_norm(x, [x.size(-1)], w) * x\n")
    assert "torch.zeros(" not in text, text
    assert lengths(["layer_norm", "index_put"]).keys() == {"layer_norm", "index_put"}
    assert max(lengths(["layer_norm", "index_put"]).values()) <= LONGEST


def test_long_headers_name_no_terms() -> None:
    header = "def f(x, " + ", ".join(f"a_parameter_{i}: int = {i}" for i in range(6)) + "):"
    text = _derived(f"{header}\n    return torch.tanh(x) * torch.sin(x)\n")
    assert "grad = " not in text and len(text.splitlines()[0]) > 100


def test_through_helpers() -> None:
    text = "def gate(x):\n    return x * torch.sigmoid(x)\n\n\ndef f(x, w):\n    return gate(x) * w\n"
    assert gs.check(gs.CompilationUnit(_derived(text)).f).ok


def test_the_authors_text_stays() -> None:
    text = "def f(x, w):\n    # what is kept\n    h = torch.exp(x)  # named\n    return h*w\n"
    derived = _derived(text)
    assert "    # what is kept\n    h = torch.exp(x)  # named\n" in derived
    assert derived.endswith("    return h*w, backward\n")


def test_sums_only_what_may_be_broadcast() -> None:
    assert "sum_to_size" not in _derived("def f(x):\n    return torch.exp(x) * x / (x + 1)\n")
    assert _derived("def f(x, y):\n    return x * y\n").count("sum_to_size") == 2


def test_keeps_sizes_and_no_tensors() -> None:
    unit = gs.CompilationUnit(_derived("def f(x, y):\n    e = x - y\n    return e * e\n"))
    assert unit.f.pair is not None
    assert [str(item.type) for item in unit.f.pair.context] == ["Tensor", "List[int]", "List[int]"]


def test_a_function_without_gradient_says_why() -> None:
    with pytest.raises(ValueError, match="'f' has no gradient"):
        _derived("def f(x):\n    return x > 0\n")


def test_of_no_function() -> None:
    with pytest.raises(TypeError, match="takes a function of a unit"):
        gs.derive(print)  # type: ignore[arg-type]


def test_placed_in_a_file() -> None:
    text = "# top\ndef a(x):\n    return x\n\n# between\ndef b(x):\n    return x\n# end\n"
    made = with_functions(Source(text), {"b": "def b(x):\n    return x * 2\n"})
    assert made == text.replace("def b(x):\n    return x\n", "def b(x):\n    return x * 2\n")


# --- the command ---


def test_writes_files_and_is_idempotent(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text("# mine\ndef f(x):\n    return x * x\n\n\ndef g(x):\n    return x > 0\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["derive", str(tmp_path), "--write"])
    assert result.exit_code == 0, result.output
    once = path.read_text(encoding="utf-8")
    assert once.startswith("# mine\ndef f(x):\n    def backward(grad_output):\n")
    assert CliRunner().invoke(main, ["derive", str(path), "--write"]).exit_code == 0
    assert path.read_text(encoding="utf-8") == once
    assert gs.check(gs.load(path).f).ok


def test_exit_codes_and_json(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text("def f(x):\n    return x * x\n\n\ndef g(x):\n    return x > 0\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["derive", str(path), "--json"])
    (found,) = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["functions"]["f"] == gs.derive(gs.load(path).f)
    assert "has no gradient" in found["without_gradient"]["g"]
    assert CliRunner().invoke(main, ["derive", str(path), "g"]).exit_code == 1
    assert CliRunner().invoke(main, ["derive", str(tmp_path / "none.grad")]).exit_code == 2
    path.write_text("def f(x):\n    return x ***\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["derive", str(path)]).exit_code == 1


def test_writes_second_order(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text("def f(x):\n    return x * x\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["derive", str(path), "--write"]).exit_code == 0
    assert CliRunner().invoke(main, ["derive", str(path), "--write", "--order", "2"]).exit_code == 0
    once = path.read_text(encoding="utf-8")
    assert "def backward_of_backward(grad_grad_x):" in once
    assert CliRunner().invoke(main, ["derive", str(path), "--write", "--order", "2"]).exit_code == 0
    assert path.read_text(encoding="utf-8") == once
    assert CliRunner().invoke(main, ["derive", str(path), "--order", "0"]).exit_code == 2


def test_compares_with_the_author(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text(
        "def f(x):\n    def backward(g):\n        return g * x + g * x\n    return x * x, backward\n", encoding="utf-8"
    )
    result = CliRunner().invoke(main, ["derive", str(path), "--compare", "--json"])
    ((one,),) = [found["compared"] for found in json.loads(result.stdout)]
    assert one["derived"]["operations"] < one["author"]["operations"]
    assert CliRunner().invoke(main, ["derive", str(path), "--compare"]).exit_code == 0


# --- beside the library's authors ---

_EVERY = 5


def test_no_longer_than_the_authors() -> None:
    """Of a fifth of the library's formulas, at least fifty are no longer than 1.2 times what their authors wrote."""
    ratios = lengths(formula_names()[::_EVERY])
    short = [name for name, ratio in ratios.items() if ratio <= LONGEST]
    assert len(short) >= 50
    assert len(short) >= 0.95 * len(ratios), sorted(ratios.items(), key=lambda item: -item[1])[:12]


@pytest.mark.parametrize("name", ["cumsum", "nansum", "mean_1", "_autocast_to_reduced_precision", "linalg_vector_norm"])
def test_derived_gradients_are_of_the_dtype_of_their_input(name: str) -> None:
    assert [(found, failures) for found, failures in derived_failures(name) if failures] == []


def test_errors_are_told_against_float128() -> None:
    mp = MPContext()
    mp.prec = 113
    unit = gs.CompilationUnit(
        "def f(x, w):\n    def backward(g):\n        e = g * torch.exp(x)\n"
        "        return e * w, (e * 1).sum_to_size(w.size())\n    return torch.exp(x) * w, backward\n"
    )
    x, w = np.array([[0.1, 2.0, -30.0], [1e-9, 0.5, 3.0]], np.float32).astype(float), np.array([1.5, 2.0, 3.0])
    found = reference_gradients(unit.f, [x, w])
    assert found.precision == "float128" and found.gradients is not None
    grad_x, grad_w = found.gradients
    g = weights_like(x)
    for i, j in np.ndindex(2, 3):
        assert abs(grad_x[i, j] - mp.exp(mp.mpf(x[i, j])) * mp.mpf(w[j]) * mp.mpf(g[i, j])) < mp.mpf(2) ** -100
    first = [mp.exp(mp.mpf(x[i, 0])) * mp.mpf(g[i, 0]) for i in range(2)]
    assert abs(grad_w[0] - first[0] - first[1]) < mp.mpf(2) ** -100


@pytest.mark.parametrize(
    "text",
    [
        "torch.softmax(x * 2, -1)",
        "torch.log_softmax(x, 0) * x",
        "(x - x.mean(-1, keepdim=True)) * torch.rsqrt((x * x).mean() + 1e-5)",
        "torch.mm(x, x.t()).reshape([-1])",
        "torch.where(x > 0, torch.sin(x), x.abs() ** 1.5)",
        "torch.erf(x) + F.gelu(x) * torch.sigmoid(x)",
        "x.permute(1, 0)[1:] * x.amax()",
    ],
)
def test_the_reference_is_near_to_float64(text: str) -> None:
    unit = gs.CompilationUnit(gs.derive(gs.CompilationUnit(f"def f(x):\n    return {text}\n").f))
    x = np.linspace(-2, 2.2, 12).astype(np.float32).astype(float).reshape(3, 4)
    found = reference_gradients(unit.f, [x])
    assert found.precision == "float128" and found.gradients is not None
    (near,) = gradients(unit.f, [x]) or [None]
    np.testing.assert_allclose(found.gradients[0].astype(float), near, rtol=1e-12, atol=1e-14)


def test_the_reference_says_where_it_is_float64() -> None:
    unit = gs.CompilationUnit(gs.derive(gs.CompilationUnit("def f(x):\n    return x.cumsum(0) * x\n").f))
    assert reference_gradients(unit.f, [np.ones((2, 3))]).precision == "float64"


def test_costs_are_compared() -> None:
    text = "def f(x, y):\n    def backward(g):\n        return g * y * 1, g * x * 2\n    return x * y, backward\n"
    found = compared(gs.CompilationUnit(text).f, measured=True)
    assert found.derived.costs.kernels == 1 and found.derived.costs.flops
    assert found.derived.costs.error is not None and found.derived.costs.error < 1e-6
    # The author's is wrong, which shows.
    assert found.author.costs.error is not None and found.author.costs.error > 0.1
    assert "bytes kept  flops  kernels  error to float128" in str(found)


@pytest.mark.parametrize("text", some_of(FORWARDS))
def test_what_is_derived_keeps_sizes_and_nothing_twice(text: str) -> None:
    """The linter finds nothing in it that its author did not write."""
    name = text.split("def ", 1)[1].split("(", 1)[0]
    written = {finding.span.text for finding in lint(gs.CompilationUnit(text))}
    found = lint(gs.CompilationUnit(gs.derive(gs.CompilationUnit(text)[name])), ignored=["L2"])
    authored = [f for f in found if f.code == "L502" and f.span.text in text]
    assert [str(f) for f in found if f.span.text not in written and f not in authored] == []


def test_a_backward_that_no_text_can_call_is_told() -> None:
    source = """\
def helper(x):
    def backward(g):
        def backward_of_backward(gg):
            return gg, None
        return g, backward_of_backward
    return x * 1, backward

def f(x):
    c = helper(x)
    def backward(g):
        return c * g
    return x, backward
"""
    with pytest.raises(ValueError, match="no backward of order 2 that is source"):
        gs.derive(gs.CompilationUnit(source).f, 2)


def test_what_is_kept_stands_together() -> None:
    unit = gs.CompilationUnit("def f(x, w):\n    y = x * w\n    return torch.sinh((y + 1).sum(0, True))\n")
    above = gs.derive(unit.f).split("    def backward")[0].rstrip()
    assert "\n\n" not in above
    assert "_size = " in above


def test_errors_are_not_of_gradients_that_vanish() -> None:
    """Of a softmax that is summed up with equal weights there is no gradient, and all of it would be error."""
    text = (
        "def f(x):\n    y = torch.softmax(x, -1)\n    def backward(g):\n"
        "        return y * (g - (g * y).sum(-1, True))\n    return y, backward\n"
    )
    found = compared(gs.CompilationUnit(text).f, measured=True)
    costs = found.to_dict()
    for whose in ("author", "derived"):
        assert 0 < costs[whose]["costs"]["error"] < 1e-6


def test_of_a_long_text_few_ways_to_write_into_lists_are_tried() -> None:
    lines = [f"    l{i} = torch.append(l{i}, x)" for i in range(600)]
    text = "def f(x):\n" + "\n".join(lines) + "\n    return x\n"
    tried: list[str] = []
    assert with_writes(text, lambda candidate: bool(tried.append(candidate))) == text
    assert len(tried) <= 3


PRODUCTS = """
def layer(x, w, b):
    return torch.tanh(x @ w + b)


def scores(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v
"""


@pytest.mark.parametrize("name", ["layer", "scores"])
def test_gradients_of_products_are_one_op_each(name: str) -> None:
    """Whatever the numbers of dimensions, which a text with branches on them says at length; to second order."""
    unit = gs.CompilationUnit(PRODUCTS)
    text = gs.derive(unit[name])
    assert text.count("\n") < 20
    assert "matmul_left" in text and "if " not in text
    twice = gs.derive(unit[name], order=2)
    assert twice.count("\n") < 80
    for made in (text, twice):
        assert gs.check(gs.CompilationUnit(made)[name]).ok


SHAPES = [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)), ((5, 1, 3, 4), (2, 4, 2))]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_derived_gradients_of_products_are_those_of_torch(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    unit = gs.CompilationUnit(gs.derive(gs.CompilationUnit("def f(x, y):\n    return x @ y\n").f, order=2))
    values = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in (left, right)]

    def twice(function: Any) -> list[torch.Tensor]:
        result = function(*values)
        seed = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).reshape(result.shape).requires_grad_()
        first = torch.autograd.grad(result, values, seed, create_graph=True)
        total = sum((grad * torch.cos(grad)).sum() for grad in first)
        return [*first, *torch.autograd.grad(total, [*values, seed])]

    for ours, theirs in zip(twice(unit.f), twice(torch.matmul), strict=True):
        torch.testing.assert_close(ours, theirs)
