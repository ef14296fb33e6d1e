"""`gradscript check` on files and folders, in every format, and its exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from amounts import whole_only
from click.testing import CliRunner, Result
from gradscript.authoring.cli.main import main
from gradscript.stdlib_grads import formula_files, path_of

RIGHT = "def double(x):\n    def backward(g):\n        return g * 2\n\n    return x * 2, backward\n"
WRONG = RIGHT.replace("g * 2", "g * 3").replace("double", "treble")
WARNED = "def mul(x, y):\n    def backward(g):\n        return g * y, g * x\n\n    return x * y, backward\n"
BAD = "def f(x):\n    return y\n"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    for name, text in {"a.grad": RIGHT, "inner/b.gs": WRONG, "c.gs": WARNED, "notes.txt": BAD}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_folder_is_its_files(folder: Path) -> None:
    result = invoke(str(folder))
    assert result.exit_code == 1
    wrong = f"3 functions checked, wrong: treble ({folder / 'inner' / 'b.gs'})"
    for line in ("double: ok", "mul: ok", "treble: 1 failure", wrong):
        assert line in result.stdout.splitlines()


@pytest.mark.parametrize("arguments", [["--jobs", "2"], ["-j", "7"]])
def test_processes_give_the_same(folder: Path, arguments: list[str]) -> None:
    assert invoke(str(folder), *arguments).stdout == invoke(str(folder)).stdout


def test_status_2_is_what_could_not_run(folder: Path) -> None:
    (folder / "bad.gs").write_text(BAD, encoding="utf-8")
    result = invoke(str(folder))
    assert result.exit_code == 2
    assert "error[E201]" in result.stderr
    assert "double: ok" in result.stdout
    (folder / "bad.gs").unlink()
    assert invoke(str(folder / "a.grad"), str(folder / "c.gs")).exit_code == 0
    assert invoke(str(folder / "none.grad")).exit_code == 2
    assert invoke(str(folder), "nothing").exit_code == 2
    (folder / "empty").mkdir()
    assert invoke(str(folder / "empty")).exit_code == 2


def test_a_folder_inside_that_cannot_be_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def refusing(path: str) -> Any:
        if os.fspath(path).endswith("inner"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    result = invoke(str(folder))
    assert result.exit_code == 2
    assert f"cannot read {folder / 'inner'}" in result.stderr
    assert "double: ok" in result.stdout


def test_functions_by_name(folder: Path) -> None:
    result = invoke(str(folder), "double", "mul")
    assert result.exit_code == 0
    assert "treble" not in result.stdout


@pytest.mark.parametrize("path", ["none.grad", "bad.gs", ""])
def test_json_says_what_could_not_run(folder: Path, path: str) -> None:
    (folder / "bad.gs").write_text(BAD, encoding="utf-8")
    result = invoke(str(folder / path), "--json")
    data = json.loads(result.stdout)
    assert data["ok"] is False
    assert result.exit_code == 2
    told = [file for file in data.get("files", [data]) if "error" in file or "diagnostics" in file]
    assert len(told) == 1


def test_json_of_several_files(folder: Path) -> None:
    data = json.loads(invoke(str(folder), "--format", "json").stdout)
    assert [Path(file["file"]).name for file in data["files"]] == ["a.grad", "c.gs", "b.gs"]
    assert [file["ok"] for file in data["files"]] == [True, True, False]
    assert data["files"][1]["functions"][0]["warnings"][0]["kind"] == "shape"
    assert data["files"][0]["functions"][0]["coverage"]["lines_of_the_backward"] == 1


def results(folder: Path) -> list[dict[str, Any]]:
    log = json.loads(invoke(str(folder), "--format", "sarif").stdout)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {r["ruleId"] for r in run["results"]}
    found: list[dict[str, Any]] = run["results"]
    return found


def test_sarif(folder: Path) -> None:
    found = results(folder)
    assert sorted((r["ruleId"], r["level"]) for r in found) == [
        ("shape", "warning"),
        ("shape", "warning"),
        ("value", "error"),
    ]
    (error,) = [r for r in found if r["level"] == "error"]
    place = error["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("inner/b.gs")
    assert place["region"] == {"startLine": 3, "startColumn": 20, "endLine": 3, "endColumn": 21}


def test_sarif_names_files_by_uris(tmp_path: Path) -> None:
    (tmp_path / "a b#c.gs").write_text(WRONG, encoding="utf-8")
    (result,) = json.loads(invoke(str(tmp_path), "--format", "sarif").stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b%23c.gs")


def test_github(folder: Path) -> None:
    lines = invoke(str(folder), "--format", "github").stdout.splitlines()
    assert len(lines) == 3
    (error,) = [line for line in lines if line.startswith("::error ")]
    assert "inner/b.gs,line=3,endLine=3,col=20,endColumn=21,title=gradient of treble (value)::" in error
    assert "`3` should be 2%0Atried with" in error


# Its functions call those of other files, and the examples beside them give what a search does not find.
@pytest.mark.parametrize("name", formula_files())
@whole_only
def test_the_library_is_right(name: str) -> None:
    result = invoke(str(path_of(name)), "--json")
    assert result.exit_code == 0, result.stdout
    assert json.loads(result.stdout)["ok"]
