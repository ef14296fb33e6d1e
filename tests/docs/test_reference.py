"""The pages of docs/ops are those that the schemas and formulas give. `REWRITE_GOLDENS=1` writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from gradscript.authoring.cli.loading import CliError
from gradscript.authoring.cli.reference import describe_op, kink_of, pages, write_pages
from gradscript.compiler.formulas.library import formula_name
from gradscript.compiler.ops import OPS

FOLDER = Path(__file__).parents[2] / "docs" / "ops"


def test_pages_are_fresh() -> None:
    if os.environ.get("REWRITE_GOLDENS"):
        write_pages(FOLDER)
    stale = [n for n, text in pages().items() if not (FOLDER / n).exists() or (FOLDER / n).read_text() != text]
    assert stale == [], "run `make reference`"
    assert {path.name for path in FOLDER.glob("*.md")} == set(pages())


def test_every_op_stands_on_one_page() -> None:
    text = "".join(pages().values())
    for op in OPS.all():
        assert text.count(f"{op.schema}\n") + text.count(f"`{op.schema}`\n") == 1, op.schema


def test_a_description_tells_what_a_formula_saves() -> None:
    text = describe_op("linalg_norm")
    assert "torch.linalg.norm(input, ord=None, dim=None, keepdim=False, *, dtype=None) -> Tensor" in text
    assert "written in the language" in text
    text = describe_op("aten::relu")
    assert re.search(r"saves    \w+: Tensor", text)
    assert "kink" in text
    assert "def backward" in text


def test_an_unknown_op_has_a_hint() -> None:
    with pytest.raises(CliError, match="relu"):
        describe_op("relo")


def test_kinks_are_told() -> None:
    assert sum(bool(kink_of(op)) for op in OPS.all() if formula_name(op.schema)) >= 40
