"""The tables of docs/kernels.md are what the kernels of the suite and of the examples are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("script", "lines"), [("kernel_table.py", 17), ("example_table.py", 62)])
def test_the_documents_tables_are_up_to_date(script: str, lines: int) -> None:
    """`make kernels-table examples-table` rewrites them."""
    command = [sys.executable, str(ROOT / "benchmarks" / script)]
    printed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=300).stdout
    assert len(printed.splitlines()) == lines
    assert printed.strip() in (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
