"""The engine: order, threads, freeing, depth, failures."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.tape import engine

LENGTH = 100_000


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads for nodes of any size."""
    monkeypatch.setattr(engine, "PARALLEL_FROM", 0)
    monkeypatch.setattr(engine, "WORKERS", 8)


def _wide(v: gs.tape.Variable, width: int) -> Any:
    """Many branches whose gradients meet in one sum: its rounding tells the order."""
    total = v.sum() * 0
    for i in range(width):
        total = total + (v * (1 + 1 / (i + 3))).tanh().exp().sum() * (10.0 ** (i % 7 - 3))
    return total


@pytest.mark.usefixtures("eager_threads")
def test_threads_do_not_change_a_bit() -> None:
    data = np.random.default_rng(0).normal(size=37).astype(np.float32)
    results = set()
    for round in range(12):
        engine.WORKERS = 1 if round == 0 else 8
        v = gs.tape.Variable(data)
        _wide(v, 60).backward()
        results.add(v.grad.data.tobytes())
    assert len(results) == 1


@pytest.mark.usefixtures("eager_threads")
def test_nodes_run_in_several_threads() -> None:
    import threading

    barrier, seen = threading.Barrier(2, timeout=20), set()

    class Meet(gs.tape.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            barrier.wait()
            seen.add(threading.get_ident())
            return grad

    v = gs.tape.Variable(np.ones(3))
    (Meet.apply(v) + Meet.apply(v)).sum().backward()
    assert len(seen) == 2
    np.testing.assert_array_equal(v.grad.data, 2 * np.ones(3))


@pytest.mark.usefixtures("eager_threads")
def test_backwards_in_several_threads_add_up() -> None:
    from concurrent.futures import ThreadPoolExecutor

    v = gs.tape.Variable(np.ones(4))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: (v * 2).sum().backward(), range(64)))
    np.testing.assert_array_equal(v.grad.data, 128 * np.ones(4))


def test_a_long_chain_runs_and_is_freed() -> None:
    code = f"""
import gradscript as gs, numpy as np, sys
v = gs.tape.Variable(np.array([1.0]))
y = v
for _ in range({LENGTH}):
    y = y * 1.0
y.sum().backward(retain_graph=True)
assert v.grad.data[0] == 1.0
del y
print("freed")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "freed\n", done.stderr[-2000:]
    assert done.returncode == 0


def test_a_chain_longer_than_the_stack_of_second_derivatives() -> None:
    v = gs.tape.Variable(np.array([1.0]))
    y = v
    for _ in range(3000):
        y = y * v
    (first,) = gs.tape.grad(y, v, create_graph=True)
    (second,) = gs.tape.grad(first, v)
    assert first.item() == 3001.0
    assert second.item() == 3001.0 * 3000.0


def test_captures_are_freed_after_their_last_use() -> None:
    v = gs.tape.Variable(np.ones(3))
    y = v.exp()
    captured = weakref.ref(y.data)
    loss = (y * 2).sum()
    del y
    gc.collect()
    assert captured() is not None
    loss.backward()
    assert captured() is None


def test_captures_are_freed_while_the_backward_goes_on() -> None:
    alive: list[bool] = []
    v = gs.tape.Variable(np.ones(3))
    first = v * 2
    first.register_hook(lambda grad: alive.append(late() is not None))
    y = first.exp()
    late = weakref.ref(y.data)
    loss = y.sum()
    del y
    loss.backward()
    assert alive == [False]


def test_a_second_backward_says_what_to_do() -> None:
    v = gs.tape.Variable(np.ones(3))
    y = (v * v).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"freed by an earlier backward: pass retain_graph=True"):
        y.backward()
    y = (v * v).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(v.grad.data, 6 * np.ones(3))


def test_where_a_backward_may_start() -> None:
    v = gs.tape.Variable(np.ones(3))
    with pytest.raises(RuntimeError, match="needs a gradient to start from"):
        (v * 2).backward()
    with pytest.raises(RuntimeError, match="nothing to go back through"):
        v.detach().backward()
    with pytest.raises(ValueError, match="has shape"):
        (v * 2).backward(np.ones(4))
    (v * 2).backward(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(v.grad.data, [2.0, 4.0, 6.0])
    w = gs.tape.Variable(np.array(2.0))
    w.backward()
    assert w.grad.item() == 1.0


def test_tape_grad_touches_no_leaf() -> None:
    v, w = gs.tape.Variable(np.ones(3)), gs.tape.Variable(np.ones(3))
    middle = v * w
    y = middle * 3
    found = gs.tape.grad(y, [middle, v], np.ones(3), retain_graph=True)
    np.testing.assert_array_equal(found[0].data, 3 * np.ones(3))
    np.testing.assert_array_equal(found[1].data, 3 * np.ones(3))
    assert v.grad is None and w.grad is None
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        gs.tape.grad(y.sum(), gs.tape.Variable(np.ones(2)), retain_graph=True)
    assert gs.tape.grad(y.sum(), gs.tape.Variable(np.ones(2)), allow_unused=True, retain_graph=True) == (None,)
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        gs.tape.grad(y.sum(), w.detach())
    with pytest.raises(ValueError, match="grad_outputs"):
        gs.tape.grad(y, v, [None, None])


def test_nodes_that_lead_nowhere_do_not_run() -> None:
    ran: list[str] = []
    v, w = gs.tape.Variable(np.ones(3)), gs.tape.Variable(np.ones(3))
    a, b = v.exp(), w.exp()
    a.grad_fn.register_prehook(lambda grads: ran.append("a"))
    b.grad_fn.register_prehook(lambda grads: ran.append("b"))
    gs.tape.grad((a * b).sum(), v)
    assert ran == ["a"]


@pytest.mark.usefixtures("eager_threads")
def test_what_a_worker_raises_reaches_the_caller() -> None:
    class Fails(gs.tape.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise ZeroDivisionError("on purpose")

    v = gs.tape.Variable(np.ones(3))
    parts = [(Fails.apply(v) if i == 5 else v.exp()).sum() for i in range(10)]
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        gs.ops.stack(parts).sum().backward()
    (v * 2).sum().backward()


def test_a_backward_inside_a_hook() -> None:
    inner = gs.tape.Variable(np.ones(3))
    v = gs.tape.Variable(np.ones(3))
    y = v * 2
    y.register_hook(lambda grad: (inner * inner).sum().backward())
    y.sum().backward()
    np.testing.assert_array_equal(inner.grad.data, 2 * np.ones(3))
    np.testing.assert_array_equal(v.grad.data, 2 * np.ones(3))


def test_gradients_do_not_share_memory() -> None:
    v, w = gs.tape.Variable(np.ones(3)), gs.tape.Variable(np.ones(3))
    (v + w).backward(np.ones(3))
    v.grad.data[:] = 7
    np.testing.assert_array_equal(w.grad.data, np.ones(3))


def test_undefined_gradients_stay_undefined() -> None:
    unit = gs.CompilationUnit(
        "def f(x, w):\n    def backward(a, b):\n        return a * torch.exp(x), b * 2\n"
        "    return torch.exp(x), w * 2, backward\n"
    )
    v, w = gs.tape.Variable(np.ones(3)), gs.tape.Variable(np.ones(3))
    first, second = unit.f(v, w)
    assert first.grad_fn is second.grad_fn
    seen: list[Any] = []
    first.grad_fn.register_prehook(lambda grads: seen.append(grads))
    second.sum().backward()
    ((undefined, defined),) = [grads[:2] for grads in seen]
    assert undefined is None
    assert defined is not None
    # To the pair's own backward it is zeros, and so is what that makes of it.
    np.testing.assert_array_equal(v.grad.data, np.zeros(3))
    np.testing.assert_array_equal(w.grad.data, 2 * np.ones(3))


def test_lists_are_taken_apart_both_ways() -> None:
    unit = gs.CompilationUnit(
        "def f(xs: List[Tensor], w):\n"
        "    def backward(gs: List[Tensor]):\n"
        "        return [g * w for g in gs], torch.stack([gs[i] * xs[i] for i in range(len(xs))]).sum(0)\n"
        "    return [x * w for x in xs], backward\n"
        "def mixed(xs: List[Tensor]):\n    return torch.stack(xs).sum(0)\n"
    )
    xs = [gs.tape.Variable(np.full(2, float(i))) for i in range(3)]
    w = gs.tape.Variable(np.ones(2))
    ys = unit.f(xs, w)
    assert len({id(y.grad_fn) for y in ys}) == 1
    ys[1].sum().backward()
    np.testing.assert_array_equal(xs[1].grad.data, np.ones(2))
    assert not any(x.grad.data.any() for x in (xs[0], xs[2]))
    np.testing.assert_array_equal(w.grad.data, np.ones(2))
    v = gs.tape.Variable(np.ones(2))
    unit.mixed([np.ones(2), v, v.detach()]).sum().backward()
    np.testing.assert_array_equal(v.grad.data, np.ones(2))
