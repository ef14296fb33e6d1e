"""How a kernel is cut up for processors: programs, which threads share out, and the loops of each.

    pointwise        programs of a block of the last axis; of operands that lie across each other, two-dimensional tiles
    rows             a program per row, which stays in the cache while loop after loop goes over it
    columns          a program per block of neighbouring columns; loops over what is reduced, columns side by side
    partial sums     a program per chunk of rows, which accumulates along them

What a program does never depends on how many threads there are, so results are the same for any number of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from math import prod

from ...lang.light_dataclasses import dataclass, replace
from ..kernel_ir.index import Index
from ..kernel_ir.kernel import (
    Axis,
    Compute,
    Condition,
    Kernel,
    KernelConstant,
    Load,
    Operand,
    Position,
    Statement,
    Store,
)
from ..kernel_ir.statements import conditions, with_axes_found, with_operands, without_unused
from ..types.open_sizes import greatest, is_open, least
from .split import ChunkLimits, split_reductions
from .strides import axes_across, extent, is_across, next_power

BLOCK = 8192
"""Points of a pointwise program: enough for a loop, few enough for all threads to have some."""
LANES = 256
"""Columns that are reduced side by side."""
WALKED = 4096
"""Columns that are accumulated side by side while whole rows are read."""
TILE, ACROSS = 64, 128
"""Sides of a tile of operands that lie across each other: a row of each is some lines of memory, all of them stay in
the second cache. The side along those that lie across is longer, for each of its rows is a page of its own."""
MOST_KEPT = 1 << 18
"""Bytes of an array of what would else be computed again along a row: no more than the second cache holds."""
MOST_ACCUMULATED = 1 << 21
"""Bytes of what is accumulated along rows."""
LONG, LONG_ROWS = 1 << 14, 32
"""Points of a long row, and rows of that length at least of which chunks are enough for the threads."""

CHUNKS = ChunkLimits(
    programs=32,
    side_by_side=32,
    walking=32,
    rows=8,
    share=16,
    lanes=LANES,
    column_rows=64,
    elements=1 << 16,
    most=64,
    in_turn=256,
    whole_columns=0,
    few_rows=16,
    turns=False,
    parts_apart=True,
    joined=3,
    large=4096,
)
"""Chunks enough for the threads of a processor. They follow from sizes alone, and so do the sums."""


@dataclass(frozen=True, slots=True)
class ProgramAxis:
    """An axis along which programs stand: one for each point, or for each `block` of them."""

    axis: str
    block: int = 0


@dataclass(frozen=True, slots=True)
class CpuSchedule:
    """Programs, outermost first, and the axes through which each of them loops: those of blocks, and others whole."""

    programs: tuple[ProgramAxis, ...]
    loops: tuple[str, ...]

    def block_of(self, axis: str) -> int:
        """Points of a block of an axis; 0 where it is not cut."""
        return next((p.block for p in self.programs if p.axis == axis), 0)


def _fits_in_cache(kernel: Kernel, columns: int) -> bool:
    """Whether programs may accumulate along rows of so many points: not if these are long and give few chunks."""
    is_few = columns > LONG and prod(a.size for a in kernel.with_role("serial")) < LONG_ROWS
    return columns * 8 <= MOST_ACCUMULATED and not is_few


split_for_cpu = partial(split_reductions, limits=CHUNKS, fits=_fits_in_cache)
"""The kernels to run in place of one that reduces over what several programs have."""


def choose_cpu_schedule(kernel: Kernel) -> CpuSchedule:
    """The schedule of a kernel whose axes are collapsed."""
    parallel, reduction, serial = (kernel.with_role(role) for role in ("parallel", "reduction", "serial"))
    if serial and not reduction and parallel and is_across(kernel, parallel[-1:], serial):
        return _columns(parallel[:-1], parallel[-1:], serial, WALKED)
    if serial:
        return _rows(parallel, (*serial, *reduction))
    if not reduction:
        return _pointwise(kernel, parallel)
    lanes = axes_across(kernel, parallel, reduction)
    if lanes:
        return _columns(tuple(a for a in parallel if a not in lanes), lanes, reduction, LANES)
    return _rows(parallel, reduction)


def _rows(parallel: tuple[Axis, ...], loops: tuple[Axis, ...]) -> CpuSchedule:
    return CpuSchedule(tuple(ProgramAxis(a.name) for a in parallel), tuple(a.name for a in loops))


def _columns(outer: tuple[Axis, ...], lanes: tuple[Axis, ...], loops: tuple[Axis, ...], most: int) -> CpuSchedule:
    *before, last = lanes
    programs = [ProgramAxis(a.name) for a in (*outer, *before)]
    return CpuSchedule((*programs, ProgramAxis(last.name, most)), (*(a.name for a in loops), last.name))


def _pointwise(kernel: Kernel, axes: tuple[Axis, ...]) -> CpuSchedule:
    if not axes:
        return CpuSchedule((), ())
    *outer, last = axes
    across = _axis_across(kernel)
    if across is not None:
        others = tuple(ProgramAxis(a.name) for a in outer if a != across)
        tiles = ProgramAxis(across.name, ACROSS), ProgramAxis(last.name, TILE)
        # Results are best written in whole lines: to turn what is read over costs less than to scatter them.
        inner = max(across, last, key=lambda axis: _moves_along(kernel, axis))
        return CpuSchedule((*others, *tiles), (last.name if inner is across else across.name, inner.name))
    if not outer or last.size > BLOCK:
        return CpuSchedule((*(ProgramAxis(a.name) for a in outer), ProgramAxis(last.name, BLOCK)), (last.name,))
    rows = greatest(1, BLOCK // greatest(last.size, 1))
    *before, row = outer
    if not is_open(rows) and rows == 1:
        return CpuSchedule(tuple(ProgramAxis(a.name) for a in outer), (last.name,))
    return CpuSchedule((*(ProgramAxis(a.name) for a in before), ProgramAxis(row.name, rows)), (row.name, last.name))


def _axis_across(kernel: Kernel) -> Axis | None:
    """The axis along which some operand has neighbours, where the last axis, for it, has gaps."""
    *others, last = kernel.axes
    found = [
        axis
        for axis in others
        if any(
            isinstance(s, Load | Store)
            and abs(s.index.coefficient(last.name)) > 1
            and abs(s.index.coefficient(axis.name)) == 1
            for s in kernel.body
        )
        and axis.size >= TILE // 2
    ]
    return found[0] if len(found) == 1 and last.size >= TILE // 2 else None


def _moves_along(kernel: Kernel, axis: Axis) -> tuple[int, int]:
    """How many results, and then how many operands, have neighbours along an axis."""
    along = [s for s in kernel.body if isinstance(s, Load | Store) and abs(s.index.coefficient(axis.name)) == 1]
    results = sum(isinstance(s, Store) for s in along)
    return results, len(along) - results


def program_counts(kernel: Kernel, schedule: CpuSchedule) -> list[int]:
    """How many programs stand along each axis."""
    sizes = kernel.sizes
    return [-(-sizes[p.axis] // p.block) if p.block else sizes[p.axis] for p in schedule.programs]


def points_of_program(kernel: Kernel, schedule: CpuSchedule) -> int:
    """Points that one program goes through."""
    sizes = kernel.sizes
    return prod(least(schedule.block_of(name) or sizes[name], sizes[name]) for name in schedule.loops)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A kernel whose last chunks are short: `ends` holds, for an axis, what its points have to fulfil."""

    kernel: Kernel
    ends: dict[str, Condition]


def bounded(kernel: Kernel) -> Bounded:
    """The kernel with loops that end where chunks do, in place of conditions for each element of them."""
    ends: dict[str, Condition] = {}
    found: dict[Condition, str] = {}
    walked = {a.name: a for a in kernel.axes if a.role != "parallel"}
    for statement in kernel.body:
        for condition in conditions(statement):
            name = _chunk_of(condition, walked, kernel)
            if name is not None and ends.setdefault(name, condition) == condition:
                found[condition] = name
    if not all(_is_within(s, ends, found) for s in kernel.body):
        return Bounded(kernel, {})
    return Bounded(kernel.with_body(_within_ends(kernel.body, found)), ends)


def _chunk_of(condition: Condition, walked: dict[str, Axis], kernel: Kernel) -> str | None:
    """The axis of a chunk that a condition `0 <= length * chunk + step < size` is about: behind its end there is
    nothing, as behind that of a window, `0 <= i + k < 7`, there may be what is padded."""
    if not condition.size_of or condition.index.constant:
        return None
    names = [name for name in walked if condition.index.coefficient(name) == 1]
    low, _ = condition.index.range(kernel.sizes)
    if len(names) != 1 or condition.low > low or not condition.index.is_affine() or len(condition.index.terms) != 2:
        return None
    return names[0]


def _is_within(statement: Statement, ends: dict[str, Condition], found: dict[Condition, str]) -> bool:
    """Whether a statement that walks along a short axis says itself that it ends there."""
    if not isinstance(statement, Load | Store):
        return True
    walks = {name for name in ends if statement.index.coefficient(name) or name in statement.index.axes}
    return walks <= {found[c] for c in statement.conditions if c in found}


def _within_ends(body: Iterable[Statement], found: Collection[Condition]) -> list[Statement]:
    """The body where these conditions hold at each point."""
    positions: dict[Operand, Index] = {}
    holding: set[Operand] = set()
    chosen: dict[str, Operand] = {}
    kept: list[Statement] = []
    for statement in body:
        statement = with_operands(statement, chosen)
        match statement:
            case Load() | Store():
                statement = replace(statement, conditions=tuple(c for c in statement.conditions if c not in found))
            case Position():
                positions[statement.name] = statement.index
            case Compute(primitive="lt", operands=(left, KernelConstant(value=high))) if left in positions:
                holds = any(c.index == positions[left] and c.high == high for c in found)
                holding |= {statement.name} if holds else set()
            case Compute(primitive="where", operands=(condition, value, _)) if condition in holding:
                chosen[statement.name] = value
                continue
        kept.append(statement)
    return without_unused(with_axes_found(kept))


__all__ = [
    "MOST_KEPT",
    "Bounded",
    "CpuSchedule",
    "ProgramAxis",
    "bounded",
    "choose_cpu_schedule",
    "extent",
    "next_power",
    "points_of_program",
    "program_counts",
    "split_for_cpu",
]
