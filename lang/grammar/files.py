"""The grammar's files: its text, and the tables that are kept beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

KEPT = Path(__file__).with_name("tables.json")
TableData: TypeAlias = dict[str, Any]


def grammar_text() -> str:
    """The grammar, which is a file of the package."""
    return Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")


def fingerprint(grammar: str) -> int:
    """What tells one grammar from another."""
    return crc32(grammar.encode())
