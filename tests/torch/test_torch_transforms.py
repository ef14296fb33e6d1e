"""Functions under torch.func: grad, vjp, jacrev, vmap and their compositions, against eager torch."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.torch.recorded import node
from torch.autograd.functional import jacobian
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
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


@pytest.mark.parametrize("name", [name for name in CASES if name not in {"branch", "branch left", "no elements"}])
def test_a_batch_runs_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, runs = CASES[name], []
    monkeypatch.setattr(node, "run_per_sample", lambda *_: runs.append(name))
    tensors = [torch.stack([t.detach() + i for i in range(3)]) for t in case.tensors()]
    found, expected = (
        _flat(vmap(lambda *given, f=f: f(*given, *case.extra))(*tensors)) for f in (case.ours, case.eager)
    )
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)
    wanted = tuple(range(len(tensors)))
    losses = [lambda *given, f=f: _loss(f(*given, *case.extra)) for f in (case.ours, case.eager)]
    for ours, eager in zip(*(vmap(grad(loss, wanted))(*tensors) for loss in losses), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)
    assert not runs


def _loss(result: Any) -> Any:
    return sum((leaf * leaf).sum() for leaf in _flat(result) if leaf.is_floating_point())


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_samples_draw_as_vmap_is_told(randomness: str) -> None:
    noisy = gs.CompilationUnit("def f(x):\n    return F.dropout(x.tanh(), 0.5, True)\n").f
    x = torch.rand(6, 32, dtype=torch.float64) + 0.5

    def with_gradient(row: Any) -> Any:
        value, pull_back = vjp(noisy, row)
        return value, pull_back(torch.ones_like(value))[0]

    value, gradient = vmap(with_gradient, randomness=randomness)(x)
    kept = value != 0
    assert bool((kept == kept[0]).all()) is (randomness == "same") and 0 < kept.double().mean() < 1
    torch.testing.assert_close(value, 2 * x.tanh() * kept)
    torch.testing.assert_close(gradient, 2 * (1 - x.tanh() ** 2) * kept)
    leaf = x.clone().requires_grad_()
    value = vmap(noisy, randomness=randomness)(leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    torch.testing.assert_close(gradient, 2 * (1 - x.tanh() ** 2) * (value != 0))


def test_samples_that_draw_need_to_be_told_how() -> None:
    dropout = gs.CompilationUnit("def f(x):\n    return F.dropout(x, 0.5, True)\n").f
    with pytest.raises(gs.RuntimeFailure, match="randomness="):
        vmap(dropout)(torch.ones(8, 64))


def test_no_samples() -> None:
    assert vmap(UNIT.same)(torch.ones(0, 2)).shape == (0, 2)
    with pytest.raises(gs.RuntimeFailure, match="vmap over no samples"):
        vmap(lambda x: UNIT.branch(x, x))(torch.ones(0, 2))


# --- forward mode ---


@pytest.mark.parametrize("name", CASES)
def test_tangents(name: str) -> None:
    case = CASES[name]
    tensors = [tensor.detach() for tensor in case.tensors()]
    tangents = [torch.cos(tensor + i) for i, tensor in enumerate(tensors)]
    found, expected = (
        _flat(jvp(lambda *given, f=f: _floating(f(*given, *case.extra)), tuple(tensors), tuple(tangents)))
        for f in (case.ours, case.eager)
    )
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)


def _floating(result: Any) -> tuple[Any, ...]:
    return tuple(leaf for leaf in _flat(result) if leaf.is_floating_point())


FORWARD: dict[str, Any] = {
    "of one argument": lambda f: jvp(lambda w: f(X, w, B), (W,), (W + 1,)),
    "jacfwd": lambda f: jacfwd(lambda w: f(X, w, B))(W),
    "hessian": lambda f: hessian(lambda w: (f(X, w, B) ** 2).sum())(W),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(lambda w: (f(X, w, B) ** 2).sum()))(W),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(lambda w: (f(X, w, B) ** 2).sum()))(W),
    "linearize": lambda f: linearize(lambda x: f(x, W, B), X)[1](X * 2),
    "vmap of jvp": lambda f: vmap(lambda x, t: jvp(lambda x: f(x, W, B), (x,), (t,))[1])(BATCH, BATCH * 2),
    "jvp of vmap": lambda f: jvp(lambda w: vmap(lambda x: f(x, w, B))(BATCH), (W,), (W + 1,)),
    "dual numbers": lambda f: _dual(lambda x: f(x, W, B), X),
    "dual numbers, nothing recorded": lambda f: torch.no_grad()(_dual)(lambda x: f(x, W, B), X),
    "jacobian of batches, forward": lambda f: jacobian(
        lambda w: f(X, w, B), W, vectorize=True, strategy="forward-mode"
    ),
    "hessian of batches, forward": lambda f: torch.autograd.functional.hessian(
        lambda w: (f(X, w, B) ** 2).sum(), W, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
}


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_against_eager(name: str) -> None:
    found, expected = (_flat(FORWARD[name](f)) for f in (MLP.ours, MLP.eager))
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["own", "branch", "arithmetic", "tripled"])
def test_an_outer_tangent_goes_through_an_inner_one(name: str) -> None:
    """torch runs the forward mode of a node with forward mode off, which gave zeros."""

    def twice(f: Any) -> Any:
        def inner(x: Any) -> Any:
            return jvp(lambda x: (f(x, W) if name != "tripled" else f(x)) ** 3, (x,), (torch.cos(x),))[1]

        return jvp(inner, (W + 1,), (torch.sin(W),))[1]

    eager = {
        "own": lambda x, w: x * w,
        "branch": lambda x, w: (torch.exp(x) * w) ** 2,
        "arithmetic": lambda x, w: x * w + torch.relu(x) * torch.sin(w) / 3,
        "tripled": lambda x: x * 2,
    }
    found = twice(getattr(UNIT, name))
    if name == "tripled":
        # Its rule says 3 where its value grows by 2: d(y³) = 3y²·3t, and again.
        x, t, s = 2 * (W + 1), torch.cos(W + 1), torch.sin(W)
        expected = 6 * x * (3 * s) * (3 * t) + 3 * x * x * 3 * -torch.sin(W + 1) * s
    else:
        expected = twice(eager[name])
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def _dual(function: Any, x: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        result = function(torch.autograd.forward_ad.make_dual(x, torch.cos(x)))
        return tuple(torch.autograd.forward_ad.unpack_dual(result))


def test_tangents_follow_the_rule_of_the_author() -> None:
    assert jvp(UNIT.tripled, (B,), (torch.ones_like(B),))[1].tolist() == [3.0, 3.0]
    assert _dual(UNIT.tripled, B)[1].tolist() == (3 * torch.cos(B)).tolist()
    _, tangent = jvp(UNIT.unused, (B, B), (torch.zeros_like(B), torch.ones_like(B)))
    assert not tangent.any()


def test_dual_numbers_join_autograd() -> None:
    x = B.clone().requires_grad_()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        tangent = torch.autograd.forward_ad.unpack_dual(UNIT.own(dual, dual)).tangent
        (found,) = torch.autograd.grad(tangent.sum(), x)
    torch.testing.assert_close(found, torch.full_like(x, 2.0))


# --- batches of gradients ---

GRADIENTS = torch.eye(8, dtype=torch.float64).reshape(8, 4, 2)
BATCHES: dict[str, Any] = {
    "grad": lambda f: _batched(f, False),
    "grad that is recorded": lambda f: _batched(f, True),
    "jacobian": lambda f: jacobian(lambda w: f(X, w, B), W, vectorize=True),
    "hessian": lambda f: torch.autograd.functional.hessian(lambda w: (f(X, w, B) ** 2).sum(), W, vectorize=True),
}


def _batched(function: Any, recorded: bool) -> Any:
    x = X.clone().requires_grad_()
    return torch.autograd.grad(function(x, W, B), x, GRADIENTS, is_grads_batched=True, create_graph=recorded)


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_gradients(name: str) -> None:
    found, expected = (_flat(BATCHES[name](f)) for f in (MLP.ours, MLP.eager))
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-11, atol=1e-11)


BATCHED = gs.CompilationUnit("""
def dropped(x):
    return F.dropout(torch.tanh(x), 0.5, True) * x

def decided(x):
    def backward(grad):
        if float(grad.sum()) > 0.5:
            return grad * 2 * x
        return grad * x
    return x * x, backward
""")


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("again", [False, True])
def test_batches_of_gradients_that_ops_do_not_know_go_one_by_one(name: str, again: bool) -> None:
    x = torch.randn(4, 3, requires_grad=True)
    for _ in range(2):
        y = BATCHED[name](x)
        seeds = torch.eye(y.numel()).reshape(-1, *y.shape)
        rows = torch.autograd.grad(y, x, seeds, is_grads_batched=True, retain_graph=True, create_graph=again)[0]
        wanted = [torch.autograd.grad(y, x, seed, retain_graph=True, create_graph=again)[0] for seed in seeds]
        assert torch.equal(rows, torch.stack(wanted))
        if again:
            (have,) = torch.autograd.grad((rows * rows).sum(), x, retain_graph=True)
            (want,) = torch.autograd.grad((torch.stack(wanted) ** 2).sum(), x)
            torch.testing.assert_close(have, want)


LISTED = gs.CompilationUnit("""
def rounds(x, w, n: int):
    h = x
    for i in range(n):
        h = torch.sin(h @ w) + 0.1 * x
        if i > 4:
            break
    return h

def mixed(xs: List[Tensor], w):
    out = torch.zeros_like(xs[0])
    for x in xs:
        out = out + torch.tanh(x * w)
    return out
""")


@pytest.mark.parametrize("name", LISTED)
def test_batches_of_gradients_after_calls_with_lists_that_were_prepared(name: str) -> None:
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    seeds = torch.randn(2, 3, 3)
    with gs.settings.backend("c"):
        for _ in range(4):
            y = LISTED[name](x, w, 3) if name == "rounds" else LISTED[name]([x, w], w)
            one = [torch.autograd.grad(y, (x, w), seed, retain_graph=True) for seed in seeds]
            both = torch.autograd.grad(y, (x, w), seeds, is_grads_batched=True)
            torch.testing.assert_close(both, tuple(map(torch.stack, zip(*one, strict=True))))


RULELESS = gs.CompilationUnit("""
def averaged(x):
    return F.avg_pool1d(F.softplus(x), 2)

def pooled(x):
    return F.max_pool1d(x * x, 2)

def resized(x):
    return F.interpolate(x * x, scale_factor=2, mode="nearest")
""")


@pytest.mark.parametrize("name", RULELESS)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_batches_of_gradients_by_ops_that_know_none(name: str, backend: str) -> None:
    x = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    with gs.settings.backend(backend):
        for _ in range(3):
            y = RULELESS[name](x)
            seeds = torch.randn(2, *y.shape, dtype=y.dtype)
            (rows,) = torch.autograd.grad(y, x, seeds, is_grads_batched=True, create_graph=True)
            wanted = [torch.autograd.grad(y, x, seed, retain_graph=True, create_graph=True)[0] for seed in seeds]
            torch.testing.assert_close(rows, torch.stack(wanted))
            (have,) = torch.autograd.grad((rows * rows).sum(), x, retain_graph=True)
            (want,) = torch.autograd.grad((torch.stack(wanted) ** 2).sum(), x)
            torch.testing.assert_close(have, want)
