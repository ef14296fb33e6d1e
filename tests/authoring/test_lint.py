"""The linter and the pages of codes: what is found, what is not, and what --fix makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from click.testing import CliRunner
from gradscript.authoring.cli.main import main
from gradscript.authoring.explain.examples import EXAMPLES, Example
from gradscript.authoring.explain.page import MEANINGS, explain
from gradscript.authoring.lint.findings import Finding
from gradscript.authoring.lint.linter import lint
from gradscript.stdlib_grads import formula_files


def _codes(text: str) -> list[str]:
    return [finding.code for finding in lint(gs.CompilationUnit(text))]


def _seen(example: Example, text: str) -> list[str]:
    """The codes that a program of a page shows."""
    if example.seen == "lint":
        return _codes(text)
    try:
        if example.seen == "ir":
            gs.parse_ir(text)
            return []
        unit = gs.CompilationUnit(text)
        if example.seen == "export":
            gs.export(unit.f)
        elif example.seen == "torch_op":
            gs.torch_op(unit.f, f"explained_{len(text)}::f")
        elif example.seen != "source":
            args = [np.ones((2, 2)) for _ in unit.f.schema.arguments]
            gs.grad(unit.f, policy=1 if example.seen == "budget" else None)(*args)
    except gs.CompileError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


def test_every_code_has_a_page() -> None:
    assert EXAMPLES.keys() == MEANINGS.keys()


@pytest.mark.parametrize("code", EXAMPLES)
def test_pages_show_what_they_say(code: str) -> None:
    example = EXAMPLES[code]
    assert code in _seen(example, example.wrong)
    assert _seen(example, example.right) == []
    assert explain(code.lower()).startswith(f"{code}: {MEANINGS[code]}\n")


def test_no_alarm_on_the_library() -> None:
    found, whole = [], 0
    for name, text in formula_files().items():
        try:
            unit = gs.CompilationUnit(text, name)
        except gs.CompileError:
            # It calls functions of another file.
            continue
        whole += 1
        found += lint(unit)
    assert whole >= 15
    assert not found, "\n".join(map(str, found))


def test_no_alarm_on_the_examples() -> None:
    folder = Path(__file__).parents[2] / "examples"
    files = [path for suffix in ("*.gs", "*.grad") for path in folder.rglob(suffix)]
    assert len(files) >= 5
    assert not [str(finding) for path in files for finding in _of_file(path)]


def _of_file(path: Path) -> list[Finding]:
    try:
        return lint(gs.load(path))
    except gs.CompileError:
        assert "wrong" in path.name
        return []


CLOSURES_RIGHT = [
    "def f(x, index: Tensor):\n    def backward(g):\n        return torch.zeros_like(x).index_add(0, index, g), None\n"
    "    return x[index], backward\n",
    "def f(x, y):\n    e = torch.exp(x)\n    def backward(g):\n        return g * e * y, g * e\n"
    "    return e * y, backward\n",
    "def f(x, y):\n    y = y.detach()\n    def backward(g):\n        return g * y, None\n    return x * y, backward\n",
    "def f(x, y):\n    def backward(g):\n        return g.sum_to_size(x.size()), g.sum_to_size(y.size())\n"
    "    return x + y, backward\n",
    "def f(x):\n    return x * torch.ones([3], dtype=x.dtype) + torch.zeros([])\n",
    "def f(x):\n    n = torch.neg(x)\n    def backward(g):\n        return g * n + g\n    return n * n, backward\n",
    "def f(x):\n    print(x)\n",
    "def f(x, n: int):\n    assert n > 0\n    y = x * n\n    return y\n",
]


@pytest.mark.parametrize("text", CLOSURES_RIGHT)
def test_right_functions_are_left_alone(text: str) -> None:
    assert _codes(text) == []


def test_statements_that_do_nothing_are_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text(
        "def f(x, y):\n    a = x * 2\n    b = torch.rand([2])\n    x * 3  # idle\n    if x.sum() > 0:\n        c = 3\n"
        "    return x * torch.ones([3]) + y\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(main, ["lint", str(path), "--fix"])
    assert result.exit_code == 1
    assert path.read_text(encoding="utf-8") == (
        "def f(x, y):\n    b = torch.rand([2])\n    if x.sum() > 0:\n        c = 3\n"
        "    return x * torch.ones([3], dtype=x.dtype) + y\n"
    )


RIGHT = [
    "torch.log(2 + x)",
    "torch.log(x) - 1",
    "torch.exp(x) - 2",
    "torch.exp(x) - x",
    "1 - torch.sin(x)",
    "torch.sqrt(x * x + 1)",
    "torch.log(torch.softmax(x, 0) + 2)",
    "torch.where(x > 0, x * 2, 0)",
    "torch.where(x > 0, torch.exp(x), 0)",
    "torch.where(y > 0, torch.log(x), 0)",
    "torch.where(x.detach() > 0, torch.log(x.detach()), x)",
]


@pytest.mark.parametrize("expression", RIGHT)
def test_right_forms_are_left_alone(expression: str) -> None:
    assert _codes(f"def f(x, y):\n    return {expression} + y\n") == []


FIXED = {
    "torch.log(1 + x)": "torch.log1p(x)",
    "(x * 2 + 1).log()": "torch.log1p(x * 2)",
    "(x.exp() - 1) * 2": "(torch.expm1(x)) * 2",
    "1 - torch.cos(x * y)": "(2 * torch.sin((x * y) / 2) ** 2)",
    "torch.softmax(x, dim=-1).log()": "torch.log_softmax(x, -1)",
    "torch.log(x.sigmoid())": "F.logsigmoid(x)",
    "torch.sqrt(x ** 2)": "torch.abs(x)",
}


@pytest.mark.parametrize(("before", "after"), FIXED.items())
def test_fixes_mean_the_same(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "f.grad"
    path.write_text(f"def f(x, y):\n    # kept\n    return {before} + y\n", encoding="utf-8")
    old = gs.load(path).f
    result = CliRunner().invoke(main, ["lint", str(path), "--fix"])
    assert result.exit_code == 0, result.output
    assert path.read_text(encoding="utf-8") == f"def f(x, y):\n    # kept\n    return {after} + y\n"
    x = np.array([[0.3, 1.2], [0.7, 0.1]])
    np.testing.assert_allclose(gs.load(path).f(x, x), old(x, x), rtol=1e-12)


def test_dead_sides_are_dead_and_their_rewrite_is_not() -> None:
    text = "def f(x):\n    return torch.where(x > 0, torch.sqrt(x), x).sum()\n"
    unit = gs.CompilationUnit(text)
    (finding,) = lint(unit)
    assert finding.code == "L301"
    x = np.array([-1.0, 4.0])
    assert np.isnan(gs.grad(unit.f)(x)[0])
    rewrite = finding.note.partition("`")[2].partition("`")[0]
    mended = gs.CompilationUnit(text.replace("torch.sqrt(x)", f"torch.sqrt({rewrite})"))
    np.testing.assert_allclose(gs.grad(mended.f)(x), [1.0, 0.25])
    assert lint(mended) == []


def test_noqa_and_configuration(tmp_path: Path) -> None:
    text = "def f(x):\n    return torch.log(1 + x){}\n"
    assert _codes(text.format("  # noqa")) == _codes(text.format("  # noqa: L201")) == []
    assert _codes(text.format("  # noqa: L202")) == ["L201"]
    path = tmp_path / "f.grad"
    path.write_text(text.format(""), encoding="utf-8")
    assert CliRunner().invoke(main, ["lint", str(path)]).exit_code == 1
    assert CliRunner().invoke(main, ["lint", str(path), "--ignore", "L2"]).exit_code == 0
    config = tmp_path / "pyproject.toml"
    config.write_text('[tool.gradscript.lint]\nignore = ["L201"]\n', encoding="utf-8")
    assert CliRunner().invoke(main, ["lint", str(tmp_path)]).exit_code == 0
    config.write_text("[tool.gradscript.lint]\nignore = 1\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["lint", str(path)]).exit_code == 2


def test_json_and_exit_codes(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text("def f(x, y):\n    return torch.log(1 + x)\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(path), "--json"])
    (found,) = json.loads(result.stdout)
    assert [(f["code"], f["line"], f["fixable"]) for f in found["findings"]] == [("L102", 1, False), ("L201", 2, True)]
    assert CliRunner().invoke(main, ["lint", str(tmp_path / "none.grad")]).exit_code == 2
    assert CliRunner().invoke(main, ["explain", "E999"]).exit_code == 2
    assert json.loads(CliRunner().invoke(main, ["explain", "L201", "--json"]).stdout)["code"] == "L201"
    assert len(CliRunner().invoke(main, ["explain"]).stdout.splitlines()) == len(MEANINGS)
