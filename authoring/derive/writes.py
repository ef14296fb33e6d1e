"""Lists that grow and change, as people write them.

ys = torch.append(ys, y)                        ─▶    ys.append(y)
ys = torch._set_item(ys, i, y)                  ─▶    ys[i] = y
ys = []; for x in xs: ys.append(x * x)          ─▶    ys = [x * x for x in xs]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

_LONGEST = 100
LINES_COMPILED = 1500
"""Whether a text stands is found by compiling it: of a long one fewer ways are tried, and the rest stays as it is."""
FEWEST = 3
_CHANGED = re.compile(r"( *)(\w+) = torch\.(append|_set_item)\((\w+), (.*)\)")


def with_writes(text: str, stands: Callable[[str], bool]) -> str:
    """The text with writes into lists that nothing reads as they were, which is where it `stands` for what it was."""
    left = max(FEWEST, LINES_COMPILED // (text.count("\n") + 1))

    def still_stands(candidate: str) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and stands(candidate)

    gathered = _gathered(text, lambda candidate: True)
    if gathered != text:
        text = gathered if still_stands(gathered) else _gathered(text, still_stands)
    lists = {match[4] for line in text.split("\n") if (match := _CHANGED.fullmatch(line)) is not None}
    return _written_where(text, sorted(lists), still_stands)


def _written_where(text: str, lists: Sequence[str], stands: Callable[[str], bool]) -> str:
    """With the lists written that may be: all at once where that stands, else one half after the other."""
    written = _written(text, lists)
    if written == text or stands(written):
        return written
    if len(lists) <= 1:
        return text
    half = len(lists) // 2
    text = _written_where(text, lists[:half], stands)
    return _written_where(text, lists[half:], stands)


_LOOP = re.compile(
    r"^( *)(\w+)(?:: List\[\w+\])? = \[\]\n\1for (\w+) in (.*):\n\1    \2 = torch\.append\(\2, (.*)\)\n(?!\1 )",
    re.MULTILINE,
)
"""A loop that does nothing but fill a list."""


def _gathered(text: str, stands: Callable[[str], bool]) -> str:
    """The text with a comprehension for each loop that fills a list, where it stands for what it was."""
    position = 0
    while (match := _LOOP.search(text, position)) is not None:
        margin, name, item, items, value = match.groups()
        made = f"{margin}{name} = [{value} for {item} in {items}]\n"
        candidate = text[: match.start()] + made + text[match.end() :]
        fits = len(made) <= _LONGEST and re.search(rf"\b{name}\b", f"{value} {items}") is None
        if fits and stands(candidate):
            text, position = candidate, match.start() + len(made)
        else:
            position = match.end()
    return text


def _written(text: str, lists: Collection[str]) -> str:
    lines = text.removesuffix("\n").split("\n")
    for i, line in enumerate(lines):
        match = _CHANGED.fullmatch(line)
        if match is None or match[4] not in lists:
            continue
        margin, name, kind, before, rest = match.groups()
        if name != before:
            if any(re.search(rf"\b{before}\b", later) for later in lines[i + 1 :]):
                continue
            lines[i + 1 :] = [re.sub(rf"\b{name}\b", before, later) for later in lines[i + 1 :]]
        index, _, item = rest.partition(", ")
        lines[i] = f"{margin}{before}.append({rest})" if kind == "append" else f"{margin}{before}[{index}] = {item}"
    return "\n".join(lines) + "\n"
