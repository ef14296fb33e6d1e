"""Damaged programs: the parser never raises, reports what Python rejects, and agrees with Python on the rest."""

from __future__ import annotations

import re

from amounts import some
from hypothesis import given, settings
from hypothesis import strategies as st
from lang_support import assert_same_tree, parse_text, parse_with_python
from program_texts import PROGRAMS

_PIECE = re.compile(r"\n[ ]*|[A-Za-z_]\w*|[0-9.]+|\s+|.", re.DOTALL)

_INSERTIONS = st.sampled_from(
    ["(", ")", "[", "]", "{", "}", ":", ",", "=", "==", ".", "...", "*", "**", "@", "->", ":=", ";", "\n",
     "\n    ", "\t", " ", "\\", "\\\n", "#", "'", '"', "'''", "if ", "else ", "elif ", "for ", "in ", "def ",
     "lambda x: ", "not ", "is ", "return ", "yield ", "import x", "class ", "None", "True", "1", "1j", "0", "_",
     "f", "b", "é", "\x00", "\u00a0", "\ud800", "\ufeff", "\r", "\r\n", "\f", "!", "$", "?", "async ", "await ",
     "global x", "del x", "with x: ", "try: ", "match x: ", "/, "]
)  # fmt: skip


@st.composite
def damaged_programs(draw: st.DrawFn) -> str:
    pieces = _PIECE.findall(draw(PROGRAMS))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(pieces) - 1))
        match draw(st.sampled_from(["delete", "repeat", "swap", "insert"])):
            case "delete":
                pieces[at] = ""
            case "repeat":
                pieces[at] *= 2
            case "swap":
                other = draw(st.integers(0, len(pieces) - 1))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case "insert":
                pieces.insert(at, draw(_INSERTIONS))
    return "".join(pieces)


def is_comparable(text: str) -> bool:
    """Whether Python means the same by the text.

    It rejects a file that is indented as a whole, and a byte order mark in a string (in a file it skips it). Both
    take a lone carriage return for a line end, but ours counts lines by line feeds.
    """
    code = re.sub(r"\A(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n))*", "", text)
    return code[:1] not in (" ", "\t", "\f") and not text.startswith("\ufeff") and not re.search(r"\r(?!\n)", text)


@settings(max_examples=some(500), deadline=None)
@given(damaged_programs())
def test_damaged_programs(text: str) -> None:
    module, found = parse_text(text)
    for finding in found:
        assert 0 <= finding.span.start <= finding.span.end <= len(text)
        assert str(finding)
    if not found and is_comparable(text):
        assert_same_tree(text, module)


@settings(max_examples=some(300), deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    module, found = parse_text(text)
    if not found and is_comparable(text):
        assert parse_with_python(text) is not None
        assert_same_tree(text, module)
