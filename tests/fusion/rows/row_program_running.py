"""Random functions of rows planned, and run by their kernels' meaning beside torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gradscript as gs
import numpy as np
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.gradient import residuals_of
from gradscript.compiler.fusion.fuse import FusedPair, pair_gradient, planned_pair
from gradscript.compiler.fusion.planning import reductions, tiles
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.scheduling import pieces
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.scheduling.split import ChunkLimits, split_reductions
from gradscript.compiler.scheduling.tiles import is_tiled
from gradscript.compiler.types.dtypes import FLOAT32, FLOAT64, INT64, DType
from kernel_reference import run_program
from row_programs import RowProgram

Split = Callable[[Kernel], list[Kernel]]
SPLITS: dict[str, Split] = {"for GPUs": split_reductions, "for processors": split_for_cpu}
FEW = ChunkLimits(
    programs=3,
    side_by_side=4,
    walking=4,
    rows=2,
    share=1,
    lanes=4,
    column_rows=2,
    elements=4,
    most=8,
    whole_columns=5,
    few_rows=2,
)
"""Limits that sizes under twenty are on both sides of."""
FEW_COLUMNS, FEW_ROWS, SHORT, FEW_CACHED = 8, 3, 7, 11
"""The same of the planner's thresholds: the most columns of a row, the fewest rows, what a program holds of a row, and
what a cache does."""
FEW_SIDE_BY_SIDE, FEW_HIGH, FEW_LOW = 9, 8, 4
"""The same of columns: the fewest side by side, the most that these are high, and that others are."""
FEW_WORDS, FEW_PROGRAMS, FITTING = 512, 2, 128
"""The same of tiles: the most points, the fewest programs, and what is not more than a program holds after all."""
DIFFERENTIATED = [True] * 5 + [False]
LARGEST = 1e8
"""Of what torch gives: beyond, differences of large numbers say nothing."""


def planned(program: RowProgram, split: Split, dtype: DType = FLOAT32) -> FusedPair:
    """Both passes of a program. Unfusable where there are no kernels for them."""
    (pair,) = planned_by(program, [split], dtype)
    return pair


def planned_by(program: RowProgram, splits: Iterable[Split], dtype: DType = FLOAT32) -> Iterator[FusedPair]:
    """Both passes of a program, for each way of sharing out its reductions: it is differentiated once."""
    given: list[Any] = [Layout.contiguous(Meta(shape, dtype)) for shape in program.shapes]
    given.append(Layout.contiguous(Meta(program.shape[:-1], INT64)))
    graph = differentiable_graph(gs.CompilationUnit(program.source).f.callee)
    gradient = pair_gradient(graph, given, DIFFERENTIATED)
    for split in splits:
        pair = planned_pair(gradient, given, lambda primitive, dtype: True, split)
        pair.backward(pair.usual_seeds())
        yield pair


@contextmanager
def few_elements() -> Iterator[Split]:
    """The planner with thresholds that small arrays reach; how it shares out reductions."""
    before = reductions.MIN_ROWS, reductions.MAX_COLUMNS, tiles.MOST_WORDS, tiles.LEAST_PROGRAMS, pieces.LEAST_POINTS
    columns, cached = (reductions.SIDE_BY_SIDE, reductions.MAX_HEIGHT, reductions.LOW), reductions.MOST_CACHED
    reductions.MIN_ROWS, reductions.MAX_COLUMNS = FEW_ROWS, FEW_COLUMNS
    reductions.MOST_CACHED = FEW_CACHED
    reductions.SIDE_BY_SIDE, reductions.MAX_HEIGHT, reductions.LOW = FEW_SIDE_BY_SIDE, FEW_HIGH, FEW_LOW
    tiles.MOST_WORDS, tiles.LEAST_PROGRAMS, pieces.LEAST_POINTS = FEW_WORDS, FEW_PROGRAMS, 1
    try:
        yield partial(split_reductions, limits=FEW, fits=_fits)
    finally:
        reductions.MIN_ROWS, reductions.MAX_COLUMNS = before[:2]
        reductions.MOST_CACHED = cached
        reductions.SIDE_BY_SIDE, reductions.MAX_HEIGHT, reductions.LOW = columns
        tiles.MOST_WORDS, tiles.LEAST_PROGRAMS, pieces.LEAST_POINTS = before[2:]


def _fits(kernel: Kernel, columns: int) -> bool:
    return columns <= (FITTING if is_tiled(kernel) else SHORT)


def difference(program: RowProgram, split: Split, seed: int) -> str:
    """What kernels give otherwise than torch, in values or gradients; nothing where they agree, or torch has no number
    that says much."""
    arguments = _arguments(program, seed)
    wanted, seeds = _by_torch(program, arguments, seed)
    if any(not np.isfinite(array).all() or np.abs(array).max(initial=0.0) > LARGEST for array in wanted):
        return ""
    found = _by_kernels(planned(program, split, FLOAT64), arguments, seeds)
    for number, (have, want) in enumerate(zip(found, wanted, strict=True)):
        scale = max(float(np.abs(want).max(initial=0.0)), 1.0)
        if have.shape != want.shape or not np.allclose(have, want, rtol=1e-7, atol=1e-8 * scale):
            return f"number {number} of values and gradients: {have} beside {want}"
    return ""


def _arguments(program: RowProgram, seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, program.shape[-1], program.shape[:-1])
    return [*(np.asarray(generator.normal(size=shape)) for shape in program.shapes), labels]


def _by_torch(program: RowProgram, arguments: list[Any], seed: int) -> tuple[list[Any], list[Any]]:
    """Values, then gradients, and the gradients of the values that they follow from."""
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(program.source, names)
    given = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in arguments]
    results = names["f"](*given)
    results = list(results) if isinstance(results, tuple) else [results]
    generator = np.random.default_rng(seed + 1)
    seeds = [np.asarray(generator.normal(size=tuple(result.shape))) for result in results]
    pairs = [(r, torch.tensor(s)) for r, s in zip(results, seeds, strict=True) if r.requires_grad]
    torch.autograd.backward([r for r, _ in pairs], [s for _, s in pairs])
    gradients = [np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in given[:-1]]
    return [*(r.detach().numpy() for r in results), *gradients], seeds


def _by_kernels(pair: FusedPair, arguments: list[Any], seeds: list[Any]) -> list[Any]:
    gradient = pair.gradient
    outputs = run_program(pair.forward, arguments)
    backward = pair.backward([Layout.contiguous(Meta.of(seed)) for seed in seeds])
    given = [seeds[i] for i in gradient.input_vjps] + residuals_of(gradient, arguments, outputs)
    found = run_program(backward, given)
    by_input = dict(zip(gradient.output_vjps, found, strict=True))
    gradients = [by_input.get(i) for i in range(len(arguments) - 1)]
    return [
        *outputs[: gradient.num_real_outputs],
        *(np.zeros(a.shape) if g is None else g for a, g in zip(arguments, gradients, strict=False)),
    ]
