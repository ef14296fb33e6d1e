"""Source in one style: white space, and nothing else.

Four spaces for each level, one around operators, none inside brackets, two blank lines between functions, one around
closures; comments stay where they are. Lines are broken where their author broke them.
"""

from __future__ import annotations

import io
import tokenize

from ...lang.diagnostics import Diagnostics
from ...lang.dump import dump
from ...lang.light_dataclasses import dataclass, field
from ...lang.parser import parse
from ...lang.source import Source
from .spacing import Spacing

_INDENT = "    "
_LAYOUT = (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER)


def format_source(source: Source) -> str:
    """The text in one style. CompileError for text that does not parse; what it says stays, and its comments."""
    before = _tree(source)
    text = _Lines(source.text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")).formatted()
    if source.line_end == "\r\n":
        text = text.replace("\n", "\r\n")
    return text if _tree(Source(text, source.filename)) == before else source.text


def _tree(source: Source) -> list[str]:
    """The functions and named tuples of a source, without where they stand."""
    diagnostics = Diagnostics()
    module = parse(source, diagnostics)
    diagnostics.raise_if_any()
    found = [dump(node) for node in (*module.functions, *module.records, *module.constants)]
    return ["\n".join(line.rpartition(" ")[0] for line in text.splitlines()) for text in found]


@dataclass(slots=True)
class _Row:
    """One line of the text, once it is known what it is part of."""

    level: int = 0
    begins: bool = False
    raw: bool = False
    """Inside a text in triple quotes."""
    tokens: list[tokenize.TokenInfo] = field(default_factory=list)

    @property
    def is_comment(self) -> bool:
        return bool(self.tokens) and self.tokens[0].type == tokenize.COMMENT

    @property
    def defines(self) -> bool:
        return self.begins and self.tokens[0].string in ("def", "@", "class", "async")

    @property
    def opens(self) -> bool:
        """Whether a block begins behind it."""
        words = [token for token in self.tokens if token.type != tokenize.COMMENT]
        return bool(words) and words[-1].string == ":"


class _Lines:
    """The lines of a text, read once and written in the style."""

    def __init__(self, text: str) -> None:
        self._original = text.split("\n")
        self._rows = [_Row() for _ in range(len(self._original) + 2)]
        self._read(text)

    def _read(self, text: str) -> None:
        level, fresh, depth = 0, True, 0
        columns = [0]
        comments: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.INDENT:
                level += 1
                columns.append(len(token.string))
            elif token.type == tokenize.DEDENT:
                level -= 1
                self._place_comments(comments, columns, token.start[1])
                columns.pop()
            if token.type in _LAYOUT:
                fresh = fresh or token.type == tokenize.NEWLINE
                continue
            row = self._rows[token.start[0]]
            row.tokens.append(token)
            for number in range(token.start[0] + 1, token.end[0] + 1):
                self._rows[number].raw = True
            if token.type == tokenize.COMMENT:
                if len(row.tokens) == 1 and fresh and not depth:
                    comments.append(token.start[0])
                continue
            depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
            if fresh:
                row.begins, fresh = True, False
                for number in comments:
                    self._rows[number].level, self._rows[number].begins = level, True
                comments.clear()
            row.level = level
        for number in comments:
            self._rows[number].begins = True

    def _place_comments(self, comments: list[int], columns: list[int], column: int) -> None:
        """Comments that close the block which ends here: those that stand as deep as it."""
        while comments and self._rows[comments[0]].tokens[0].start[1] >= columns[-1] > column:
            row = self._rows[comments.pop(0)]
            row.level, row.begins = len(columns) - 1, True

    def formatted(self) -> str:
        made: list[str] = []
        before: _Row | None = None
        functions: list[int] = []
        blank, shift = 0, 0
        spacing = Spacing()
        for number, line in enumerate(self._original, 1):
            row = self._rows[number]
            if row.raw:
                made.append(line)
                before = before or row
                continue
            if not row.tokens:
                blank += 1
                continue
            indent = len(line) - len(line.lstrip())
            if row.begins:
                ended = [functions.pop() for _ in range(len(functions)) if functions[-1] >= row.level]
                made += [""] * _blank_lines(before, row, blank, bool(ended) and row.level > 0)
                shift = row.level * len(_INDENT) - indent
                if row.tokens[0].string == "def":
                    functions.append(row.level)
                spacing = Spacing()
                made.append(_INDENT * row.level + spacing.line(row.tokens))
                before = row
            else:
                made += [""] * min(blank, 1)
                made.append(" " * max(0, indent + shift) + spacing.line(row.tokens))
            if line.rstrip().endswith("\\") and row.tokens[-1].type != tokenize.COMMENT:
                made[-1] += " \\"
            blank = 0
            if before is not None and not row.begins:
                before.tokens = [*before.tokens, *row.tokens]
        return "\n".join(made).rstrip("\n") + "\n" if made else ""


def _blank_lines(before: _Row | None, row: _Row, blank: int, after_function: bool) -> int:
    """How many blank lines stand before a statement or a comment of its own."""
    if before is None:
        return 0
    is_led = before.is_comment or (before.tokens[:1] and before.tokens[0].string == "@")
    if row.level == 0:
        if before.level > 0 or (row.defines and not (is_led and not blank)):
            return 2
        return min(blank, 2)
    if before.opens and before.level < row.level:
        return 0
    if after_function or (row.defines and not (is_led and not blank)):
        return 1
    return min(blank, 1)
