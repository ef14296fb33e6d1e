"""A token that the grammar refuses, with what stands around it; and what there is to say of it."""

from __future__ import annotations

from functools import cached_property

from ..light_dataclasses import dataclass
from ..scanning.tokens import KEYWORDS, LAYOUT, Token
from ..source import Source, Span

OPERANDS = frozenset(("NAME", "NUMBER", "STRING", "FSTART", "True", "False", "None"))
"""Kinds of the tokens that are an expression by themselves."""

_NAMES = {
    "STRING": "a string",
    "FSTART": "an f-string",
    "FTEXT": "the text of an f-string",
    "FOPEN": "'{'",
    "FSPEC": "the ':' of an f-string's field",
    "FCLOSE": "the end of an f-string's field",
    "FEND": "the end of an f-string",
}
"""What tokens are called whose text says little."""


@dataclass(frozen=True)
class Refusal:
    """The token `line[at]` does not fit. `line` is its logical line, with the NEWLINE or END that closes it."""

    source: Source
    line: list[Token]
    at: int
    expected: frozenset[str]
    """Kinds of the tokens that would fit."""
    at_top: bool
    """Whether the line is at the outermost level of the file."""
    messages: frozenset[str] = frozenset()
    """What has been reported before."""

    @property
    def token(self) -> Token:
        return self.line[self.at]

    @property
    def first(self) -> Token:
        return self.line[0]

    @property
    def previous(self) -> Token | None:
        return self.line[self.at - 1] if self.at else None

    @property
    def following(self) -> Token | None:
        return self.line[self.at + 1] if self.at + 1 < len(self.line) else None

    @property
    def wants_operand(self) -> bool:
        """Whether an expression has to come here."""
        return "NUMBER" in self.expected

    @property
    def ends_line(self) -> bool:
        return self.at == len(self.line) - 1

    @cached_property
    def bracket(self) -> int | None:
        """Index in the line of the innermost bracket that is open at the token."""
        opened: list[int] = []
        for index, token in enumerate(self.line[: self.at]):
            if token.kind in ("(", "[", "{"):
                opened.append(index)
            elif token.kind in (")", "]", "}") and opened:
                opened.pop()
        return opened[-1] if opened else None

    @property
    def in_signature(self) -> bool:
        """Whether the token stands among the parameters of a `def`."""
        return self.first.kind == "def" and self.bracket == 2

    @property
    def in_call(self) -> bool:
        """Whether the token stands among the arguments of a call."""
        if self.bracket is None or self.in_signature or self.line[self.bracket].kind != "(" or not self.bracket:
            return False
        return self.line[self.bracket - 1].kind in ("NAME", ")", "]")

    def touches(self, *kinds: str) -> bool:
        """Whether the tokens before the refused one are of these kinds, with no space between any of them."""
        last = self.token
        for token, kind in zip(reversed(self.line[: self.at]), reversed(kinds), strict=False):
            if token.kind != kind or token.end != last.start:
                return False
            last = token
        return self.at >= len(kinds)

    def span(self, first: Token | None = None, last: Token | None = None) -> Span:
        """The place of the refused token, or from one token to another. A line ends where its text does."""
        if first is None and self.token.kind in LAYOUT and self.previous is not None:
            return self._end_of_line(self.previous)
        first = first or self.token
        return Span(self.source, first.start, (last or first).end)

    def _end_of_line(self, previous: Token) -> Span:
        line = self.source.position(previous.end)[0]
        end = self.source.line_starts[line - 1] + len(self.source.line(line).rstrip().removesuffix("\\").rstrip())
        offset = max(end, previous.end)
        return Span(self.source, offset, offset)


@dataclass(frozen=True)
class Complaint:
    """What to report. `keyword` is the one that the line is really meant to start with, where that is known."""

    code: str
    message: str
    span: Span
    notes: tuple[str, ...] = ()
    keyword: str = ""


def found(token: Token) -> str:
    """What to call a token in a message."""
    if token.kind in LAYOUT:
        return "the end of the line"
    if token.kind == "$END":
        return "the end of the file"
    if token.kind in _NAMES:
        return _NAMES[token.kind]
    return f"'{token.text}'" if len(token.text) <= 40 else f"'{token.text[:37]}…'"


def is_keyword(token: Token | None) -> bool:
    return token is not None and token.kind in KEYWORDS
