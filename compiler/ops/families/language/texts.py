"""Python's methods of strings, and the functions that go between characters and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import bounds
from ...registry import Trait, declare

_RANGE = "int? start=None, int? end=None"
"""Where to look; the end is behind the last character."""

_METHODS: tuple[tuple[Callable[..., Any], str, str], ...] = (
    *((method, "", "str") for method in (str.upper, str.lower, str.swapcase, str.capitalize, str.title, str.casefold)),
    *((method, ", str? chars=None", "str") for method in (str.strip, str.lstrip, str.rstrip)),
    *(
        (method, "", "bool")
        for method in (
            *(str.isupper, str.islower, str.isdigit, str.isdecimal, str.isnumeric, str.isspace, str.isalpha),
            *(str.isalnum, str.istitle, str.isidentifier, str.isprintable, str.isascii),
        )
    ),
    *((method, ", str? sep=None, int maxsplit=-1", "str[]") for method in (str.split, str.rsplit)),
    (str.splitlines, ", bool keepends=False", "str[]"),
    *((method, ", str sep", "(str, str, str)") for method in (str.partition, str.rpartition)),
    *((method, f", str sub, {_RANGE}", "int") for method in (str.find, str.rfind, str.index, str.rindex, str.count)),
    *((method, f", str affix, {_RANGE}", "bool") for method in (str.startswith, str.endswith)),
    *((method, ", str affix", "str") for method in (str.removeprefix, str.removesuffix)),
)
"""Each method, what it takes after the string, and what it gives."""


def _called(method: Callable[..., Any]) -> Callable[..., Any]:
    """A function that belongs to this module, as those of all ops do."""
    return lambda *arguments: method(*arguments)


for _method, _taken, _given in _METHODS:
    schema = f"gs::str_{_method.__name__}(str self{_taken}) -> {_given}"
    declare(schema, _called(_method), traits=Trait.NONDIFFERENTIABLE)


def _padded(method: Callable[..., str]) -> Callable[..., str]:
    def evaluate(text: str, width: int, *fill: str) -> str:
        bounds.require_characters(width)
        return method(text, width, *fill)

    return evaluate


def _expandtabs(text: str, tabsize: int) -> str:
    bounds.require_characters(len(text) + text.count("\t") * max(tabsize, 0))
    return text.expandtabs(tabsize)


def _replace(text: str, old: str, new: str, count: int) -> str:
    # A longer one in the place of many: between all characters, where the old one is empty.
    if len(new) > len(old):
        found = text.count(old)
        bounds.require_characters(len(text) + (found if count < 0 else min(found, count)) * (len(new) - len(old)))
    return text.replace(old, new, count)


def _join(separator: str, values: list[str]) -> str:
    bounds.require_characters(sum(map(len, values)) + len(separator) * (len(values) - 1))
    return separator.join(values)


for _method in (str.center, str.ljust, str.rjust):
    schema = f'gs::str_{_method.__name__}(str self, int width, str fillchar=" ") -> str'
    declare(schema, _padded(_method), traits=Trait.NONDIFFERENTIABLE)
_MAKING: dict[str, Callable[..., str]] = {
    "zfill(str self, int width)": _padded(str.zfill),
    "expandtabs(str self, int tabsize=8)": _expandtabs,
    "replace(str self, str old, str new, int count=-1)": _replace,
    "join(str self, str[] values)": _join,
}
for schema, _making in _MAKING.items():
    declare(f"gs::str_{schema} -> str", _making, traits=Trait.NONDIFFERENTIABLE)

declare("aten::ord(str string) -> int", ord)
for _function in (chr, hex, oct, bin):
    declare(f"aten::{_function.__name__}(int i) -> str", _function)
