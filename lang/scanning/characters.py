"""What to say of a character or a string prefix that the language does not have."""

from __future__ import annotations

import unicodedata

_ASCII = {
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"', "\u2033": '"', "\uff02": '"',
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u2032": "'", "\uff07": "'", "\u00b4": "'",
    "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\uff0d": "-",
    "\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u2217": "*", "\u2219": "*", "\u2299": "*", "\uff0a": "*",
    "\u00f7": "/", "\u2215": "/", "\u2044": "/", "\uff0f": "/", "\uff0b": "+",
    "\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u2261": "==", "\uff1c": "<", "\uff1e": ">", "\uff1d": "=",
    "\u2192": "->", "\u2190": "=", "\u21d2": "->", "\u2026": "...",
    "\u00b2": "** 2", "\u00b3": "** 3", "\u221a": "torch.sqrt(…)", "\u2211": "torch.sum(…)",
    "\uff08": "(", "\uff09": ")", "\uff3b": "[", "\uff3d": "]", "\uff5b": "{", "\uff5d": "}",
    "\uff0c": ",", "\u3001": ",", "\uff1a": ":", "\uff1b": ";", "\uff0e": ".", "\u3002": ".",
    "\u2227": "and", "\u2228": "or", "\u00ac": "not", "\u2208": "in", "\u221e": "float('inf')",
}  # fmt: skip
"""Look-alikes from word processors, other keyboards and formulas, with what to write in source."""

_MEANT = {
    "!": "'!' is written 'not'",
    "?": "a choice is written 'a if condition else b'",
    "$": "names start with a letter or '_'",
    "`": "strings stand in ' or \"",
}

_SPACES = frozenset("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
_INVISIBLE = frozenset("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad")


def describe_character(character: str) -> tuple[str, str]:
    """The message and the note for a character that no token has."""
    if character in _MEANT:
        return f"unexpected '{character}'", _MEANT[character]
    code = f"U+{ord(character):04X}"
    if "\udc80" <= character <= "\udcff":
        # Where a file was read, this stands for what is no character.
        return (
            f"the byte 0x{ord(character) & 0xFF:02X} is no UTF-8",
            "the file is not text, or saved otherwise; save it as UTF-8",
        )
    if "\ud800" <= character <= "\udfff":
        return f"lone surrogate {code}", "the text was not decoded properly; save the file as UTF-8"
    if character == "\0":
        return "NUL character", "the file is not text, or was saved as UTF-16; save it as UTF-8"
    name = unicodedata.name(character, "")
    shown = f"'{character}' ({code} {name})" if character.isprintable() else f"{code} {name}".rstrip()
    return f"invalid character {shown}", _replacement(character)


def _replacement(character: str) -> str:
    if character in _ASCII:
        return f"write {_ASCII[character]} instead"
    if character in _SPACES:
        return "write a plain space instead"
    if character in _INVISIBLE:
        return "it is invisible; remove it"
    if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
        return "remove it"
    return "outside strings and comments only letters, digits, '_' and the operators may stand"


def string_prefix_problem(literal: str) -> tuple[str, str] | None:
    """The message and the note for a string literal whose prefix the language does not have, or None."""
    prefix = literal.partition("'")[0].partition('"')[0].lower()
    if "b" in prefix:
        return "bytes literals are not supported", "write a plain string"
    return None
