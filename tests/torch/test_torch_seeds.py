"""Random numbers on a device with kernels: each call has a seed of its own, and plans nothing anew for it."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import kernel_device
import pytest
import torch
from gradscript.compiler.fusion.seeds import open_inputs
from gradscript.compiler.ir.graph import Graph

UNIT = gs.CompilationUnit("""
def dropped(x, w):
    return F.dropout(x * w, 0.5, True) * x

def noisy(x, w):
    return F.rrelu(F.dropout(x, 0.5, True) * w, 0.1, 0.4, True)
""")


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that were planned."""
    names: list[str] = []
    plan = kernel_device.InterpretedGraph._planned

    def counted(self: Any, values: Any, settled: bool) -> Any:
        names.append(self._graph.name)
        return plan(self, values, settled)

    monkeypatch.setattr(kernel_device.InterpretedGraph, "_planned", counted)
    return names


def draw(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("name", ["dropped", "noisy"])
@pytest.mark.parametrize("order", [1, 2])
def test_a_new_seed_plans_nothing(name: str, order: int, planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = draw(40, 6), draw(6)
    outputs: list[Any] = []
    counts: list[int] = []
    with kernel_device.kernel_device(monkeypatch):
        for _ in range(4):
            found = UNIT[name](x, w)
            outputs.append(found.detach())
            for left in reversed(range(order)):
                first, _ = torch.autograd.grad((found * found).sum(), (x, w), create_graph=left > 0)
                found = first
            counts.append(len(planned))
    assert counts[1] == counts[3] and counts[0] >= 2
    assert not torch.equal(outputs[2], outputs[3])


def test_gradients_are_those_of_the_numbers_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = draw(40, 6), draw(6)
    with kernel_device.kernel_device(monkeypatch):
        for _ in range(3):
            out = UNIT.dropped(x, w)
            kept = (out != 0).double() * 2
            for have, want in zip(
                torch.autograd.grad(out.sum(), (x, w)),
                torch.autograd.grad((x * w * kept * x).sum(), (x, w)),
                strict=True,
            ):
                torch.testing.assert_close(have, want)


def graph(text: str) -> Graph:
    return gs.parse_ir(text)


def test_a_seed_may_be_an_operand_as_well() -> None:
    both = graph(
        "graph f(%x : Tensor, %n : int, %m : int, %unused : int):\n"
        "  %p : float = prim::Constant[value=0.5]()\n"
        "  %none : None = prim::Constant[value=None]()\n"
        "  %1 : Tensor = gs::seeded_dropout(%x, %p, %n, %none)\n"
        "  %2 : Tensor = gs::seeded_dropout(%1, %p, %m, %none)\n"
        "  %3 : Tensor = aten::mul.Scalar(%2, %m)\n"
        "  return (%3, %n)\n"
    )
    assert open_inputs(both) == {1, 2}
