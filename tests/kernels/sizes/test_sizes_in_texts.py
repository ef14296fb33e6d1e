"""Texts of kernels do not depend on batch sizes, and what runs by them does not either."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradscript as gs
import kernel_cases as cases
import numpy as np
import pytest
from amounts import some_of
from gradscript.compiler.codegen.c.module import emit_function
from gradscript.compiler.codegen.triton.module import emit_triton
from gradscript.compiler.kernel_ir.index import axis
from gradscript.compiler.kernel_ir.kernel import Compute, Kernel, KernelConstant, Load, Statement, Store, Total
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.passed_sizes import passed_sizes, strides
from gradscript.compiler.kernel_ir.printer import print_kernel
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.scheduling.choose import choose_schedule
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c.kernel import Kernels, module_of

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
from batch_texts import CASES, Texts, texts_of, texts_over, unit  # noqa: E402
from inputs.suite_shapes import COLUMNS  # noqa: E402

SUITE = unit()
SOME = (1, 2, 3, 16, 100, 129, 512, 1025, 4096, 8191)
"""`make texts` draws a thousand."""
HAS_COMPILER = compilers.compiler() is not None


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


# --- how many texts there are ---


@pytest.mark.parametrize("case", some_of(CASES))
def test_no_kernel_has_more_than_four_texts(case: str) -> None:
    columns = 64 if case.startswith("rope") else COLUMNS.get(case, 1024)
    found = texts_of(SUITE, case, SOME, columns)
    assert found.most <= 4, _counts(found)


@pytest.mark.parametrize("case", ["bias_gelu", "layer_norm", "softmax", "rope, sequences"])
def test_rows_of_an_odd_length_neither(case: str) -> None:
    found = texts_of(SUITE, case, SOME, 62)
    assert found.most <= 4, _counts(found)


OF_BATCHES = gs.CompilationUnit(
    """
def mean_of_squares(x, w):
    return ((x - w) * (x - w)).mean()

def mean_of_columns(x, w):
    return torch.tanh(x * w).mean(0)

def sum_of_columns(x, w):
    return (x * w).sum(0)

def standardized(x, w):
    return (x - x.mean(0)) / torch.sqrt(x.var(0) + 1e-5) * w

def mean_loss(x, w):
    return torch.log_softmax(x * w, -1).sum(-1).mean()

def largest(x, w):
    return (x * w).amax(0), (x * w).max()

def places(x, w):
    return (x * w).argmax(0), (x * w).argmin()
"""
)


@pytest.mark.parametrize("name", some_of(OF_BATCHES.functions))
def test_neither_has_what_sums_over_batches_or_divides_by_their_sizes(name: str) -> None:
    found = texts_over(OF_BATCHES[name], [[(rows, 96), (96,)] for rows in SOME])
    assert found.most <= 4, _counts(found)


def _counts(found: Texts) -> dict[str, int]:
    return {name: len(texts) for each in (found.triton, found.functions, found.modules) for name, texts in each.items()}


# --- what they compute ---


def exact(kernel: Kernel) -> Kernel:
    """The kernel with all sizes in its text."""
    axes = tuple(replace(a, dynamic=False) for a in kernel.axes)
    return replace(kernel, axes=axes, body=tuple(map(_exact, kernel.body)))


def _exact(statement: Statement) -> Statement:
    match statement:
        case Load() | Store():
            return replace(statement, conditions=tuple(replace(c, size_of="") for c in statement.conditions))
        case Compute():
            operands = [KernelConstant(o.value) if isinstance(o, Total) else o for o in statement.operands]
            return replace(statement, operands=tuple(operands))
    return statement


def _run(kernels: list[Kernel], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What kernels in C write, by buffer."""
    found = {name: array.copy() for name, array in arrays.items()}
    for kernel in kernels:
        for buffer in kernel.outputs:
            found.setdefault(buffer.name, np.full(buffer.shape, -1).astype(numpy_dtype(buffer.dtype)))
    made = Kernels(module_of(kernels))
    numbers = [0.25 for kernel in kernels for _ in kernel.parameters]
    made.run([found[buffer.name] for kernel in kernels for buffer in kernel.buffers], numbers, 2)
    return found


def _arrays(kernels: list[Kernel]) -> dict[str, np.ndarray]:
    draw, found = np.random.default_rng(5), {}
    for kernel in kernels:
        for b in kernel.inputs:
            if b.dtype.is_floating:
                found.setdefault(b.name, draw.standard_normal(b.shape).astype(numpy_dtype(b.dtype)))
            else:
                found.setdefault(b.name, draw.integers(0, 3, b.shape).astype(numpy_dtype(b.dtype)))
    return found


def _of_the_suite(case: str, rows: int, columns: int) -> list[list[Kernel]]:
    name, shapes = CASES[case]
    given: list[Any] = [
        np.zeros(s if isinstance(s, tuple) else s.rows, np.float32 if isinstance(s, tuple) else np.int64)
        for s in shapes(rows, columns)
    ]
    return SUITE[name].kernels(*given).kernels_of_c()


@pytest.mark.skipif(not HAS_COMPILER, reason="no compiler")
@pytest.mark.parametrize("case", ["bias_gelu", "layer_norm", "cross_entropy", "rope, sequences", "softmax"])
def test_results_are_those_of_exact_texts_to_the_bit(case: str) -> None:
    for rows, columns in ((3, 40), (17, 40), (129, 40), (500, 40), (3, 70_000)):
        if columns > 40 and case != "cross_entropy":
            continue
        for kernels in _of_the_suite(case, rows, columns):
            arrays = _arrays(kernels)
            assert any(passed_sizes(kernel) for kernel in kernels)
            found, wanted = _run(kernels, arrays), _run(list(map(exact, kernels)), arrays)
            for name, want in wanted.items():
                assert found[name].tobytes() == want.tobytes(), (rows, columns, name)


# --- how that is ---


def test_strides_are_products_of_sizes_that_are_passed() -> None:
    index = axis("c") * (8 * 1024) + axis("r") * 1024 + axis("j")
    found = {atom.name: product for atom, product in strides(index, {"c": 4, "r": 8}).items()}
    assert found == {"c": (1024, ("r",)), "r": (1024, ()), "j": (1, ())}
    nested = axis("a") * (5 * 7 * 64) + axis("b") * (7 * 64) + axis("t") * 64
    found = {atom.name: product for atom, product in strides(nested, {"a": 2, "b": 5, "t": 7}).items()}
    assert found == {"a": (64, ("t", "b")), "b": (64, ("t",)), "t": (64, ())}


def test_a_split_kernel_is_read_back_from_its_text() -> None:
    _, (first, second) = _of_the_suite("layer_norm", 500, 64)
    for kernel in (first, second):
        assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
        assert passed_sizes(parse_kernel(print_kernel(kernel))) == passed_sizes(kernel)
    assert "where 0 <= 16*c + r < i:500 else" in print_kernel(first)
    assert passed_sizes(first) == {"c": 32, "r": 16, "i": 500}


def test_a_position_that_was_found_in_a_chunk_has_no_size_in_its_text() -> None:
    texts = set()
    for size in (200_001, 800_000):
        found = split_for_cpu(cases.full_argmax(size))
        texts.add(tuple([emit_function(k, k.name).text for k in found]))
        assert len(found) == 2
    assert len(texts) == 1


@pytest.mark.parametrize("sizes", [(3, 5), (16, 128), (1024, 33)])
def test_a_function_of_sequences_in_the_middle(sizes: tuple[int, int]) -> None:
    """Batches and sequences are sizes, heads and their width are a row."""
    unit = gs.CompilationUnit("def f(x, scale):\n    return torch.tanh(x * scale)\n")
    batch, time = sizes
    listing = unit.f.kernels(np.zeros((batch, time, 4, 8), np.float32), np.zeros((time, 1, 1), np.float32))
    (kernel,) = (info.kernel for info in listing.forward)
    assert list(passed_sizes(kernel).values()) == [batch, time]
    wanted = unit.f.kernels(np.zeros((7, 19, 4, 8), np.float32), np.zeros((19, 1, 1), np.float32))
    assert emit_triton(kernel, choose_schedule(kernel)) == wanted.forward[0].text
    assert listing.c.forward == wanted.c.forward
