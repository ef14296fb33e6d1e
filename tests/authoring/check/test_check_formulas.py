"""Right formulas pass, wrong ones fail, and the wrong term is named."""

from __future__ import annotations

import re
from pathlib import Path

import gradscript as gs
import pytest

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
RIGHT = gs.CompilationUnit((HERE / "right.gs").read_text(encoding="utf-8"), "right.gs")
WRONG_TEXT = (HERE / "wrong.gs").read_text(encoding="utf-8")
WRONG = gs.CompilationUnit(WRONG_TEXT, "wrong.gs")
EXPECTED = re.findall(r"^# (\w+) (\w+): (.*)\ndef (\w+)", WRONG_TEXT, re.MULTILINE)
"""Argument, kind of failure, text that it points at, function."""


@pytest.mark.parametrize("name", [name for name in RIGHT if not name.endswith("_examples")])
def test_a_right_formula_passes(name: str) -> None:
    report = gs.check(RIGHT[name])
    assert report.ok, str(report)
    assert any(case.order == 1 and case.max_error is not None for case in report.cases)
    assert any(case.order == 2 for case in report.cases), report.notes


@pytest.mark.parametrize(("argument", "kind", "text", "name"), EXPECTED, ids=[name for *_, name in EXPECTED])
def test_a_wrong_formula_is_caught(argument: str, kind: str, text: str, name: str) -> None:
    report = gs.check(WRONG[name])
    assert not report.ok
    found = [failure for failure in report.failures if (failure.argument, failure.kind) == (argument, kind)]
    assert found, str(report)
    if text != "…":
        assert any(failure.span is not None and failure.span.text == text for failure in found), str(report)


def test_every_wrong_formula_has_an_expectation() -> None:
    assert {name for *_, name in EXPECTED} == set(WRONG)
    assert len(EXPECTED) >= 30
    assert len(RIGHT) >= 30


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.gs")), ids=lambda path: path.stem)
def test_examples_say_what_they_are(path: Path) -> None:
    unit = gs.CompilationUnit(path.read_text(encoding="utf-8"), path.name)
    functions = [f for f in unit.functions.values() if not f.name.endswith("_examples")]
    assert functions
    for function in functions:
        report = gs.check(function)
        assert report.ok is not path.stem.startswith("wrong"), str(report)
