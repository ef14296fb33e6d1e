"""Lists that grow and change, as people write them: `ys.append(y)` for `ys = torch.append(ys, y)`, and `ys[i] = y`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CHANGED = re.compile(r"( *)(\w+) = torch\.(append|_set_item)\((\w+), (.*)\)")


def with_writes(lines: Sequence[str]) -> list[str]:
    """The lines with writes into lists that nothing reads as they were: what they mean is for the caller to see."""
    made = list(lines)
    for i, line in enumerate(made):
        match = _CHANGED.fullmatch(line)
        if match is None:
            continue
        margin, name, kind, before, rest = match.groups()
        if name != before:
            if any(re.search(rf"\b{before}\b", later) for later in made[i + 1 :]):
                continue
            made[i + 1 :] = [re.sub(rf"\b{name}\b", before, later) for later in made[i + 1 :]]
        if kind == "append":
            made[i] = f"{margin}{before}.append({rest})"
            continue
        index, _, item = rest.partition(", ")
        made[i] = f"{margin}{before}[{index}] = {item}"
    return made
