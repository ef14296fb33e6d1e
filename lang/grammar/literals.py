"""The values of number and string literals."""

from __future__ import annotations

import re
import unicodedata

from ..patterns import pattern

MAX_INT = 2**63 - 1
"""The largest int: values are 64 bits wide."""
PAST_INT = MAX_INT + 1
"""What is no int, but is one behind a minus."""

_DIGITS = r"[0-9](?:_?[0-9]|(?!))*+"
_INT = pattern(r"0(?:_?0|(?!))*+|[1-9](?:_?[0-9]|(?!))*+")
_PREFIXED = pattern(r"0(?:[xX](?:_?[0-9a-fA-F]|(?!))++|[oO](?:_?[0-7]|(?!))++|[bB](?:_?[01]|(?!))++)")
_FLOAT = pattern(rf"(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?|{_DIGITS}[eE][+-]?{_DIGITS}")
_COMPLEX = pattern(rf"(?:{_FLOAT.pattern}|{_DIGITS})[jJ]")


class BadLiteralError(Exception):
    """A literal has no value. The arguments are the code, the message and the notes of a diagnostic.

    `value` is what it comes to where that is a number, but none of the language's.
    """

    value: int | None = None


def literal_number(text: str) -> int | float:
    """The value of a number literal."""
    if _INT.fullmatch(text):
        digits = text.replace("_", "").lstrip("0") or "0"
        # The length decides first: Python refuses to convert thousands of digits.
        return _checked(int(digits) if len(digits) <= 19 else 2 * PAST_INT)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _PREFIXED.fullmatch(text):
        return _checked(int(text, 0))
    raise _bad_number(text)


def _checked(value: int) -> int:
    if value > MAX_INT:
        note = "an int has 64 bits, at most 9223372036854775807; write a float if the value need not be exact"
        error = BadLiteralError("E005", "integer literal too large", note)
        error.value = value
        raise error
    return value


def _bad_number(text: str) -> BadLiteralError:
    if _COMPLEX.fullmatch(text):
        return BadLiteralError("E102", "complex numbers are not supported", "keep the real and imaginary parts apart")
    if re.fullmatch(r"0[0-9_]*[0-9]", text):
        note = f"write {text.replace('_', '').lstrip('0')}, or 0o… for an octal number"
        return BadLiteralError("E005", "leading zeros in a number", note)
    if text.endswith("_") or "__" in text:
        return BadLiteralError(
            "E005", f"invalid number '{_short(text)}'", "'_' stands between two digits, one at a time"
        )
    return BadLiteralError("E005", f"invalid number '{_short(text)}'", "put a space or an operator after the digits")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"


_SIMPLE = {"\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = pattern(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|N\{(?P<N>[^}]*)\}|(?P<other>.))",
    re.DOTALL,
)


def string(text: str) -> str:
    """The value of a string literal, prefix and quotes included in `text`."""
    raw = text[0] in "rR"
    body = text if text[0] in "'\"" else text[1:]
    width = 3 if body[:3] in ("'''", '"""') else 1
    return content(body[width:-width], raw)


def content(body: str, raw: bool) -> str:
    """The value of what stands between quotes."""
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body if raw or "\\" not in body else _ESCAPE.sub(_unescape, body)


def _unescape(escape: re.Match[str]) -> str:
    kind, value = escape.lastgroup, escape[escape.lastindex or 0]
    if kind == "octal":
        return chr(int(value, 8))
    if kind == "N":
        return _named(value)
    if kind != "other":
        if int(value, 16) > 0x10FFFF:
            raise BadLiteralError("E005", f"no character has the code in '{escape[0]}'", "the last one is \\U0010ffff")
        return chr(int(value, 16))
    if value in "xuUN":
        note = "write two hexadecimal digits after \\x, four after \\u, eight after \\U, {NAME} after \\N"
        raise BadLiteralError("E005", f"the escape '\\{value}' is cut short", note)
    if value == "\n":
        return ""
    # As in Python, a backslash that escapes nothing stays.
    return _SIMPLE.get(value, escape[0])


def _named(name: str) -> str:
    try:
        character = unicodedata.lookup(name)
    except KeyError:
        character = ""
    if len(character) != 1:
        raise BadLiteralError("E005", f"no character is named '{_short(name)}'", "write the character itself")
    return character
