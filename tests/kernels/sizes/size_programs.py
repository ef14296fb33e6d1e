"""Random functions of rows at several sizes: what plans for classes of sizes give beside plans for the very sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from random import Random
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.flatten import flatten_signature
from gradscript.compiler.fusion.fuse import FusedPair, Unfusable, pair_gradient, planned_pair
from gradscript.compiler.fusion.program import KernelStep, Program
from gradscript.compiler.fusion.sharing import kernel_structure
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Buffer, Kernel
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.types.dtypes import FLOAT32, INT64
from gradscript.compiler.types.guards import values_of_atoms
from gradscript.compiler.types.open_sizes import Symbols, closed, is_open
from gradscript.lang.light_dataclasses import FIELDS, fields, replace
from gradscript.runtime.execution.compilation import prepare_on_device
from gradscript.runtime.kernels.c import planned
from gradscript.runtime.kernels.size_classes import SizeClasses
from row_program_running import DIFFERENTIATED, SPLITS, Split
from row_programs import row_program

OUTER = (
    *(1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32),
    *(33, 40, 63, 64, 65, 100, 127, 129, 255, 256, 300, 513, 1000, 1025),
)
"""What number of rows, or of batches, a call may have."""
LARGER = (*OUTER, 2047, 2048, 3000, 4095, 4097, 6000, 8191, 8192)
"""The same where nothing of that size is run."""
COLUMNS = (1, 2, 3, 7, 8, 16, 17, 32, 61, 64)
MOST_TEXTS = 4
"""Of a kernel, a kind of gradients that it is given, and the sizes that are 1."""
CALLS = 9
RUN_POINTS = 1 << 16
"""Of kernels that are run by their meaning."""


@dataclass(frozen=True)
class SizedProgram:
    """A function `f` of `x, y, w, b, c, labels`, and shapes of its calls; shapes that nothing is run on come apart."""

    source: str
    shapes: tuple[tuple[int, ...], ...]
    planned: tuple[tuple[int, ...], ...]


def sized_program(seed: int) -> SizedProgram:
    """The program of a seed: of some of its outer sizes one varies, or all do."""
    random, base = Random(seed), row_program(seed, COLUMNS)
    varied = [d for d in range(len(base.shape) - 1) if random.random() < 0.7] or [0]
    return SizedProgram(
        base.source, _calls(random, base.shape, varied, OUTER), _calls(random, base.shape, varied, LARGER)
    )


def _calls(random: Random, shape: Sequence[int], varied: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    found = []
    for size in random.sample(sizes, CALLS):
        one = list(shape)
        for d in varied:
            one[d] = size if d == varied[0] else random.choice(sizes[:14])
        found.append(tuple(one))
    return tuple(found)


def _shapes(shape: Sequence[int]) -> list[tuple[int, ...]]:
    *outer, columns = shape
    return [tuple(shape), tuple(shape), (columns,), (*outer, 1), ()]


# --- by meaning ---


def differences_by_meaning(program: SizedProgram, seed: int, counts: Counter[str]) -> Iterator[str]:
    """Where a plan for open sizes is not the exact one, put in, nor gives its numbers."""
    for name, split in SPLITS.items():
        for found in _beside_exact(program, split, seed, counts):
            yield f"{name}: {found}"


def _beside_exact(program: SizedProgram, split: Split, seed: int, counts: Counter[str]) -> Iterator[str]:
    function = gs.CompilationUnit(program.source).f
    graph = differentiable_graph(function.callee).copy()
    prepare_on_device(graph)
    graph = flatten_signature(graph)
    first, *others = program.planned
    varied = [d for d in range(len(first)) if any(shape[d] != first[d] for shape in others)]
    classes: list[tuple[Symbols, list[Program]]] = []
    for shape in others:
        if any(shape[d] < 4 for d in varied):
            continue
        try:
            exact = _both(graph, _layouts(shape), split)
        except Unfusable:
            counts["no kernels"] += 1
            return
        for symbols, programs in classes:
            atoms = values_of_atoms(symbols, [shape[d] for d in varied])
            if symbols.noted.hold(atoms):
                counts["looked up"] += 1
                yield from _compared(programs, atoms, exact, shape, seed, counts)
                break
        else:
            symbols = Symbols([shape[d] for d in varied])
            opened = list(shape)
            for d, size in zip(varied, symbols.sizes, strict=True):
                opened[d] = size
            programs = _both(graph, _layouts(opened), split)
            classes.append((symbols, programs))
            counts["classes"] += 1
            atoms = values_of_atoms(symbols, [shape[d] for d in varied])
            yield from _compared(programs, atoms, exact, shape, seed, counts)


def _layouts(shape: Sequence[Any]) -> list[Layout]:
    given = [Layout.contiguous(Meta(one, FLOAT32)) for one in _shapes(shape)]
    return [*given, Layout.contiguous(Meta(tuple(shape[:-1]), INT64))]


def _both(graph: Any, given: Sequence[Layout], split: Split) -> list[Program]:
    gradient = pair_gradient(graph, given, DIFFERENTIATED)
    pair: FusedPair = planned_pair(gradient, given, lambda primitive, dtype: True, split)
    return [pair.forward, pair.backward(pair.usual_seeds())]


def _compared(
    programs: Sequence[Program], atoms: Sequence[int], exact: Sequence[Program], shape: Any, seed: int, counts: Any
) -> Iterator[str]:
    for half, one, other in zip(("forward", "backward"), programs, exact, strict=True):
        have = [_closed(step.kernel, atoms) for step in one.steps if isinstance(step, KernelStep)]
        want = list(other.kernels)
        pairs = _paired(have, want)
        if pairs is None:
            yield f"{half}: other kernels than of the exact plan, {len(have)} instead of {len(want)}, at {shape}"
            continue
        for some, b in pairs:
            if len(some) == 1 and kernel_structure(some[0]) == kernel_structure(b):
                counts["the same kernel"] += 1
                continue
            counts["another kernel" if len(some) == 1 else "a single chunk"] += 1
            if sum(buffer.numel for buffer in b.buffers) <= RUN_POINTS:
                found = _run_otherwise(some, b, seed)
                if found:
                    yield "\n".join([f"{half}: {found} at {shape}:", *map(kernel_structure, [*some, b])])


def _paired(have: Sequence[Kernel], want: Sequence[Kernel]) -> list[tuple[list[Kernel], Kernel]] | None:
    """What there is in the place of each kernel: one, or those of chunks, of which few rows are a single one."""
    left, found = list(have), []
    for kernel in want:
        split = re.compile(re.escape(kernel.name) + "(_partial|_finish)+")
        some = left[:1]
        if some and split.fullmatch(some[0].name):
            some = [*takewhile(lambda one, split=split: split.fullmatch(one.name), left)]
        found.append((some, kernel))
        left = left[len(some) :]
    return found if not left and all(some for some, _ in found) else None


def _run_otherwise(some: Sequence[Kernel], other: Kernel, seed: int) -> str:
    """What kernels in the place of another give otherwise."""
    if _buffers(some) != _buffers([other]):
        return "kernels of other buffers"
    have, want = (_run(kernels, seed) for kernels in (some, [other]))
    # NumPy, by which kernels are run here, pairs terms by how many there are: in a chunk there are more, zeros.
    near = [len(some) > 1 and np.allclose(a, b, 1e-5, 1e-6, equal_nan=True) for a, b in zip(have, want, strict=True)]
    is_same = all(n or a.tobytes() == b.tobytes() for n, a, b in zip(near, have, want, strict=True))
    return "" if is_same else "other numbers than of the exact plan"


def _run(kernels: Sequence[Kernel], seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    read, written = _read_and_written(kernels)
    for b in read:
        drawn = generator.normal(size=b.shape) if b.dtype.is_floating else generator.integers(0, 2, b.shape)
        arrays[b.name] = np.asarray(drawn).astype(numpy_dtype(b.dtype))
    for kernel in kernels:
        numbers = {p.name: 1 if not p.dtype.is_floating else 0.5 for p in kernel.parameters}
        arrays |= run_kernel(kernel, {b.name: arrays[b.name] for b in kernel.inputs}, numbers)
    return [arrays[b.name] for b in written]


def _read_and_written(kernels: Sequence[Kernel]) -> tuple[list[Buffer], list[Buffer]]:
    """By name, but for what one writes for another."""
    written = {b.name: b for kernel in kernels for b in kernel.outputs}
    read = {b.name: b for kernel in kernels for b in kernel.inputs}
    return [read[n] for n in sorted(read) if n not in written], [written[n] for n in sorted(written) if n not in read]


def _buffers(kernels: Sequence[Kernel]) -> Any:
    """What kernels read and write, in any order: one that computes in pieces writes before it has read all."""
    return [[(b.name, b.shape, b.dtype) for b in some] for some in _read_and_written(kernels)]


def _closed(value: Any, atoms: Sequence[int]) -> Any:
    """A kernel with numbers for all open sizes in it."""
    if is_open(value) and not isinstance(value, list | tuple):
        return closed(value, atoms)
    if isinstance(value, list | tuple):
        return type(value)([_closed(item, atoms) for item in value])
    if isinstance(value, dict):
        return {_closed(key, atoms): _closed(item, atoms) for key, item in value.items()}
    if hasattr(value, FIELDS) and not isinstance(value, type):
        return replace(value, **{f.name: _closed(getattr(value, f.name), atoms) for f in fields(value)})
    return value


# --- in C ---


def calls_in_c(program: SizedProgram, seed: int, counts: Counter[str]) -> Iterator[str]:
    """Where calls by plans for classes give other bits than by exact plans, and kernels of too many texts."""
    texts: dict[Any, set[str]] = {}
    kind, one_of = [""], [program.shapes[0]]
    patch = pytest.MonkeyPatch()
    module_of = planned.module_of

    def noted(kernels: Any) -> Any:
        made = module_of(kernels)
        counts["modules"] += 1
        for function in made.functions:
            # What has one row, or one batch, has texts of its own.
            ones = tuple(d for d, size in enumerate(one_of[0]) if size == 1)
            texts.setdefault((function.name, kind[0], ones), set()).add(function.text)
        return made

    with gs.settings.backend("c"), patch.context() as watched:
        watched.setattr(planned, "module_of", noted)
        one, have = gs.CompilationUnit(program.source).f, []
        for shape in program.shapes:
            one_of[0] = shape
            have.append(_results(one, shape, seed, kind))
    most = max(map(len, texts.values()), default=0)
    if most > MOST_TEXTS:
        yield f"{most} texts of a kernel over {len(program.shapes)} sizes, {program.shapes}"
    with gs.settings.backend("c"), patch.context() as exact:
        exact.setattr(SizeClasses, "find", lambda *given: None)
        exact.setattr(SizeClasses, "plan", lambda *given: None)
        other = gs.CompilationUnit(program.source).f
        for shape, found in zip(program.shapes, have, strict=True):
            counts["calls"] += 1
            wanted = _results(other, shape, seed)
            if found != wanted:
                differ = [i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b]
                yield f"other bits than of the exact plan, {differ} of {len(wanted)}, at {shape} in {program.shapes}"


def _results(function: Any, shape: Sequence[int], seed: int, kind: list[str] | None = None) -> list[Any]:
    """Values, and gradients for two kinds of seeds, in `kind` meanwhile; or the error that it ends in."""
    kind = [""] if kind is None else kind
    generator = np.random.default_rng(seed)
    given = [np.asarray(generator.standard_normal(one), np.float32) for one in _shapes(shape)]
    given.append(generator.integers(0, shape[-1], tuple(shape[:-1])))
    kind[0] = "usual"
    try:
        value, pull_back = gs.vjp(function, *given)
        plain = function(*given)
    except gs.RuntimeFailure as error:
        return [str(error).splitlines()[0]]
    values = value if isinstance(value, tuple) else (value,)
    seeds = [
        [np.linspace(-1, 1, v.size).astype(v.dtype).reshape(v.shape) for v in values],
        [np.broadcast_to(np.asarray(0.5, v.dtype), v.shape) for v in values],
    ]
    plains = plain if isinstance(plain, tuple) else (plain,)
    found = [*values, *plains]
    for kind[0], one in zip(("usual", "broadcast"), seeds, strict=True):
        found += pull_back(*one)
    return [None if a is None else (a.shape, str(a.dtype), np.asarray(a).tobytes()) for a in found]
