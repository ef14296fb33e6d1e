"""Collapsing axes and splitting reductions leave what a kernel computes as it is."""

from __future__ import annotations

from math import prod

import kernel_cases as cases
import numpy as np
import pytest
from gradscript.compiler.codegen.c.module import emit_function
from gradscript.compiler.codegen.triton.module import emit_triton
from gradscript.compiler.kernel_ir.index import axis
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Buffer, Cast, Kernel, Load, Reduce
from gradscript.compiler.kernel_ir.passed_sizes import passed_sizes
from gradscript.compiler.scheduling.casts import without_round_trips
from gradscript.compiler.scheduling.choose import choose_schedule
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.shares import with_shares_multiplied
from gradscript.compiler.scheduling.split import ChunkLimits, Unsplittable, split_reductions
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT64, DType
from kernel_building import KernelBuilder
from kernel_running import inputs_of

SMALL = ChunkLimits(programs=6, rows=2, lanes=4, column_rows=4, elements=16, most=8)
"""Small enough that every kernel here is cut."""
ALL = {case.name: case.kernel for group in cases.GROUPS.values() for case in group}


def _run(kernels: list[Kernel], kernel: Kernel) -> dict[str, np.ndarray]:
    """The outputs of `kernel` from the kernels that run in its place."""
    arrays = inputs_of(kernel)
    numbers = {p.name: 0.625 if p.dtype.is_floating else 12345 for p in kernel.parameters}
    for part in kernels:
        arrays.update(run_kernel(part, arrays, {p.name: numbers[p.name] for p in part.parameters}))
    return {buffer.name: arrays[buffer.name] for buffer in kernel.outputs}


def _check(kernels: list[Kernel], kernel: Kernel, tolerance: float) -> None:
    want, have = _run([kernel], kernel), _run(kernels, kernel)
    for buffer in kernel.outputs:
        found, expected = (np.asarray(a[buffer.name], np.float64) for a in (have, want))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=buffer.name)


@pytest.mark.parametrize("name", ALL)
def test_collapsing_changes_nothing(name: str) -> None:
    kernel = ALL[name]
    collapsed = collapse_axes(kernel)
    assert prod(collapsed.sizes.values()) == prod(kernel.sizes.values())
    assert not any(a.size == 1 and not a.dynamic for a in collapsed.axes)
    _check([collapsed], kernel, 1e-4)


@pytest.mark.parametrize("name", ALL)
def test_shares_of_a_softmax_are_products(name: str) -> None:
    kernel = ALL[name]
    changed = with_shares_multiplied(kernel)
    assert (changed != kernel) == ("softmax" in name), name
    _check([changed], kernel, 1e-4)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("limits", [ChunkLimits(), SMALL], ids=["default", "small"])
def test_splitting_changes_nothing(name: str, limits: ChunkLimits) -> None:
    kernel = ALL[name]
    halves = any(buffer.dtype.is_half for buffer in kernel.buffers)
    parts = split_reductions(kernel, limits)
    _check(parts, kernel, 0.05 if halves else 2e-3)
    _check([collapse_axes(part) for part in parts], kernel, 0.05 if halves else 2e-3)


def test_contiguous_pointwise_kernels_become_one_dimensional() -> None:
    assert [(a.name, a.size) for a in collapse_axes(cases.chain((2, 3, 5, 7))).axes] == [("ijkl", 210)]


def test_a_transposed_result_is_walked_in_its_own_order() -> None:
    k = KernelBuilder("transposed", i=4, j=6)
    k.input("x", FLOAT32, (4, 6), (1, 4))
    k.output("result", FLOAT32, (4, 6), (1, 4))
    k.store("result", "ij", k.compute("neg", k.load("x", "ij")))
    collapsed = collapse_axes(k.build())
    assert [(a.name, a.size) for a in collapsed.axes] == [("ji", 24)]
    (load,) = (s for s in collapsed.body if isinstance(s, Load))
    assert load.index == axis("ji")


def test_broadcast_operands_and_strides_keep_axes_apart() -> None:
    assert [a.size for a in collapse_axes(cases.broadcast(37, 130)).axes] == [37, 130]


def test_axes_of_one_element_leave_reductions() -> None:
    k = KernelBuilder("of_one", i=5, j=(1, "reduction"))
    k.input("x", FLOAT32, (5, 1))
    k.output("sum", FLOAT32, (5,))
    k.output("at", INT64, (5,))
    x = k.load("x", "ij")
    k.store("sum", "i", k.reduce("sum", x, "j"))
    k.store("at", "i", k.reduce("argmax", x, "j"))
    collapsed = collapse_axes(k.build())
    assert not any(isinstance(s, Reduce) for s in collapsed.body)
    _check([collapsed], k.build(), 0)


def test_input_and_weight_gradients_come_from_one_pass() -> None:
    """The rows are read by one kernel; the finishing kernel reads partial results alone."""
    first, second = split_reductions(cases.layer_norm_backward(512, 768))
    assert [b.name for b in first.outputs] == ["grad_x", "partial_grad_weight", "partial_grad_bias"]
    assert [b.name for b in second.inputs] == ["partial_grad_weight", "partial_grad_bias"]
    assert [(a.name, a.size, a.role) for a in first.axes] == [
        ("c", 64, "parallel"),
        ("r", 8, "serial"),
        ("j", 768, "reduction"),
    ]


def test_partial_results_are_few() -> None:
    for rows in (1, 7, 64, 1000, 100_000):
        first = split_reductions(cases.layer_norm_backward(rows, 64))[0]
        partial = [b for b in first.buffers if b.name.startswith("partial")]
        assert all(b.shape[0] <= max(256, rows // 8) for b in partial)


def test_rows_that_do_not_fit_have_their_own_kernel() -> None:
    rows, *others = split_reductions(cases.cross_entropy(9, 20_001))
    assert [b.name for b in rows.outputs] == ["row_loss"]
    assert [b.name for b in others[0].inputs] == ["row_loss"]


def test_chunks_that_come_out_even_have_the_texts_of_others() -> None:
    """How many there are, how long they are and where the last one ends is passed."""
    texts = set()
    for rows in (512, 500, 4096, 70_001):
        kernels = split_reductions(cases.layer_norm_backward(rows, 64))
        assert len(kernels) == 2 and passed_sizes(kernels[0])["i"] == rows
        triton = tuple([emit_triton(k, choose_schedule(k)) for k in kernels])
        texts.add((triton, tuple([emit_function(k, k.name).text for k in kernels])))
    assert len(texts) == 1


def test_a_sum_of_everything_is_in_two_stages() -> None:
    first, second = split_reductions(cases.full_sum(1_000_000))
    (partial,) = first.outputs
    assert partial.shape == (123,)
    assert second.inputs == (Buffer("partial_total", FLOAT32, (123,), (1,)),)


def test_chunks_do_not_depend_on_anything_but_sizes() -> None:
    assert split_reductions(cases.full_sum(1_000_000)) == split_reductions(cases.full_sum(1_000_000))


def test_results_that_are_used_along_the_axis_are_refused() -> None:
    k = KernelBuilder("centered_columns", i=300, j=4)
    k.input("x", FLOAT32, (300, 4))
    k.output("result", FLOAT32, (300, 4))
    x = k.load("x", "ij")
    k.store("result", "ij", k.compute("sub", x, k.reduce("sum", x, "i")))
    with pytest.raises(Unsplittable, match="along that axis"):
        split_reductions(k.build())


def test_reductions_over_different_parallel_axes_are_refused() -> None:
    k = KernelBuilder("two_ways", i=300, j=400)
    k.input("x", FLOAT32, (300, 400))
    k.output("rows", FLOAT32, (300,))
    k.output("columns", FLOAT32, (400,))
    x = k.load("x", "ij")
    k.store("rows", "i", k.reduce("sum", x, "j"))
    k.store("columns", "j", k.reduce("sum", x, "i"))
    with pytest.raises(Unsplittable, match="different parallel axes"):
        split_reductions(k.build())


# --- roundings ---


def _rounded(stored: DType, rounded: DType) -> Kernel:
    """exp(x) rounded to a half and widened, stored in `stored`."""
    k = KernelBuilder("rounded", i=64)
    k.input("x", FLOAT32, (64,))
    k.output("result", stored, (64,))
    narrow = k.cast(k.compute("exp", k.load("x", "i")), rounded)
    k.store("result", "i", k.cast(narrow, FLOAT32))
    return k.build()


@pytest.mark.parametrize(
    ("stored", "rounded", "casts"),
    [(BFLOAT16, BFLOAT16, 0), (FLOAT32, BFLOAT16, 2), (FLOAT16, BFLOAT16, 2)],
    ids=["as stored", "stored wider", "stored otherwise"],
)
def test_roundings_that_a_store_does_are_left_to_it(stored: DType, rounded: DType, casts: int) -> None:
    kernel = _rounded(stored, rounded)
    changed = without_round_trips(kernel)
    assert sum(isinstance(s, Cast) for s in changed.body) == casts
    _check([changed], kernel, 0)


def test_a_widened_half_is_not_rounded_to_itself() -> None:
    k = KernelBuilder("copied", i=64)
    k.input("x", BFLOAT16, (64,))
    k.output("result", BFLOAT16, (64,))
    k.output("again", FLOAT32, (64,))
    narrow = k.cast(k.load("x", "i"), BFLOAT16)
    k.store("result", "i", narrow)
    k.store("again", "i", k.cast(narrow, FLOAT32))
    changed = without_round_trips(k.build())
    assert sum(isinstance(s, Cast) for s in changed.body) == 1
    _check([changed], k.build(), 0)


@pytest.mark.parametrize("name", ALL)
def test_dropping_roundings_changes_nothing(name: str) -> None:
    _check([without_round_trips(ALL[name])], ALL[name], 0)
