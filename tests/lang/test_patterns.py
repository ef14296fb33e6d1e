"""The scanner's regular expressions say the same on every Python: python/cpython#106052 is in 3.11.0 to 3.11.4."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

import gradscript
import pytest
from gradscript.lang.grammar import literals
from gradscript.lang.scanning import fstrings, scanner, tokens

PACKAGE = Path(gradscript.__file__).resolve().parent
REPEATED_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
NOTHING = re.compile(r"\|\s*\(\?!\)\s*\Z")
NUMBERS = "0179_.eE+-xXfjJ"


def patterns() -> Iterator[tuple[str, int, str]]:
    for room in ("lang", "compiler", "runtime", "authoring", "face"):
        for path in (PACKAGE / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not REPEATED_GROUP.search(text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and REPEATED_GROUP.search(node.value):
                    yield str(path.relative_to(PACKAGE)), node.lineno, node.value


def test_groups_repeated_possessively_end_in_an_alternative_that_puts_the_position_back() -> None:
    found = list(patterns())
    assert len(found) >= 5
    for path, line, text in found:
        for end in REPEATED_GROUP.finditer(text):
            assert NOTHING.search(text, 0, end.start()), f"{path}:{line}: end the group in `| (?!)`, before {end[0]!r}"


@pytest.mark.parametrize(
    ("compiled", "alphabet"),
    [
        (tokens.WORD, ["'", "'", "'", '"', '"', "\\", "\n", "\r", "a", " ", "#", "(", "1", "e", ".", "_", "f", "\f"]),
        (scanner._LEADING, [" ", "\t", "#", "\n", "\r", "a", "\f"]),
        (fstrings._TEXT, ["{", "}", "\\", "N", "a"]),
        (fstrings._RAW_TEXT, ["{", "}", "a"]),
        *((getattr(literals, name), list(NUMBERS)) for name in ("_INT", "_PREFIXED", "_FLOAT", "_COMPLEX")),
    ],
    ids=["words", "leading", "text", "raw", "int", "prefixed", "float", "complex"],
)
def test_possessive_repeats_match_what_greedy_ones_do(compiled: re.Pattern[str], alphabet: list[str]) -> None:
    # No group gives back what it has read in order to match: without its `+` it says the same.
    greedy = re.compile(re.sub(r"(?<=\))([*+?])\+", r"\1", compiled.pattern), compiled.flags)
    draw = random.Random(0)
    for _ in range(20_000):
        text = "".join(draw.choices(alphabet, k=draw.randrange(1, 12)))
        for method in ("match", "fullmatch"):
            ours, theirs = getattr(compiled, method)(text), getattr(greedy, method)(text)
            assert (ours and (ours.span(), ours.groups())) == (theirs and (theirs.span(), theirs.groups())), repr(text)


def test_a_docstring_of_quotes_and_lines_is_one_string() -> None:
    for quotes in ("'''", '"""'):
        quote = quotes[0]
        text = f"{quotes}a\n{quote}b{quote}{quote}c \\{quote}{quotes}"
        found = tokens.WORD.match(text)
        assert found is not None and found.lastgroup == "string" and found.span() == (0, len(text))
