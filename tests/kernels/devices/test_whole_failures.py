"""What runs op by op on a device fails in the words of arrays: which op, where, on what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.runtime.kernels import device_plan

UNIT = gs.CompilationUnit("""
def product(x, w):
    y = torch.exp(x)
    return y * w

def refused(x):
    if bool(x.sum() > 0):
        raise ValueError("no positive sums")
    return x

def turned(x, w, n: int):
    for i in range(int(x[0]) + n):
        x = x @ w
    return x
""")


def graph_of(name: str) -> Callable[[Sequence[Any]], list[Any]]:
    graph = differentiable_graph(UNIT[name].callee)
    return lambda values: device_plan.run_graph(graph, values, torch.device("cpu"))


def test_the_op_and_its_operands_are_named() -> None:
    with pytest.raises(gs.RuntimeFailure, match="size of tensor a") as caught:
        graph_of("product")([torch.ones(2), torch.ones(3)])
    failure = caught.value
    assert (failure.code, failure.op, failure.span.line) == ("R101", "aten::mul.Tensor", 4)
    assert list(failure.notes) == ["self: float32[2], other: float32[3]"]


def test_a_raise_is_told_as_one() -> None:
    graph = graph_of("refused")
    assert torch.equal(graph([-torch.ones(2)])[0], -torch.ones(2))
    with pytest.raises(gs.RuntimeFailure, match="ValueError: no positive sums") as caught:
        graph([torch.ones(2)])
    assert (caught.value.code, caught.value.span.line) == ("R102", 8)


def test_what_is_wrong_inside_of_a_loop_is_told_there() -> None:
    with pytest.raises(gs.RuntimeFailure) as caught:
        graph_of("turned")([torch.ones(2), torch.ones(3, 3), 1])
    assert (caught.value.code, caught.value.op, caught.value.span.line) == ("R101", "aten::matmul", 13)


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, torch.AcceleratorError])
def test_errors_of_the_device_are_those_of_torch(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> object:
        raise kind("of the device")

    monkeypatch.setattr(device_plan, "op_function", lambda op, device: fail)
    with pytest.raises(kind, match="of the device"):
        graph_of("refused")([torch.ones(2)])
