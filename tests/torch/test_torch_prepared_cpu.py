"""Prepared calls on CPU tensors: what a kind of call found out, those after it use. By plans and by kernels in C, found
in C and by Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.torch import array_runs
from gradscript.runtime.torch.calls import forget_calls
from torch_programs import CASES

BUILT = ("own backward", "arithmetic", "several outputs", "no elements")
"""Those that are run by kernels too: building them takes a while."""
UNIT = gs.CompilationUnit("""
def swiglu(x, g):
    s = torch.sigmoid(g)
    def backward(grad_output):
        return grad_output * g * s, grad_output * x * s * (1 + g * (1 - s))
    return x * g * s, backward

def passes(x, w):
    return x, x * w, x.t()

def through(x):
    def backward(grad):
        return grad
    return x * 1.0, backward

def scaled(x, factor: float = 2.0, times: int = 3):
    return torch.tanh(x) * factor * times

def asks(x, w):
    if x.requires_grad:
        return x * w
    return x + w
""")


@pytest.fixture(
    autouse=True, params=[(backend, way) for backend in ("numpy", "c") for way in ("in C", "by Python")], ids="-".join
)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    backend, how = request.param
    if how == "by Python":
        monkeypatch.setattr(array_runs, "tensor_types", lambda: None)
    for name in UNIT:
        vars(UNIT[name]).pop("_torch", None)
        vars(UNIT[name]).pop("on_tensors", None)
    with gs.settings.backend(backend):
        forget_calls()
        yield backend, how
    forget_calls()


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def eager(x: Any, g: Any) -> Any:
    return x * g * torch.sigmoid(g)


def flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in flat(item)] if isinstance(result, list | tuple) else [result]


def both_passes(function: Callable[..., Any], inputs: list[Any], extra: tuple[Any, ...] = ()) -> list[Any]:
    outputs = [t for t in flat(function(*inputs, *extra)) if t.requires_grad]
    first = torch.autograd.grad(sum((t * t).sum() for t in outputs), inputs, allow_unused=True)
    again = [t for t in flat(function(*inputs, *extra)) if t.requires_grad]
    kept = torch.autograd.grad(sum((t * t).sum() for t in again), inputs, create_graph=True, allow_unused=True)
    there = [t for t in kept if t is not None and t.requires_grad]
    second = torch.autograd.grad(sum((t * t).sum() for t in there), inputs, allow_unused=True) if there else ()
    return [*outputs, *first, *kept, *second]


@pytest.mark.parametrize("name", CASES)
def test_every_call_gives_what_the_first_one_gave(name: str, way: tuple[str, str]) -> None:
    if way[0] == "c" and name not in BUILT:
        return
    case = CASES[name]
    first, *others = (both_passes(case.ours, [draw(*shape) for shape in case.shapes], case.extra) for _ in range(3))
    for found in others:
        for have, want in zip(found, first, strict=True):
            torch.testing.assert_close(have, want, rtol=1e-12, atol=1e-12)


def test_calls_are_prepared_and_found(way: tuple[str, str]) -> None:
    x, g = draw(16), draw(16, seed=1)
    for _ in range(5):
        out = UNIT.swiglu(x, g)
        assert type(out.grad_fn).__name__ == "swigluBackward"
        wanted = torch.autograd.grad(eager(x, g).sum(), (x, g))
        for have, want in zip(torch.autograd.grad(out.sum(), (x, g)), wanted, strict=True):
            torch.testing.assert_close(have, want)
    calls = UNIT.swiglu._torch
    assert len(calls._prepared) == 1
    if way[1] == "in C":
        (call,) = calls._prepared.values()
        torch.testing.assert_close(calls.known((x, g)), eager(x, g))
        assert calls.known((x, g.double()[:3])) is NotImplemented and len(call._known_backwards) == 1


def test_what_has_no_elements_has_no_memory(way: tuple[str, str]) -> None:
    """Whatever its strides say: by those of `torch.tensor(np.zeros((0, 2)))` all rows are one, which there is."""
    if way != ("c", "in C"):
        pytest.skip("the others never read by strides")
    unit = gs.CompilationUnit("def sums(x):\n    return (x.sum(-1) + 2) * 1, x.sum(0) * 2\n")
    for strides in ((0, 0), (2, 1), (0, 1), (1, 0), (7, 5)):
        x = torch.tensor([], dtype=torch.float64).as_strided((0, 2), strides).requires_grad_()
        for _ in range(4):
            rows, columns = unit.sums(x)
            assert rows.shape == (0,) and torch.equal(columns, torch.zeros(2, dtype=torch.float64))
            (gradient,) = torch.autograd.grad(rows.sum() + columns.cos().sum(), x)
            assert gradient.shape == (0, 2)


def test_what_is_of_another_kind_is_told_apart() -> None:
    x, g = draw(4, 4), draw(4, 4, seed=1)
    for _ in range(3):
        UNIT.swiglu(x, g).sum().backward()
    odd = [
        (x.t(), g),
        (x.detach(), g),
        (x[:, ::2], g[:, ::2]),
        (x.float(), g),
        (torch.nn.Parameter(x.detach()), g),
        (torch.complex(x, x).conj().imag, g),
        (x[:0], g[:0]),
        (x[0, 0], g[0, 0]),
        (x[:1].expand(4, 4), g),
    ]
    for a, b in odd * 2:
        torch.testing.assert_close(UNIT.swiglu(a, b), eager(a, b))
        torch.testing.assert_close(
            UNIT.swiglu(a.bfloat16(), b.bfloat16()).float(), eager(a, b).float(), rtol=0.05, atol=0.05
        )
        with torch.no_grad():
            torch.testing.assert_close(UNIT.swiglu(a, b), eager(a, b))
        with torch.inference_mode():
            torch.testing.assert_close(UNIT.swiglu(a, b), eager(a, b))
    functional = UNIT.swiglu(*map(torch._to_functional_tensor, (x.detach(), g.detach())))
    torch.testing.assert_close(torch._from_functional_tensor(functional), eager(x, g).detach())


def test_under_transforms_and_modes() -> None:
    x, g = draw(5), draw(5, seed=1)
    for _ in range(3):
        UNIT.swiglu(x, g).sum().backward()
    torch.testing.assert_close(torch.func.vmap(UNIT.swiglu)(x, g), eager(x, g))
    torch.testing.assert_close(torch.func.grad(lambda a: UNIT.swiglu(a, g.detach()).sum())(x.detach()), x.grad / 3)
    rows = torch.autograd.grad(UNIT.swiglu(x, g), x, torch.eye(5, dtype=x.dtype), is_grads_batched=True)[0]
    torch.testing.assert_close(rows.diagonal(), x.grad / 3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones(5, dtype=x.dtype))
        tangent = torch.autograd.forward_ad.unpack_dual(UNIT.swiglu(dual, g.detach())).tangent
    torch.testing.assert_close(tangent, x.grad / 3)
    with torch.profiler.profile(), torch.autograd.detect_anomaly(check_nan=False):
        torch.testing.assert_close(UNIT.swiglu(x, g), eager(x, g))
    traced = torch.fx.experimental.proxy_tensor.make_fx(UNIT.swiglu)(x.detach(), g.detach())
    torch.testing.assert_close(traced(g.detach(), x.detach()), eager(g, x).detach())


def test_memory_is_whose_it_was() -> None:
    x, w = draw(3, 3), draw(3, 3, seed=1)
    for _ in range(4):
        same, product, turned = UNIT.passes(x, w)
        with torch.no_grad():
            for result in (same, product, turned):
                result.add_(1)
        assert x._version == 0 and w._version == 0
        same, _, turned = UNIT.passes(x.detach(), w.detach())
        assert turned._base is None or turned._base.shape == x.shape
        assert turned.data_ptr() == x.data_ptr()
    plain = draw(4).detach()
    for _ in range(4):
        UNIT.scaled(plain)
    plain.resize_(8)
    assert UNIT.scaled(plain).shape == (8,)


def test_gradients_that_are_passed_on() -> None:
    x = draw(3)
    for seed in (torch.ones(3, dtype=x.dtype), torch.ones((), dtype=x.dtype).expand(3)) * 2:
        x.grad = None
        UNIT.through(x).backward(seed)
        assert x.grad.tolist() == [1, 1, 1]
        x.grad.add_(1)
        assert seed.tolist() == [1, 1, 1]


def test_what_is_saved_is_watched() -> None:
    x, g = draw(4), draw(4, seed=1)
    for _ in range(3):
        moved = x * 1
        out = UNIT.swiglu(moved, g)
        with torch.no_grad():
            moved.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
    out = UNIT.swiglu(x, g)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t.flip(0).flip(0)):
        found = torch.autograd.grad(UNIT.swiglu(x, g).sum(), (x, g))
    for have, want in zip(found, torch.autograd.grad(eager(x, g).sum(), (x, g)), strict=True):
        torch.testing.assert_close(have, want)


def test_numbers_are_those_of_each_call() -> None:
    x = draw(5)
    for _ in range(2):
        for factor in (2.0, -0.5, float("nan")):
            for times in (3, 1):
                want = torch.tanh(x) * factor * times
                torch.testing.assert_close(UNIT.scaled(x, factor, times), want, equal_nan=True)
        torch.testing.assert_close(UNIT.scaled(x), torch.tanh(x) * 6)
        with pytest.raises(gs.RuntimeFailure, match="an int is needed, not the bool"):
            UNIT.scaled(x, 2.0, True)


def test_functions_that_ask_for_gradients_are_answered() -> None:
    x, w = draw(3), draw(3, seed=1)
    for _ in range(3):
        torch.testing.assert_close(UNIT.asks(x, w), x * w)
        torch.testing.assert_close(UNIT.asks(x.detach(), w), x + w)


def test_settings_hold() -> None:
    x, g = draw(6), draw(6, seed=1)
    for _ in range(3):
        UNIT.swiglu(x, g)
    with gs.settings.optimize(False):
        torch.testing.assert_close(UNIT.swiglu(x, g), eager(x, g))
    gs.compiler_debug.reset_counters()
    UNIT.swiglu(x, g)
    assert gs.compiler_debug.counters()["plan_cache_misses"] == 0


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_a_branch_not_taken_would_have_kept_is_not_there(backend: str) -> None:
    unit = gs.CompilationUnit("""
def f(a, b, n: int):
    if n == 0:
        return a.clone()
    joined = torch.cat([b, a * 2])
    if n > 1:
        joined = torch.tanh(joined)
    return joined * joined

def g(a, b, n: int):
    return torch.diff(a, n, 0, b)
""")

    def eager(a: torch.Tensor, b: torch.Tensor, n: int) -> torch.Tensor:
        joined = torch.cat([b, a * 2])
        return a.clone() if n == 0 else (torch.tanh(joined) if n > 1 else joined) ** 2

    with gs.settings.backend(backend):
        for n in (0, 0, 1, 1, 2, 2, 0, 1):
            for function, wanted in ((unit.f, eager), (unit.g, lambda a, b, n: torch.diff(a, n, 0, b))):
                given = [draw(2, 3), draw(2, 3, seed=1)]
                found = function(*given, n)
                torch.testing.assert_close(found, wanted(*given, n))
                mine, theirs = (
                    torch.autograd.grad(result.sum(), given, allow_unused=True, materialize_grads=True)
                    for result in (found, wanted(*given, n))
                )
                torch.testing.assert_close(mine, theirs)
