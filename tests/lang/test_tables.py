"""The parser's tables as the package carries them."""

import subprocess
import sys

import pytest
from gradscript.lang.grammar import files, tables
from gradscript.lang.grammar.lalr import make_tables, tables_text
from lang_support import parse_valid


def test_tables_are_of_the_grammar() -> None:
    kept = files.KEPT.read_text(encoding="utf-8")
    assert kept == tables_text(files.grammar_text()), "run `make tables`"


def test_parsing_does_not_load_lark() -> None:
    unit = "gs.CompilationUnit('def f(x):\\n    return x\\n')"
    code = f"import sys, gradscript as gs; {unit}; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tables_of_another_grammar_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = files.grammar_text() + "\n// a grammar that the tables beside it are not of\n"
    monkeypatch.setattr(tables, "grammar_text", lambda: changed)
    tables.tables.cache_clear()
    try:
        assert tables.tables().actions
        assert parse_valid("def f(x):\n    return x\n").functions[0].name == "f"
        assert make_tables(changed)["grammar"] == files.fingerprint(changed)
    finally:
        tables.tables.cache_clear()
