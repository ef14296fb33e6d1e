"""Defaults of parameters: infinities and NaN, as Python writes them."""

from __future__ import annotations

import math

import gradscript as gs
import numpy as np
import pytest

VALUES = {
    "float('inf')": math.inf,
    'float("inf")': math.inf,
    "-float('inf')": -math.inf,
    "float('-inf')": -math.inf,
    "-float('-inf')": math.inf,
    "float('1e3')": 1000.0,
    "float(2)": 2.0,
    "math.inf": math.inf,
    "-math.inf": -math.inf,
    "+torch.inf": math.inf,
    "math.pi": math.pi,
    "torch.pi": math.pi,
    "math.nan": math.nan,
    "float('nan')": math.nan,
    "-3": -3.0,
}


@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("annotation", (": float", ": Optional[float]", ""))
def test_floats(text: str, annotation: str) -> None:
    unit = gs.CompilationUnit(f"def f(x, limit{annotation} = {text}):\n    return x, limit\n")
    assert gs.CompilationUnit(unit.code).code == unit.code
    for made in (unit, gs.CompilationUnit(unit.code)):
        np.testing.assert_equal(made.f(np.ones(1))[1], VALUES[text])


def test_lists() -> None:
    unit = gs.CompilationUnit("def f(x, l: List[float] = [1, float('inf'), -math.inf]):\n    return x, l\n")
    assert unit.f(np.ones(1))[1] == [1.0, math.inf, -math.inf]
    assert gs.CompilationUnit(unit.code).code == unit.code


@pytest.mark.parametrize("text", ("float('abc')", "float(x)", "-(1, 2)", "-'a'", "[[1], [2]]", "-float(None)", "1 + x"))
def test_what_is_no_literal(text: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, y: float = {text}):\n    return x\n")
    assert caught.value.code == "E102"


def test_of_another_type() -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit("def f(x, y: int = math.inf):\n    return x\n")
    assert caught.value.code == "E301"
