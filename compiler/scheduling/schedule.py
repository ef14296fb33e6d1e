"""How a kernel is cut into programs and tiles: which axes go where, and the sizes of blocks. `choose` takes one.

    Flat        every axis parallel: programs over the flattened points
    Tiled       every axis parallel, and two of them unit strides of different operands: two-dimensional tiles
    Row         a whole row in registers, or several short ones: reductions at once
    LoopedRow   a row in blocks, once for each reduction that needs the one before
    Serial      programs walk a serial axis and accumulate; along its rows they reduce at once

Axes of one dimension of a tile are flattened, outermost first. The parallel axes in `outer` are flattened into the
second dimension of the grid, so that the first has the lanes alone. Blocks are powers of two, and so are warps. A
schedule follows from the kernel alone, never from the device, so results are the same everywhere.
"""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass, field

WARP = 32
MAX_GRID_Y = 65535


@dataclass(frozen=True, slots=True)
class Schedule:
    """Base of all schedules: warps of a program, stages of the software pipeline of its loop, registers of a thread."""

    num_warps: int
    num_stages: int
    most_registers: int = field(default=255, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Flat(Schedule):
    """One program for each `block` points of the flattened axes."""

    block: int


@dataclass(frozen=True, slots=True)
class Tiled(Schedule):
    """One program for each tile of `rows` × `columns` points: the last axis lies along columns, `row_axis` along rows.

    Other axes, `outer`, take the second dimension of the grid together with the tiles along rows.
    """

    row_axis: str
    rows: int
    columns: int
    outer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row(Schedule):
    """`rows` points of the parallel axes × all points of the reduction axes, padded to `columns`."""

    rows: int
    columns: int
    outer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopedRow(Schedule):
    """`rows` points of the parallel axes × the reduction axes in blocks.

    Where sums are rescaled, a block is in so many `parts`, of which each thread holds the same points.
    """

    rows: int
    block: int
    outer: tuple[str, ...] = ()
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Serial(Schedule):
    """A loop over the serial axes in blocks of `rows`, × all points of the reduction axes, padded to `columns`.

    Of a kernel without reduction axes, `columns` are points of the parallel axes. Rows are taken in so many `parts`, of
    `columns` points each.
    """

    rows: int
    columns: int
    outer: tuple[str, ...] = ()
    parts: int = 1
