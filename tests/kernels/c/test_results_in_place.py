"""Kernels write results where products lay that nobody reads any more, and the numbers are those of torch."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.codegen.c.module import supports
from gradscript.compiler.fusion.fuse import fuse
from gradscript.compiler.kernel_ir.in_place import may_take_place
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.printer import print_kernel
from gradscript.compiler.kernel_ir.verifier import InvalidKernel, verify_kernel
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.runtime.values import arena

F = torch.nn.functional
TAKING = {
    "torch.softmax(x @ w, -1) @ w.t()": 1,
    "torch.tanh(x @ w * 3 + x.sum()) @ w.t()": 1,
    "F.layer_norm(x @ w, [w.size(1)]) @ w.t()": 1,
    "(F.silu(x @ w) * (x @ (w * 2))) @ w.t()": 1,
    "torch.softmax(torch.softmax(x @ w, -1) @ w.t(), -1) @ w": 2,
}
"""What is computed, and how many results lie where a product did."""
STAYING = (
    "torch.softmax(x @ w, 0).flip([0]) @ w.t()",
    "(x @ w).t().contiguous() @ x",
    "torch.exp(x @ w)[1:] @ w.t()",
    "torch.roll(x @ w, 1, 1) @ w.t()",
    "torch.tril(x @ w).sum(-1)",
)
SIZES = ((3, 5, 7), (64, 32, 1000), (33, 17, 4099), (300, 4, 20_000))


def _function(text: str) -> Any:
    return gs.CompilationUnit(f"def f(x, w):\n    return {text}\n").f


def _arguments(rows: int, inner: int, columns: int) -> list[Any]:
    generator = np.random.default_rng(rows)
    return [generator.normal(size=(rows, inner)), generator.normal(size=(inner, columns)) * 0.1]


def _places(text: str, rows: int, inner: int, columns: int, split: Any) -> list[str]:
    given = [Layout.contiguous(Meta(shape, FLOAT64)) for shape in ((rows, inner), (inner, columns))]
    program = fuse(_function(text).graph, given, supports, split)
    return [buffer.place_of for kernel in program.kernels for buffer in kernel.outputs if buffer.place_of]


@pytest.mark.parametrize("text", TAKING)
@pytest.mark.parametrize("split", [split_for_cpu, split_reductions])
def test_results_take_places(text: str, split: Any) -> None:
    for sizes in SIZES[:3]:
        assert len(_places(text, *sizes, split)) == TAKING[text], sizes


@pytest.mark.parametrize("text", STAYING)
def test_results_that_read_elsewhere_have_their_own(text: str) -> None:
    assert not _places(text, 6, 4, 5, split_for_cpu)


@pytest.fixture
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "in_place"))
    with gs.settings.backend("c"):
        yield Path()


@pytest.mark.usefixtures("in_c")
@pytest.mark.parametrize("text", TAKING)
def test_values_and_gradients_are_those_of_torch(text: str) -> None:
    function = _function(text)
    for sizes in SIZES:
        arguments = _arguments(*sizes)
        out, pullback = gs.vjp(function, *arguments)
        x, w = (torch.tensor(a, requires_grad=True) for a in arguments)
        want = eval(text, {"x": x, "w": w, "torch": torch, "F": F})
        seed = np.random.default_rng(1).normal(size=out.shape)
        want.backward(torch.tensor(seed))
        for have, wanted in zip((out, *pullback(seed)), (want.detach(), x.grad, w.grad), strict=True):
            scale = float(wanted.abs().max())
            np.testing.assert_allclose(have, wanted.numpy(), rtol=1e-9, atol=1e-11 * scale)


SAME = (
    "torch.einsum('...->...', x)",
    "torch.matrix_power(x, 1)",
    "torch.linalg.multi_dot([x, x])",
    "torch.tensordot(x, x, 1)",
)


@pytest.mark.usefixtures("in_c")
@pytest.mark.parametrize("product", SAME)
def test_what_may_be_an_argument_is_nobodys_place(product: str) -> None:
    function = _function(f"torch.exp({product} * 0.1) @ w")
    x, w = _arguments(40, 40, 30)
    before = x.copy()
    out, pullback = gs.vjp(function, x, w)
    pullback(np.ones_like(out))
    assert np.array_equal(x, before)
    tensor = torch.tensor(x)
    want = eval(f"torch.exp({product} * 0.1)", {"x": tensor, "torch": torch}) @ torch.tensor(w)
    np.testing.assert_allclose(out, want.numpy(), rtol=1e-9, atol=1e-9 * float(want.abs().max()))


TEXT = """
kernel f(%x : float32[4, 8] in, %y : float32[4, 8] out at %x)
  axes i < 4 parallel, j < 8 reduction
  %x : float32 [i, j] = load %x[{load}]
  %m : float32 [i] = reduce max %x over j
  %d : float32 [i, j] = sub({left}, {right})
  store %y[8*i + j], %d
"""


def test_kernels_say_whose_place_they_take() -> None:
    kernel = parse_kernel(TEXT.format(load="8*i + j", left="%x", right="%m").strip())
    assert "out at %x" in print_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    verify_kernel(kernel)


@pytest.mark.parametrize(("load", "left", "right"), [("8*i - j + 7", "%x", "%m"), ("8*i + j", "1.0", "%m")])
def test_a_place_that_is_still_read_is_refused(load: str, left: str, right: str) -> None:
    """Read elsewhere than it is written, or not for what is written."""
    kernel = parse_kernel(TEXT.format(load=load, left=left, right=right).strip())
    source, output = kernel.buffers
    assert not may_take_place(kernel, output, source)
    with pytest.raises(InvalidKernel, match="may not lie where %x does"):
        verify_kernel(kernel)


CHUNKED = """
def loss(x, weight, labels, chunks: int):
    rows = x.size(0) // chunks
    total = torch.zeros([], dtype=x.dtype)
    for i in range(chunks):
        scores = x[i * rows : (i + 1) * rows] @ weight.t()
        picked = scores.gather(-1, labels[i * rows : (i + 1) * rows, None])
        total = total + (scores.logsumexp(-1, keepdim=True) - picked).sum()

    def backward(grad_output):
        parts = []
        grad_weight = torch.zeros_like(weight)
        for i in range(chunks):
            piece = x[i * rows : (i + 1) * rows]
            p = torch.softmax(piece @ weight.t(), -1)
            one_hot = torch.arange(p.size(-1)) == labels[i * rows : (i + 1) * rows, None]
            g = (p - one_hot.to(p.dtype)) * (grad_output / x.size(0))
            parts.append(g @ weight)
            grad_weight = grad_weight + g.t() @ piece
        return torch.cat(parts, 0), grad_weight, None, None

    return total / x.size(0), backward
"""


@pytest.mark.usefixtures("in_c")
def test_a_chunked_loss_holds_the_scores_of_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond arguments and results: as Python's trace of allocations says."""
    monkeypatch.setattr(arena, "LEAST", 1 << 62)
    function = gs.CompilationUnit(CHUNKED).loss
    generator = np.random.default_rng(0)
    x, weight = generator.normal(size=(1024, 16)), generator.normal(size=(4096, 16))
    labels, chunks = generator.integers(0, 4096, 1024), 8
    scores = 1024 // chunks * 4096 * 8
    gs.vjp(function, x, weight, labels, chunks)[1](1.0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        loss, pullback = gs.vjp(function, x, weight, labels, chunks)
        gradients = pullback(1.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    results = sum(np.asarray(result).nbytes for result in (loss, *gradients[:2]))
    assert scores < most - before - results <= 1.3 * scores


LATER = """
kernel f(%x : float32[4, 8] in, %y : float32[4, 8] out at %x, %z : float32[4, 8] out)
  axes i < 4 parallel, j < 8 reduction
  %x : float32 [i, j] = load %x[8*i + j]
  %m : float32 [i] = reduce max %x over j
  %d : float32 [i, j] = sub(%x, {taken})
  %e : float32 [i, j] = exp(%x)
  store %y[8*i + j], %{first}
  store %z[8*i + j], %{last}
"""


@pytest.mark.parametrize(("first", "last", "is_safe"), [("d", "e", True), ("e", "d", False)])
def test_what_is_written_waits_for_all_that_is_read(first: str, last: str, is_safe: bool) -> None:
    """A row may be gone through once more for what follows from its maximum."""
    kernel = parse_kernel(LATER.format(taken="%m", first=first, last=last).strip())
    source, output, _ = kernel.buffers
    assert may_take_place(kernel, output, source) is is_safe
    both = parse_kernel(LATER.format(taken="1.0", first=first, last=last).strip())
    assert may_take_place(both, *both.buffers[1::-1])
