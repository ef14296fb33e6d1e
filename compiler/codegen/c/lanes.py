"""Loops in blocks of so many points, each of which has a lane of its own.

    float total_lanes[64] = {0};
    for (int64_t j_block = 0; j_block < 1000; j_block += 64) {
        const int j_rest = gs_least(64, 1000 - j_block);
        #pragma omp simd
        for (int j_lane = 0; j_lane < 64; ++j_lane) {
            const int64_t j = j_block + j_lane;
            const float x = j_lane < j_rest ? x_ptr[1000 * i + j] : 0.0f;
            total_lanes[j_lane] += j_lane < j_rest ? x * x : 0.0f;
        }
    }
    const float total = gs_lane_sum_f32(total_lanes, 64);

Of a block whose length is known a compiler makes straight code: several sums that do not wait for each other, and at
the end of a row one block with masks in place of a point at a time. What a sum is does not depend on whether the
length of a row is known when it is compiled, nor on how wide the machine is.
"""

from __future__ import annotations

from collections.abc import Collection

from ....lang.light_dataclasses import dataclass
from ...kernel_ir.kernel import Definition, Kernel, Load, Operand, Store
from ...kernel_ir.statements import used_names
from ...scheduling.nest import Accumulate, AxisLoop, Evaluate, Nest, Put
from ...scheduling.strides import next_power
from ...types.dtypes import FLOAT32, FLOAT64
from .uses import is_of_computed_index

LANES = 64
"""Points of a block: four registers of the widest kind, of numbers of four bytes."""
LEAST_LANES = 16
MOST_STATEMENTS = 32
"""Of a loop whose blocks become straight code with masks: compilers take ever longer over more of it. Of shorter blocks
as many more."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a loop goes in blocks: `sums` are those that each lane has of its own."""

    lanes: int
    sums: tuple[str, ...]
    is_whole: bool
    """Whether every block is."""
    has_masks: bool
    """Whether a block that is not whole is computed so, and its lanes told apart; else it is shorter."""
    has_lines: bool
    """Whether results go to memory block by block."""


def blocks_of(
    loop: AxisLoop,
    kernel: Kernel,
    nest: Nest,
    extent: int | None,
    is_row: bool,
    of_lines: int,
    placed: Collection[int] = (),
) -> Blocks | None:
    """None for a loop that is left as it is, as one of no points is, for which arrays have no room; `of_lines` are
    points of a block at most where results go by lines, 0 where they do not; `placed`, by their identity, loads and
    stores that go by an array.

    What is left of a row by registers counts where rows are short; `is_row` tells them from parts of many rows.
    """
    turns = [item.reduce for item in loop.body if isinstance(item, Accumulate) and item.reduce.name not in nest.arrays]
    if extent == 0 or any(isinstance(item, Evaluate) and is_of_computed_index(item.statement) for item in loop.body):
        return None
    sums = tuple(t.name for t in turns if t.combine == "sum" and t.dtype in (FLOAT32, FLOAT64))
    others = len(turns) - len(sums)
    if any(t.combine in ("sum", "prod") and t.dtype.is_floating and t.name not in sums for t in turns):
        # These have no lanes, and in a block of points other last bits than one by one.
        return None
    lanes = LANES if extent is None else lanes_of(extent)
    has_lines = of_lines > 0 and (not sums or lanes <= of_lines)
    lanes = min(lanes, of_lines) if has_lines else lanes
    is_whole = extent is not None and extent % lanes == 0
    is_brief = len(loop.body) <= MOST_STATEMENTS * LANES // lanes
    has_masks = is_brief and _has_one_size(loop, kernel, nest) and _has_neighbours(loop, placed)
    is_odd = has_masks and is_row and (extent is None or (extent <= LANES and extent % LEAST_LANES > 0))
    has_lines = has_lines and is_brief and (is_whole or has_masks)
    if others and (sums or extent is None or not is_odd):
        return None
    if not sums and not has_lines and not is_odd:
        return None
    return Blocks(lanes, sums, is_whole, has_masks, has_lines)


def lanes_of(extent: int) -> int:
    """Points of a block of a loop of so many."""
    return LANES if extent > LANES // 2 else max(next_power(extent), LEAST_LANES)


def _has_neighbours(loop: AxisLoop, placed: Collection[int]) -> bool:
    """Whether what a loop moves lies side by side along its axis: gcc has no masks for gaps, nor for what goes back."""
    moved = [item.statement for item in loop.body if isinstance(item, Evaluate | Put)]
    there = [s for s in moved if isinstance(s, Load | Store) and id(s) not in placed]
    indices = [statement.index for statement in there]
    return all(loop.axis not in index.axes or index.coefficient(loop.axis) == 1 for index in indices)


def _has_one_size(loop: AxisLoop, kernel: Kernel, nest: Nest) -> bool:
    """Whether the numbers that a loop reads and writes are of so many bytes that one mask is for all of them."""
    found: set[int] = set()
    for item in loop.body:
        names: list[str] = []
        if isinstance(item, Accumulate):
            names = [item.reduce.name, *_names(item.reduce.operand)]
        elif isinstance(item, Evaluate | Put):
            statement = item.statement
            names = used_names(statement)
            if isinstance(statement, Load | Store):
                found.add(kernel.buffer(statement.buffer).dtype.itemsize)
            if isinstance(statement, Definition):
                names = [*names, statement.name]
        kept = [nest.definitions[name].dtype for name in names if name in nest.arrays]
        found |= {4 if dtype.is_half else dtype.itemsize for dtype in kept}
    return found <= {4} or found <= {8}


def _names(operand: Operand) -> list[str]:
    return [operand] if isinstance(operand, str) else []
