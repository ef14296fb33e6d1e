"""The source of a Python function, wherever it was typed: a file, a notebook, `python -c`, or Python's prompt."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from textwrap import dedent
from types import CodeType
from typing import Any


def source_lines(function: Callable[..., Any]) -> tuple[list[str], int]:
    """The lines of a definition and the number of the first. OSError where there are none."""
    code = inspect.unwrap(function).__code__
    if code.co_filename == "<string>":
        given = _given_to_python()
        lines = inspect.getblock(given.splitlines(keepends=True)[code.co_firstlineno - 1 :]) if given else []
        if lines and _holds(given, code):
            return lines, code.co_firstlineno
        # It is of another text that was run under this name.
    try:
        return inspect.getsourcelines(function)
    except OSError:
        typed = _typed(code) if code.co_filename == "<stdin>" else None
        if typed is None:
            raise
        return typed, code.co_firstlineno


def _given_to_python() -> str:
    """The text of `python -c TEXT`, which Python keeps as it was given."""
    words = sys.orig_argv
    options = {"-W", "-X", "--check-hash-based-pycs"}
    i = 1
    while i < len(words) and words[i].startswith("-"):
        flags, is_last = words[i], words[i].startswith("-") and "c" in words[i] and not words[i].startswith("--")
        if is_last and words[i] not in options:
            attached = flags.partition("c")[2]
            return attached or (words[i + 1] if i + 1 < len(words) else "")
        i += 2 if words[i] in options else 1
    return ""


def _typed(code: CodeType) -> list[str] | None:
    """The lines of a function typed at the prompt, of which Python keeps no source before 3.13, but readline a history.

    Only what compiles to the very code is it.
    """
    readline = sys.modules.get("readline")
    if readline is None:
        return None
    count = readline.get_current_history_length()
    typed = [f"{readline.get_history_item(i + 1) or ''}\n" for i in range(count)]
    places = [i for i, line in enumerate(typed) if re.search(rf"^\s*def\s+{code.co_name}\b", line)]
    for place in reversed(places):
        for first in _with_decorators(typed, place):
            lines = inspect.getblock(typed[first:])
            if _is_of(lines, code):
                return lines
    return None


def _with_decorators(lines: Sequence[str], place: int) -> Iterator[int]:
    """Where a definition may begin: at its `def`, or at one of the decorators above."""
    yield place
    while place and lines[place - 1].lstrip().startswith("@"):
        place -= 1
        yield place


def _is_of(lines: Sequence[str], code: CodeType) -> bool:
    """Whether the text of a function compiles to this code, wherever its lines stand."""
    try:
        module = compile(dedent("".join(lines)), code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    found = next((c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == code.co_name), None)
    return _is_same(found, code)


def _holds(text: str, code: CodeType) -> bool:
    """Whether this code is of that text, in the very line: text that is run by `exec` has the same name."""
    try:
        pending = [compile(text, code.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    while pending:
        found = pending.pop()
        if found.co_firstlineno == code.co_firstlineno and found.co_name == code.co_name and _is_same(found, code):
            return True
        pending += [constant for constant in found.co_consts if isinstance(constant, CodeType)]
    return False


def _is_same(found: CodeType | None, code: CodeType) -> bool:
    pairs = [(found, code)]
    while pairs:
        one, other = pairs.pop()
        if one is None or _shape(one) != _shape(other):
            return False
        inner = [[c for c in each.co_consts if isinstance(c, CodeType)] for each in (one, other)]
        pairs += zip(*inner, strict=True)
    return True


def _shape(code: CodeType) -> tuple[object, ...]:
    """What a code object says, without the places of its lines and the code inside it."""
    constants = tuple(repr(c) if not isinstance(c, CodeType) else c.co_name for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants
