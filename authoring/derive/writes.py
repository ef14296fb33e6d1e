"""Lists that grow and change, as people write them: `ys.append(y)` for `ys = torch.append(ys, y)`, and `ys[i] = y`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

_CHANGED = re.compile(r"( *)(\w+) = torch\.(append|_set_item)\((\w+), (.*)\)")


def with_writes(text: str, stands: Callable[[str], bool]) -> str:
    """The text with writes into lists that nothing reads as they were, which is where it `stands` for what it was."""
    lists = {match[4] for line in text.splitlines() if (match := _CHANGED.fullmatch(line)) is not None}
    whole = _written(text, lists)
    if not lists or stands(whole):
        return whole
    for name in sorted(lists):
        written = _written(text, {name})
        text = written if stands(written) else text
    return text


def _written(text: str, lists: Collection[str]) -> str:
    lines = text.splitlines()
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
