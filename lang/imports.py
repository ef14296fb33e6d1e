"""`from .norms import rms_norm`: what a file takes from files beside it. Read from the tokens; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .diagnostics import Diagnostics
from .light_dataclasses import dataclass
from .scanning.scanner import scan
from .scanning.tokens import Token
from .source import Source, Span

_RELATIVE = re.compile(r"^from[ \t]*\.", re.MULTILINE)
_NAMES = r"\w+( as \w+)?( , \w+( as \w+)?)*"
RELATIVE_IMPORT = rf"from ((\.|\.\.\.) )+(\w+( \. \w+)* )?import ({_NAMES}|\( {_NAMES} (, )?\))"
"""Such a line, its tokens joined by spaces."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One name that is taken, and what it is called here."""

    name: str
    called: str
    span: Span


@dataclass(frozen=True, slots=True)
class Import:
    """One import: how many folders it goes up, the path from there, and the names.

    Without a path (`from . import norms`), or with that of a folder, the names are files.
    """

    up: int
    path: tuple[str, ...]
    names: tuple[Imported, ...]
    span: Span

    @property
    def text(self) -> str:
        return "." * (self.up + 1) + ".".join(self.path)


def relative_imports(source: Source) -> list[Import]:
    """The imports of a source from files beside it, in order; none where the text is not readable."""
    if not _RELATIVE.search(source.text):
        return []
    tokens = scan(source, Diagnostics())
    found = []
    for line in _lines(tokens):
        if re.fullmatch(RELATIVE_IMPORT, " ".join(token.text for token in line)):
            found.append(_read(source, line))
    return found


def _lines(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each line of the outermost level."""
    line: list[Token] = []
    level = 0
    for token in tokens:
        level += (token.kind == "INDENT") - (token.kind == "DEDENT")
        if token.kind in ("NEWLINE", "INDENT", "DEDENT"):
            if line and not level:
                yield line
            line = []
        else:
            line.append(token)
    if line and not level:
        yield [token for token in line if token.text]


def _read(source: Source, line: Sequence[Token]) -> Import:
    middle = next(i for i, token in enumerate(line) if token.kind == "import")
    head, tail = line[1:middle], [token for token in line[middle + 1 :] if token.text not in ("(", ")")]
    dots = 0
    while dots < len(head) and head[dots].text in (".", "..."):
        dots += 1
    up = sum(len(token.text) for token in head[:dots]) - 1
    path = tuple(token.text for token in head[dots:] if token.text != ".")
    return Import(up, path, tuple(_names(source, tail)), Span(source, line[0].start, line[middle - 1].end))


def _names(source: Source, tokens: Sequence[Token]) -> Iterator[Imported]:
    i = 0
    while i < len(tokens):
        name = tokens[i]
        renamed = i + 2 < len(tokens) and tokens[i + 1].text == "as"
        called = tokens[i + 2] if renamed else name
        yield Imported(name.text, called.text, Span(source, name.start, name.end))
        i += 4 if renamed else 2
