"""Texts of several samples as one text, in which numbers that differ are expressions of sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from ...lang.light_dataclasses import dataclass, field
from .sizes import NotASize, Sizes, SizeTerm

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?f?(?![\w.])")
_BINDS = re.compile(r"[*/%]\s*$")
_BOUND = re.compile(r"^\s*(?:[*/%]|\*\*)")


@dataclass
class Merged:
    """One text, and the sizes that it names."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)


def merged_samples(samples: Sequence[Sequence[str]], sizes: Sizes) -> Merged:
    """The lines of the samples as one. NotASize where they differ in more than sizes."""
    if len({len(lines) for lines in samples}) != 1:
        raise NotASize("the samples have not the same lines")
    found = Merged()
    for lines in zip(*samples, strict=True):
        found.lines.append(_line(lines, sizes, found.names))
    return found


def _line(lines: Sequence[str], sizes: Sizes, names: dict[str, None]) -> str:
    first = lines[0]
    if all(line == first for line in lines):
        return first
    parts = [_NUMBER.split(line) for line in lines]
    if any(part != parts[0] for part in parts):
        raise NotASize(f"the samples differ in more than sizes: {first.strip()}")
    numbers = zip(*(_NUMBER.findall(line) for line in lines), strict=True)
    text = parts[0][0]
    for found, behind in zip(numbers, parts[0][1:], strict=True):
        text += _number(found, text, behind, sizes, names) + behind
    return text


def _number(found: Sequence[str], before: str, behind: str, sizes: Sizes, names: dict[str, None]) -> str:
    if len(set(found)) == 1:
        return found[0]
    term = sizes.of([int(text) for text in found]) if all(map(str.isdigit, found)) else _floating(found, sizes)
    names.update(dict.fromkeys(sorted(term.names)))
    is_operand = _BINDS.search(before) or _BOUND.match(behind) or before.rstrip().endswith("-")
    divides = before.rstrip().endswith(("/", "%"))
    needs = term.level > 1 if is_operand else term.level > 2 and bool(re.search(r"[\w)\]] *[-+] *$", before))
    return f"({term.text})" if needs or (divides and term.level) else term.text


_FUNCTIONS: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("{}", lambda n: n),
    ("(1 / {})", lambda n: 1 / n),
    ("({} ** 0.5)", math.sqrt),
    ("({} ** -0.5)", lambda n: n**-0.5),
)
"""What becomes of sizes before a program is planned: counts that are divided by, and scales."""


def _floating(found: Sequence[str], sizes: Sizes) -> SizeTerm:
    """The expression of floating numbers that follow from one size."""
    values = [float(text.removesuffix("f")) for text in found]
    whole = [int(value) for value in values if value.is_integer()]
    if len(whole) == len(values):
        term = sizes.of(whole)
        if term.names & sizes.runtime:
            return SizeTerm(term.values, f"tl.cast({term.text}, tl.float32)", term.names)
        if not sizes.in_c:
            return term
        return SizeTerm(term.values, f"(float)({term.text})" if term.level else f"(float){term.text}", term.names)
    if not sizes.in_c:
        for form, function in _FUNCTIONS[1:]:
            for name, of in sizes.symbols.items():
                if all(math.isclose(function(n), value, rel_tol=1e-15) for n, value in zip(of, values, strict=True)):
                    return SizeTerm((), form.format(name), frozenset({name}))
    raise NotASize(", ".join(found))
