"""What runs op by op though kernels were asked for is told once, with the reason and the line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.fusion.planning import assemble
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.verifier import InvalidKernel
from gradscript.runtime.kernels import notices
from kernel_device import kernel_device

SOURCE = """
def f(x):
    y = torch.exp(x)
    return (y * 2).sum()
"""

SQUARED = """
def f(x):
    y = torch.exp(x).sum()
    return y * y
"""
"""Of which the gradient needs the sum too: where it does not, its kernels hold none."""


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    monkeypatch.setattr(notices, "TOLD", set())
    yield


@pytest.fixture
def without_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that takes no kernel with a reduction for a good one."""
    verify = assemble.verify_kernel

    def verified(kernel: Kernel) -> None:
        verify(kernel)
        if "sum" in str(kernel.body):
            raise InvalidKernel(f"{kernel.name}: no sums today", kernel)

    monkeypatch.setattr(assemble, "verify_kernel", verified)


@pytest.mark.usefixtures("without_sums")
def test_a_call_in_c_that_has_no_kernels_is_told_once() -> None:
    unit = gs.CompilationUnit(SOURCE, "sums.grad")
    x = np.ones(4)
    with gs.settings.backend("c"):
        with pytest.warns(RuntimeWarning, match=r"(?s)^f runs op by op: f: no sums.*sums.grad:\d:.*: "):
            assert np.isclose(unit.f(x), 8 * np.e)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isclose(unit.f(x), 8 * np.e)


@pytest.mark.usefixtures("without_sums")
def test_gradients_in_c_that_have_no_kernels_are_told() -> None:
    unit = gs.CompilationUnit(SQUARED, "sums.grad")
    with gs.settings.backend("c"), pytest.warns(RuntimeWarning, match=r"(?s)f runs op by op.*sums.grad") as told:
        assert np.allclose(gs.grad(unit.f)(np.zeros(4)), 8)
    assert {warning.filename for warning in told} == {__file__}, "the line of the user's call"


@pytest.mark.usefixtures("without_sums")
def test_a_call_on_a_device_that_has_no_kernels_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = gs.CompilationUnit(SOURCE, "sums.grad")
    with kernel_device(monkeypatch):
        with pytest.warns(RuntimeWarning, match=r"(?s)f runs op by op: f: no.*sums.grad:\d") as told:
            assert torch.isclose(unit.f(torch.zeros(4)), torch.tensor(8.0))
        assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            unit.f(torch.zeros(4))


def test_a_group_that_meets_many_shapes_is_told() -> None:
    unit = gs.CompilationUnit("""
def f(x, n: int):
    total = x.sum()
    for i in range(n):
        y = x[i:]
        if float(total) > 1e9:
            y = y * 2
        total = total + (y.unsqueeze(0) * (y.size(0) ** 0.5)).exp().sum()
    return total
""")
    with gs.settings.backend("c"), pytest.warns(RuntimeWarning, match="more than 16 shapes"):
        assert np.isfinite(unit.f(np.zeros(40), 40))


def test_nothing_is_told_of_what_ops_refuse_or_control_flow_keeps_apart() -> None:
    unit = gs.CompilationUnit("""
def f(x):
    if float(x.sum()) > 0:
        return torch.sort(x)[0] * 2
    return x.nonzero()

def bad(x, y):
    return (x + y).sum()
""")
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(unit.f(np.array([2.0, 1.0])), [2, 4])
        with pytest.raises(gs.RuntimeFailure):
            unit.bad(np.zeros(2), np.zeros(3))
