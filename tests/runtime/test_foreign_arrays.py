"""Arrays of other libraries: memory is taken by DLPack, and what was passed is what comes back."""

from __future__ import annotations

from typing import Any

import array_api_strict as xp
import gradscript as gs
import numpy as np
import pytest

UNIT = gs.CompilationUnit(
    """
def own(x, g):
    s = torch.sigmoid(x)
    def backward(grad):
        return grad * g * s * (1 + x * (1 - s)), grad * x * s
    return x * s * g, backward

def loss(x, g):
    return (x * g).sum()

def several(xs: List[Tensor], n: int):
    return [x * n for x in xs], xs[0].t(), n, xs[0].sum() > 0, xs[1][::2].expand(3, 2, 4)

def same(x):
    return x
"""
)
ROWS = np.arange(12.0).reshape(3, 4) - 5
X, G = xp.asarray(ROWS), xp.asarray(np.cos(ROWS))
Foreign = type(X)


def equal(found: Any, expected: Any) -> None:
    assert type(found) is Foreign
    np.testing.assert_array_equal(np.from_dlpack(found), expected)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_calls(backend: str) -> None:
    with gs.settings.backend(backend):
        for _ in range(2):
            equal(UNIT.own(X, G), UNIT.own(ROWS, np.cos(ROWS)))


def test_several_outputs() -> None:
    found, expected = UNIT.several([X, G], 3), UNIT.several([ROWS, np.cos(ROWS)], 3)
    assert found[2] == 3
    for ours, theirs in zip([*found[0], found[1], *found[3:]], [*expected[0], expected[1], *expected[3:]], strict=True):
        equal(ours, theirs)


def test_gradients() -> None:
    equal(gs.grad(UNIT.loss)(X, G), np.cos(ROWS))
    equal(gs.grad(UNIT.loss, policy="min_cut")(X, G), np.cos(ROWS))
    value, gradients = gs.value_and_grad(UNIT.loss, (0, 1))(X, G)
    # In which order a sum adds follows from the backend.
    np.testing.assert_allclose(np.from_dlpack(value), (ROWS * np.cos(ROWS)).sum(), rtol=1e-14)
    for found, expected in zip(gradients, (np.cos(ROWS), ROWS), strict=True):
        equal(found, expected)
    output, pullback = gs.vjp(UNIT.own, X, G)
    _, expected_pullback = gs.vjp(UNIT.own, ROWS, np.cos(ROWS))
    for found, expected in zip(pullback(output), expected_pullback(np.from_dlpack(output)), strict=True):
        equal(found, expected)
    output, context = UNIT.own.forward(X, G)
    for found, expected in zip(UNIT.own.backward(context, output), pullback(output), strict=True):
        equal(found, np.from_dlpack(expected))


def test_memory_is_shared() -> None:
    array = np.zeros(3)
    result = UNIT.same(xp.asarray(array, copy=False))
    array[1] = 7
    assert np.from_dlpack(result)[1] == 7


def test_check_and_tape() -> None:
    assert gs.check(UNIT.own, X, G)
    assert type(gs.tape.Variable(X).data) is np.ndarray


class OfNoStandard:
    """An array whose library has no namespace."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Traced:
    """What stands for an array while a library records."""

    def __dlpack__(self) -> Any:
        raise TypeError("there is no data")


def test_without_a_namespace_arrays_come_back() -> None:
    found = UNIT.own(OfNoStandard(ROWS), ROWS)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, UNIT.own(ROWS, ROWS))


@pytest.mark.parametrize(
    ("argument", "message", "advice"),
    [
        (OfNoStandard(ROWS, (2, 0)), "OfNoStandard is not on the CPU", "torch.from_dlpack"),
        (Traced(), "cannot be reached", "outside of what traces it"),
        (xp.asarray(ROWS + 1j), "dtype complex128 is not supported", "x.real"),
    ],
)
def test_what_is_refused(argument: Any, message: str, advice: str) -> None:
    with pytest.raises(gs.RuntimeFailure, match=message) as caught:
        UNIT.own(argument, ROWS)
    assert advice in str(caught.value)
