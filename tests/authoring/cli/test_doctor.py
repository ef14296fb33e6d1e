"""`gradscript doctor` says what is there, and how to get what is not."""

from __future__ import annotations

import json
from pathlib import Path

import gradscript as gs
import pytest
from click.testing import CliRunner
from gradscript.authoring.cli.commands import doctor
from gradscript.authoring.cli.main import main
from gradscript.runtime.kernels.c.compiler import Compiler


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))


def test_it_names_what_runs_kernels() -> None:
    run = CliRunner().invoke(main, ["doctor"])
    assert run.exit_code == 0
    for word in ("python", "numpy", "C compiler", "kernels in C", "Python headers", "cache", "backend", "threads"):
        assert word in run.output


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "compiler", lambda: None)
    run = CliRunner().invoke(main, ["doctor", "--json"])
    found = json.loads(run.output)["C compiler"]
    assert not found["ok"] and "pip install ziglang" in found["found"]


def test_a_compiler_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object) -> None:
        raise doctor.KernelFailure("cc failed: no such flag")

    monkeypatch.setattr(doctor, "load_module", failing)
    found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)["kernels in C"]
    assert found == {"ok": False, "found": "cc failed: no such flag"}


def test_without_headers_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "missing_headers", lambda: "include/Python.h")
    found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)["Python headers"]
    assert not found["ok"] and "python3-dev" in found["found"]


@pytest.mark.parametrize(
    ("backend", "there", "told"),
    [
        ("auto", True, "auto: calls on the CPU run by kernels in C"),
        ("auto", False, "auto: calls on the CPU run op by op"),
        ("c", True, "c: calls on the CPU run by kernels in C"),
        ("numpy", True, "numpy: calls on the CPU run op by op"),
    ],
)
def test_it_says_what_calls_run_on(monkeypatch: pytest.MonkeyPatch, backend: str, there: bool, told: str) -> None:
    if not there or doctor.compiler() is None:
        monkeypatch.setattr(doctor, "compiler", lambda: Compiler(("cc",), "cc") if there else None)
    with gs.settings.backend(backend):
        found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)["backend"]
    assert found["ok"] and found["found"].startswith(told)
