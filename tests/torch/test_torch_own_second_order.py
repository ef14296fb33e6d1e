"""Second and third derivatives by torch's autograd pass the backwards that functions carry, on either backend.

Each backward here is a function of its own, unlike the derivative of what stands beside it: a gradient that goes
another way has other numbers. What is right is written beside it in torch, with `torch.autograd.Function`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.compiler.fusion import fuse

Tensor = torch.Tensor
UNIT = gs.CompilationUnit("""
def nested(x):
    def backward(g):
        def backward(gg):
            return gg * x * 70, gg * g * 700
        return g * x * 7, backward
    return torch.exp(x), backward

def rounded(x):
    def backward(g):
        return g * 7
    return torch.round(x), backward

def mixed(x):
    return rounded(x) * x

def saved(x):
    y = rounded(x)
    def backward(g):
        return g * y
    return y * x, backward

def called(x):
    def backward(g):
        return rounded(g * x * x)
    return x * x, backward

def looped(x):
    for i in range(3):
        x = rounded(x * 1.5) * x
    return x

def looped_nested(x):
    for i in range(2):
        x = nested(x) * x
    return x

def helped(x):
    return mixed(x * 2).sum() * x
""")


class _NestedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        return g * x * 7

    @staticmethod
    def backward(ctx: Any, gg: Tensor) -> Any:
        g, x = ctx.saved_tensors
        return gg * x * 70, gg * g * 700


class _Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _NestedBackward.apply(g, ctx.saved_tensors[0])


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 7


class _Saved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y)
        return y * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * ctx.saved_tensors[0], None


class _Called(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return rounded(g * x * x)


def nested(x: Tensor) -> Tensor:
    return _Nested.apply(x)


def rounded(x: Tensor) -> Tensor:
    return _Rounded.apply(x)


def mixed(x: Tensor) -> Tensor:
    return rounded(x) * x


def saved(x: Tensor) -> Tensor:
    return _Saved.apply(x, rounded(x))


def called(x: Tensor) -> Tensor:
    return _Called.apply(x)


def looped(x: Tensor) -> Tensor:
    for _ in range(3):
        x = rounded(x * 1.5) * x
    return x


def looped_nested(x: Tensor) -> Tensor:
    for _ in range(2):
        x = nested(x) * x
    return x


def helped(x: Tensor) -> Tensor:
    return mixed(x * 2).sum() * x


PAIRS: list[Callable[[Tensor], Tensor]] = [
    nested, rounded, mixed, saved, called, looped, looped_nested, helped
]  # fmt: skip


@pytest.mark.parametrize("eager", PAIRS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_derivatives_pass_own_backwards(backend: str, eager: Callable[[Tensor], Tensor]) -> None:
    with gs.settings.backend(backend):
        for found, wanted in zip(_derivatives(UNIT[eager.__name__]), _derivatives(eager), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def _derivatives(function: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """The value and derivatives to third order, as far as there are any."""
    x = torch.tensor([0.7, 1.3, 2.6], dtype=torch.float64, requires_grad=True)
    found = [function(x)]
    while len(found) < 4 and found[-1].requires_grad:
        (gradient,) = torch.autograd.grad((found[-1] * found[-1]).sum(), x, create_graph=True, allow_unused=True)
        if gradient is None:
            break
        found.append(gradient)
    return [value.detach() for value in found]


def test_kernels_of_such_functions_are_differentiated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a second derivative is a function's own to tell is seen on the way, and nothing is done again for it."""
    found: list[Any] = []
    differentiate = fuse.differentiate

    def noted(*given: Any, **more: Any) -> Any:
        found.append(given)
        return differentiate(*given, **more)

    monkeypatch.setattr(fuse, "differentiate", noted)
    unit = gs.CompilationUnit("""
def rounded(x):
    def backward(g):
        return g * 7
    return torch.round(x), backward

def mixed(x):
    return rounded(x) * x
""")
    x = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    with gs.settings.backend("c"):
        (gradient,) = torch.autograd.grad(unit.mixed(x), x)
    assert len(found) == 1
    torch.testing.assert_close(gradient, torch.tensor(1 + 7 * 1.3, dtype=torch.float64))


LEFT_BEHIND = """
def square(a):
    def backward(g):
        return 2 * g * a
    return a * a, backward

def f(x, w, b):
    y = x + b
    z = w
    for i in range(2):
        z = x[0:]
    y = y.clone()
    y[:, 0] = 1.0
    for i in range(3):
        for i in range(x.size(0)):
            y = z.flip(0)
    if bool(y.sum() > 0):
        y = square(y)
    else:
        y = x.norm() * x
    return y
"""


@pytest.mark.parametrize("sign", [1, -1])
def test_what_long_loops_leave_behind_has_no_gradient_in_any_order(sign: int) -> None:
    """Rounds that end in none of what they began with pass on gradients that are found to be none after a while."""
    unit = gs.CompilationUnit(LEFT_BEHIND)
    x = (torch.rand(130, 3, dtype=torch.float64) * sign).requires_grad_()
    w, b = torch.randn(130, 3, dtype=torch.float64, requires_grad=True), torch.tensor(0.5, dtype=torch.float64)

    def wanted(x: Tensor) -> Tensor:
        return x.flip(0) ** 2 if sign > 0 else x.norm() * x

    def to_second_order(f: Callable[..., Tensor], *given: Tensor) -> list[Tensor]:
        result = f(*given)
        (gradient,) = torch.autograd.grad(result, x, torch.ones_like(result), create_graph=True)
        return [result, gradient, *torch.autograd.grad(gradient.square().sum(), x)]

    with gs.settings.backend("c"):
        torch.testing.assert_close(to_second_order(unit.f, x, w, b), to_second_order(wanted, x))
