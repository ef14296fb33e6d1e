"""Names that only the body of a loop assigns and that are read after it: what the last round gave, as in Python."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from eager_programs import check

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 2))

PROGRAMS = {
    "a result of the last round": """
def f(x):
    centre = x[:1]
    for _ in range(3):
        weights = torch.softmax(-((x - centre) ** 2).sum(1), 0)
        centre = weights @ x
    return centre + weights.sum() * weights[0]
""",
    "the loop's own variable": """
def f(x):
    for i, row in enumerate(x):
        y = row * i
    return y * row + i
""",
    "loops inside each other": """
def f(x):
    for i in range(2):
        for row in x:
            loss = (row * (i + 1)).sin()
            x = x * 0.9 + row
    return loss * x.sum(0) + i
""",
    "what a `while` made, left by a break": """
def f(x):
    while True:
        x = x * 1.5
        size = x.abs().sum()
        if size > 20:
            break
    return size * x
""",
    "read in branches, closures and later loops": """
def f(x):
    for i in range(3):
        s = torch.sin(x * i)
    if x.sum() > 100:
        y = s * 2
    else:
        y = s.exp()
    for j in range(2):
        y = y * s
        t = y + j
    return t - s
""",
    "a view that is written into afterwards": """
def f(x):
    y = x * 2
    for i in range(2):
        row = y[i]
    row += 1
    return y * row
""",
    "assigned by two loops": """
def f(x):
    for i in range(2):
        s = x * i
    t = s + 1
    for i in range(3):
        s = x + i * t
    return s
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_last_round_gave(name: str) -> None:
    check(PROGRAMS[name], "f", X)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_captured_one(backend: str) -> None:
    function = gs.CompilationUnit("""
def f(x, n: int):
    for i in range(n):
        s = torch.sin(x * i)

    def backward(g):
        return g * s * 3, None

    return x * s, backward
""").f
    with gs.settings.backend(backend):
        value, pull = gs.vjp(function, X, 3)
        np.testing.assert_allclose(pull(np.ones_like(value))[0], 3 * np.sin(X * 2))


ENDED = {
    "counted": ("for i in range(n):\n        y = x * i\n    return y", "y"),
    "conditional": ("k = 0\n    while k < n:\n        y = x * k\n        k += 1\n    return y", "y"),
    "inside": ("for i in range(2):\n        for j in range(n):\n            y = x * j\n    return y", "y"),
    "inside, and read there": (
        "for i in range(2):\n        for j in range(n):\n            y = x * j\n        if x.sum() > 100:\n"
        "            x = x + y\n    return y",
        "y",
    ),
    "a variable": ("for i in range(n):\n        x = x + 1\n    return x * i", "i"),
}


@pytest.mark.parametrize("name", ENDED)
def test_without_a_round_the_reader_is_told(name: str) -> None:
    body, missing = ENDED[name]
    function = gs.CompilationUnit(f"def f(x, n: int):\n    {body}\n").f
    assert function(np.ones(2), 2) is not None
    with pytest.raises(
        gs.RuntimeFailure, match=f"'{missing}' has no value: the loop that assigns it ran no round"
    ) as caught:
        function(np.ones(2), 0)
    assert "return " in str(caught.value)


def test_nobody_asks_where_it_is_not_read() -> None:
    function = gs.CompilationUnit("""
def f(x, n: int):
    for i in range(n):
        y = x * i
    if n > 0:
        return y
    return x
""").f
    np.testing.assert_array_equal(function(np.ones(2), 0), np.ones(2))
    np.testing.assert_array_equal(function(np.ones(2), 3), np.full(2, 2.0))
    assert (
        "uninitialized"
        not in gs.CompilationUnit("def f(x):\n    for i in range(3):\n        x = x * i\n    return x\n").code
    )


PARTLY = {
    "a round may leave before": """
    for i in range(n):
        if i == 2:
            break
        y = x * i
    return y
""",
    "a branch may not assign it": """
    for i in range(n):
        if i > 0:
            y = x * i
    return y
""",
    "it is what the round before gave": """
    for i in range(n):
        y = x * i
    for i in range(n):
        z = y
        y = x
    return z
""",
}


@pytest.mark.parametrize("name", PARTLY)
def test_what_a_round_may_not_assign_is_refused(name: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, n: int):{PARTLY[name]}")
    assert caught.value.code == "E205"
