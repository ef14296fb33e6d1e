"""Lines of a kernel that Triton's interpreter takes as well as its compiler does.

In the interpreter a parameter is an array of one element, which is no bound of a `range`, and a condition on scalars
has no dtype of its own, so that it is no mask beside one that is a vector. A `while` and a `tl.where` mean the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

_FOR = re.compile(r"^(\s*)for (\w+) in (?:tl\.)?range\((.*?)(?:, num_stages=\d+)?\):$")
_CONDITION = re.compile(r"^(\s+)(\w+) = (.+ (?:<|>=|==) .+)$")


def interpretable(lines: Sequence[str], runtime: Collection[str]) -> list[str]:
    """The lines, where `runtime` are parameters that are no constants."""
    return _with_while(_with_masks(lines), runtime)


def _with_masks(lines: Sequence[str]) -> list[str]:
    """Conditions on scalars, as those that loops go over and what programs read at their own place, as masks."""
    found: list[str] = []
    scalars: set[str] = set()
    vectors: set[str] = set()
    for line in lines:
        loop = _FOR.match(line)
        if loop is not None and "," not in loop[3]:
            scalars.add(loop[2])
        assigned = re.match(r"^\s+(\w+) = (.*)$", line)
        if assigned is not None and ("tl.arange(" in assigned[2] or _mentions(assigned[2], vectors)):
            vectors.add(assigned[1])
        elif assigned is not None and ("tl.program_id(" in assigned[2] or _mentions(assigned[2], scalars)):
            scalars.add(assigned[1])
        condition = _CONDITION.match(line)
        is_scalar = condition is not None and condition[2] in scalars and condition[2] not in vectors
        if condition is not None and is_scalar and _compares(condition[3]):
            line = f"{condition[1]}{condition[2]} = tl.where({condition[3]}, True, False)"
        found.append(line)
    return found


def _compares(text: str) -> bool:
    """Whether an expression is a comparison, or several of which all hold, or any."""
    pending: list[ast.expr] = [ast.parse(text, mode="eval").body]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr):
            pending += [part.left, part.right]
        elif not isinstance(part, ast.Compare):
            return False
    return True


def _with_while(lines: Sequence[str], runtime: Collection[str]) -> list[str]:
    """Loops up to what is a parameter as `while`."""
    found: list[str] = []
    open_loops: list[tuple[int, str]] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        while open_loops and line.strip() and depth <= open_loops[-1][0]:
            found.append(open_loops.pop()[1])
        loop = _FOR.match(line)
        if loop is None or not _mentions(loop[3], runtime):
            found.append(line)
            continue
        parts = loop[3].split(", ")
        start, end, step = parts if len(parts) == 3 else ("0", parts[0], "1")
        margin = loop[1]
        found += [f"{margin}{loop[2]} = {start}", f"{margin}while {loop[2]} < {end}:"]
        open_loops.append((len(margin), f"{margin}    {loop[2]} += {step}"))
    return [*found, *(end for _, end in reversed(open_loops))]


def _mentions(text: str, names: Collection[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)
