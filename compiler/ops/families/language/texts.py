"""Python's methods of strings, and the functions that go between characters and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    *((method, ', int width, str fillchar=" "', "str") for method in (str.center, str.ljust, str.rjust)),
    (str.zfill, ", int width", "str"),
    (str.expandtabs, ", int tabsize=8", "str"),
    *((method, f", str sub, {_RANGE}", "int") for method in (str.find, str.rfind, str.index, str.rindex, str.count)),
    *((method, f", str affix, {_RANGE}", "bool") for method in (str.startswith, str.endswith)),
    *((method, ", str affix", "str") for method in (str.removeprefix, str.removesuffix)),
    (str.replace, ", str old, str new, int count=-1", "str"),
    (str.join, ", str[] values", "str"),
)
"""Each method, what it takes after the string, and what it gives."""


def _called(method: Callable[..., Any]) -> Callable[..., Any]:
    """A function that belongs to this module, as those of all ops do."""
    return lambda *arguments: method(*arguments)


for _method, _taken, _given in _METHODS:
    schema = f"gs::str_{_method.__name__}(str self{_taken}) -> {_given}"
    declare(schema, _called(_method), traits=Trait.NONDIFFERENTIABLE)

declare("aten::ord(str string) -> int", ord)
for _function in (chr, hex, oct, bin):
    declare(f"aten::{_function.__name__}(int i) -> str", _function)
