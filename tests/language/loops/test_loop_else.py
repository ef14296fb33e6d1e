"""`else` on loops: what a `break` passes by, as Python has it."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch

BODIES = {
    "for with a break": """
    for i in range(n):
        if i == 3:
            x = x * 2
            break
    else:
        x = x + 1
""",
    "while with a break": """
    while n > 0:
        n -= 1
        if n == 3:
            break
    else:
        x = x + 1
""",
    "no break": """
    for i in range(n):
        x = x * 2
    else:
        x = x + 1
""",
    "a return in the loop, and behind it": """
    for i in range(n):
        if i == 2:
            return x
    else:
        x = x + 1
        return x * 3
""",
    "loops in loops": """
    for j in range(3):
        for i in range(n):
            if i == j + 1:
                break
            x = x + i
        else:
            if j == 2:
                break
            x = x * 2
            continue
        x = x - 1
    else:
        x = x * 10
""",
    "decided by data": """
    for i in range(n):
        if x.sum() > 5:
            break
        x = x * 2
    else:
        return x - 1
""",
    "a break in a with": """
    for i in range(n):
        with torch.no_grad():
            if i == 2:
                break
    else: x = x * 100
""",
}


@pytest.mark.parametrize("name", BODIES)
def test_it_runs_where_no_break_did(name: str) -> None:
    source = f"def f(x, n: int):{BODIES[name]}    return x\n"
    meant: dict[str, Any] = {"torch": torch}
    exec(source, meant)
    unit = gs.CompilationUnit(source)
    assert gs.CompilationUnit(unit.code).code == unit.code
    for n in range(6):
        ours, theirs = (torch.full((2,), 1.5, requires_grad=True) for _ in range(2))
        found, wanted = unit.f(ours, n), meant["f"](theirs, n)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x) for y, x in ((found, ours), (wanted, theirs))))
