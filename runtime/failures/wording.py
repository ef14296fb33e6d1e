"""NumPy's messages in torch's words: shapes in brackets, dimensions instead of axes."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...lang.patterns import pattern

_SHAPE = pattern(r"\((\d*(?:,\d+)*),?\)")
_INDEX = pattern(r"index (-?\d+) is out of bounds for axis (\d+) with size (\d+)")
_MASK = pattern(r"boolean index did not match .* axis (\d+); size of axis is (\d+) but size of .* axis is (\d+)")
_BROADCAST = pattern(r".*could not be broadcast.*")


def _shapes(match: re.Match[str]) -> str:
    shapes = [f"[{found.replace(',', ', ')}]" for found in _SHAPE.findall(match.group())]
    return f"the shapes {' and '.join(shapes)} do not fit each other" if shapes else "the shapes do not fit each other"


WORDINGS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_BROADCAST, _shapes),
    (_INDEX, lambda m: f"index {m[1]} is out of bounds for dimension {m[2]} with size {m[3]}"),
    (_MASK, lambda m: f"a mask of size {m[3]} at dimension {m[1]} does not fit a tensor of size {m[2]} there"),
)


def in_our_words(message: str) -> str:
    """The message, or what it means where it is one of NumPy's."""
    for usual, words in WORDINGS:
        message = usual.sub(words, message)
    return message
