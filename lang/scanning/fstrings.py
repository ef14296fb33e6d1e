"""f-strings → tokens: their text, and between braces the tokens of an expression, its conversion and its format.

    f"{x!r:>{n}} of"    FSTART  FOPEN x FSPEC("!r:") FTEXT(">") FOPEN n FCLOSE FCLOSE  FTEXT(" of")  FEND

A conversion stands in the text of the FSPEC or FCLOSE behind it; `{x=}` is text that says so, and `x`.
"""

from __future__ import annotations

import re
from typing import Protocol

from ..patterns import pattern
from ..source import Source
from .tokens import BRACKETS, ERROR, KEYWORDS, WORD, Token

START, TEXT, OPEN, SPEC, CLOSE, END = KINDS = ("FSTART", "FTEXT", "FOPEN", "FSPEC", "FCLOSE", "FEND")

_TEXT = pattern(r"(?: [^{}\\] | \\N\{[^}]*\} | \\[^{}] | \\(?=[{}]) | \{\{ | \}\} | (?!) )*+", re.DOTALL | re.VERBOSE)
_RAW_TEXT = pattern(r"(?: [^{}] | \{\{ | \}\} | (?!) )*+", re.DOTALL | re.VERBOSE)
_FORMAT_TEXT = pattern(r"[^{}]*+", re.DOTALL)
_ENDS_FIELD = pattern(r"\s*[!:}]")
_CONVERSION = pattern(r"\s*(?:!\s*([A-Za-z]*)\s*)?")


class TextScanner(Protocol):
    """What reads the text around: the words of an expression are its, those of an f-string inside one too."""

    source: Source
    tokens: list[Token]

    def report(self, code: str, message: str, *notes: str, start: int, end: int) -> None: ...

    def string(self, word: str, start: int, end: int) -> int: ...

    def foreign_word(self, word: str, start: int) -> None: ...


def scan_fstring(scanner: TextScanner, word: str, start: int, end: int) -> None:
    """Append the tokens of the f-string that stands at `start`."""
    _FString(scanner, word, start, end).run()


class _FString:
    def __init__(self, scanner: TextScanner, word: str, start: int, end: int) -> None:
        prefix = word.partition("'")[0].partition('"')[0]
        quotes = 3 if word[len(prefix) :][:3] in ("'''", '"""') else 1
        self.scanner = scanner
        self.source = scanner.source.text
        self.text = _RAW_TEXT if "r" in prefix.lower() else _TEXT
        self.start, self.end = start, end
        self.first, self.last = start + len(prefix) + quotes, end - quotes
        """Where the content starts and ends."""
        self.depth = 0

    def run(self) -> None:
        self.add(START, self.start, self.first)
        position = self.pieces(self.first, self.text)
        while position < self.last:
            # A brace that closes nothing.
            note = "a brace that is text is written twice: '}}'"
            self.scanner.report("E101", "'}' in an f-string closes nothing", note, start=position, end=position + 1)
            position = self.pieces(position + 1, self.text)
        self.add(END, self.last, self.end)

    def pieces(self, position: int, text: re.Pattern[str]) -> int:
        """Text and fields, up to a brace that closes what is around them, or the end."""
        while position < self.last:
            found = text.match(self.source, position, self.last)
            assert found is not None
            if found.end() > position:
                self.add(TEXT, position, found.end())
                position = found.end()
            if position == self.last or self.source[position] == "}":
                break
            position = self.field(position)
        return position

    def field(self, opened: int) -> int:
        """The field whose brace stands here; where the text goes on behind it."""
        tokens, before = self.scanner.tokens, len(self.scanner.tokens)
        self.add(OPEN, opened, opened + 1)
        position = self.expression(opened + 1)
        shows_itself = self.source.startswith("=", position, self.last)
        if shows_itself:
            position = _skip_space(self.source, position + 1, self.last)
            tokens.insert(before, Token(TEXT, self.source[opened + 1 : position], opened + 1, position))
        conversion, position = self.conversion(position)
        after = self.source[position : min(position + 1, self.last)]
        if after == ":":
            tokens.append(Token(SPEC, conversion, position, position + 1))
            position = self.format(position + 1)
            conversion, after = "", self.source[position : min(position + 1, self.last)]
        elif shows_itself and not conversion:
            conversion = "r"
        if after != "}":
            note = "a field of an f-string ends with '}'; a brace that is text is written twice: '{{'"
            self.scanner.report("E003", "'{' was never closed", note, start=opened, end=opened + 1)
            tokens.append(Token(ERROR, "{", position, position))
            return self.last
        tokens.append(Token(CLOSE, conversion, position, position + 1))
        return position + 1

    def format(self, position: int) -> int:
        """What stands behind the colon of a field, fields included; where it ends."""
        if self.depth:
            note = "give the inner one a name before"
            self.scanner.report(
                "E102", "a format inside a format is not supported", note, start=position - 1, end=position
            )
            return self.last
        self.depth += 1
        position = self.pieces(position, _FORMAT_TEXT)
        self.depth -= 1
        return position

    def conversion(self, position: int) -> tuple[str, int]:
        """The letter behind `!`, or nothing; and where it ends."""
        found = _CONVERSION.match(self.source, position, self.last)
        assert found is not None
        letter = found[1]
        if letter is not None and letter not in ("r", "s", "a"):
            note = "!r, !s and !a are conversions"
            message = f"'!{letter}' is no conversion of an f-string"
            self.scanner.report("E101", message, note, start=position, end=max(found.end(), position + 1))
        return letter or "", found.end()

    def expression(self, position: int) -> int:
        """The tokens of an expression; where what ends it stands: one of `=!:}`, or the end."""
        open_brackets: list[str] = []
        while True:
            found = WORD.match(self.source, position, self.last)
            assert found is not None
            group = found.lastgroup
            assert group is not None
            word, (start, end) = found[group], found.span(group)
            if group == "end" or (not open_brackets and self.ends_expression(group, word, start)):
                return start
            self.token(group, word, start, end, open_brackets)
            position = end

    def ends_expression(self, group: str, word: str, start: int) -> bool:
        if group == "operator":
            return word[0] == ":" or (word == "=" and _ENDS_FIELD.match(self.source, start + 1, self.last) is not None)
        return (group == "closing" and word == "}") or (group == "other" and word[0] == "!")

    def token(self, group: str, word: str, start: int, end: int, open_brackets: list[str]) -> None:
        """Append a token that is part of the expression."""
        if group == "string":
            self.scanner.string(word, start, end)
        elif group == "word" and not word.isascii():
            self.scanner.foreign_word(word, start)
        elif group == "other" or group == "unfinished":
            getattr(self.scanner, group)(word, start, end)
        elif group == "closing" and (not open_brackets or open_brackets.pop() != word):
            note = "a field of an f-string closes the brackets that it opens"
            self.scanner.report("E003", f"'{word}' closes nothing here", note, start=start, end=end)
            self.add(ERROR, start, end)
        elif group != "newline":
            if group == "opening":
                open_brackets.append(BRACKETS[word])
            kind = {"word": word if word in KEYWORDS else "NAME", "number": "NUMBER"}.get(group, word)
            self.add(kind, start, end)

    def add(self, kind: str, start: int, end: int) -> None:
        self.scanner.tokens.append(Token(kind, self.source[start:end], start, end))


def _skip_space(text: str, position: int, end: int) -> int:
    while position < end and text[position].isspace():
        position += 1
    return position
