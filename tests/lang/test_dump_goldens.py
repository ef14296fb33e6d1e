"""Source in, tree out: each file in goldens/ holds a source and, below the rule, its dump.

`REWRITE_GOLDENS=1 pytest tests/lang/test_dump_goldens.py` writes the dumps anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gradscript.lang.dump import dump
from lang_support import parse_valid

GOLDENS = sorted(Path(__file__).with_name("goldens").glob("*.txt"))
RULE = "=" * 40 + "\n"


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    source, _, expected = path.read_text(encoding="utf-8").partition(RULE)
    found = dump(parse_valid(source))
    if os.environ.get("REWRITE_GOLDENS"):
        path.write_text(source + RULE + found, encoding="utf-8")
    else:
        assert found == expected


def test_goldens_exist() -> None:
    assert GOLDENS
