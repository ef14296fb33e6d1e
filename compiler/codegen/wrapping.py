"""Lines of Python that are not too long: the arguments of a call on lines of their own."""

from __future__ import annotations

import re

WIDTH = 100
INDENT = "    "
_TAIL = re.compile(r"(?<=\))(\.to\(tl\.\w+\)|\.contiguous\(\)|:| -> [^()]*:)$")
"""What follows a call and stays behind its closing parenthesis."""


def wrapped_call(line: str, margin: str, width: int = WIDTH) -> list[str]:
    """A line, and where it is too long, the arguments of its outermost call on lines of their own."""
    if len(margin + line) <= width:
        return [margin + line]
    text = line.lstrip()
    margin += line[: len(line) - len(text)]
    found = _TAIL.search(text)
    tail = found.group() if found else ""
    call = text.removesuffix(tail)
    if not call.endswith(")"):
        return [margin + text]
    opening = _opening(call)
    arguments = _arguments(call[opening + 1 : -1])
    inner = margin + INDENT
    together = inner + ", ".join(arguments)
    if len(together) <= width:
        return [margin + text[: opening + 1], together, f"{margin}){tail}"]
    return [margin + text[: opening + 1], *(f"{inner}{a}," for a in arguments), f"{margin}){tail}"]


def _opening(text: str) -> int:
    """Where the parenthesis opens that closes the text."""
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[position], 0)
        if not depth:
            return position
    raise AssertionError("unbalanced")


def _arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


def in_docstring(text: str) -> str:
    """Text that may stand in a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
