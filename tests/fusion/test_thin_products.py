"""Products that are one sum a row, or products of elements, are in kernels; what is in memory and is added to a product
is added by the library."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused, fused
from gradscript.compiler.fusion.program import ExternStep, Program


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def of(result: str, names: str) -> gs.Function:
    return gs.CompilationUnit(f"def f({names}):\n    return {result}\n").f


def library_of(program: Program) -> list[str]:
    return [step.node.kind for step in program.steps if isinstance(step, ExternStep) and not step.is_view]


@pytest.mark.parametrize(
    ("result", "shapes"),
    [
        ("torch.tanh(x + q) @ v", [(7, 3, 4), (3, 4), (4,)]),
        ("torch.tanh(x + q) @ v.unsqueeze(-1)", [(7, 3, 4), (3, 4), (4,)]),
        ("torch.tanh(x * q).t() @ v", [(4, 3), (4, 3), (4,)]),
        ("v @ torch.tanh(x * q)", [(4, 3), (4, 3), (4,)]),
        ("v @ torch.tanh(x * q)", [(2, 4, 3), (4, 3), (4,)]),
        ("torch.softmax(torch.tanh(x + q) @ v, 0)", [(7, 3, 4), (3, 4), (4,)]),
        ("x.unsqueeze(-1) @ q.unsqueeze(0) * v", [(4,), (3,), (4, 3)]),
        ("x.unsqueeze(-1) @ q.unsqueeze(1) * v", [(2, 4), (2, 3), (4, 3)]),
    ],
)
def test_vectors_and_columns_are_multiplied_in_kernels(result: str, shapes: list[tuple[int, ...]]) -> None:
    function, values = of(result, "x, q, v"), [draw(*shape) for shape in shapes]
    check_fused(function, values)
    assert library_of(fused(function, values).forward) == []


@pytest.mark.parametrize(("dtype", "library"), [(np.float32, []), (np.float16, ["aten::matmul"])])
def test_products_of_halves_are_summed_unrounded(dtype: type, library: list[str]) -> None:
    function = of("torch.tanh(x) @ v", "x, v")
    values = [draw(*shape).astype(dtype) for shape in [(3, 4), (4,)]]
    assert library_of(fused(function, values).forward) == library


def test_a_matrix_in_memory_is_multiplied_by_the_library() -> None:
    function, values = of("torch.exp(x @ v)", "x, v"), [draw(3, 4), draw(4)]
    check_fused(function, values)
    assert library_of(fused(function, values).forward) == ["aten::matmul"]


@pytest.mark.parametrize(
    ("result", "library", "kernels"),
    [
        ("x @ a + y", ["aten::addmm"], 0),
        ("y + x @ a", ["aten::addmm"], 0),
        ("x @ a + x @ b", ["aten::matmul", "aten::addmm"], 0),
        ("x @ a + x @ b + y @ a", ["aten::matmul", "aten::addmm", "aten::addmm"], 0),
        ("(x @ a + y) @ b", ["aten::addmm", "aten::matmul"], 0),
        ("torch.tanh(x) @ a + y", ["aten::addmm"], 1),
        # A kernel has both at hand, or has to compute what is added.
        ("torch.tanh(x @ a + y)", ["aten::matmul"], 1),
        ("x @ a + torch.tanh(y)", ["aten::matmul"], 1),
        ("x @ a + y[0]", ["aten::matmul"], 1),
        ("2 * (x @ a) + y", ["aten::matmul"], 1),
    ],
)
def test_sums_with_products_that_go_to_memory(result: str, library: list[str], kernels: int) -> None:
    function, values = of(result, "x, y, a, b"), [draw(4, 4) for _ in range(4)]
    check_fused(function, values)
    forward = fused(function, values).forward
    assert (library_of(forward), len(forward.kernels)) == (library, kernels)
