"""The code in the documents runs and prints what they show. `REWRITE_GOLDENS=1` rewrites what they show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from document import Run, rewritten

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.usefixtures("op_by_op")  # documents say what a process does by default
@pytest.mark.parametrize("path", DOCUMENTS, ids=[path.name for path in DOCUMENTS])
def test_document(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = path.read_text(encoding="utf-8")
    actual = rewritten(Run(text, tmp_path))
    if os.environ.get("REWRITE_GOLDENS"):
        path.write_text(actual, encoding="utf-8")
    else:
        assert text == actual
