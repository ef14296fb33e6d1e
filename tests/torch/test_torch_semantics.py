"""What torch's autograd promises of its nodes, held by ours: undefined gradients, hooks, versions, memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch_programs import UNIT, draw, leaves


def _leaf(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# --- which gradients there are ---


def test_a_leaf_accumulates() -> None:
    x, y = _leaf(1, 2), _leaf(3, 4)
    UNIT.own(x, y).sum().backward()
    UNIT.own(x, y).sum().backward()
    assert x.grad.tolist() == [6, 8]
    assert y.grad.tolist() == [2, 4]


def test_gradients_of_two_arguments_share_no_memory() -> None:
    """Both are the gradient of the output: what accumulates into one must not reach the other, or the caller's."""
    add = gs.CompilationUnit(
        "def add(x, y):\n    def backward(g):\n        return g, g\n    return x + y, backward\n"
    ).add
    x, y, gradient = _leaf(1, 2), _leaf(3, 4), torch.ones(2, dtype=torch.float64)
    add(x, y).backward(gradient)
    x.grad.mul_(5)
    assert y.grad.tolist() == gradient.tolist() == [1, 1]


def test_an_argument_without_a_gradient() -> None:
    x, y = _leaf(1, 2), _leaf(3, 4)
    out = UNIT.unused(x, y)
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(out.sum(), y, retain_graph=True)
    found = torch.autograd.grad(out.sum(), [x, y], allow_unused=True)
    assert found[0].tolist() == [2, 4]
    assert found[1] is None


def test_an_undefined_gradient_reaches_no_formula() -> None:
    """Only `w.sum()` has one here, which the product and the maxima do not see."""
    x, w = draw(3, 4), draw(4)
    torch.autograd.backward(UNIT.several(x, w)[3])
    assert x.grad is None or not x.grad.any()
    assert w.grad.tolist() == [1, 1, 1, 1]


def test_outputs_without_gradients() -> None:
    _, maxima, indices, _, larger = UNIT.several(draw(3, 4), draw(4))
    assert maxima.requires_grad
    assert indices.dtype == torch.int64
    assert larger.dtype == torch.bool
    for tensor in (indices, larger):
        assert not tensor.requires_grad
        assert tensor.grad_fn is None


def test_an_output_cut_off_is_no_output_of_the_node() -> None:
    product, _, constant = UNIT.cut(draw(2), draw(2, seed=1))
    assert product.requires_grad
    assert not constant.requires_grad
    assert constant.is_leaf


def test_one_tensor_passed_twice() -> None:
    x = _leaf(3)
    (first,) = torch.autograd.grad(UNIT.own(x, x), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert (first.item(), second.item()) == (6, 2)


def test_one_value_returned_twice_is_one_tensor() -> None:
    first, second = UNIT.twice(draw(2))
    assert first is second


def test_the_authors_backward_is_used() -> None:
    x = _leaf(1, 2)
    UNIT.tripled(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_gradient_of_the_wrong_shape() -> None:
    xs = [draw(2), draw(2)]
    message = r"in the gradient of 'xs', an element has shape \[4\], where that of 'xs' has \[2\]"
    with pytest.raises(gs.RuntimeFailure, match=message) as caught:
        UNIT.wrong_shape(xs).sum().backward()
    assert caught.value.code == "R105"
    assert caught.value.argument == "xs"


def test_a_broadcast_gradient_is_summed() -> None:
    x, w = draw(2, 3), draw(3)
    UNIT.own(x, w).sum().backward()
    torch.testing.assert_close(w.grad, x.detach().sum(0))


def test_an_op_without_a_gradient_fails_when_it_is_asked_for_one() -> None:
    x = _leaf(2, 3)
    doubled, out = UNIT.no_gradient(x)
    assert out.requires_grad
    with pytest.raises(gs.CompileError) as caught:
        (doubled + out).sum().backward()
    assert caught.value.code == "E408"


def test_a_gradient_without_a_gradient_fails_when_it_is_asked_for_one() -> None:
    x = _leaf(2, 3)
    (first,) = torch.autograd.grad(UNIT.no_second_gradient(x).sum(), x, create_graph=True)
    torch.testing.assert_close(first.detach(), torch.special.zeta(x.detach(), 2.0))
    with pytest.raises(gs.CompileError) as caught:
        first.sum().backward()
    assert caught.value.code == "E408"


def test_backward_sees_the_random_numbers_of_the_forward() -> None:
    dropout = gs.CompilationUnit("def f(x):\n    return F.dropout(x, 0.5, True)\n").f
    x = torch.ones(64, requires_grad=True)
    out = dropout(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient, out.detach())
    assert 0 < out.count_nonzero() < 64


def test_a_failure_while_it_runs_names_the_source() -> None:
    with pytest.raises(gs.RuntimeFailure, match=r"the shapes \[2\] and \[3\] do not fit each other") as caught:
        UNIT.own(draw(2), draw(3))
    assert caught.value.span.line > 0


# --- modes ---


def test_nothing_is_recorded_without_grad_mode() -> None:
    x = draw(3)
    with torch.no_grad():
        out = UNIT.own(x, x)
    assert not out.requires_grad
    assert not UNIT.own(x.detach(), x.detach()).requires_grad
    assert UNIT.own(x, x.detach()).requires_grad


def test_inference_mode() -> None:
    x = draw(3)
    with torch.inference_mode():
        out = UNIT.own(x, x)
        assert not out.requires_grad
        inner = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        UNIT.own(x, inner)


def test_autocast_changes_nothing() -> None:
    x, y = draw(2, 3, dtype=torch.float32), draw(3, dtype=torch.float32)
    plain = UNIT.arithmetic(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = UNIT.arithmetic(x, y)
        inside.sum().backward()
    assert inside.dtype == torch.float32
    assert torch.equal(inside, plain)
    assert x.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_set_detect_anomaly() -> None:
    x = _leaf(2.0)
    with torch.autograd.detect_anomaly(check_nan=True):
        UNIT.own(x, x).backward()
    assert x.grad.item() == 4


# --- in-place writes ---


@pytest.mark.parametrize("which", ["leaf", "result of an op", "constant"])
def test_a_saved_argument_written_to(which: str) -> None:
    x = _leaf(1, 2)
    other = {"leaf": lambda: _leaf(3, 4), "result of an op": lambda: _leaf(3, 4) * 1}.get(which)
    w = other() if other is not None else torch.ones(2, dtype=torch.float64)
    out = UNIT.own(x, w)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_an_argument_that_is_not_saved_may_be_written_to() -> None:
    x = _leaf(1, 2)
    out = UNIT.tripled(x)
    with torch.no_grad():
        x.add_(1)
    out.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_saved_output_written_to() -> None:
    exp = gs.CompilationUnit("def f(x):\n    return torch.exp(x)\n").f
    x = _leaf(1, 2)
    out = exp(x)
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_saved_temporary_that_is_a_view_of_an_argument() -> None:
    """The context holds `x.t()`, which is `x`'s memory: a write to `x` must not go unseen."""
    source = """
def f(x, w):
    y = x.t()
    def backward(g):
        return (g * w).t(), g * y
    return y * w, backward
"""
    f = gs.CompilationUnit(source).f
    x, w = draw(2, 3), draw(3, 2, seed=1)
    f(x, w).sum().backward()
    assert torch.equal(w.grad, x.detach().t())
    out = f(x, w)
    with torch.no_grad():
        x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_saved_temporary_that_an_output_is_a_view_of() -> None:
    source = """
def f(x):
    y = torch.exp(x)
    def backward(g):
        return g.reshape(x.size()) * y
    return y.reshape(-1), backward
"""
    f = gs.CompilationUnit(source).f
    x = draw(2, 3)
    with gs.settings.backend("numpy"):
        out = f(x)
        out.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
    with gs.settings.backend("c"):  # kernels write what is saved and what is returned each for itself
        out = f(x)
        out.mul_(2)
        out.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())


# --- memory of results ---


@pytest.mark.parametrize("name", ["same", "views", "halves"])
def test_recorded_results_own_their_memory(name: str) -> None:
    x = draw(2, 3)
    results = leaves(UNIT[name](x))
    for i, result in enumerate(results):
        others = [x.detach(), *(r.detach() for j, r in enumerate(results) if j != i)]
        before = [other.clone() for other in others]
        with torch.no_grad():
            result.add_(100)
        assert all(torch.equal(a, b) for a, b in zip(others, before, strict=True))


@pytest.mark.parametrize("name", ["same", "views", "halves"])
def test_results_that_share_memory_share_versions(name: str) -> None:
    """Where nothing is recorded, results are views as in torch: no write through one of them goes unseen."""
    x = draw(2, 3)
    with torch.no_grad():
        results = leaves(UNIT[name](x))
        for result in results:
            tensors = [x, *results]
            before = [(tensor.clone(), tensor._version) for tensor in tensors]
            result.add_(100)
            changed = [not torch.equal(t, old) for t, (old, _) in zip(tensors, before, strict=True)]
            assert changed == [t._version > version for t, (_, version) in zip(tensors, before, strict=True)]
            assert changed[0] == (name != "halves")


def test_an_input_returned_is_another_tensor() -> None:
    x = draw(3)
    out = UNIT.same(x)
    assert out is not x
    assert not out.is_leaf
    out.add_(1)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient.tolist() == [1, 1, 1]


def test_a_constant_of_a_trace_is_not_handed_out() -> None:
    constant = np.arange(3.0)
    traced = gs.trace(lambda x: (x + constant, constant), np.ones(3))
    x = torch.zeros(3, dtype=torch.float64)
    for result in traced(x):
        result.add_(7)
    assert [result.tolist() for result in traced(x)] == [[0, 1, 2], [0, 1, 2]]


def test_saved_tensors_are_freed() -> None:
    x, w = draw(3), draw(3, seed=1)
    kept = w * 1
    reference = weakref.ref(kept)
    out = UNIT.own(x, kept)
    del kept
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()
    del out
    gc.collect()
    assert reference() is None


def test_a_result_dropped_leaves_nothing() -> None:
    """No cycle through Python keeps what a node saved."""
    gc.collect()
    gc.disable()
    try:
        x = draw(3)
        argument = x * 1
        reference = weakref.ref(argument)
        out = UNIT.loops(argument, argument, 2)
        del argument, out
        assert reference() is None
    finally:
        gc.enable()


# --- hooks ---


def test_hooks_on_leaves_and_results() -> None:
    x = _leaf(1, 2)
    seen: list[Any] = []
    x.register_hook(lambda g: g * 10)
    out = UNIT.tripled(x)
    out.retain_grad()
    out.register_hook(lambda g: seen.append(g.clone()))
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    out.sum().backward()
    assert x.grad.tolist() == [30, 30]
    assert out.grad.tolist() == seen[0].tolist() == [1, 1]
    assert len(seen) == 2


def test_post_accumulate_hook() -> None:
    x = _leaf(1, 2)
    seen: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    UNIT.tripled(x).sum().backward()
    assert seen == [[3, 3]]


def test_hooks_for_saved_tensors() -> None:
    x, w = draw(3), draw(3, seed=1)
    packed: list[Any] = []

    def pack(tensor: Any) -> int:
        packed.append(tensor.clone())
        return len(packed) - 1

    with saved_tensors_hooks(pack, lambda index: packed[index]):
        out = UNIT.own(x, w)
    assert len(packed) == 2
    out.sum().backward()
    assert torch.equal(x.grad, w.detach())


def test_backward_from_several_threads() -> None:
    inputs = [draw(2, 3, seed=i) for i in range(8)]
    expected = [torch.autograd.grad(UNIT.loops(x, x, 3).sum(), x)[0] for x in inputs]
    shared = draw(2, 3, seed=99)
    losses = [UNIT.loops(x, shared, 3).sum() + UNIT.loops(x, x, 3).sum() for x in inputs]
    threads = [threading.Thread(target=loss.backward) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = [x.clone().detach().requires_grad_() for x in inputs]
    for x, same in zip(inputs, again, strict=True):
        (UNIT.loops(same, shared.detach(), 3).sum() + UNIT.loops(same, same, 3).sum()).backward()
        torch.testing.assert_close(x.grad, same.grad)
    assert len(expected) == 8
    assert shared.grad is not None


LISTS = {
    "cat": "torch.cat([x for _ in range(n)])",
    "stack": "torch.stack([x * 2 for _ in range(n)]).sum(0)",
    "list": "[x for _ in range(n)]",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in LISTS.items()])
def test_work_is_linear_in_the_length_of_a_list(body: str, steps: Callable[[Callable[[], object]], int]) -> None:
    function = gs.CompilationUnit(f"def f(x, n: int):\n    return {body}\n").f
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def call(n: int) -> None:
        found = function(x, n)
        total = sum(found, torch.zeros(2)) if isinstance(found, list) else found
        total.sum().backward()

    call(10)  # compiled and prepared before it is counted
    few, many = (steps(lambda n=n: call(n)) for n in (100, 200))  # type: ignore[misc]
    assert many < 2.2 * few
