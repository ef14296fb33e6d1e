"""Kernels compute what the interpreter computes, forward and backward: random programs, and layouts of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from array_programs import check_fused, fused, random_source
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.fusion.fuse import Unfusable, fuse, pair_gradient, planned_pair
from gradscript.compiler.fusion.program import ExternStep, KernelStep
from gradscript.compiler.kernel_ir.kernel import Reduce
from gradscript.runtime.kernels.listing import known_layout
from kernel_reference import run_program

SUITE = gs.CompilationUnit(
    (Path(__file__).parents[2] / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad"
)
PROGRAMS = some(90)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed: int) -> None:
    unit = gs.CompilationUnit(random_source(seed))
    generator = np.random.default_rng(seed)
    for shape in ((4, 6), (2, 3, 4)):
        x, y = generator.normal(size=shape), generator.normal(size=shape[-1:] if seed % 3 == 0 else shape)
        if seed % 2:
            x = np.asfortranarray(x)
        try:
            unit.f(x, y)
        except gs.RuntimeFailure:
            continue
        check_fused(unit.f, [x, y])


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape)


ARGUMENTS: dict[str, Callable[[int, int], list[Any]]] = {
    "bias_gelu": lambda n, d: [draw(n, d), draw(d)],
    "bias_gelu_tanh": lambda n, d: [draw(n, d), draw(d)],
    "swiglu": lambda n, d: [draw(n, d), draw(n, d)],
    "geglu": lambda n, d: [draw(n, d), draw(n, d)],
    "rms_norm": lambda n, d: [draw(n, d), draw(d)],
    "layer_norm": lambda n, d: [draw(n, d), draw(d), draw(d)],
    "add_rms_norm": lambda n, d: [draw(n, d), draw(n, d), draw(d)],
    "softmax": lambda n, d: [draw(n, d)],
    "cross_entropy": lambda n, d: [draw(n, d), np.arange(n) % max(d, 1)],
    "rope": lambda n, d: [draw(2, n, d, 8), draw(d, 8), draw(d, 8)],
    "lstm_cell": lambda n, d: [draw(n, 4 * d), draw(n, d)],
    "chain": lambda n, d: [draw(n, d), draw(n, d)],
    "focal_loss": lambda n, d: [draw(n, d), np.abs(np.tanh(draw(n, d)))],
}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (300, 33), (2, 700)])
def test_suite(name: str, shape: tuple[int, int]) -> None:
    check_fused(SUITE[name], ARGUMENTS[name](*shape))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_transposed_and_broadcast_inputs(name: str) -> None:
    arguments = ARGUMENTS[name](6, 4)
    strided = [np.asfortranarray(a) if isinstance(a, np.ndarray) and a.ndim > 1 else a for a in arguments]
    check_fused(SUITE[name], strided)
    first = arguments[0]
    expanded = np.broadcast_to(first[:1], first.shape)
    check_fused(SUITE[name], [expanded, *arguments[1:]])
    check_fused(SUITE[name], [np.repeat(first, 2, axis=-1)[..., ::2], *arguments[1:]])


@pytest.mark.parametrize("name", ["bias_gelu", "swiglu", "rms_norm", "layer_norm", "softmax", "chain", "lstm_cell"])
def test_no_rows(name: str) -> None:
    check_fused(SUITE[name], ARGUMENTS[name](0, 4))


def test_zeros_beside_no_rows() -> None:
    """No program runs where there are no rows: what has elements all the same is stored by a kernel of its own."""
    unit = gs.CompilationUnit("def loss(x, y, z):\n    return torch.cos(x.mean(1, keepdim=True)).sum()\n")
    graph = gs.grad(unit.loss, [0, 1, 2], allow_unused=True).graph
    values = [np.zeros((0, 3)), draw(3), np.asarray(0.5)]
    program = fuse(graph, [known_layout(value, settled=False) for value in values], lambda primitive, dtype: True)
    for kernel in program.kernels:
        runs = all(axis.size for axis in kernel.axes if axis.role == "parallel")
        assert runs or all(0 in buffer.shape for buffer in kernel.buffers if buffer.is_output)
    assert [np.asarray(found).any() for found in run_program(program, values)] == [False, False, False]


SCALARS = """
def f(x, y):
    return (x * y).sum(), torch.tanh(x)

def counted(x, n: int, scale: float):
    for _ in range(n):
        x = torch.sin(x) * scale
    return x.mean()

def picked(weight, index):
    return F.embedding(index, weight) * 2.0, weight.sum(0)

def data_dependent(x):
    if x.sum() > 0:
        x = x * 2
    return x
"""
UNIT = gs.CompilationUnit(SCALARS)


def test_tensors_without_dimensions() -> None:
    check_fused(UNIT.f, [np.asarray(0.5), np.asarray(-1.5)])
    check_fused(UNIT.f, [np.asarray(0.5), draw(3)])


def test_numbers_are_parameters_of_kernels() -> None:
    kernels = check_fused(UNIT.counted, [draw(4, 5), 3, 0.7])
    assert any(parameter.name == "scale" for kernel in kernels for parameter in kernel.parameters)


def test_rows_are_picked_by_index() -> None:
    check_fused(UNIT.picked, [draw(9, 4), np.array([[3, 0], [8, 3]])])


def test_branches_on_elements_are_refused() -> None:
    with pytest.raises(Unfusable, match="a branch depends on what is in tensors"):
        fuse(UNIT.data_dependent.graph, [known_layout(draw(3), settled=False)], lambda primitive, dtype: True)


@pytest.mark.parametrize("flag", [True, False])
def test_flags_among_the_arguments_decide_branches(flag: bool) -> None:
    text = "def f(x, flag: bool):\n    if flag:\n        return torch.erfc(x)\n    return torch.exp(x)\n"
    kernels = check_fused(gs.CompilationUnit(text).f, [draw(4, 5), flag])
    assert any("erfc" in str(kernel.body) for kernel in kernels) == flag


def test_a_loop_that_numbers_end_is_told_from_one_that_tensors_end() -> None:
    text = "def f(x, n: int):\n    while n > 0:\n        x = x * x\n        n -= 1\n    return x\n"
    with pytest.raises(Unfusable, match="until a number that it computes says so"):
        fuse(gs.CompilationUnit(text).f.graph, [known_layout(draw(3), settled=False), 3], lambda primitive, dtype: True)


def test_long_chains_do_not_recurse() -> None:
    unit = gs.CompilationUnit("def f(x, y):\n" + "    x = torch.sin(x) * y\n" * 3000 + "    return x\n")
    (kernel,) = fuse(unit.f.graph, [known_layout(draw(8), settled=False)] * 2, lambda primitive, dtype: True).kernels
    assert len(kernel.body) > 6000


def test_halves_are_computed_in_float32() -> None:
    import ml_dtypes

    for dtype in (np.float16, ml_dtypes.bfloat16):
        values = [draw(16, 40).astype(dtype), draw(40).astype(dtype), draw(40).astype(dtype)]
        kernels = check_fused(SUITE.layer_norm, values, tolerance=1e-2 if dtype == np.float16 else 3e-2)
        for kernel in kernels:
            assert all(not s.dtype.is_half for s in kernel.body if isinstance(s, Reduce))


@pytest.mark.parametrize("terms", ["x, x * y, y, torch.exp(x)", "y[0], x, y.sum(0, True)", "x", "*"])
def test_sums_of_lists(terms: str) -> None:
    """Of tensors that are broadcast, of one, and of the parts of another."""
    total = "torch.add_n((x * y).split(2))" if terms == "*" else f"torch.add_n([{terms}])"
    unit = gs.CompilationUnit(f"def f(x, y):\n    return torch.sin({total})\n")
    values = [draw(4, 6), draw(4, 6) + 1]
    check_fused(unit.f, values)
    steps = fused(unit.f, values).forward.steps
    assert all(isinstance(step, KernelStep) or step.is_view for step in steps)


def test_a_backward_whose_only_gradient_is_missing_has_none_to_give() -> None:
    unit = gs.CompilationUnit("def f(x, w):\n    return F.rms_norm(x * 2, [x.size(-1)], w, 1e-6)\n")
    given = [known_layout(np.zeros(shape), settled=False) for shape in ((4, 6), (6,))]
    gradient = pair_gradient(differentiable_graph(unit.f.callee), given, [True, True])
    pair = planned_pair(gradient, given, lambda primitive, dtype: True)
    assert pair.backward([None]).outputs == (None, None)
    assert not pair.backward([None]).steps
    assert len(pair.backward(pair.usual_seeds()).outputs) == 2


def test_what_is_kept_in_parts_is_stored_by_the_kernel_that_computes_with_them() -> None:
    unit = gs.CompilationUnit("""
def f(x, y, cell):
    gates = x @ y + 1.0
    parts = gates.chunk(2, 1)
    enter, keep = parts
    return parts, torch.sigmoid(keep) * cell + torch.tanh(enter)

def g(x):
    return (x * 2.0).split([1, 3], 1)
""")
    x, y, cell = draw(4, 4), draw(4, 8), draw(4, 4)
    program = fuse(unit.f.graph, [known_layout(v, settled=False) for v in (x, y, cell)], lambda primitive, dtype: True)
    assert len(program.kernels) == 1
    assert [step.is_view for step in program.steps if isinstance(step, ExternStep)] == [False, True]
    (parts, out) = run_program(program, [x, y, cell])
    wanted = unit.f(x, y, cell)
    for have, want in zip((*parts, out), (*wanted[0], wanted[1]), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12)
    program = fuse(unit.g.graph, [known_layout(x, settled=False)], lambda primitive, dtype: True)
    assert [step.is_view for step in program.steps if isinstance(step, ExternStep)] == [True]
    for have, want in zip(run_program(program, [x])[0], unit.g(x), strict=True):
        np.testing.assert_array_equal(have, want)
