"""A closure that is not returned is refused by name."""

from __future__ import annotations

import gradscript as gs
import pytest

LOST = {
    "never": """
def f(x):
    def backward(g):
        return g
    return x * 2
""",
    "beside another": """
def f(x):
    def backward(g):
        return g
    def other(g):
        return g
    return x * 2, other
""",
    "in a closure": """
def f(x):
    def other(g):
        def backward(gg):
            return gg
        return g
    return x * 2, other
""",
    "in a branch": """
def f(x):
    if bool(x.sum() > 0):
        def backward(g):
            return g
    return x * 2
""",
    "in a loop": """
def f(x):
    while bool(x.sum() > 0):
        def backward(g):
            return g
        x = x - 1
    return x
""",
    "behind the return": """
def f(x):
    return x
    def backward(g):
        return g
""",
    "without a return": """
def f(x):
    def backward(g):
        return g
""",
    "hidden by a value": """
def f(x):
    def backward(g):
        return g
    backward = x * 3
    return x, backward
""",
}


@pytest.mark.parametrize("name", LOST)
def test_refused(name: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(LOST[name])
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E402", "closure 'backward' is not returned")
    assert found.span.text == "backward"


@pytest.mark.parametrize(
    "body", ["pass", "y = g * 2", "assert g.sum() > 0", "for i in range(2):\n            print(i)"]
)
def test_one_that_returns_nothing_is_refused(body: str) -> None:
    with pytest.raises(gs.CompileError, match="'backward' returns no gradient") as caught:
        gs.CompilationUnit(f"def f(x):\n    def backward(g):\n        {body}\n\n    return x * 2, backward\n")
    assert caught.value.code == "E405"


def test_one_that_returns_none_has_no_gradient() -> None:
    unit = gs.CompilationUnit("def f(x):\n    def backward(g):\n        return None\n\n    return x * 2, backward\n")
    assert gs.vjp(unit.f, 3.0)[1](1.0) == (None,)


def test_one_that_a_dead_branch_returns_is_fine() -> None:
    unit = gs.CompilationUnit("""
def f(x):
    if x is None:
        def backward(g):
            return g
        return x, backward
    return x
""")
    assert unit.f.pair is None
