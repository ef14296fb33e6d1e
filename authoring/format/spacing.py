"""The white space between the tokens of one line."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import kwlist
from tokenize import COMMENT, NAME, OP, TokenInfo

from ...lang.light_dataclasses import dataclass, field

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_WORDS = frozenset(kwlist) - {"None", "True", "False"}
_UNARY = ("-", "+", "~", "*", "**")


@dataclass(slots=True)
class _Bracket:
    kind: str
    annotated: bool = False
    """Whether a parameter since the last comma has an annotation: then `=` stands between spaces."""


@dataclass(slots=True)
class Spacing:
    """Joins the tokens of lines; what brackets are open goes on from one line to the next."""

    open: list[_Bracket] = field(default_factory=list)
    in_definition: bool = False
    last: TokenInfo | None = None
    """What the lines before ended with, comments aside."""

    def line(self, tokens: Sequence[TokenInfo]) -> str:
        made: list[str] = []
        before: TokenInfo | None = None
        is_unary = False
        for token in tokens:
            if before is not None:
                made.append(self._between(before, token, is_unary))
            is_unary = token.string in _UNARY and _ends_nothing(self.last)
            self._follow(token)
            made.append(_comment(token.string) if token.type == COMMENT else token.string.partition("\n")[0])
            before = token
            self.last = token if token.type != COMMENT else self.last
        return "".join(made).rstrip()

    def _follow(self, token: TokenInfo) -> None:
        if token.type == NAME and token.string == "def" and not self.open:
            self.in_definition = True
        if token.type == NAME and token.string == "lambda":
            # Its parameters stand as in brackets, which its colon closes.
            self.open.append(_Bracket("lambda"))
        if token.type != OP:
            return
        if token.string in _OPENING:
            self.open.append(_Bracket(token.string))
        elif token.string in _CLOSING and self.open:
            self.open.pop()
        elif token.string == "," and self.open:
            self.open[-1].annotated = False
        elif token.string == ":":
            if self.open and self.open[-1].kind == "lambda":
                self.open.pop()
            elif self.open:
                self.open[-1].annotated = True
            else:
                self.in_definition = False

    def _between(self, left: TokenInfo, right: TokenInfo, is_unary: bool) -> str:
        if right.type == COMMENT:
            return "  "
        if is_unary or left.string in _OPENING or right.string in (*_CLOSING, ",", ";"):
            return ""
        if "." in (left.string, right.string) and OP in (left.type, right.type):
            # `from . import x` and `3. .real` aside, a dot stands between what it joins.
            is_word = (left.type == NAME and left.string in _WORDS) or right.string == "import"
            return " " if is_word else ""
        if "=" in (left.string, right.string) and self.open:
            return " " if self.open[-1].annotated and self.in_definition else ""
        if right.string in ("(", "["):
            return "" if _may_be_called(left) else " "
        if ":" in (left.string, right.string):
            return self._around_colon(left, right)
        if "**" in (left.string, right.string) or (left.string == "@" and left.start == _first(left)):
            return _as_written(left, right)
        return " "

    def _around_colon(self, left: TokenInfo, right: TokenInfo) -> str:
        if self.open and self.open[-1].kind == "[":
            return _as_written(left, right)
        return "" if right.string == ":" else " "


def _first(token: TokenInfo) -> tuple[int, int]:
    """Where the first token of the line stands."""
    return token.start[0], len(token.line) - len(token.line.lstrip())


def _as_written(left: TokenInfo, right: TokenInfo) -> str:
    return " " if left.end[0] == right.start[0] and right.start[1] > left.end[1] else ""


def _ends_nothing(before: TokenInfo | None) -> bool:
    """Whether an operator behind this is a sign: nothing stands before it that it could join."""
    if before is None:
        return True
    if before.type == OP:
        return before.string not in _CLOSING and before.string != "..."
    return before.type == NAME and before.string in _WORDS


def _may_be_called(token: TokenInfo) -> bool:
    if token.type == NAME:
        return token.string not in _WORDS
    return token.string in _CLOSING or token.type not in (OP, NAME)


def _comment(text: str) -> str:
    """A space behind the `#`, where it begins a sentence."""
    text = text.rstrip()
    return f"# {text[1:]}" if len(text) > 1 and text[1] not in " #!:" else text
