"""How a kernel is cut into programs and tiles: which axes go where, and the blocks' sizes.

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from .kernel import Axis, Compute, Definition, Kernel, Load, Reduce, Store
from .statements import used_names

WARP = 32
MAX_GRID_Y = 65535


@dataclass(frozen=True, slots=True)
class Schedule:
    """Base of all schedules: warps of a program, and stages of the software pipeline of its loop."""

    num_warps: int
    num_stages: int


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
    """`rows` points of the parallel axes × the reduction axes in blocks."""

    rows: int
    block: int
    outer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Serial(Schedule):
    """A loop over the serial axes in blocks of `rows`, × all points of the reduction axes, padded to `columns`.

    Of a kernel without reduction axes, `columns` are points of the parallel axes.
    """

    rows: int
    columns: int
    outer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The table that schedules are chosen by."""

    flat_block: int = 1024
    heavy: int = 40
    """Primitives of a pointwise kernel above which a thread has half as many elements, for it needs many registers."""
    tile: int = 1024
    """Elements that several short rows make up together."""
    elements_per_thread: int = 8
    accumulating: int = 4
    """The same of a thread that accumulates along rows of float32: with more, assemblers spill to fit more programs."""
    registers: int = 112
    """32-bit registers of a thread that tiles may take; the others are for addresses and temporaries."""
    full_registers: int = 104
    """The same where programs accumulate along rows of float32 beside what they compute."""
    half_registers: int = 128
    """The same along rows of halves, of which two share a register when loaded."""
    max_warps: int = 16
    row_block: int = 2048
    lanes: int = 64
    """Points of the parallel axes next to each other, where those have unit stride and what is reduced has not."""
    lane_block: int = 32
    serial_block: int = 16
    """Rows beside those lanes where more is done with them than reducing them."""
    transposed: int = 32
    """Side of a two-dimensional tile."""
    min_programs: int = 256
    """Short rows share a program only while so many programs remain."""


LIMITS = Limits()


def choose_schedule(kernel: Kernel, limits: Limits = LIMITS) -> Schedule:
    """The default schedule of a kernel whose axes are collapsed."""
    if kernel.with_role("serial"):
        return _serial(kernel, limits)
    if kernel.with_role("reduction"):
        return _row(kernel, limits)
    return _tiled(kernel, limits) or _flat(kernel, limits)


def candidates(kernel: Kernel, limits: Limits = LIMITS) -> list[Schedule]:
    """What tuning tries: the default schedule first, then others near it."""
    default = choose_schedule(kernel, limits)
    found = [default]
    for factor in (0.5, 1, 2):
        for warps in (0.5, 1, 2):
            changed = replace(_with_block(default, factor), num_warps=int(default.num_warps * warps))
            if changed not in found and 1 <= changed.num_warps <= limits.max_warps:
                found.append(changed)
    return found


def _with_block(schedule: Schedule, factor: float) -> Schedule:
    """The schedule with a block so much larger; what holds whole rows keeps its own."""
    match schedule:
        case Flat() | LoopedRow():
            return replace(schedule, block=max(int(schedule.block * factor), 1))
        case Tiled():
            return replace(schedule, rows=max(int(schedule.rows * factor), 1))
        case Row() | Serial():
            return replace(schedule, rows=max(int(schedule.rows * factor), 1))
    return schedule


def fits_in_registers(
    kernel: Kernel, columns: int, accumulated: Sequence[Reduce] = (), limits: Limits = LIMITS
) -> bool:
    """Whether one program can hold whole rows of so many points, padded, beside what it accumulates along them."""
    words = _words(kernel) + _sizes(accumulated)
    inner = {axis.name for axis in kernel.with_role("reduction")}
    halves = all(s.dtype.itemsize < 4 for s in kernel.body if isinstance(s, Load) and s.axes & inner)
    most = limits.registers
    if accumulated:
        most = limits.half_registers if halves else limits.full_registers
    return words * -(-next_power(columns) // (WARP * limits.max_warps)) <= most


def extent(axes: Iterable[Axis]) -> int:
    return prod(axis.size for axis in axes)


def next_power(number: int) -> int:
    """The least power of two that is not below; 1 for 0."""
    return 1 << max(number - 1, 0).bit_length()


def strides_along(kernel: Kernel, first: Iterable[Axis], second: Iterable[Axis]) -> tuple[int, int]:
    """The least distances between neighbours along one of each of two sets of axes, in what varies along both."""
    mine, others = [axis.name for axis in first], [axis.name for axis in second]
    found: tuple[list[int], list[int]] = ([], [])
    for statement in kernel.body:
        if isinstance(statement, Load | Store):
            here = [abs(statement.index.coefficient(name)) for name in mine]
            there = [abs(statement.index.coefficient(name)) for name in others]
            if any(here) and any(there):
                found[0].extend(stride for stride in here if stride)
                found[1].extend(stride for stride in there if stride)
    return min(found[0], default=0), min(found[1], default=0)


def is_across(kernel: Kernel, first: Iterable[Axis], second: Iterable[Axis]) -> bool:
    """Whether memory is walked without gaps along the first set of axes, and not along the second."""
    mine, others = strides_along(kernel, first, second)
    return 0 < mine < others


def _flat(kernel: Kernel, limits: Limits) -> Flat:
    points = next_power(extent(kernel.axes))
    warps = _warps(min(limits.flat_block, points), limits, most=4)
    is_heavy = sum(isinstance(statement, Compute) for statement in kernel.body) > limits.heavy
    return Flat(warps, 1, min(limits.flat_block // 2 if is_heavy else limits.flat_block, points))


def _tiled(kernel: Kernel, limits: Limits) -> Tiled | None:
    """A schedule for operands of which some are read along the last axis and some along another one."""
    axes = kernel.axes
    if len(axes) < 2 or any(axis.dynamic for axis in axes):
        return None
    last = axes[-1]
    across = {
        axis.name: axis
        for statement in kernel.body
        if isinstance(statement, Load | Store) and abs(statement.index.coefficient(last.name)) > 1
        for axis in axes[:-1]
        if abs(statement.index.coefficient(axis.name)) == 1
    }
    if len(across) != 1 or last.size < limits.transposed:
        return None
    (row_axis,) = across.values()
    outer = tuple(axis.name for axis in axes if axis not in (last, row_axis))
    programs = -(-row_axis.size // limits.transposed) * prod(kernel.axis(name).size for name in outer)
    if row_axis.size < limits.transposed or programs > MAX_GRID_Y:
        return None
    return Tiled(4, 1, row_axis.name, limits.transposed, limits.transposed, outer)


def _row(kernel: Kernel, limits: Limits) -> Row | LoopedRow:
    parallel, reduction = kernel.with_role("parallel"), kernel.with_role("reduction")
    lanes = _lanes(kernel)
    if lanes:
        return _column(kernel, lanes, limits)
    rows, columns = extent(parallel), next_power(extent(reduction))
    dynamic = any(axis.dynamic for axis in reduction)
    if dynamic or not fits_in_registers(kernel, columns, limits=limits):
        block = min(limits.row_block, max(columns, WARP))
        while block > 256 and (_words(kernel) + _accumulators(kernel)) * block // (WARP * 8) > limits.registers:
            block //= 2
        return LoopedRow(_warps(block, limits, most=8), 2, 1, block)
    together = max(1, min(limits.tile // columns, next_power(rows), next_power(rows // limits.min_programs)))
    return Row(_warps(together * columns, limits, _words(kernel)), 1, together, columns)


def _lanes(kernel: Kernel) -> tuple[Axis, ...]:
    """The parallel axes to lay lanes along; none where memory is walked without gaps along what is reduced."""
    parallel, reduction = kernel.with_role("parallel"), kernel.with_role("reduction")
    if not is_across(kernel, parallel, reduction):
        return ()
    mine, _ = strides_along(kernel, parallel, reduction)
    return tuple(axis for axis in parallel if strides_along(kernel, [axis], reduction)[0] == mine)


def _column(kernel: Kernel, lanes: tuple[Axis, ...], limits: Limits) -> Row | LoopedRow:
    """Lanes along parallel axes; what is reduced lies across them."""
    outer = tuple(axis.name for axis in kernel.with_role("parallel") if axis not in lanes)
    if prod(kernel.axis(name).size for name in outer) > MAX_GRID_Y:
        lanes, outer = kernel.with_role("parallel"), ()
    width = min(limits.lanes, next_power(extent(lanes)))
    deep = next_power(extent(kernel.with_role("reduction")))
    block = max(1, limits.lanes * limits.lane_block // width)
    words = _words(kernel) + _accumulators(kernel)
    while block > 1 and words * width * block // (WARP * 4) > limits.registers:
        block //= 2
    dynamic = any(axis.dynamic for axis in kernel.with_role("reduction"))
    if deep <= block and not dynamic:
        return Row(_warps(width * deep, limits, most=4), 1, width, deep, outer)
    return LoopedRow(_warps(width * block, limits, most=4), 2, width, block, outer)


def _serial(kernel: Kernel, limits: Limits) -> Serial:
    reduction = kernel.with_role("reduction")
    if not reduction:
        return _serial_lanes(kernel, limits)
    columns = next_power(extent(reduction))
    rows = max(1, min(limits.tile // columns, next_power(extent(kernel.with_role("serial")))))
    words = _words(kernel) + _accumulators(kernel)
    inner = {axis.name for axis in reduction}
    if any(s.dtype.itemsize >= 4 for s in kernel.body if isinstance(s, Load) and s.axes & inner):
        limits = replace(limits, elements_per_thread=limits.accumulating)
    return Serial(_warps(rows * columns, limits, words), 1, rows, columns)


def _serial_lanes(kernel: Kernel, limits: Limits) -> Serial:
    """Without reduction axes, lanes lie along whichever axes have the unit stride."""
    parallel, serial = kernel.with_role("parallel"), kernel.with_role("serial")
    points = next_power(extent(serial))
    if not is_across(kernel, parallel, serial):
        rows = min(limits.flat_block, points)
        return Serial(_warps(rows, limits, most=4), 2, rows, 1)
    mine, _ = strides_along(kernel, parallel, serial)
    lanes = tuple(axis for axis in parallel if strides_along(kernel, [axis], serial)[0] == mine)
    outer = tuple(axis.name for axis in parallel if axis not in lanes)
    width = min(limits.lanes, next_power(extent(lanes)))
    rows = min(max(1, limits.lanes * limits.serial_block // width), points)
    return Serial(_warps(width * rows, limits, most=4), 2, rows, width, outer)


def _warps(tile: int, limits: Limits, words: int = 1, most: int | None = None) -> int:
    """So many that no thread holds too much, and each has a few elements."""
    most = limits.max_warps if most is None else most
    warps = next_power(tile // (WARP * limits.elements_per_thread))
    while warps < most and words * tile // (WARP * warps) > limits.registers:
        warps *= 2
    return min(max(warps, 1), most)


def _words(kernel: Kernel) -> int:
    """32-bit words of one point's values that are alive at once, those which are not reduced yet."""
    inner = {axis.name for axis in kernel.axes if axis.role != "parallel"}
    last_use: dict[str, int] = {}
    for position, statement in enumerate(kernel.body):
        last_use.update(dict.fromkeys(used_names(statement), position))
    alive = most = 1
    ends: dict[int, int] = {}
    for position, statement in enumerate(kernel.body):
        if isinstance(statement, Definition) and statement.axes & inner and statement.name in last_use:
            size = -(-statement.dtype.itemsize // 4)
            alive += size
            ends[last_use[statement.name]] = ends.get(last_use[statement.name], 0) + size
        most = max(most, alive)
        alive -= ends.get(position, 0)
    return most


def _accumulators(kernel: Kernel) -> int:
    """32-bit words of a point's accumulators: of reductions over serial axes, or where there are none, of all."""
    serial = {axis.name for axis in kernel.with_role("serial")}
    return _sizes(s for s in kernel.body if isinstance(s, Reduce) and (s.over & serial or not serial))


def _sizes(reductions: Iterable[Reduce]) -> int:
    return sum(-(-reduction.dtype.itemsize // 4) for reduction in reductions)
