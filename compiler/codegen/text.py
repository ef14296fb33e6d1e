"""What emitters of every language write: expressions that know how tightly they bind; what has no text."""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass

ATOM = 0
"""The tightest level: a name, a literal, a call. Each language counts its own from there."""


class Unsupported(Exception):
    """What an emitter has no text for; the message says what. Its `supports` tells before."""


@dataclass(frozen=True, slots=True)
class Text:
    """An expression and how tightly it binds."""

    text: str
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where its place binds more tightly."""
        return self.text if self.level <= level else f"({self.text})"
