"""`l = []` holds what goes into it first, in whatever block that stands; numbers and strings as Python has them."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

X = np.arange(6.0).reshape(2, 3)
ROWS = """for i in range(2):
        row = []
        for j in range(3):
            row.append(float(x[i, j]))
        l.append(row)"""
FILLED = {
    "l.append(3)": [3],
    "for i in range(3):\n        l.append(-i)": [0, -1, -2],
    "while len(l) < 2:\n        l.append(1.5)": [1.5, 1.5],
    "if x.sum() > 0:\n        l.append('a')": ["a"],
    "l += [True]": [True],
    "l.extend([1, 2])": [1, 2],
    "l.insert(0, (2, 'b'))": [(2, "b")],
    "k = l\n    k.append(4)": [4],
    ROWS: [
        [0.0, 1.0, 2.0],
        [3.0, 4.0, 5.0],
    ],
}
REFUSED = {
    "l.append(1)\n    l.append(x)": "'el' must be int, not Tensor",
    "l = [l]\n    l.append(1)": "'el' must be List[Tensor], not int",
    "k: List[Tensor] = []\n    k.append(1)": "'el' must be Tensor, not int",
}
COMPUTED = {
    "round(2.567, 1)": 2.6,
    "round(1250, -2)": 1200,
    "~5": -6,
    "~x.dim()": -3,
    "'at' in 'cat'": True,
    "'dog' not in 'cat'": True,
    "torch.is_tensor(x)": True,
    "torch.is_tensor(3)": False,
}


@pytest.mark.parametrize("fill", FILLED)
def test_an_empty_list_holds_what_goes_into_it_first(fill: str) -> None:
    unit = gs.CompilationUnit(f"def f(x):\n    l = []\n    {fill}\n    return l\n")
    assert unit.f(X) == FILLED[fill]
    again = gs.CompilationUnit(unit.code)
    assert again.code == unit.code
    assert again.f(X) == FILLED[fill]


def test_an_annotation_says_what_lists_of_a_comprehension_hold() -> None:
    unit = gs.CompilationUnit(
        """
def f(x):
    ints: List[List[int]] = [[] for _ in range(2)]
    ints[0].append(3)
    floats: List[List[List[float]]] = [[[] for _ in range(1)] for _ in range(2) if x.sum() > 0]
    floats[1][0].append(2.5)
    return ints, floats
"""
    )
    assert unit.f(X) == ([[3], []], [[[]], [[2.5]]])


def test_an_empty_list_that_goes_into_a_list_of_lists_is_one_of_those() -> None:
    unit = gs.CompilationUnit(
        """
def f(x, n: int):
    l = [[1.5]]
    l.append([])
    l.insert(0, [])
    l[0] = []
    l[-1].append(0.5)
    l += [[], [2.5]]
    l.extend([[]])
    return l
"""
    )
    for each in (unit, gs.CompilationUnit(unit.code)):
        assert each.code == unit.code
        assert each.f(X, 3) == [[], [1.5], [0.5], [], [2.5], []]


def test_tensors_in_it_have_gradients() -> None:
    unit = gs.CompilationUnit(
        "def f(x):\n    l = []\n    for row in x:\n        l.append(row * row)\n    return torch.stack(l).sum()\n"
    )
    np.testing.assert_allclose(gs.grad(unit.f)(X), 2 * X)


@pytest.mark.parametrize("fill", REFUSED)
def test_of_one_type(fill: str) -> None:
    with pytest.raises(gs.CompileError) as error:
        gs.CompilationUnit(f"def f(x):\n    l = []\n    {fill}\n    return l\n")
    assert REFUSED[fill] in str(error.value)


@pytest.mark.parametrize("expression", COMPUTED)
def test_what_python_computes(expression: str) -> None:
    found = gs.CompilationUnit(f"def f(x):\n    return {expression}\n").f(X)
    assert (found, type(found)) == (COMPUTED[expression], type(COMPUTED[expression]))
