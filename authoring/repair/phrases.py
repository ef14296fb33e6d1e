"""How a change to a formula is put into words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from ...lang.source import Span


def is_nice(factor: float) -> bool:
    """Whether a factor is one that a person would write."""
    return abs(factor) <= 24 and abs(factor * 12 - round(factor * 12)) < 1e-5


def rounded(factor: float) -> float:
    """A nice factor without the noise of measuring it; 0 for what is next to nothing."""
    if not isfinite(factor):
        return factor
    nearest = round(factor * 12) / 12
    return nearest if abs(factor - nearest) < 1e-6 else factor


def short_number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) or float(value).is_integer() else f"{value:.6g}"


def quoted(span: Span) -> str:
    text = " ".join(span.text.split())
    return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"


def coefficient_message(term: str, factor: float) -> str:
    if factor == 0:
        return f"{term} should not be there"
    if factor == -1:
        return f"{term} has the wrong sign"
    if factor < 0:
        return f"{term} has the wrong sign, and should be multiplied by {short_number(-factor)}"
    return f"{term} is {short_number(1 / factor)} times what it should be"


def term_text(factor: float, names: Sequence[str]) -> str:
    product = " * ".join(names)
    sign = "-" if factor < 0 else "+"
    return f"`{sign} {product}`" if abs(factor) == 1 else f"`{sign} {short_number(abs(factor))} * {product}`"
