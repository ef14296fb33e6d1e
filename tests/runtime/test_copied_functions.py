"""Functions are copied as Python's are: a copy is the function itself. They are not pickled, which is told."""

from __future__ import annotations

import copy
import pickle

import gradscript as gs
import numpy as np
import pytest

UNIT = gs.CompilationUnit("def f(x):\n    return x * x\n")


@pytest.mark.parametrize("function", [UNIT.f, gs.grad(UNIT.f)])
def test_a_copy_is_the_function(function: gs.Function) -> None:
    assert copy.copy(function) is function and copy.deepcopy(function) is function
    holder = copy.deepcopy({"activation": function, "weights": np.ones(2)})
    assert holder["activation"] is function


def test_a_unit_is_copied() -> None:
    assert copy.deepcopy(UNIT).f is UNIT.f


def test_a_module_that_holds_one_is_copied() -> None:
    torch = pytest.importorskip("torch")

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.function = UNIT.f

        def forward(self, x):
            return self.function(x * self.weight)

    layer = Layer()
    twin = copy.deepcopy(layer)
    twin(torch.full((3,), 2.0)).sum().backward()
    assert layer.weight.grad is None and twin.weight.grad.tolist() == [8.0, 8.0, 8.0]


@pytest.mark.parametrize("value", [UNIT.f, gs.grad(UNIT.f), UNIT, [UNIT.f]])
def test_pickling_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="is compiled code, which is not pickled: keep its source and compile it again"):
        pickle.dumps(value)
