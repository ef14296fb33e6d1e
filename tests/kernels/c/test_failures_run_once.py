"""A function that fails in kernels of C has printed once: what is wrong is told without running it again."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

UNIT = gs.CompilationUnit(
    """
def forward_fails(x, n: int):
    y = x * 2
    print("once", n)
    return (torch.exp(y)[torch.tensor([n])] + 1).sum()


def checked(x, limit: float):
    def backward(grad_output):
        if float(x.sum()) > limit:
            raise ValueError("too large")
        return grad_output * 2, None
    return x * 2, backward


def backward_fails(x, n: int):
    print("once", n)
    return (torch.exp(checked(x, 1.0)) + 1).sum()
"""
)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", ["forward_fails", "backward_fails"])
def test_it_prints_once(name: str, backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        out, pullback = gs.vjp(UNIT[name], np.ones(3), 5)
        pullback(np.ones_like(out))

    with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure, match=r"out of bounds|too large"):
        run()
    assert capfd.readouterr().out == "once 5\n"


BACKWARDS = gs.CompilationUnit(
    """
def picked(x, index):
    def backward(grad_output):
        return (grad_output * 2).index_select(0, index), None
    return x * 2, backward


def dropped(x, index):
    return picked(F.dropout(x, 0.5), index)


def drawn(x, index):
    return picked(x, index) * torch.rand([3], dtype=torch.float64)
"""
)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", ["dropped", "drawn"])
def test_a_backward_that_fails_draws_no_random_numbers_again(name: str, backend: str) -> None:
    def after(index: list[int]) -> object:
        gs.random.manual_seed(3)
        _, pullback = gs.vjp(BACKWARDS[name], np.ones(3), np.array(index))
        try:
            pullback(np.ones(3))
        except gs.RuntimeFailure as failure:
            assert "out of range" in str(failure)
        return BACKWARDS["drawn"](np.ones(3), np.array([0, 1, 2])).tolist()

    with gs.settings.backend(backend):
        assert after([0, 9, 1]) == after([0, 2, 1])
