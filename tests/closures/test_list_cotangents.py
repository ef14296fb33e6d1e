"""Elements of a list that nothing depends on have zeros for gradients in a second backward too."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

SOURCE = """\
def weighed_squares(xs: List[Tensor], w):
    def backward(g):
        grads: List[Tensor] = []
        for x in xs:
            grads.append(g * w * x * 2)
        total = torch.zeros_like(w)
        for x in xs:
            total = total + x * x

        def backward_of_backward(gg: List[Tensor], ggw):
            grad_g = ggw * total
            grad_w = torch.zeros_like(w)
            grad_xs: List[Tensor] = []
            for i in range(len(xs)):
                grad_g = grad_g + gg[i] * w * xs[i] * 2
                grad_w = grad_w + gg[i] * g * xs[i] * 2
                grad_xs.append(gg[i] * g * w * 2 + ggw * g * xs[i] * 2)
            return grad_g, grad_xs, grad_w

        return grads, g * total, backward_of_backward

    total = torch.zeros_like(w)
    for x in xs:
        total = total + x * x
    return total * w, backward


def beside_zeros(x, w):
    return weighed_squares([torch.sin(x), torch.zeros_like(x)], w).sum()


def beside_a_constant(x, w):
    return weighed_squares([w.detach(), torch.sin(x)], w.detach()).sum()


def beside_itself(x, w):
    return weighed_squares([torch.sin(x), x], w).sum()
"""
X, W = np.array([0.5, 0.7, -0.2, 0.1]), np.array([1.0, 2.0, -3.0, 4.0])


def expected(name: str) -> np.ndarray:
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W)
    beside = {"beside_zeros": torch.zeros_like(x), "beside_a_constant": w, "beside_itself": x}[name]
    (first,) = torch.autograd.grad(((torch.sin(x) ** 2 + beside**2) * w).sum(), x, create_graph=True)
    return np.asarray(torch.autograd.grad((first * w).sum(), x)[0])


@pytest.mark.parametrize("name", ["beside_zeros", "beside_a_constant", "beside_itself"])
def test_second_order(name: str) -> None:
    function = gs.CompilationUnit(SOURCE)[name]
    _, pullback = gs.vjp(gs.grad(function), X, W)
    np.testing.assert_allclose(pullback(W)[0], expected(name), rtol=1e-12, atol=1e-14)
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W)
    (first,) = torch.autograd.grad(function(x, w), x, create_graph=True)
    np.testing.assert_allclose(torch.autograd.grad((first * w).sum(), x)[0], expected(name), rtol=1e-12, atol=1e-14)
