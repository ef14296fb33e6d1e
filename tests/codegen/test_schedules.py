"""Which schedule a kernel gets, what it costs, and what loads give past the end of an axis."""

from __future__ import annotations

import kernel_cases as cases
import pytest
from gradscript.compiler.codegen.triton.module import Unsupported, constants, emit_triton, grid
from gradscript.compiler.kernel_ir.index import axis
from gradscript.compiler.kernel_ir.kernel import Kernel, Load, Reduce
from gradscript.compiler.scheduling.choose import candidates, choose_schedule
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.costs import bytes_read, bytes_written, flops
from gradscript.compiler.scheduling.limits import LIMITS
from gradscript.compiler.scheduling.padding import choose_others, needs_mask, outside
from gradscript.compiler.scheduling.schedule import Flat, LoopedRow, Row, Schedule, Serial, Tiled
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.compiler.scheduling.strides import next_power
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT64, DType
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
        (cases.softmax(64, 16384), Row(8, 1, 1, 16384)),
        (cases.softmax(64, 32768), Row(16, 1, 1, 32768)),
        (cases.softmax(64, 32769), LoopedRow(16, 2, 1, 8192, parts=4)),
        (cases.softmax(64, 32768, FLOAT64), LoopedRow(16, 2, 1, 8192, parts=8)),
        (cases.softmax(64, 32769, BFLOAT16), LoopedRow(16, 3, 1, 8192, parts=1)),
        (cases.logsumexp(64, 8192), Row(8, 1, 1, 8192)),
        (cases.logsumexp(64, 8193), LoopedRow(8, 3, 1, 4096, parts=4)),
        (cases.layer_norm(8, 100_000), LoopedRow(16, 2, 1, 4096)),
        (cases.softmax_columns(500, 130), LoopedRow(8, 1, 8, 512, parts=4)),
        (cases.softmax_columns(500, 130_000), LoopedRow(4, 4, 64, 32, parts=4)),
        (cases.softmax_columns(12, 130), Row(1, 1, 8, 16)),
        (cases.dynamic(cases.softmax(64, 500), "j"), LoopedRow(4, 4, 1, 1024, parts=2)),
        (cases.dynamic(cases.softmax(64, 500), "i"), Row(2, 1, 1, 512)),
    ],
)
def test_default_schedules(kernel: Kernel, expected: Schedule) -> None:
    assert choose_schedule(collapse_axes(kernel)) == expected


def test_chunks_are_walked_serially() -> None:
    first, last = map(collapse_axes, split_reductions(cases.layer_norm_backward(512, 768)))
    assert choose_schedule(first) == Serial(4, 4, 1, 1024, most_registers=128)
    assert choose_schedule(last) == LoopedRow(4, 3, 8, 256)
    assert grid(first, choose_schedule(first)) == (64, 1, 1)


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=str)
def test_wide_rows_are_walked_once(dtype: DType) -> None:
    """The input's gradient and partial sums come from one pass as long as registers hold the sums: beside a row, or a
    part of it."""
    schedules = {8192: Serial(16, 2, 1, 8192, most_registers=128)}
    schedules[11_008] = Serial(16, 1, 1, 2048, parts=8, most_registers=128)
    schedules[16_384] = Serial(16, 1, 1, 2048, parts=8, most_registers=128)
    for columns, schedule in schedules.items():
        first, last = map(collapse_axes, split_reductions(cases.layer_norm_backward(4096, columns, dtype)))
        assert choose_schedule(first) == schedule
        assert first.name.endswith("_partial") and last.name.endswith("_finish")
    for columns in (16_381, 32_768):
        rows, *_ = split_reductions(cases.layer_norm_backward(4096, columns, dtype))
        assert rows.name.endswith("_rows")


def test_a_loop_over_blocks_leaves_registers_beside_values_and_addresses() -> None:
    """Halves are widened where they are used, which takes more of them than float32 for as many bytes."""
    rows, *_ = split_reductions(cases.layer_norm_backward(4096, 20_001, BFLOAT16))
    assert choose_schedule(collapse_axes(rows)) == LoopedRow(16, 3, 1, 4096)


@pytest.mark.parametrize("columns", [16_384, 50_257])
def test_rows_that_leave_nothing_along_them_are_in_no_parts(columns: int) -> None:
    """A loop over blocks gives their sums, and what follows from those is reduced apart."""
    rows, across = map(collapse_axes, split_reductions(cases.cross_entropy(512, columns)))
    assert rows.name.endswith("_rows") and across.name.endswith("_across")
    assert isinstance(choose_schedule(rows), LoopedRow)


def test_chunks_are_many_as_far_as_their_results_are_few() -> None:
    """Of 12 bytes moved for an element of float32, 16 for each column of a chunk are a 32nd part at 43 rows."""
    programs = {
        rows: grid(first, choose_schedule(first))[0]
        for rows in (64, 512, 4096, 16_384, 65_536, 1_048_576)
        for first in [collapse_axes(split_reductions(cases.layer_norm_backward(rows, 1024))[0])]
    }
    assert programs == {64: 8, 512: 64, 4096: 256, 16_384: 256, 65_536: 512, 1_048_576: 512}


def test_numbers_of_rows_do_not_say_along_what_memory_is_walked() -> None:
    """A mean for each row lies along the rows; the rows' elements lie across them, and are read side by side."""
    k = KernelBuilder("weighted_columns", c=4, j=500, r=(128, "reduction"))
    k.input("x", FLOAT32, (4, 128, 500))
    k.input("mean", FLOAT32, (4, 128))
    k.output("result", FLOAT32, (4, 500))
    x = k.load("x", [axis("c"), axis("r"), axis("j")])
    product = k.compute("mul", x, k.load("mean", [axis("c"), axis("r")]))
    k.store("result", [axis("c"), axis("j")], k.reduce("sum", product, "r"))
    assert choose_schedule(k.build()) == Row(4, 1, 16, 128, ("c",))


def test_a_loop_fetches_no_more_than_shared_memory_holds() -> None:
    for rows, columns in ((4096, 1024), (4096, 4096), (4096, 8192)):
        for dtype in (FLOAT32, BFLOAT16):
            first = collapse_axes(split_reductions(cases.layer_norm_backward(rows, columns, dtype))[0])
            stages = choose_schedule(first).num_stages
            assert (
                LIMITS.in_flight <= (stages - 1) * 2 * columns * dtype.itemsize <= LIMITS.shared
                or stages == LIMITS.ahead + 1
            )


def test_random_numbers_do_not_take_the_registers_of_other_programs() -> None:
    k = KernelBuilder("dropped_norm", i=4096, j=(4096, "reduction"))
    k.input("x", FLOAT32, (4096, 4096))
    k.output("result", FLOAT32, (4096, 4096))
    drawn = k.compute("mul", k.load("x", "ij"), k.uniform("seed", axis("i") * 4096 + axis("j")))
    k.number("seed", INT64)
    k.store("result", "ij", k.compute("sub", drawn, k.reduce("max", drawn, "j")))
    assert choose_schedule(k.build()) == Row(8, 1, 1, 4096, most_registers=72)


@pytest.mark.parametrize("kernel", [case.kernel for group in cases.GROUPS.values() for case in group])
def test_candidates_are_distinct_and_begin_with_the_default(kernel: Kernel) -> None:
    for part in map(collapse_axes, split_reductions(kernel)):
        found = candidates(part)
        assert found[0] == choose_schedule(part)
        assert len(set(found)) == len(found)
        assert all(schedule.num_warps == next_power(schedule.num_warps) <= 16 for schedule in found)


@pytest.mark.parametrize(
    ("inputs", "dtype", "block"),
    [(1, FLOAT32, 1024), (1, BFLOAT16, 2048), (2, BFLOAT16, 1024), (4, FLOAT32, 512), (4, BFLOAT16, 1024)],
)
def test_a_block_is_as_many_bytes_as_keep_memory_busy(inputs: int, dtype: DType, block: int) -> None:
    k = KernelBuilder("summed", i=100_000)
    for number in range(inputs):
        k.input(f"x{number}", dtype, (100_000,))
    k.output("result", dtype, (100_000,))
    total = k.load("x0", "i")
    for number in range(1, inputs):
        total = k.compute("add", total, k.load(f"x{number}", "i"))
    k.store("result", "i", total)
    assert choose_schedule(k.build()) == Flat(4, 1, block)


def test_rows_of_halves_take_half_as_many_warps() -> None:
    for dtype, warps in ((FLOAT32, 8), (BFLOAT16, 4)):
        assert choose_schedule(collapse_axes(cases.softmax(4096, 4096, dtype))) == Row(warps, 1, 1, 4096)


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


@pytest.mark.parametrize(("columns", "block"), [(8192, None), (16_384, 4096), (32_768, 4096)])
def test_what_is_laborious_leaves_room(columns: int, block: int | None) -> None:
    """Many functions of a point, of which two numbers wait."""
    k = KernelBuilder("laborious", i=64, j=(columns, "reduction"))
    k.input("x", FLOAT32, (64, columns))
    k.input("y", FLOAT32, (64, columns))
    k.output("result", FLOAT32, (64, columns))
    left, right = k.load("x", "ij"), k.load("y", "ij")
    for primitive in ("sin", "exp", "cos", "tanh", "sin"):
        mixed = k.compute("mul", left, right)
        left = k.compute("add", k.compute(primitive, left), mixed)
        right = k.compute("sub", k.compute(primitive, right), mixed)
    total = k.reduce("sum", k.compute("mul", left, right), "j")
    k.store("result", "ij", k.compute("add", k.compute("mul", left, total), right))
    schedule = choose_schedule(k.build())
    if block is None:
        assert isinstance(schedule, Row)
    else:
        assert isinstance(schedule, LoopedRow)
        assert schedule.block == block


# --- what a schedule does not reach ---


def test_a_reduction_over_a_parallel_axis_is_refused() -> None:
    kernel = cases.column_sum(8, 8)
    with pytest.raises(Unsupported, match="split it first"):
        emit_triton(kernel, choose_schedule(kernel))


def test_a_tile_is_a_dimension_for_each_of_its_axes_and_no_loop_goes_over_it() -> None:
    k = KernelBuilder("partly", i=4, j=(5, "reduction"), k=(6, "reduction"))
    k.input("x", FLOAT32, (4, 5, 6))
    k.output("result", FLOAT32, (4,))
    some = k.reduce("max", k.load("x", "ijk"), "k")
    k.store("result", "i", k.reduce("sum", some, "j"))
    kernel = k.build()
    assert constants(kernel, choose_schedule(kernel)) == {"DEPTH": 8, "COLUMNS": 8}
    with pytest.raises(Unsupported, match="some of the axes of one dimension"):
        emit_triton(kernel, LoopedRow(4, 1, 1, 16))


@pytest.mark.parametrize(("columns", "rows", "stages"), [(61, 8, 3), (64, 16, 4)])
def test_a_laborious_program_takes_fewer_rows_that_end_within_its_columns(columns: int, rows: int, stages: int) -> None:
    k = KernelBuilder("laborious", i=(4096, "serial"), j=(columns, "reduction"))
    k.input("x", FLOAT32, (4096, columns))
    k.input("y", FLOAT32, (4096, columns))
    k.output("result", FLOAT32, ())
    left, right = k.load("x", "ij"), k.load("y", "ij")
    for primitive in ("sin", "exp", "cos", "tanh", "sin", "exp", "cos"):
        left, right = k.compute("add", k.compute(primitive, left), right), k.compute(primitive, right)
    total = k.compute("mul", k.reduce("sum", left, "j"), k.reduce("sum", right, "j"))
    k.store("result", "", k.reduce("sum", total, "i"))
    schedule = choose_schedule(k.build())
    assert isinstance(schedule, Serial)
    assert (schedule.rows, schedule.num_stages) == (rows, stages)
