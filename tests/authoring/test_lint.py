"""The linter and the pages of codes: what is found, what is not, and what --fix makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from click.testing import CliRunner
from gradscript.authoring.cli.main import main
from gradscript.authoring.explain.calls import CALLS
from gradscript.authoring.explain.example import Example
from gradscript.authoring.explain.examples import EXAMPLES
from gradscript.authoring.explain.page import MEANINGS, explain
from gradscript.authoring.format.formatter import format_source
from gradscript.authoring.lint.findings import Finding, fixed_text
from gradscript.authoring.lint.linter import lint
from gradscript.lang.source import Source
from gradscript.stdlib_grads import formula_files, path_of


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
    assert EXAMPLES.keys() | CALLS.keys() == MEANINGS.keys()
    assert not EXAMPLES.keys() & CALLS.keys()


@pytest.mark.parametrize("code", [code for code, call in CALLS.items() if call.is_tried])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pages_of_calls_show_what_they_say(code: str) -> None:
    page = CALLS[code]
    known = {"np": np, "gs": gs}
    with pytest.raises(gs.RuntimeFailure) as failed:
        eval(page.call, {**known, "cu": gs.CompilationUnit(page.program)})
    assert failed.value.code == code
    eval(page.right_call, {**known, "cu": gs.CompilationUnit(page.right_program or page.program)})
    assert page.call in explain(code)
    for program in (page.program, page.right_program):
        assert format_source(Source(program)) == program


@pytest.mark.parametrize("code", EXAMPLES)
def test_pages_show_what_they_say(code: str) -> None:
    example = EXAMPLES[code]
    assert code in _seen(example, example.wrong)
    assert _seen(example, example.right) == []
    if example.seen != "ir":
        assert _codes(example.right) == []
        assert format_source(Source(example.right)) == example.right
    assert explain(code.lower()).startswith(f"{code}: {MEANINGS[code]}\n")


OVERWRITTEN = {
    "k = 2.0\n    g = lambda q: q * k\n    k = 3.0\n    z = g(x)\n    k = 4.0\n    return z + g(x)": [],
    "def g(a, b):\n        return a\n\n    return g(x, 2)": [],
    "z = x * 2\n    z = x * 3\n    return z": ["L101"],
    "z = x * 2\n    y = x + 1\n    z = y * 3\n    return z": ["L101"],
    "if x.sum() > 0:\n        z = x * 2\n        z = x * 3\n    else:\n        z = x\n    return z": ["L101"],
    "z = x * 2\n    z = z * 3\n    return z": [],
    "z = x * 2\n    if x.sum() > 0:\n        z = x * 3\n    return z": [],
    "z = x * 2\n    for i in range(3):\n        z = z * x\n    z = z + 1\n    return z": [],
    "z = x * 2\n    ys = [z]\n    z = x * 3\n    ys[0] = ys[0] + z\n    return ys[0]": [],
}


@pytest.mark.parametrize("body", OVERWRITTEN)
def test_what_is_assigned_again_before_it_is_read(body: str) -> None:
    text = f"def f(x):\n    {body}\n"
    findings = lint(gs.CompilationUnit(text))
    assert [finding.code for finding in findings] == OVERWRITTEN[body]
    if findings and "else" not in body:
        assert _codes(fixed_text(Source(text), findings)) == []


ASKED_IN_OTHER_WORDS = [
    "y = x / x.norm()\n    return torch.where(x.norm() > 0, y, x)",
    "return torch.where((x * x).sum(-1) > 0, torch.sqrt((x * x).sum(-1)), 0)",
]


@pytest.mark.parametrize("body", ASKED_IN_OTHER_WORDS)
def test_a_condition_asks_about_what_is_written_out_again(body: str) -> None:
    assert _codes(f"def f(x):\n    {body}\n") == ["L301"]


def test_rewrites_have_no_brackets_that_nothing_needs() -> None:
    text = "def f(x):\n    y = 1 - torch.cos(x)\n    return (torch.cos(x) - 1) * y, x / (1 - torch.cos(x))\n"
    made = fixed_text(Source(text), lint(gs.CompilationUnit(text)))
    assert "y = 2 * torch.sin(x / 2) ** 2\n" in made
    assert "return (-2 * torch.sin(x / 2) ** 2) * y, x / (2 * torch.sin(x / 2) ** 2)\n" in made
    x = np.linspace(0.1, 1, 5)
    for ours, theirs in zip(gs.CompilationUnit(made).f(x), gs.CompilationUnit(text).f(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_no_alarm_on_the_library() -> None:
    """Of the command, which compiles its files as the library does: they call each other's functions."""
    found = CliRunner().invoke(main, ["lint", str(path_of("shape.grad").parent), "--json"])
    told = json.loads(found.stdout)
    assert len(told) == len(formula_files())
    assert found.exit_code == 0, [one for one in told if one["findings"] or one.get("diagnostics")]


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


@pytest.mark.parametrize(
    "asked", ["g.expand_as(t) * y", "g * torch.ones_like(t) * y", "g.expand(t.size()) / t.numel() * y"]
)
def test_tensors_that_are_kept_for_their_size(asked: str) -> None:
    backward = f"    def backward(g):\n        return {asked}, g * x\n"
    text = f"def f(x, y):\n    t = x * y\n{backward}    return t.sum(), backward\n"
    assert _codes(text) == ["L501"]
    assert _codes(text.replace("g * x", "g * x * t")) == []


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
    "def f(x, n: int = 2):\n    y = [x]\n    y.append(x)\n    y[0].sum()  # noqa: L103\n    g(y)\n    return y[1]\n\n\n"
    "def g(y: List[Tensor]):\n    y[0].clone().add_(1)\n    return y[0]\n",
    "def f(x):\n    a = torch.exp(x)\n    b = torch.rand_like(x)\n    c = torch.rand_like(x)\n    def backward(g):\n"
    "        return g * a * b * c\n    return x * a * b * c, backward\n",
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
    "torch.where(x < 10, torch.sqrt(x), 3)",
    "torch.where(x == 0, y / x, 1)",
    "torch.where(x > 0, torch.log(1e-8 + x), 0)",
    "torch.where(x > 0, torch.log(2 + x * x), 0)",
    "torch.where(x > 0, x ** 2, 0) + (x ** 1.5).masked_fill(y > 0, 0)",
    "torch.log(x.sum(-1)) + torch.log(2 - x) + torch.tensor(2.5)",
]


@pytest.mark.parametrize("expression", RIGHT)
def test_right_forms_are_left_alone(expression: str) -> None:
    assert _codes(f"def f(x, y):\n    return {expression} + y\n") == []


FIXED = {
    "torch.log(1 + x)": "torch.log1p(x)",
    "(x * 2 + 1).log()": "torch.log1p(x * 2)",
    "(x.exp() - 1) * 2": "(torch.expm1(x)) * 2",
    "y * (1 - torch.exp(-x))": "y * (-torch.expm1(-x))",
    "1 - torch.cos(x * y)": "(2 * torch.sin((x * y) / 2) ** 2)",
    "1 - x.cos()": "(2 * torch.sin(x / 2) ** 2)",
    "torch.softmax(x, dim=-1).log()": "torch.log_softmax(x, -1)",
    "torch.log(x.sigmoid())": "F.logsigmoid(x)",
    "torch.sqrt(x ** 2)": "torch.abs(x)",
    "(x * x) ** 0.5": "torch.abs(x)",
    "x.square().sqrt()": "torch.abs(x)",
    "torch.log(1 - x / 2)": "torch.log1p(-(x / 2))",
    "torch.log(1 - torch.sigmoid(x))": "F.logsigmoid(-x)",
    "torch.log(1.0 + x.exp())": "F.softplus(x)",
    "x.exp().sum(-1, keepdim=True).log()": "torch.logsumexp(x, -1, keepdim=True)",
    "torch.log(torch.sum(torch.exp(x * 2), (0, 1)))": "torch.logsumexp(x * 2, [0, 1])",
    "torch.where(x > 1, torch.log(x - 1), 0)": "torch.where(x > 1, torch.log(torch.where(x > 1, x - 1, 1)), 0)",
    "torch.where(x == 0, 0, y / x)": "torch.where(x == 0, 0, y / torch.where(x == 0, 1, x))",
    "torch.where(x > 0, x * x.log(), 0)": "torch.where(x > 0, x * torch.where(x > 0, x, 1).log(), 0)",
    "(x ** 0.5).masked_fill(x <= 0, 0)": "(torch.where(x <= 0, 1, x) ** 0.5).masked_fill(x <= 0, 0)",
    "torch.sqrt(1 - x * x).where(x.abs() < 1, 2)": (
        "torch.sqrt(torch.where(x.abs() < 1, 1 - x * x, 1)).where(x.abs() < 1, 2)"
    ),
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


NOQA = {
    "# noqa": [],
    "#NOQA": [],
    "# noqa: L201": [],
    "# noqa : L2": [],
    "# noqa:L102,L201": [],
    "# noqa: L102 L201  it is never small": [],
    "# why, noqa": ["L201"],
    "# a word  # noqa: L201": [],
    "# noqa: L202": ["L201"],
    "# noqa: RUF100": ["L201"],
    "# noqa: E501, L201": [],
}


@pytest.mark.parametrize(("comment", "codes"), NOQA.items())
def test_comments_leave_findings_out(comment: str, codes: list[str]) -> None:
    assert _codes(f"def f(x):\n    return torch.log(1 + x)  {comment}\n") == codes


def test_comments_for_more_than_a_line() -> None:
    several = "def f(x, y):\n    return torch.log(\n        1 + x\n    ){}\n"
    assert _codes(several.format("")) == ["L102", "L201"]
    assert _codes(several.format("  # noqa: L201")) == ["L102"]
    assert _codes("# gradscript: noqa\n" + several.format("")) == []
    assert _codes(several.format("") + "# gradscript: noqa: L201\n") == ["L102"]


SETTINGS = {
    "": ["L102", "L201"],
    'ignore = ["L201"]': ["L102"],
    'ignore = ["L2", "L1"]': [],
    'select = ["L2"]': ["L201"],
    'select = ["ALL"]\nignore = ["L1"]': ["L201"],
    'select = ["L201"]\nignore = ["L2"]': ["L201"],
    'select = ["L2"]\nextend-select = ["L102"]': ["L102", "L201"],
    'ignore = ["L201"]\nextend-ignore = ["L102"]': [],
    'per-file-ignores = { "f.grad" = ["L1"] }': ["L201"],
    'per-file-ignores = { "inner/*.grad" = ["L1"], "other/*" = ["L2"] }': ["L201"],
    'per-file-ignores = { "**/f.*" = ["ALL"] }': [],
    'per-file-ignores = { "!inner/*" = ["L1"] }': ["L102", "L201"],
    'exclude = ["inner"]': [],
    'exclude = ["*.grad"]': [],
    'exclude = ["inner/f.grad"]': [],
    'exclude = ["other", "f.gs"]': ["L102", "L201"],
}


@pytest.mark.parametrize(("table", "codes"), SETTINGS.items())
def test_settings_are_those_of_the_project(tmp_path: Path, table: str, codes: list[str]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "f.grad").write_text("def f(x, y):\n    return torch.log(1 + x)\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(f"[tool.gradscript.lint]\n{table}\n", encoding="utf-8")
    (tmp_path / "inner" / "pyproject.toml").write_text("[tool.other]\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(tmp_path), "--json"])
    assert result.exit_code == bool(codes)
    assert [found["code"] for file in json.loads(result.stdout) for found in file["findings"]] == codes


WRONG_SETTINGS = [
    "ignore = 1",
    "ignore = [1]",
    'ignore = ["L9"]',
    'select = "L2"',
    'selct = ["L2"]',
    'per-file-ignores = ["L2"]',
    'per-file-ignores = { "f.grad" = "L2" }',
    "line-length = 120",
    "ignore = [",
]


@pytest.mark.parametrize("table", WRONG_SETTINGS)
def test_settings_that_do_not_read_are_told(tmp_path: Path, table: str) -> None:
    (tmp_path / "f.grad").write_text("def f(x):\n    return x\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(f"[tool.gradscript.lint]\n{table}\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(tmp_path)])
    assert result.exit_code == 2
    assert "pyproject.toml" in result.stderr


def test_a_table_of_tools_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "f.grad").write_text("def f(x):\n    return x\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("tool = 3\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["lint", str(tmp_path)]).exit_code == 0


def test_options_go_before_settings(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text("def f(x, y):\n    return torch.log(1 + x)\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.gradscript.lint]\nignore = ["L1"]\n', encoding="utf-8")

    def codes(*options: str) -> list[str]:
        result = CliRunner().invoke(main, ["lint", str(tmp_path), "--json", *options])
        return [found["code"] for file in json.loads(result.stdout) for found in file["findings"]]

    assert codes() == ["L201"]
    assert codes("--ignore", "L2") == codes("--exclude", "f.*") == []
    assert codes("--select", "ALL") == ["L102", "L201"]
    assert codes("--select", "L1,L301") == ["L102"]
    assert codes("--select", "L1", "--ignore", "L102") == []
    refused = CliRunner().invoke(main, ["lint", str(tmp_path), "--ignore", "L9"])
    assert refused.exit_code == 2
    assert "there is no code 'L9'" in refused.stderr


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
