"""docs/diagnostics.md lists every code. `REWRITE_GOLDENS=1` rewrites its tables."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gradscript.authoring.trials import report
from gradscript.lang import diagnostics
from gradscript.runtime.failures import failure

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"
_TABLE = re.compile(r"(\| (?:Code|Kind) \| Meaning \|\n\|---\|---\|\n)((?:\| .*\n)*)")


def test_tables() -> None:
    tables = iter([diagnostics.CODES, report.KINDS, failure.CODES])

    def filled(match: re.Match[str]) -> str:
        return match[1] + "".join(f"| {code} | {meaning} |\n" for code, meaning in next(tables).items())

    text = PAGE.read_text(encoding="utf-8")
    actual = _TABLE.sub(filled, text)
    if os.environ.get("REWRITE_GOLDENS"):
        PAGE.write_text(actual, encoding="utf-8")
    assert os.environ.get("REWRITE_GOLDENS") or text == actual
    assert next(tables, None) is None
