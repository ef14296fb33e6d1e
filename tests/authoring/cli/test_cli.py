"""The command: what it prints, as text and as JSON, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gradscript.authoring.cli.main import main

MUL = """def mul_forward(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        grad_other = (grad_output * self).sum_to_size(other.size())
        return grad_self, grad_other

    return self * other, backward


def plain(x, n: int = 2, *, mode: str = "a"):
    return x * n
"""


@pytest.fixture
def mul(tmp_path: Path) -> str:
    path = tmp_path / "mul.gs"
    path.write_text(MUL, encoding="utf-8")
    return str(path)


def invoke(*args: str, **options: Any) -> Result:
    result = CliRunner().invoke(main, list(args), **options)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- show ---


def test_show_prints_the_lifted_pair(mul: str) -> None:
    result = invoke("show", mul, "mul_forward")
    assert result.exit_code == 0
    header = "def backward(context: Tuple[Tensor, Tensor], grad_output: Tensor) -> Tuple[Tensor, Tensor]:"
    assert header in result.stdout
    assert "    other, self, = context\n" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("stage", ["source", "ast", "ir", "closure", "lifted", "gradient", "optimized"])
def test_show_prints_what_the_function_shows(mul: str, stage: str) -> None:
    result = invoke("show", mul, "mul_forward", "--stage", stage)
    assert result.exit_code == 0
    assert result.stdout.rstrip("\n") == gs.CompilationUnit(MUL, mul).mul_forward.show(stage).rstrip("\n")


def test_show_prints_every_function(mul: str) -> None:
    found = invoke("show", mul, "--stage", "ir").stdout
    assert "graph mul_forward(" in found and "graph plain(" in found
    lifted = invoke("show", mul, "--stage", "lifted").stdout
    assert "\ndef plain(x: Tensor, n: int = 2, " in lifted
    closures = invoke("show", mul, "--stage", "closure").stdout
    assert "plain" not in closures


def test_show_as_json(mul: str) -> None:
    data = json.loads(invoke("show", mul, "--json").stdout)
    assert [(f["name"], f["stage"]) for f in data["functions"]] == [("mul_forward", "lifted"), ("plain", "source")]


def test_a_stage_that_a_function_does_not_have(mul: str) -> None:
    result = invoke("show", mul, "plain", "--stage", "closure")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: 'plain' returns no closure")


def test_passes_are_dumped_and_timed(mul: str) -> None:
    dumped = invoke("show", mul, "mul_forward", "--dump-passes")
    assert dumped.exit_code == 0
    headings = [line for line in dumped.stdout.splitlines() if line.startswith("# ")]
    assert headings and all(": " in heading for heading in headings)
    assert "graph mul_forward" in dumped.stdout
    timed = json.loads(invoke("show", mul, "mul_forward", "--time-passes", "--json").stdout)
    (found,) = timed["functions"]
    ran = {(step["recipe"], step["pass"]) for step in found["passes"]}
    assert {("optimize", "peephole"), ("before_autodiff", "open_grad_of"), ("finish", "eliminate_dead_code")} <= ran
    assert all(step["runs"] >= step["changes"] and step["seconds"] >= 0 for step in found["passes"])


def test_passes_are_not_those_of_kernels(mul: str) -> None:
    result = invoke("show", mul, "mul_forward", "--dump-passes", "--stage", "triton")
    assert result.exit_code == 2 and "--dump-passes" in result.stderr


# --- check ---


def test_check_prints_a_table(mul: str) -> None:
    result = invoke("check", mul)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "mul_forward: ok"
    assert lines[1].split() == ["argument", "order", "trials", "shapes", "tried", "max", "error", "verdict"]
    assert [line.split()[:2] for line in lines[3:8]] == [
        ["self", "1st"],
        ["other", "1st"],
        ["self", "2nd"],
        ["other", "2nd"],
        ["grad_output", "2nd"],
    ]
    assert lines[-1] == "1 function checked, all right"


def test_check_fails_with_status_1(tmp_path: Path) -> None:
    path = tmp_path / "wrong.gs"
    path.write_text(MUL.replace("(grad_output * other)", "(grad_output * other * 2)"), encoding="utf-8")
    result = invoke("check", str(path))
    assert result.exit_code == 1
    assert "error[value]: the gradient of 'self' is wrong: `2` should be 1" in result.stdout
    data = json.loads(invoke("check", str(path), "--json").stdout)
    assert data["ok"] is False
    (failure,) = data["functions"][0]["failures"]
    assert (failure["argument"], failure["kind"], failure["span"]["line"]) == ("self", "value", 3)


def test_check_of_a_named_function_without_a_backward(mul: str) -> None:
    assert invoke("check", mul, "plain").exit_code == 0


def test_check_of_a_file_without_a_backward(tmp_path: Path) -> None:
    path = tmp_path / "plain.gs"
    path.write_text("def f(x):\n    return x\n", encoding="utf-8")
    result = invoke("check", str(path))
    assert (result.exit_code, result.stdout) == (0, f"{path}: no function has a backward to check\n")


# --- run ---


def test_run_prints_results(mul: str) -> None:
    result = invoke("run", mul, "mul_forward", "--arg", "[1, 2, 3]", "--arg", "2.5", "--grad")
    assert result.exit_code == 0
    assert result.stdout == (
        "float64[3]\n[2.5 5.  7.5]\ngradient of self: float64[3]\n[2.5 2.5 2.5]\ngradient of other: float64[]\n6.0\n"
    )


def test_run_takes_files_names_and_dtypes(mul: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    x = f"x={tmp_path / 'x.npy'}"
    result = invoke("run", mul, "plain", "--arg", x, "--arg", "n=3", "--arg", "mode=b", "--json")
    assert json.loads(result.stdout) == {"outputs": [{"dtype": "float32", "shape": [3], "data": [0.0, 3.0, 6.0]}]}
    result = invoke("run", mul, "plain", "--arg", "[1, 2]:int64", "--json")
    assert json.loads(result.stdout)["outputs"][0]["dtype"] == "int64"


def test_run_writes_a_file(mul: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    assert invoke("run", mul, "plain", "--arg", "[1, 2]", "--out", str(out)).exit_code == 0
    assert np.load(out).tolist() == [2.0, 4.0]


def test_nan_is_text_in_json(mul: str) -> None:
    result = invoke("run", mul, "plain", "--arg", "nan", "--json")
    assert json.loads(result.stdout)["outputs"][0]["data"] == "nan"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--arg", "foo("], "cannot read 'foo('"),
        (["--arg", "__import__('os')"], "cannot read"),
        (["--arg", "[[1], [2, 3]]"], "rows differ in length"),
        (["--arg", "missing.npy"], "cannot load missing.npy: No such file"),
        (["--arg", "y=1"], "has no parameter 'y'; it has x, n, mode"),
        (["--arg", "1", "--arg", "2", "--arg", "3"], "'3' is too many"),
        (["--arg", "[1]:float8"], "there is no dtype 'float8'"),
        (["--arg", "[" * 5000], "cannot read"),
    ],
)
def test_arguments_that_do_not_read(mul: str, args: list[str], message: str) -> None:
    result = invoke("run", mul, "plain", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_pickle_is_not_loaded(mul: str, tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    result = invoke("run", mul, "plain", "--arg", str(tmp_path / "bad.npy"))
    assert result.exit_code == 2
    assert "cannot load" in result.stderr


def test_a_run_that_fails(mul: str) -> None:
    result = invoke("run", mul, "mul_forward", "--arg", "[1, 2]", "--arg", "[1, 2, 3]")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[R101]")
    assert invoke("run", mul, "mul_forward").exit_code == 1


# --- ops ---


def test_ops() -> None:
    assert "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor" in invoke("ops").stdout
    data = json.loads(invoke("ops", "sigmoid", "--json").stdout)
    assert data["ops"][0]["name"] == "aten::sigmoid" and data["ops"][0]["formula"].endswith(".grad")
    result = invoke("ops", "sigmod")
    assert (result.exit_code, result.stderr) == (2, "error: there is no op 'sigmod'; did you mean 'sigmoid'?\n")


# --- what goes wrong before ---


def test_bad_source(tmp_path: Path) -> None:
    path = tmp_path / "bad.gs"
    path.write_text("def f(x):\n    return y\n\n\ndef g(x):\n    return z\n", encoding="utf-8")
    for command in (["show", str(path)], ["check", str(path)], ["run", str(path), "f"]):
        result = invoke(*command)
        assert result.exit_code == (2 if command[0] == "check" else 1)
        assert result.stdout == ""
        assert result.stderr.count("error[E201]") == 2
        assert f"  --> {path}:2:12\n" in result.stderr
    data = json.loads(invoke("check", str(path), "--json").stdout)
    assert [(d["code"], d["line"]) for d in data["diagnostics"]] == [("E201", 2), ("E201", 6)]


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"def f(x):\n    return x \xed\xa0\x80\n", b"\x00", b"("])
def test_bytes_that_are_no_source(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bytes.gs"
    path.write_bytes(data)
    assert invoke("show", str(path)).exit_code == 1


def test_files_and_names_that_are_not_there(mul: str, tmp_path: Path) -> None:
    result = invoke("show", str(tmp_path / "none.gs"))
    assert result.exit_code == 2
    assert result.stderr == f"error: cannot read {tmp_path / 'none.gs'}: No such file or directory\n"
    assert invoke("show", str(tmp_path)).exit_code == 2
    result = invoke("check", mul, "mul_forwrad")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: there is no function 'mul_forwrad'; did you mean 'mul_forward'?\n",
    )


def test_standard_input() -> None:
    result = invoke("show", "-", "plain", input=MUL)
    assert result.exit_code == 0
    assert result.stdout.startswith("def plain(x")


def test_the_module_is_the_command_and_survives_an_ascii_terminal(tmp_path: Path) -> None:
    path = tmp_path / "greek.gs"
    path.write_text("# σ\ndef f(x):\n    '''σ'''\n    return σ\n", encoding="utf-8")
    command = [sys.executable, "-m", "gradscript", "show", str(path)]
    done = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"error[" in done.stderr


def test_version() -> None:
    assert invoke("--version").stdout == f"gradscript, version {gs.__version__}\n"


FILES = {
    "lines end in CR LF": b"def f(x):\r\n    # c\r\n    return x * 2\r\n",
    "a mark at its start": b"\xef\xbb\xbfdef f(x):\n    return x * 2\n",
    "tabs": b"def f(x):\n\treturn x * 2\n",
    "Latin-1": b"def f(x):\n    # caf\xe9\n    return x\n",
    "no text": bytes(range(256)),
    "empty": b"",
    "a comment": b"# nothing\n",
    "wrong": b"def f(x):\n    return x *\n",
    "NUL": b'def f(x):\n    return "\0"\n',
    "no last line end": b"def f(x):\n    return x",
}
COMMANDS = ("lint", "fmt --check", "check", "derive", "stubs")


@pytest.mark.parametrize("content", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_files_as_they_come(tmp_path: Path, content: str, command: str) -> None:
    path = tmp_path / "f.grad"
    path.write_bytes(FILES[content])
    for options in ([], ["--json"]):
        result = CliRunner().invoke(main, [*command.split(), str(path), *options])
        assert isinstance(result.exception, SystemExit | None), result.exception
        is_bad = content in ("Latin-1", "no text", "wrong", "NUL")
        changes = command.startswith("fmt") and content not in ("lines end in CR LF", "empty", "a comment")
        wanted = (2 if command == "check" else 1) if is_bad else int(changes)
        assert result.exit_code == wanted, result.output
        if options:
            json.loads(result.stdout)
        elif is_bad:
            assert "f.grad:" in result.stderr


def test_lines_end_as_they_did(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_bytes(b"def f(x, y):\r\n    z = torch.log(1 + x)\r\n    return  z * y\r\n")
    for command in ("lint --fix", "derive --write", "fmt"):
        assert CliRunner().invoke(main, [*command.split(), str(path)]).exit_code == 0
    written = path.read_bytes()
    assert b"torch.log1p(x)" in written and b"def backward" in written and b"return  z" not in written
    assert written.count(b"\r\n") == written.count(b"\n") > 8
    before = path.read_bytes()
    assert CliRunner().invoke(main, ["derive", "--write", str(path)]).exit_code == 0
    assert path.read_bytes() == before


def test_derive_finds_a_function_in_a_folder(tmp_path: Path) -> None:
    for name in "fg":
        (tmp_path / f"{name}.grad").write_text(f"def {name}(x):\n    return x * x\n", encoding="utf-8")
    found = CliRunner().invoke(main, ["derive", str(tmp_path), "g"])
    assert found.exit_code == 0 and found.stdout.startswith("def g(x):") and "def f" not in found.stdout
    assert CliRunner().invoke(main, ["derive", str(tmp_path), "h"]).exit_code == 2


def test_files_that_cannot_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.grad"
    path.write_text("def f(x):\n    return  torch.log(1 + x)\n", encoding="utf-8")

    def refuse(where: Path, data: bytes) -> int:
        raise PermissionError(13, "Permission denied", str(where))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    for command in ("lint --fix", "derive --write", "fmt"):
        result = CliRunner().invoke(main, [*command.split(), str(path)])
        assert result.exit_code == 2, result.exception
        assert f"{path}: Permission denied" in result.stderr
