"""`x.requires_grad` says what eager torch says, for what is differentiated on each road."""

from __future__ import annotations

from itertools import product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from eager_programs import eager

SOURCE = """
def argument(x, w):
    if x.requires_grad:
        return (x * w).sum()
    return (x * 3 * w).sum()


def results(x, w):
    y = x * 2
    if y.requires_grad and not (y > 1).requires_grad:
        y = y * w
    z = y.detach()
    if z.requires_grad:
        y = y * 100
    return y.sum()


def rounds(x, w):
    y = x.detach()
    r = x * 0
    for i in range(3):
        if y.requires_grad:
            r = r + y * 10 * w
        else:
            r = r + y * w * w
        if i == 1:
            y = y * x
    return r.sum()


def dtypes(x, w):
    y = x.long().double()
    if y.requires_grad:
        y = y * 7
    if torch.ones(3).requires_grad:
        y = y * 5
    l = [y, x]
    if l[1].requires_grad:
        y = y * x
    return (y * w).sum()


def lists(x, w):
    l = [x.detach(), x]
    for i in range(3):
        l.append(w * i if i == 1 else w.detach())
    l = l[::-1]
    r = x * 0
    for i, v in enumerate(l):
        r = r + (i + 1) * (v * x * w if v.requires_grad else v)
    return (r * (2 if (l[0], l[1])[1].requires_grad else 3)).sum()


def without(x, w):
    with torch.no_grad():
        y, z = x[1:], x * 2
        p, q = x.split([1, 2])
        v = x.double()
    r = x * w
    if y.requires_grad and (y * 2).requires_grad:
        r = r * 5
    if z.requires_grad:
        r = r * 7
    if q.requires_grad:
        r = r * 11
    if v.requires_grad:
        r = r * 13
    return r.sum()


def helper(v):
    return v * 2 if v.requires_grad else v * 3


def called(x, w):
    return (helper(x) * helper(w) * helper(x.detach())).sum()
"""
PAIR = """
def scaled(v, k):
    s = 2.0 if v.requires_grad else 5.0

    def backward(grad_output):
        return grad_output * s * k, grad_output * s * v

    return v * s * k, backward


def paired(x, w):
    return (scaled(x, w) * scaled(x.detach(), w.detach()) * scaled(x.detach(), w)).sum()
"""
NAMES = ("argument", "results", "rounds", "dtypes", "lists", "without", "called", "paired")
X, W = np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.5])


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Any, k: Any, s: float) -> Any:
        ctx.save_for_backward(v, k)
        ctx.s = s
        return v * s * k

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        v, k = ctx.saved_tensors
        return grad * ctx.s * k, grad * ctx.s * v, None


def _eager(name: str) -> Any:
    names = eager(SOURCE + PAIR)
    names["scaled"] = lambda v, k: Scaled.apply(v, k, 2.0 if v.requires_grad else 5.0)
    return names[name]


@pytest.mark.parametrize("name", NAMES[:-1])
def test_roads(name: str) -> None:
    unit = gs.CompilationUnit(SOURCE)
    assert gs.CompilationUnit(unit.code).code == unit.code
    plain = torch.tensor(X), torch.tensor(W)
    np.testing.assert_allclose(unit[name](X, W), _eager(name)(*plain))


@pytest.mark.parametrize(("name", "flags"), [*product(NAMES, [(1, 0), (0, 1), (1, 1)])])
def test_what_is_differentiated_requires_a_gradient(name: str, flags: tuple[int, int]) -> None:
    function = gs.CompilationUnit(SOURCE + PAIR)[name]
    expected, gradients = _differentiated(_eager(name), flags)
    wanted = [i for i, flag in enumerate(flags) if flag]
    for found, slopes in (
        gs.value_and_grad(function, wanted, allow_unused=True)(X, W),
        _differentiated(function, flags),
        _on_tape(function, flags),
    ):
        np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(slopes, gradients)


def _differentiated(function: Any, flags: tuple[int, int]) -> tuple[Any, list[Any]]:
    tensors = [torch.tensor(a, requires_grad=bool(flag)) for a, flag in zip((X, W), flags, strict=True)]
    wanted = [t for t in tensors if t.requires_grad]
    value = function(*tensors)
    found = torch.autograd.grad(value, wanted, allow_unused=True) if value.requires_grad else [None] * len(wanted)
    return value.item(), [0 * X if g is None else g.numpy() for g in found]


def _on_tape(function: Any, flags: tuple[int, int]) -> tuple[Any, list[Any]]:
    variables = [gs.tape.Variable(a, requires_grad=bool(flag)) for a, flag in zip((X, W), flags, strict=True)]
    value = function(*variables)
    if value.requires_grad:
        value.backward()
    return value.data, [0 * X if v.grad is None else v.grad.data for v in variables if v.requires_grad]


def test_policies() -> None:
    source = "def f(x, w):\n    y = x * w\n    if y.requires_grad:\n        y = y * w.exp()\n    return y * y\n"
    function = gs.CompilationUnit(source).f
    expected = [g.numpy() for g in _gradients(source)]
    for policy in (None, "min_cut", "recompute_all", "save_all"):
        _, pullback = gs.vjp(function, X, W, policy=policy)
        np.testing.assert_allclose(pullback(np.ones(3)), expected)


def _gradients(source: str) -> Any:
    tensors = [torch.tensor(a, requires_grad=True) for a in (X, W)]
    return torch.autograd.grad(eager(source)["f"](*tensors).sum(), tensors)


MIXED = """
def f(l: List[Tensor], t: Tuple[Tensor, Tensor]):
    r = l[0] * 0
    for i, v in enumerate(l):
        if v.requires_grad:
            r = r + v * (i + 1)
    return (r * (2 if t[0].requires_grad else 3) * (5 if t[1].requires_grad else 7)).sum()
"""


@pytest.mark.parametrize("flags", [*product((False, True), repeat=3)])
@pytest.mark.parametrize("enabled", (True, False))
def test_elements_of_arguments(flags: tuple[bool, bool, bool], enabled: bool) -> None:
    a, b, c = (torch.tensor(X, requires_grad=flag) for flag in flags)
    with torch.set_grad_enabled(enabled):
        expected = eager(MIXED)["f"]([a, b, c], (b, c)).item()
        assert gs.CompilationUnit(MIXED).f([a, b, c], (b, c)).item() == expected
    u, v, w = (gs.tape.Variable(X, requires_grad=flag) for flag in flags)
    with gs.tape.enable_grad() if enabled else gs.tape.no_grad():
        assert gs.CompilationUnit(MIXED).f([u, v, w], (v, w)).data == expected
