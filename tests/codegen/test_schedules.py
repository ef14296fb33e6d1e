"""Which schedule a kernel gets, what it costs, and what loads give past the end of an axis."""

from __future__ import annotations

import kernel_cases as cases
import pytest
from gradscript.compiler.codegen.triton import Unsupported, emit_triton, grid
from gradscript.compiler.dtypes import FLOAT32, FLOAT64
from gradscript.compiler.fusion.collapse import collapse_axes
from gradscript.compiler.fusion.costs import bytes_read, bytes_written, flops
from gradscript.compiler.fusion.kernel import Kernel, Load, Reduce
from gradscript.compiler.fusion.padding import choose_others, needs_mask, outside
from gradscript.compiler.fusion.schedule import (
    Flat,
    LoopedRow,
    Row,
    Schedule,
    Serial,
    Tiled,
    candidates,
    choose_schedule,
    next_power,
)
from gradscript.compiler.fusion.split import split_reductions
from kernel_building import KernelBuilder


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (cases.chain((64, 1000)), Flat(4, 1, 1024)),
        (cases.chain((3, 5)), Flat(1, 1, 16)),
        (cases.scalar(), Flat(1, 1, 1)),
        (cases.transposed(100, 130), Tiled(4, 1, "i", 32, 32)),
        (cases.softmax(256, 1000), Row(4, 1, 1, 1024)),
        (cases.softmax(4096, 61), Row(4, 1, 16, 64)),
        (cases.softmax(64, 16384), Row(16, 1, 1, 16384)),
        (cases.softmax(64, 16385), LoopedRow(8, 2, 1, 2048)),
        (cases.softmax(64, 16384, FLOAT64), LoopedRow(8, 2, 1, 2048)),
        (cases.softmax_columns(500, 130), LoopedRow(4, 2, 64, 32)),
        (cases.softmax_columns(12, 130), Row(4, 1, 64, 16)),
        (cases.dynamic(cases.softmax(64, 500), "j"), LoopedRow(2, 2, 1, 512)),
        (cases.dynamic(cases.softmax(64, 500), "i"), Row(2, 1, 1, 512)),
    ],
)
def test_default_schedules(kernel: Kernel, expected: Schedule) -> None:
    assert choose_schedule(collapse_axes(kernel)) == expected


def test_chunks_are_walked_serially() -> None:
    first, last = map(collapse_axes, split_reductions(cases.layer_norm_backward(512, 768)))
    assert choose_schedule(first) == Serial(8, 1, 1, 1024)
    assert choose_schedule(last) == LoopedRow(4, 2, 64, 32)
    assert grid(first, choose_schedule(first)) == (64, 1, 1)


@pytest.mark.parametrize("kernel", [case.kernel for group in cases.GROUPS.values() for case in group])
def test_candidates_are_distinct_and_begin_with_the_default(kernel: Kernel) -> None:
    for part in map(collapse_axes, split_reductions(kernel)):
        found = candidates(part)
        assert found[0] == choose_schedule(part)
        assert len(set(found)) == len(found)
        assert all(schedule.num_warps == next_power(schedule.num_warps) <= 16 for schedule in found)


def test_nothing_is_launched_for_no_elements() -> None:
    kernel = collapse_axes(cases.chain((0, 3)))
    assert 0 in grid(kernel, choose_schedule(kernel))


def test_costs_count_distinct_elements_once() -> None:
    kernel = cases.layer_norm(256, 768)
    assert bytes_read(kernel) == 4 * (256 * 768 + 768 + 768)
    assert bytes_written(kernel) == 4 * (256 * 768 + 256 + 256)
    expanded = cases.broadcast(10, 20)
    assert bytes_read(expanded) == 4 * (200 + 20 + 10)
    assert flops(expanded) == 2 * 200


def test_a_reduction_costs_one_operation_for_each_element() -> None:
    assert flops(cases.column_sum(30, 7)) == 210


# --- past the end ---


def _masked(kernel: Kernel) -> list[str]:
    """The reductions that have to be masked."""
    axes = frozenset(a.name for a in kernel.with_role("reduction"))
    body = choose_others(kernel.body, [axes])
    known = outside(body, axes)
    return [s.combine for s in body if isinstance(s, Reduce) and needs_mask(s, known)]


def test_loads_give_what_reductions_do_not_see() -> None:
    """-inf for a softmax masks its sum too; 0 masks a mean, but not what is centered."""
    assert _masked(cases.softmax()) == []
    assert _masked(cases.layer_norm()) == ["sum"]
    assert _masked(cases.full_sum()) == []
    assert _masked(cases.argmax()) == []


def test_loads_give_the_number_that_masks_most() -> None:
    loads = [s.other for s in choose_others(cases.softmax().body, [frozenset("j")]) if isinstance(s, Load)]
    assert loads == [float("-inf")]


def test_a_product_with_what_may_be_infinite_is_masked() -> None:
    """0 times infinity is NaN, so a row's 0 outside does not save a sum of products with a row-wise number."""
    k = KernelBuilder("scaled_sum", i=4, j=(5, "reduction"))
    k.input("x", FLOAT32, (4, 5))
    k.input("scale", FLOAT32, (4,))
    k.output("result", FLOAT32, (4,))
    k.store("result", "i", k.reduce("sum", k.compute("mul", k.load("x", "ij"), k.load("scale", "i")), "j"))
    assert _masked(k.build()) == ["sum"]


# --- what a schedule does not reach ---


def test_a_reduction_over_a_parallel_axis_is_refused() -> None:
    kernel = cases.column_sum(8, 8)
    with pytest.raises(Unsupported, match="split it first"):
        emit_triton(kernel, choose_schedule(kernel))


def test_a_reduction_over_some_of_the_axes_of_a_row_is_refused() -> None:
    k = KernelBuilder("partly", i=4, j=(5, "reduction"), k=(6, "reduction"))
    k.input("x", FLOAT32, (4, 5, 6))
    k.output("result", FLOAT32, (4,))
    some = k.reduce("max", k.load("x", "ijk"), "k")
    k.store("result", "i", k.reduce("sum", some, "j"))
    with pytest.raises(Unsupported, match="some of the axes of one dimension"):
        emit_triton(k.build(), choose_schedule(k.build()))
