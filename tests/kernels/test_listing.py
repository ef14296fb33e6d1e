"""`f.kernels(…)`: how many kernels the suite takes, what they move, and what is saved between the passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest

SUITE = gs.CompilationUnit(
    (Path(__file__).parents[2] / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad"
)
ROWS, COLUMNS = 4096, 1024


def of(*shape: int, dtype: Any = np.float32) -> Any:
    """An array that has a shape and no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape).copy() if np.prod(shape) < 1e7 else np.zeros(shape, dtype)


MATRIX, VECTOR = of(ROWS, COLUMNS), of(COLUMNS)
NUMBERS = (1e-3, 0.9, 0.999, 1e-8, 0.01, 3.0)
CASES: dict[str, tuple[list[Any], int, int, int]] = {
    # arguments, kernels forward, kernels backward, bytes saved beyond arguments and results
    "bias_gelu": ([MATRIX, VECTOR], 1, 2, 0),
    "bias_gelu_tanh": ([MATRIX, VECTOR], 1, 2, 0),
    "swiglu": ([MATRIX, MATRIX], 1, 1, 0),
    "geglu": ([MATRIX, MATRIX], 1, 1, 0),
    "rms_norm": ([MATRIX, VECTOR], 1, 2, 4 * ROWS),
    "layer_norm": ([MATRIX, VECTOR, VECTOR], 1, 2, 8 * ROWS),
    "add_rms_norm": ([MATRIX, MATRIX, VECTOR], 1, 2, 4 * ROWS),
    "softmax": ([MATRIX], 1, 1, 8 * ROWS),
    "cross_entropy": ([of(512, 32_000), of(512, dtype=np.int64)], 1, 1, 8 * 512),
    "dropout_add_layer_norm": ([MATRIX, MATRIX, VECTOR, VECTOR], 1, 2, 8 * ROWS),
    "rope": ([of(4, 8, 256, 64), of(256, 64), of(256, 64)], 1, 1, 0),
    "lstm_cell": ([of(ROWS, 4 * 256), of(ROWS, 256)], 1, 1, 0),
    "chain": ([MATRIX, MATRIX], 1, 1, 0),
    "focal_loss": ([MATRIX, MATRIX], 1, 1, 0),
    "adamw": ([MATRIX, MATRIX, MATRIX, MATRIX, *NUMBERS], 1, 0, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_suite(name: str) -> None:
    arguments, forward, backward, saved = CASES[name]
    listing = SUITE[name].kernels(*arguments)
    assert len(listing.forward) == forward
    assert set(listing.library) <= {"gs::seed"}
    moved = sum(k.bytes_read + k.bytes_written for k in listing.forward)
    assert moved <= 1.01 * listing.least_bytes[0] + saved
    if backward:
        assert len(listing.backward) <= backward
        assert listing.saved_bytes <= saved
        partial = sum(b.nbytes for k in listing.backward for b in k.kernel.buffers if b.name.startswith("partial_"))
        moved = sum(k.bytes_read + k.bytes_written for k in listing.backward)
        assert moved <= 1.01 * listing.least_bytes[1] + partial + saved


def test_a_kernel_tells_about_itself() -> None:
    (info,) = SUITE.swiglu.kernels(MATRIX, MATRIX).forward
    assert info.name == "swiglu_forward" and info.grid[0] > 1 and info.grid[1:] == (1, 1)
    assert info.bytes_read == 2 * MATRIX.nbytes and info.bytes_written == MATRIX.nbytes
    assert info.flops >= 3 * ROWS * COLUMNS
    assert "def swiglu_forward(" in info.text and "suite.grad:" in info.text
    assert info.ir.startswith("kernel swiglu_forward(")


def test_the_backward_is_the_authors() -> None:
    backward = "    def backward(grad):\n        return grad * torch.cos(x) * 3\n"
    source = f"def f(x):\n{backward}    return torch.sin(x), backward\n"
    (info,) = gs.CompilationUnit(source).f.kernels(VECTOR).backward
    assert "3" in info.ir and "cos(" in info.ir


def test_the_listing_prints_a_table() -> None:
    text = str(SUITE.layer_norm.kernels(MATRIX, VECTOR, VECTOR))
    lines = text.splitlines()
    assert lines[0].split() == ["kernel", "grid", "read", "written", "flops"]
    assert [line.split()[0] for line in lines[1:4]] == [
        "layer_norm_forward",
        "layer_norm_backward_partial",
        "layer_norm_backward_finish",
    ]
    assert lines[-1] == "saved beyond arguments and results: 32,768 bytes"


def test_a_list_among_results_leaves_the_others_their_gradients() -> None:
    unit = gs.CompilationUnit("def f(x, y):\n    return [torch.tanh(x)], torch.exp(x) * y\n")
    listing = unit.f.kernels(VECTOR, VECTOR)
    assert (len(listing.forward), len(listing.backward)) == (1, 1)


def test_products_go_to_the_library_with_their_epilogue_beside_them() -> None:
    unit = gs.CompilationUnit("def f(x, w, b):\n    return F.gelu(torch.tanh(x) @ w + b)\n")
    listing = unit.f.kernels(of(64, 32), of(32, 48), of(48))
    assert len(listing.forward) == 2 and "aten::matmul" in listing.library


def test_what_cannot_be_kernels_is_told() -> None:
    unit = gs.CompilationUnit("def f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n")
    assert "  line 2: a branch" in unit.f.kernels(VECTOR).outline
    with pytest.raises(gs.RuntimeFailure, match="aten::add"):
        gs.CompilationUnit("def f(x, y):\n    return x + y\n").f.kernels(of(3), of(4))


def test_neither_torch_nor_triton_is_loaded() -> None:
    code = (
        "import sys, numpy as np, gradscript as gs\n"
        "f = gs.CompilationUnit('def f(x):\\n    return torch.softmax(x, -1)').f\n"
        "assert 'tl.sum' in f.kernels(np.zeros((4, 8), np.float32)).forward[0].text\n"
        "assert 'torch' not in sys.modules and 'triton' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
