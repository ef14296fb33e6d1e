"""Programs on torch tensors: what is new, what is kept by which key, and what torch's own ops are given."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.runtime.kernels import groups, runner
from gradscript.runtime.kernels.runner import KernelGraph, KernelGroup

UNIT = gs.CompilationUnit("""
def products(x, w):
    y = x @ w
    return y, x.t(), y.t()

def mixed(x, w):
    return x @ w, x * 2

def powered(x, exponent: float):
    return (x @ x) if exponent > 1.0 else x.t()

def filled(n: int):
    return torch.ones(n) * 2.0 + 1.0

def until(x):
    total = x.sum()
    while float(total) < 10.0:
        total = total + (torch.ones(x.size(0)) * 2.0 + 1.0).sum()
    return total

def listed(xs: List[Tensor]):
    return xs[0] @ xs[1]
""")


def graph_of(name: str) -> KernelGraph:
    return KernelGraph(differentiable_graph(UNIT[name].callee))


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def test_products_are_those_of_torch() -> None:
    x, w = draw(3, 4), draw(4, 5)
    product, turned, result = graph_of("products")([x, w])
    assert torch.equal(product, x @ w) and torch.equal(turned, x.t()) and torch.equal(result, (x @ w).t())
    assert turned.data_ptr() == x.data_ptr()


def test_only_what_kernels_write_is_sure_to_be_new() -> None:
    program = graph_of("mixed").fixed([draw(3, 4), draw(4, 5)])
    assert program is not None and program.is_new == [False, True]
    program = graph_of("products").fixed([draw(3, 4), draw(4, 5)])
    assert program is not None and program.is_new == [False, False, False]


def test_programs_are_kept_by_layout_and_not_by_elements() -> None:
    graph = graph_of("products")
    x, w = draw(3, 4), draw(4, 5)
    first = graph.fixed([x, w])
    assert graph.fixed([x + 1, w * 2]) is first
    others = [[draw(4, 3).t(), w], [x.float(), w.float()], [draw(2, 4), w], [x, draw(5, 4).t()]]
    programs = [graph.fixed(values) for values in others]
    assert len({id(program) for program in [first, *programs]}) == 5


def test_what_floats_decide_is_planned_for_each() -> None:
    graph = graph_of("powered")
    x = draw(3, 3)
    assert graph.fixed([x, 2.0]) is None
    for exponent, want in ((2.0, x @ x), (0.5, x.t()), (2.0, x @ x), (-0.0, x.t()), (0.0, x.t())):
        assert torch.equal(graph([x, exponent])[0], want)


def test_lists_of_tensors() -> None:
    x, w = draw(3, 4), draw(4, 5)
    (found,) = graph_of("listed")([[x, w]])
    assert torch.equal(found, x @ w)
    with pytest.raises(gs.RuntimeFailure) as caught:
        graph_of("listed")([[x, x]])
    assert caught.value.code == "R101"


def test_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_PROGRAMS", 2)
    graph = graph_of("products")
    dtypes = (torch.float64, torch.float32, torch.float16)
    values: list[Any] = [[draw(3, 4).to(dtype), draw(4, 5).to(dtype)] for dtype in dtypes]
    first = graph.fixed(values[0])
    assert graph.fixed(values[1]) and graph.fixed(values[2])
    assert graph.fixed(values[0]) is not first


def test_a_group_that_is_given_no_tensor_is_on_the_device_of_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    device, made = torch.device("meta"), []
    group = KernelGroup(differentiable_graph(UNIT.filled.callee), device).fixed([3])
    assert isinstance(group, runner.DeviceProgram) and group.device == device

    def noted(graph: Any, device: torch.device) -> KernelGroup:
        made.append(device)
        return KernelGroup(graph, device)

    monkeypatch.setattr(runner, "KernelGroup", noted)
    assert isinstance(graph_of("until").fixed([torch.empty(3, 3, device=device)]), runner.DevicePlan)
    assert made and set(made) == {device}
