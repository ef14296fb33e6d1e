"""Functions under torch.func: grad, vjp, jacrev, vmap and their compositions, against eager torch."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, vjp, vmap
from torch_programs import CASES, UNIT, draw

X, W, B = draw(4, 3, grad=False), draw(3, 2, grad=False, seed=1), draw(2, grad=False, seed=2)
BATCH = draw(5, 4, 3, grad=False, seed=3)
MLP = CASES["mlp"]
TRANSFORMS: dict[str, Any] = {
    "grad": lambda f: grad(lambda x: (f(x, W, B) ** 2).sum())(X),
    "grad of several": lambda f: grad(lambda x, w, b: (f(x, w, b) ** 2).sum(), argnums=(0, 1, 2))(X, W, B),
    "grad and value": lambda f: grad_and_value(lambda w: (f(X, w, B) ** 2).sum())(W),
    "grad of grad": lambda f: grad(lambda x: (grad(lambda w: (f(x, w, B) ** 2).sum())(W) ** 2).sum())(X),
    "vjp": lambda f: vjp(lambda b: f(X, W, b), B)[1](torch.ones(4, 2, dtype=torch.float64)),
    "jacrev": lambda f: jacrev(lambda w: f(X, w, B))(W),
    "jacrev of jacrev": lambda f: jacrev(jacrev(lambda b: (f(X, W, b) ** 2).sum()))(B),
    "vmap": lambda f: vmap(lambda x: f(x, W, B))(BATCH),
    "vmap of an inner dimension": lambda f: vmap(lambda x: f(x, W, B), in_dims=2, out_dims=1)(BATCH.permute(1, 2, 0)),
    "vmap of vmap": lambda f: vmap(vmap(lambda x: f(x[None], W, B)))(BATCH),
    "vmap of grad": lambda f: vmap(grad(lambda x, w: (f(x, w, B) ** 2).sum(), argnums=1), (0, None))(BATCH, W),
    "grad of vmap": lambda f: grad(lambda w: (vmap(lambda x: f(x, w, B))(BATCH) ** 2).sum())(W),
    "vmap over every argument": lambda f: vmap(f)(BATCH, W.expand(5, 3, 2), draw(5, 2, grad=False, seed=4)),
    "nothing is batched": lambda f: vmap(lambda x: (x, f(X, W, B)))(BATCH)[1],
}


def _leaves(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _leaves(item)] if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_against_eager(name: str) -> None:
    found, expected = (_leaves(TRANSFORMS[name](f)) for f in (MLP.ours, MLP.eager))
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["loops", "lists", "calls own backward", "several outputs", "views of an input"])
def test_per_sample_gradients(name: str) -> None:
    case = CASES[name]
    tensors = [torch.stack([t.detach() + i for i in range(3)]) for t in case.tensors()]

    def loss(function: Any) -> Any:
        def run(*inputs: Any) -> Any:
            leaves = _flat(function(*inputs, *case.extra))
            return sum((t * t).sum() for t in leaves if t.is_floating_point())

        return vmap(grad(run, argnums=tuple(range(len(tensors)))))

    for ours, eager in zip(loss(case.ours)(*tensors), loss(case.eager)(*tensors), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, list | tuple) else [result]


def test_vmap_inside_ordinary_autograd() -> None:
    x, w = draw(5, 2, 3), draw(3)
    vmap(UNIT.own, (0, None))(x, w).sum().backward()
    torch.testing.assert_close(x.grad, w.detach().expand(5, 2, 3))
    torch.testing.assert_close(w.grad, x.detach().sum((0, 1)))


def test_vmap_of_integers() -> None:
    count = gs.CompilationUnit("def f(x):\n    return x + 1\n").f
    assert vmap(count)(torch.arange(3)).tolist() == [1, 2, 3]


def test_functional_call_of_a_module() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(W.clone())

        def forward(self, x: Any) -> Any:
            return UNIT.mlp(x, self.weight, B)

    layer = Layer()
    parameters = dict(layer.named_parameters())
    found = grad(lambda p: (functional_call(layer, p, (X,)) ** 2).sum())(parameters)["weight"]
    (expected,) = torch.autograd.grad((layer(X) ** 2).sum(), layer.weight)
    torch.testing.assert_close(found, expected)


def test_samples_that_take_different_paths() -> None:
    with pytest.raises(gs.RuntimeFailure, match="samples take different paths or give outputs of different shapes"):
        vmap(grad(lambda x: UNIT.branch(x, x).sum()))(torch.tensor([[1.0, 2.0], [-1.0, -2.0]]))


def test_no_samples() -> None:
    with pytest.raises(gs.RuntimeFailure, match="vmap over no samples"):
        vmap(UNIT.same)(torch.ones(0, 2))


@pytest.mark.parametrize(
    "run",
    [
        lambda: jvp(lambda x: UNIT.own(x, x), (B,), (B,)),
        lambda: hessian(lambda x: UNIT.own(x, x).sum())(B),
        lambda: _dual(B),
        lambda: _dual(B.clone().requires_grad_()),
    ],
    ids=["jvp", "hessian", "dual", "dual that requires grad"],
)
def test_forward_mode_is_refused(run: Any) -> None:
    with pytest.raises(gs.RuntimeFailure, match="no forward-mode derivative") as caught:
        run()
    assert "jacrev" in str(caught.value)


def _dual(x: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return UNIT.own(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)), x)


def test_batched_gradients_name_what_to_use() -> None:
    x = draw(3)
    with pytest.raises(gs.RuntimeFailure, match=r"torch\.func\.jacrev"):
        torch.autograd.grad(UNIT.own(x, x), x, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
