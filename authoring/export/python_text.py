"""Python as people format it: double quotes, spaces around defaults, lines that are not too long."""

from __future__ import annotations

import io
import re
import tokenize

from ...compiler.codegen import wrapping
from ...compiler.types.types import OptionalType, Type, strip_optional

WIDTH = 88
"""Of lines, as formatters have them unless they are told otherwise."""

_DEFAULT = re.compile(r"(\b\w+: [\w\[\], |.]+?)=(?=[\w\"'(\[{-])")


def wrapped_line(line: str, margin: str) -> list[str]:
    """A line, and where it is too long, what is in its outermost parentheses on lines of their own."""
    if len(margin + line) <= WIDTH:
        return [margin + line]
    head, dot, tail = line.rpartition(".")
    name, _, inner = tail.partition("(")
    if dot and inner.endswith(")") and head.endswith(")") and len(f"{margin}{head}.{name}(") <= WIDTH:
        return [f"{margin}{head}.{name}(", f"{margin}    {inner[:-1]}", f"{margin})"]
    lines = wrapping.wrapped_call(line, margin, WIDTH)
    return [part for each in lines for part in (_inner(each) if len(lines) > 1 else [each])]


def _inner(line: str) -> list[str]:
    """An argument on a line of its own, which may be too long itself."""
    text = line.lstrip()
    margin = line[: len(line) - len(text)]
    if len(line) <= WIDTH or not text.endswith("),"):
        return [line]
    lines = wrapping.wrapped_call(text.removesuffix(","), margin, WIDTH)
    return [*lines[:-1], f"{lines[-1]},"]


def tidied(text: str) -> str:
    """What ast.unparse writes, in the usual style."""
    lines = _double_quoted(text).split("\n")
    return "\n".join(part for line in lines for part in _line(line))


def _line(line: str) -> list[str]:
    if line.lstrip().startswith("def "):
        line = _DEFAULT.sub(r"\1 = ", line)
    margin = line[: len(line) - len(line.lstrip())]
    return wrapped_line(line.lstrip(), margin) if line.strip() else [""]


def _double_quoted(text: str) -> str:
    """Strings in double quotes, where they hold none."""
    lines = text.split("\n")
    found = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.STRING]
    for token in reversed(found):
        if token.start[0] != token.end[0] or '"' in token.string or not token.string.startswith("'"):
            continue
        row, start, end = token.start[0] - 1, token.start[1], token.end[1]
        lines[row] = f'{lines[row][:start]}"{token.string[1:-1]}"{lines[row][end:]}'
    return "\n".join(lines)


def python_type(type: Type) -> str:
    """A type as Python writes it."""
    text = str(strip_optional(type))
    if text.startswith("Tensor"):
        text = "Tensor"
    text = text.replace("List[", "list[").replace("Tuple[", "tuple[")
    return f"{text} | None" if isinstance(type, OptionalType) else text
