"""Lists of tuples, tuples of lists and what is known before a call are returned as they are without kernels."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from kernel_device import kernel_device

UNIT = gs.CompilationUnit("""
def made():
    return [(torch.zeros([2, 3]), torch.tensor([0, 1]))]

def pairs(x):
    return [(x * 2, x + 3), (x + 1, x * 4)]

def numbered(x):
    return [(x * 2, 3), (x + 1, 4)]

def counted(x):
    return [(1, 2), (3, x.size(0))], x * 2

def lists_in_tuples(x):
    return ((x * 2, [x + 2]), (x + 1, [x * 3, x * 2]))

def lists(x):
    return [[x * 2, x + 2], [x + 1]]

def constants(x):
    return x * 2, 3, [1, 2], "s", None, 2.5, True, (4, [5])

def through_a_helper(x):
    total = x * 0
    for a, b in pairs(x):
        total = total + a * b
    return total, pairs(total)
""")


def plain(value: Any) -> Any:
    """What can be compared, of the same nesting."""
    if isinstance(value, list | tuple):
        return type(value)([plain(item) for item in value])
    return np.asarray(value).tolist() if isinstance(value, np.ndarray | torch.Tensor) else value


def arguments(name: str, kind: str) -> tuple[Any, ...]:
    x = np.array([0.5, -2.0])
    return () if name == "made" else (x if kind == "arrays" else torch.from_numpy(x),)


@pytest.mark.parametrize("name", list(UNIT.functions))
@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_results_nest_as_they_do_op_by_op(name: str, kind: str) -> None:
    with gs.settings.backend("numpy"):
        wanted = plain(UNIT[name](*arguments(name, kind)))
    with gs.settings.backend("c"):
        for _ in range(4):
            assert plain(UNIT[name](*arguments(name, kind))) == wanted


@pytest.mark.parametrize("name", list(UNIT.functions))
def test_results_nest_so_on_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with gs.settings.backend("numpy"):
        wanted = plain(UNIT[name](*arguments(name, "tensors")))
    with kernel_device(monkeypatch):
        assert plain(UNIT[name](*arguments(name, "tensors"))) == wanted


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_list_that_was_returned_is_the_callers(backend: str) -> None:
    with gs.settings.backend(backend):
        for _ in range(4):
            found = UNIT.constants(np.ones(2))
            assert found[2] == [1, 2] and found[7] == (4, [5])
            found[2].append(9)
            found[7][1].append(9)
