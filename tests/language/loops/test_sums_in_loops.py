"""`total = 0` before a loop that adds tensors to it: a number in its first round, as in Python, then a tensor."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from eager_programs import check, eager

RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 2))

PROGRAMS = {
    "over rows": """
def f(x):
    total = 0
    for row in x:
        total = total + row * row
    return total
""",
    "by an index": """
def f(x):
    total = 0.0
    product = 1
    for i in range(x.size(0)):
        total += (x[i] * i).sum()
        product = product * x[i].cos()
    return product * total / x.size(0)
""",
    "loops inside each other": """
def f(x):
    total = 0
    for row in x:
        inner = 1
        for i in range(3):
            inner = inner * row + total
        total = total + inner.sin()
    return total
""",
    "until data says so": """
def f(x):
    total = 0
    while True:
        total = total + x
        x = x * 1.5
        if float(x.abs().sum()) > 20:
            break
    return total
""",
    "a return in between": """
def f(x):
    total = 0
    for i, row in enumerate(x):
        total = total - row.exp()
        if i == 1:
            return total * 3
    return total
""",
    "one becomes what another was": """
def f(x):
    before = 0
    total = 0
    for row in x:
        before = total
        total = total + row
    return before * total
""",
    "a condition of the loop": """
def f(x):
    total = 0
    i = 0
    while i < 3 and float(total) < 1e9:
        total = total + x[i].sum()
        i += 1
    return total * x
""",
    "over what grows": """
def f(x):
    rows = [x[0]]
    total = 0
    for row in rows:
        total = total + row.sum()
        if len(rows) < 4:
            rows.append(row * 2)
    return total
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_every_road(name: str) -> None:
    check(PROGRAMS[name], "f", X)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_are_those_of_a_number_and_a_tensor(dtype: torch.dtype) -> None:
    source = """
def f(xs: List[Tensor]):
    total = 0
    share = 0.0
    for x in xs:
        total = total + x
        share = share + x.sum()
    return total, share
"""
    tensors = [torch.tensor([1.0, 0.0, 2.0]).to(dtype), torch.tensor([0.0, 3.0, 1.0]).to(dtype)]
    for found, wanted in zip(gs.CompilationUnit(source).f(tensors), eager(source)["f"](tensors), strict=True):
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_loop_that_ends_too_early_is_told(rounds: int) -> None:
    unit = gs.CompilationUnit("""
def f(x, n: int):
    before = 0
    total = 0
    for i in range(n):
        before = total
        total = total + x
    return before * total
""")
    with pytest.raises(gs.RuntimeFailure, match=r"the loop ends before '.*' becomes a tensor") as caught:
        unit.f(X, rounds)
    assert "for i in range(n):" in str(caught.value)


def test_a_number_that_some_rounds_keep_is_refused() -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit("""
def f(x, n: int):
    total = 0
    for i in range(n):
        if i > 0:
            total = total + x
    return total
""")
    assert caught.value.code == "E304"


def test_many_loops_inside_each_other_are_refused_before_they_are_written_out() -> None:
    lines = ["def f(x):"]
    for depth in range(16):
        lines += [f"{'    ' * (depth + 1)}t{depth} = 0", f"{'    ' * (depth + 1)}for i{depth} in range(2):"]
    lines.append("    " * 17 + "t15 = t15 + x")
    lines += ["    " * (depth + 1) + f"t{depth - 1} = t{depth - 1} + t{depth}" for depth in range(15, 0, -1)]
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit("\n".join([*lines, "    return t0", ""]))
    assert {d.code for d in caught.value.diagnostics} <= {"E004", "E205", "E304"}
