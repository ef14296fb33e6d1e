"""gs.settings.capture_checking: writes into captured arrays between forward and backward are found, exactly."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest

UNIT = gs.CompilationUnit(
    """
def f(x, w):
    y = torch.tanh(x * w)
    z = torch.exp(y) * w + x
    return z * y

def joined(xs: List[Tensor]):
    def backward(grad):
        return [grad * x for x in xs]
    return xs[0] * xs[1], backward
"""
)


class Square(gs.tape.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2 * ctx.saved[0]


def test_without_the_mode_a_write_goes_unseen() -> None:
    x = np.array([1.0, 2.0])
    w = gs.tape.Variable(x.copy(), requires_grad=True)
    y = (gs.tape.Variable(x) * w).sum()
    x[0] = 7
    (found,) = gs.tape.grad(y, [w])
    assert found.data.tolist() == [7.0, 2.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_write_into_an_argument_is_named(dtype: Any) -> None:
    x, w = np.array([1.0, 2.0], dtype), np.array([3.0, 5.0], dtype)
    with gs.settings.capture_checking(True):
        y = UNIT.f(gs.tape.Variable(x), gs.tape.Variable(w))
    w[1] = np.nextafter(w[1], w[1] + 1) if dtype is not ml_dtypes.bfloat16 else 5.03125
    with pytest.raises(RuntimeError, match=r"'w' \(operand of aten::mul\.Tensor\), which f captured .* written into"):
        y.sum().backward()


def test_a_write_into_a_result_is_named() -> None:
    x = gs.tape.Variable(np.array([0.5, -0.5]))
    with gs.settings.capture_checking(True):
        y = x.exp()
        loss = (y * 2).sum()
    y.data[0] = 3
    with pytest.raises(RuntimeError, match=r"\(result of aten::exp\), which aten::exp captured"):
        loss.backward()


def test_writes_into_views_and_lists_and_what_functions_save() -> None:
    base = np.arange(12.0).reshape(3, 4)
    with gs.settings.capture_checking(True):
        transposed = (gs.tape.Variable(base.T[1:, ::2]) ** 2).sum()
        listed = UNIT.joined([gs.tape.Variable(base[0]), gs.tape.Variable(base[1])]).sum()
        saved = Square.apply(gs.tape.Variable(base[2])).sum()
    base[:, 1] += 1
    for loss, name in ((transposed, "aten::pow"), (listed, "joined"), (saved, "saved tensor 0, which Square")):
        with pytest.raises(RuntimeError, match=f"{name}.* has been written into"):
            loss.backward()


def test_what_is_not_written_into_passes() -> None:
    x, w = gs.tape.Variable(np.array([1.0, 2.0])), gs.tape.Variable(np.array([3.0, 5.0]))
    with gs.settings.capture_checking(True):
        y = UNIT.f(x, w) + Square.apply(w) + UNIT.joined([x, w])
    x.data = x.data + 1
    x.data[0] = 9
    (first,) = gs.tape.grad(y.sum(), w, create_graph=True)
    (second,) = gs.tape.grad(first.sum(), w)
    assert np.isfinite(second.data).all()


def test_a_write_that_changes_nothing_passes() -> None:
    x = np.array([1.0, 2.0])
    with gs.settings.capture_checking(True):
        y = (gs.tape.Variable(x) ** 2).sum()
    x[0] = 1.0
    y.backward()
