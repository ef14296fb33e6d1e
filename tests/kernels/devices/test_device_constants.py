"""Programs on torch tensors: constants, which outlive a call, and dtypes, which follow from the arguments alone."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.runtime.kernels.by_torch import ops
from gradscript.runtime.kernels.runner import DevicePlan, KernelGraph

UNIT = gs.CompilationUnit("""
def literal(x):
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x @ w

def returned(x):
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return w, w.t(), [w, x @ x], x @ w

def gathered(x):
    return torch.tensor([1.0, float(x.sum())]) @ x

def product(x, w):
    return x @ w

def branch(x, w):
    if (x * w).sum() > 0:
        x = x @ w
    return x @ x
""")
W = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def graph_of(name: str) -> KernelGraph:
    return KernelGraph(differentiable_graph(UNIT[name].callee))


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_literals_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x = graph_of("literal"), draw(3, 2)
    assert torch.equal(graph([x])[0], x @ W)
    monkeypatch.setattr(ops, "_to_tensor", lambda *given: pytest.fail("made again"))
    assert torch.equal(graph([2 * x])[0], 2 * x @ W)


def test_writing_to_a_result_changes_no_constant() -> None:
    graph, x = graph_of("returned"), draw(2, 2)
    for _ in range(2):
        w, turned, (again, _), product = graph([x])
        for found, want in ((w, W), (turned, W.t()), (again, W), (product, x @ W)):
            assert torch.equal(found, want)
            found.fill_(7)


def test_literals_of_what_is_computed_are_made_each_time() -> None:
    graph = graph_of("gathered")
    for x in (draw(2, 2), draw(2, 2) + 1):
        (found,) = graph([x])
        torch.testing.assert_close(found, torch.stack([torch.tensor(1.0), x.sum()]) @ x)


def by_ops(values: list[Any]) -> list[Any]:
    return DevicePlan(differentiable_graph(UNIT["branch"].callee), torch.device("cpu")).run(values)


@pytest.mark.parametrize("graph", [graph_of("product"), by_ops])
def test_autocast_changes_nothing(graph: Any) -> None:
    x, w = draw(4, 4).abs(), draw(4, 4).abs()
    (want,) = graph([x, w])
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ w).dtype == torch.bfloat16
        (found,) = graph([x, w])
    assert found.dtype == torch.float32 and torch.equal(found, want)


def test_results_of_the_library_are_of_the_planned_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which dtype statistics of halves have is another matter from one device to the other."""
    monkeypatch.setattr(ops, "_torch_function", lambda op: lambda x, w: (x @ w).double().t().contiguous().t())
    ops.op_function.cache_clear()
    try:
        (found,) = graph_of("product")([draw(2, 3), draw(3, 2)])
    finally:
        ops.op_function.cache_clear()
    assert found.dtype == torch.float32 and found.is_contiguous()
    torch.testing.assert_close(found, draw(2, 3) @ draw(3, 2))
