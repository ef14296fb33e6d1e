"""`@gs.script` on methods of classes: what Python computes, of each object, also after its attributes changed."""

from __future__ import annotations

import copy
import gc

import gradscript as gs
import numpy as np
import pytest
import torch

POINT = np.array([0.5, -1.25, 3.0])


class Scaled:
    offset = 1.0

    def __init__(self, factor: float, power: tuple[int, ...] = (2,)) -> None:
        self.factor = factor
        self.power = power

    @gs.script
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + self.offset

    @gs.script
    def raised(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        for _ in range(times):
            x = self.scaled(x) ** self.power[0]
        return x

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.factor

    @gs.script
    def helped(self, x: torch.Tensor) -> torch.Tensor:
        return self.helper(x) * 2

    @gs.script
    def own(self, x: torch.Tensor) -> torch.Tensor:
        def backward(grad: torch.Tensor) -> torch.Tensor:
            return grad * self.factor

        return x.sin(), backward

    @gs.script
    def even(self, x: torch.Tensor) -> torch.Tensor:
        return self.odd(x)

    @gs.script
    def odd(self, x: torch.Tensor) -> torch.Tensor:
        return self.even(x)

    @gs.script
    def missing(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.not_there

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaled)

    __hash__ = None  # type: ignore[assignment]


def test_each_object_has_its_own() -> None:
    two, three = Scaled(2.0), Scaled(3.0, (3,))
    for _ in range(2):
        np.testing.assert_allclose(two.scaled(POINT), POINT * 2 + 1)
        np.testing.assert_allclose(three.scaled(POINT), POINT * 3 + 1)
        np.testing.assert_allclose(three.raised(POINT), (POINT * 3 + 1) ** 3)
        np.testing.assert_allclose(Scaled.raised(two, POINT, times=2), ((POINT * 2 + 1) ** 2 * 2 + 1) ** 2)
    assert two.scaled is two.scaled and two.raised is two.raised and two.helped is two.helped
    assert isinstance(two.scaled, type(gs.script(two.helper)))
    np.testing.assert_allclose(gs.grad(two.own)(POINT[0]), 2.0)


def test_a_number_that_changed_is_the_new_one() -> None:
    one = Scaled(2.0)
    before = one.helped
    np.testing.assert_allclose(before(POINT), (POINT - 2) * 2)
    one.factor = 5.0
    np.testing.assert_allclose(one.helped(POINT), (POINT - 5) * 2)
    np.testing.assert_allclose(one.raised(POINT), (POINT * 5 + 1) ** 2)
    np.testing.assert_allclose(before(POINT), (POINT - 2) * 2)
    one.power = (3,)
    np.testing.assert_allclose(one.raised(POINT), (POINT * 5 + 1) ** 3)
    one.factor = -0.0
    assert np.signbit(one.scaled(np.zeros(1)) - 1).tolist() == [False]
    twin = copy.deepcopy(one)
    twin.factor = 7.0
    np.testing.assert_allclose(twin.scaled(POINT), POINT * 7 + 1)
    np.testing.assert_allclose(one.scaled(POINT), POINT * -0.0 + 1)


def test_objects_are_not_kept() -> None:
    one = Scaled(2.0)
    one.scaled(POINT), one.raised(POINT), one.helped(POINT)
    known = Scaled.__dict__["scaled"]._known
    assert id(one) in known
    key = id(one)
    del one
    gc.collect()
    assert key not in known


def test_modules() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eps = 0.5
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        @gs.script
        def normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return x * weight / (x.abs().sum() + self.eps)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.normed(x, self.weight)

    layer, x = Layer(), torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    layer(x).sum().backward()
    other = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (other * layer.weight / (other.abs().sum() + 0.5)).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(gs.CompileError, match="not_there"):
        _ = Scaled(1.0).missing
    with pytest.raises(gs.CompileError, match=r"recurs|itself"):
        _ = Scaled(1.0).even
    with pytest.raises(TypeError, match=r"'Scaled\.helper' is a method: compile it of an object"):
        gs.script(Scaled.helper)
