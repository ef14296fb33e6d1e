"""Parameters in textual IR: what a caller may leave out, and how, is part of the text."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

PARAMETERS = (
    "n: int = -2",
    "n: Optional[int] = 2",
    "eps: float = 1",
    "eps: float = float('-inf')",
    "p: number = 2.5",
    "w=None",
    "dims: List[int] = []",
    "dims: Optional[List[int]] = [1, 0]",
    "scales: List[float] = [1]",
    "names: List[str] = ['a', 'b']",
    "s: str = 'a\"b\\n'",
    "flag: bool = False",
    "size: BroadcastingList2[int] = 3",
    "size: Optional[BroadcastingList2[int]] = None",
    "a, *, n: int = 3, b",
    "*, b",
)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_they_are_read_again(parameters: str) -> None:
    function = gs.CompilationUnit(f"def f(x, {parameters}):\n    return x * 2\n").f
    text = str(function.graph)
    graph = gs.parse_ir(text)
    assert str(graph) == text
    again = gs.Function.of_graph(graph)
    assert again.schema.arguments == function.schema.arguments
    assert str(again.graph) == text


def test_calls_leave_out_what_has_a_default() -> None:
    text = "def g(x, n: int = 3):\n    return x * n\n\n\n"
    unit = gs.CompilationUnit(text + "def f(x, n: int = 2, *, eps: float = 0.5):\n    return g(x) * n + eps\n")
    again = gs.Function.of_graph(gs.parse_ir(str(unit.f.graph)))
    for arguments, named in (((1.0,), {}), ((1.0, 5), {}), ((1.0,), {"eps": 0.25}), ((1.0,), {"n": 7, "eps": 0.25})):
        assert again(*arguments, **named) == unit.f(*arguments, **named)
    assert gs.grad(again)(np.float64(1.0)) == 6.0
    with pytest.raises(gs.RuntimeFailure):
        again(1.0, 2, 0.25)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("%n : int = 2.5", "E301"),
        ("%n : number = True", "E301"),
        ("%n : Tensor = 1", "E301"),
        ('%n : List[int] = [1, "a"]', "E301"),
        ("%n : List[int] = [[1]]", "E301"),
        ("%n : str = tensor(float32, [], [1.0])", "E301"),
        ("%n : int =", "E501"),
        ("%n : int = 2, %m : int", "E101"),
        ("*", "E501"),
        ("*, *, %n : int", "E501"),
        ("%n : BroadcastingList9[int]", "E503"),
    ],
)
def test_what_makes_no_sense(parameters: str, code: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.parse_ir(f"graph f(%x : Tensor, {parameters}):\n  return (%x)\n")
    assert caught.value.code == code
