"""The arguments of calls: which are written, in what order, and by what name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...lang.light_dataclasses import dataclass
from ...lang.source import Span
from ..ir.node import Value
from ..spelling.names import MODULES
from ..types.schema import Argument, FunctionSchema

Spelling = list[tuple[int, str]]
"""The arguments that are given: (index, keyword), the keyword empty where it stands by place."""

_LONGEST, _LONGEST_NAME = 400, 60
_KEYWORD = re.compile(r"\b(\w+)\s*=(?!=)")
_NAME = re.compile(r"([\w.]*?)\.?(\w+)\s*$")


def is_default(argument: Argument, value: Value) -> bool:
    """Whether the value is what the argument is where it is left out."""
    if argument.required or value.node.kind != "prim::Constant":
        return False
    default: Any = argument.default
    default = list(default) if isinstance(default, tuple) else default
    actual = value.node.attrs["value"]
    if type(actual) is not type(default):
        return False
    return repr(actual) == repr(default)


def spellings(schema: FunctionSchema, inputs: Sequence[Value], named: frozenset[str]) -> Iterator[Spelling]:
    """Ways to give the arguments, best first; `named` are those that go by their names where they may."""
    arguments = schema.arguments
    needed = [not is_default(a, v) for a, v in zip(arguments, inputs, strict=True)]
    yield _by_people(schema, inputs, needed, named)
    positional = len(schema.positional)
    trimmed = positional
    while trimmed and not needed[trimmed - 1]:
        trimmed -= 1
    keywords = [(i, a.name) for i, a in enumerate(arguments) if a.keyword_only and needed[i]]
    for count in dict.fromkeys((*range(trimmed, positional + 1),)):
        yield [(i, "") for i in range(count)] + keywords
    every = [(i, a.name) for i, a in enumerate(arguments) if a.keyword_only]
    yield [(i, "") for i in range(positional)] + every
    for start in range(min(1, positional), -1, -1):
        yield [(i, "") for i in range(start)] + [(i, arguments[i].name) for i in range(start, len(arguments))]


def _by_people(
    schema: FunctionSchema, inputs: Sequence[Value], needed: Sequence[bool], named: frozenset[str]
) -> Spelling:
    """By place as far as nothing is left out; flags by their names."""
    found: Spelling = []
    by_name = False
    for i, argument in enumerate(schema.arguments):
        by_name = by_name or argument.keyword_only or not needed[i]
        if needed[i]:
            by_name = by_name or (i > 0 and argument.name in named) or _is_flag(argument, inputs[i])
            found.append((i, argument.name if by_name else ""))
    return found


def _is_flag(argument: Argument, value: Value) -> bool:
    """Whether the value says nothing without the name: `keepdim=True`, `reduction="sum"`."""
    if argument.required or value.node.kind != "prim::Constant":
        return False
    return isinstance(value.node.attrs["value"], bool | str | None)


@dataclass(frozen=True, slots=True)
class Called:
    """How the source calls an op: of which module, or as a method; and the keywords that it gives."""

    module: str = ""
    is_method: bool = False
    keywords: frozenset[str] = frozenset()


def called_as(span: Span, name: str) -> Called | None:
    """How the source calls `name` at a span; None where it does not."""
    text = span.source.text[max(span.start, span.end - _LONGEST) : span.end]
    opened, content = _last_call(text)
    found = _NAME.search(text, max(0, opened - _LONGEST_NAME), opened)
    if found is None or found[2] != name:
        return None
    is_method = found.start(2) > 0 and text[found.start(2) - 1] == "." and found[1] not in MODULES
    return Called("" if is_method else found[1], is_method, frozenset(_KEYWORD.findall(content)))


def _last_call(text: str) -> tuple[int, str]:
    """Where the parenthesis opens that the text's last one closes (0: nowhere), and what is in no other one within."""
    depth = 0
    content: list[str] = []
    for i in range(len(text) - 1, -1, -1) if text.endswith(")") else ():
        depth += (text[i] == ")") - (text[i] == "(")
        if not depth:
            return i, "".join(reversed(content))
        if depth == 1:
            content.append(text[i])
    return 0, ""
