"""The table of docs/kernels.md is what the suite's kernels are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_documents_table_is_up_to_date() -> None:
    """`make kernels-table` rewrites it."""
    command = [sys.executable, str(ROOT / "benchmarks" / "kernel_table.py")]
    printed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=300).stdout
    assert len(printed.splitlines()) == 17
    assert printed.strip() in (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
