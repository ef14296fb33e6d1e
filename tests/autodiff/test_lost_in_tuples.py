"""Tuples through which no gradient would come back are refused where one is asked for; others are taken apart."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

X = np.array([[0.5, -1.0], [2.0, 0.25]])
MAYBE = """
def f(x):
    t: Optional[Tuple[Tensor, int]] = None
    if x.sum() > 0:
        t = (x * 2, 2)
    {}
"""
LOST = {
    "an optional tuple": MAYBE.format("return t[0].sum() if t is not None else x.sum()"),
    "one of a conditional expression": """
def f(x):
    t = (x * 2, x) if x.sum() > 0 else None
    return t[1].sum() if t is not None else x.sum()
""",
    "one that a loop carries": """
def f(x):
    t: Optional[Tuple[Tensor, int]] = None
    for i in range(3):
        t = (x * i, i)
    return t[0].sum() if t is not None else x.sum()
""",
    "a list of tuples": """
def f(x):
    l = [(i, x[i]) for i in range(2)]
    return l[0][1].sum()
""",
}


@pytest.mark.parametrize("name", LOST)
def test_no_gradient_is_left_out(name: str) -> None:
    unit = gs.CompilationUnit(LOST[name])
    with pytest.raises(gs.CompileError, match="no gradient flows through") as caught:
        gs.grad(unit.f)(X)
    assert caught.value.code == "E408"


@pytest.mark.parametrize("text", [MAYBE.format("return t"), "def f(x):\n    return [(x, 1)]\n"])
def test_torch_tensors_are_not_detached_unseen(text: str) -> None:
    torch = pytest.importorskip("torch")
    f = gs.CompilationUnit(text).f
    leaf = torch.tensor(X, requires_grad=True)
    with pytest.raises(gs.RuntimeFailure, match="a result: no gradient flows through a"):
        f(leaf)
    with torch.no_grad():
        assert not isinstance(f(leaf), torch.Tensor)
    assert f(leaf.detach()) is not None


@pytest.mark.parametrize(
    ("type", "read"),
    [
        ("List[Tuple[int, Tensor]]", "pairs[0][1].sum()"),
        ("Optional[Tuple[int, Tensor]]", "(pairs[1].sum() if pairs is not None else x.sum())"),
    ],
)
def test_no_argument_is_left_out(type: str, read: str) -> None:
    """None in its place would say that the output does not depend on it."""
    source = f"""
def used(x, pairs: {type}):
    return x.sum() + {read}

def other(x, pairs: {type}):
    return x.sum()
"""
    unit = gs.CompilationUnit(source)
    pairs = [(1, X)] if type.startswith("List") else (1, X)
    with pytest.raises(gs.RuntimeFailure, match=r"R003.*argument 'pairs': no gradient flows through") as caught:
        gs.vjp(unit.used, X, pairs)
    assert "ask `gs.grad` for the others" in str(caught.value)
    np.testing.assert_array_equal(gs.grad(unit.used)(X, pairs), np.ones_like(X))
    assert gs.vjp(unit.other, X, pairs)[1](1.0)[1] is None


def test_tuples_that_are_there_are_taken_apart() -> None:
    unit = gs.CompilationUnit("""
def f(x):
    t = (x, 1)
    for i in range(3):
        if x.sum() > i:
            t = (t[0] * x, t[1] + i)
    return t[0].sum() * t[1]
""")
    np.testing.assert_allclose(gs.grad(unit.f)(X), 3 * X**2 * 2)


def test_numbers_and_integers_go_through() -> None:
    unit = gs.CompilationUnit("""
def f(x):
    t: Optional[Tuple[int, float]] = None
    if x.sum() > 0:
        t = (2, 1.5)
    l = [(i, 2 * i) for i in range(3)]
    return (x * t[0]).sum() * l[2][1] if t is not None else x.sum()
""")
    np.testing.assert_allclose(gs.grad(unit.f)(X), np.full_like(X, 8.0))
