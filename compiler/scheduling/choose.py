"""The schedule of a kernel, by the table of limits: what was timed on a GPU decides, and no device is asked.

Memory answers after some 700 ns, so what keeps a multiprocessor busy is on its way meanwhile: 32 KB and more. Where a
program has one tile, the others on the same multiprocessor see to that, as many as registers allow; a loop has its next
turns fetched into shared memory while it computes the present one.

The size of a dynamic axis is in no text, and blocks along it are as large for a few points as for many: what is built
for one size serves others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...lang.light_dataclasses import replace
from ..kernel_ir.kernel import Axis, Compute, Kernel, Load, Reduce, Statement, Store, Uniform
from ..kernel_ir.queries import statement_axes
from ..kernel_ir.statements import slice_of, used_names
from ..ops.scalar import PRIMITIVES
from .limits import LIMITS, Limits
from .order import DRAWING
from .phases import is_read_once, online_sums
from .pressure import accumulated_words, bytes_fetched, loaded_words, words_alive, words_held
from .row_parts import parts_of_rows
from .schedule import MAX_GRID_Y, WARP, Flat, LoopedRow, Row, Schedule, Serial, Tiled
from .strides import axes_across, extent, next_power, power_of_four, side_by_side
from .tiles import held_points, is_tiled

WIDE_LOAD = 16
"""Bytes that a thread loads at once."""


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
        case Flat():
            return replace(schedule, block=max(int(schedule.block * factor), 1))
        case LoopedRow():
            block = max(int(schedule.block * factor), 1)
            return replace(schedule, block=block, parts=min(schedule.parts, block))
        case Tiled():
            return replace(schedule, rows=max(int(schedule.rows * factor), 1))
        case Row() | Serial(parts=1):
            return replace(schedule, rows=max(int(schedule.rows * factor), 1))
    return schedule


def fits_in_registers(kernel: Kernel, columns: int, limits: Limits = LIMITS) -> bool:
    """Whether one program can hold rows of so many points, padded, beside what it accumulates along them: all of a row,
    or a part at a time where it walks several."""
    return _holds_whole(kernel, columns, limits) or _parts_of_rows(kernel, limits) > 1


def _holds_whole(kernel: Kernel, columns: int, limits: Limits) -> bool:
    each = -(-next_power(columns) // (WARP * limits.max_warps))
    if is_tiled(kernel) and not kernel.with_role("serial"):
        return words_alive(kernel, at_least=True, each=each) * each <= room_of_tile(next_power(columns), limits)[1]
    if each >= limits.many_points and _is_crowded(kernel, columns, each, limits):
        return False
    is_walked = bool(kernel.with_role("serial"))
    if not is_walked and each >= limits.many_points // 2 and _work(kernel, limits) > limits.laborious:
        return False
    is_shared = is_walked and not _is_beyond_shared(kernel, next_power(columns), limits)
    return _held_words(kernel, next_power(columns), limits, at_least=True) * each <= (
        limits.registers if is_shared else limits.held_registers
    )


def _is_crowded(kernel: Kernel, columns: int, each: int, limits: Limits) -> bool:
    """Whether assemblers would not do with the registers that there are, as they take many points of a thread at once:
    they widen halves when they are loaded, and functions want registers for several points."""
    words = words_alive(kernel, widened=True)
    if kernel.with_role("serial"):
        is_shared = not _is_beyond_shared(kernel, next_power(columns), limits)
        return not is_shared and max(words, loaded_words(kernel, widened=True)) * each > limits.held_registers
    if words_held(kernel) * each > limits.held_registers:
        return True
    most = limits.crowded if words * each <= limits.held_registers else limits.crowded_halves
    return _work(kernel, limits) > most


def room_of_tile(points: int, limits: Limits = LIMITS) -> tuple[int, int]:
    """Points of a tile for each thread of the largest program, and 32-bit registers that their values may take: all of
    a thread's, where few warps do."""
    room = limits.all_registers if points <= WARP * limits.few_warps else limits.held_registers
    return -(-points // (WARP * limits.max_warps)), room


def _parts_of_rows(kernel: Kernel, limits: Limits) -> int:
    """In how many parts a program takes rows that it walks and cannot hold; 1 where that does not help either."""
    return parts_of_rows(kernel, WARP * limits.max_warps, limits)


def _held_words(kernel: Kernel, tile: int, limits: Limits, *, at_least: bool = False) -> float:
    """32-bit words of one point of a tile that are alive at once, with what shared memory has no room for."""
    words = words_alive(kernel, at_least=at_least)
    return max(words, loaded_words(kernel, at_least=at_least)) if _is_beyond_shared(kernel, tile, limits) else words


def _is_beyond_shared(kernel: Kernel, tile: int, limits: Limits) -> bool:
    """Whether a tile that is fetched while another is computed does not fit into shared memory."""
    return tile * bytes_fetched(kernel, _names(kernel.with_role("serial"))) > limits.shared


def _flat(kernel: Kernel, limits: Limits) -> Flat:
    work = _work(kernel, limits)
    # Where arithmetic takes the time that memory leaves, small programs make way for each other sooner.
    share = 2 if work > limits.busy else 1
    warps = _warps(_room(kernel.axes, limits.flat_block // share), limits, most=4 // share)
    return Flat(warps, 1, _room(kernel.axes, _flat_block(kernel, work, limits) // share))


def _work(kernel: Kernel, limits: Limits) -> int:
    """Primitives of a point, functions counted several times."""
    computed = [PRIMITIVES[s.primitive].floating for s in kernel.body if isinstance(s, Compute) and s.axes]
    return sum(limits.function if is_function else 1 for is_function in computed)


def _flat_block(kernel: Kernel, work: int, limits: Limits) -> int:
    """Points of a program: enough for what it reads to keep memory busy, and no more than registers hold."""
    read = sum(_moved(kernel, Load).values()) * limits.flat_block
    if work > 2 * limits.heavy:
        return limits.flat_block // 4
    if work > limits.heavy or read >= limits.most_read:
        return limits.flat_block // 2
    return limits.flat_block * 2 if read < limits.least_read else limits.flat_block


def _is_of_halves(kernel: Kernel) -> bool:
    """Whether what is moved for each point has two bytes: a thread takes twice as many for as much memory."""
    return max(_moved(kernel, Load, Store).values(), default=0) == 2


def _moved(kernel: Kernel, *kinds: type[Statement]) -> dict[str, int]:
    """Bytes of an element of each buffer that is read or written at every point, by its name."""
    everywhere, axes_of = _names(kernel.axes), statement_axes(kernel)
    return {
        s.buffer: kernel.buffer(s.buffer).dtype.itemsize
        for s in kernel.body
        if isinstance(s, Load | Store) and isinstance(s, kinds) and axes_of(s) >= everywhere
    }


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
    lanes = axes_across(kernel, parallel, reduction)
    if lanes:
        return _column(kernel, lanes, limits)
    rows, columns, tiled = extent(parallel), held_points(kernel), is_tiled(kernel)
    dynamic = any(axis.dynamic for axis in reduction)
    streams = columns > limits.held and (_is_read_once(kernel) or not _reduces_loads(kernel))
    if not tiled and (dynamic or streams or not fits_in_registers(kernel, columns, limits)):
        return _looped(kernel, columns, limits)
    together = power_of_four(rows // limits.min_programs, limits.tile // columns)
    words = words_alive(kernel)
    together = max(together, _across_memory(kernel, parallel, columns, limits))
    limits = _for_elements(kernel, limits)
    while together > 1 and tiled and words * together * columns > limits.registers * WARP * limits.max_warps:
        together //= 4
    warps = _warps(together * columns, limits, words)
    if tiled and words > limits.held_registers:
        # More threads than points have no less each, and fewer registers.
        warps = max(min(warps, together * columns // WARP), 1)
    if not _draws(kernel):
        return Row(warps, 1, together, columns)
    # Assemblers draw numbers for all elements at once where they may, and fewer programs run.
    taken = (words - DRAWING) * together * columns / (WARP * warps)
    return Row(warps, 1, together, columns, most_registers=max(limits.drawing, limits.addressing + 8 + int(taken)))


def _across_memory(kernel: Kernel, rows: Sequence[Axis], columns: int, limits: Limits) -> int:
    """How many rows that lie across memory a program takes, to read neighbours together, registers allowing."""
    together, most = side_by_side(kernel, rows, limits.segment), limits.registers * WARP * limits.max_warps
    while together > 1 and _held_words(kernel, together * columns, limits) * together * columns > most:
        together //= 2
    return together


def _for_elements(kernel: Kernel, limits: Limits) -> Limits:
    """The table for what a thread makes of an element: half as many where each is drawn, twice as many of halves."""
    each = limits.elements_per_thread
    if _draws(kernel):
        return replace(limits, elements_per_thread=each // 2)
    if _is_of_halves(kernel):
        return replace(limits, elements_per_thread=2 * each, few_warps=limits.few_warps // 2)
    return limits


def _draws(kernel: Kernel) -> bool:
    return any(isinstance(statement, Uniform) for statement in kernel.body)


def _looped(kernel: Kernel, columns: int, limits: Limits) -> LoopedRow:
    reduction = kernel.with_role("reduction")
    points, most = _block(kernel, limits)
    least = limits.tile if any(axis.dynamic for axis in reduction) else WARP
    block = min(points, max(columns, least))
    # As many warps as there may be have no more registers than values and addresses take: Triton 3.6 spills the last.
    registers = limits.held_registers - 1 if most == limits.max_warps else limits.registers
    if most == limits.max_warps and _work(kernel, limits) > limits.laborious:
        registers = registers * 5 // 6
    while block > 256 and _looped_words(kernel) * block // (WARP * most) > registers:
        block //= 2
    warps = max(min(next_power(block // (WARP * limits.elements_per_thread)), most), 1)
    stages = _stages(kernel, reduction, block, limits, block)
    return LoopedRow(warps, stages, 1, block, parts=_parts(kernel, block, warps))


def _block(kernel: Kernel, limits: Limits) -> tuple[int, int]:
    """Points of a long row that are taken at once, registers allowing, and warps that do it.

    Where a row is read again, few programs run, so that a cache of 40 MB still has their rows. Where exponentials are
    rescaled, blocks are long, for once in each is enough.
    """
    if not _is_read_once(kernel):
        return 4 * limits.row_block, limits.max_warps
    if not _is_rescaled(kernel):
        return limits.row_block, limits.few_warps
    fitting = limits.turn // max(int(bytes_fetched(kernel, _names(kernel.with_role("reduction")))), 1)
    warps = _for_elements(kernel, limits).few_warps
    points = min(max(next_power(fitting // 2 + 1), limits.row_block), 4 * limits.row_block)
    return max(points * warps // limits.few_warps, limits.row_block), warps


def _names(axes: Iterable[Axis]) -> frozenset[str]:
    return frozenset(axis.name for axis in axes)


def _is_rescaled(kernel: Kernel) -> bool:
    """Whether sums of exponentials along a row are rescaled as its maximum is found."""
    return bool(online_sums(kernel.body, _names(kernel.with_role("reduction"))))


def _is_read_once(kernel: Kernel) -> bool:
    """Whether one loop over a row does: nothing along it is needed again once it is reduced."""
    return is_read_once(kernel.body, _names(kernel.with_role("reduction")))


def _reduces_loads(kernel: Kernel) -> bool:
    """Whether reductions of a row need memory along it: what follows from positions alone costs nothing to repeat."""
    along = _names(kernel.with_role("reduction"))
    reduced = [name for s in kernel.body if isinstance(s, Reduce) and s.over & along for name in used_names(s)]
    return any(isinstance(s, Load) and s.axes & along for s in slice_of(kernel.body, reduced))


def _parts(kernel: Kernel, tile: int, warps: int) -> int:
    """How often a thread loads 16 bytes for a tile of which it rescales sums; twice as many of halves."""
    if not _is_rescaled(kernel):
        return 1
    along = _names(kernel.with_role("reduction"))
    narrowest = min((s.dtype.itemsize for s in kernel.body if isinstance(s, Load) and s.axes & along), default=4)
    loaded = 2 * WIDE_LOAD if _is_of_halves(kernel) else WIDE_LOAD
    return max(tile * narrowest // (loaded * WARP * warps), 1)


def _column(kernel: Kernel, lanes: tuple[Axis, ...], limits: Limits) -> Row | LoopedRow:
    """Lanes along parallel axes; what is reduced lies across them."""
    outer = tuple(axis.name for axis in kernel.with_role("parallel") if axis not in lanes)
    if prod(kernel.axis(name).size for name in outer) > MAX_GRID_Y:
        lanes, outer = kernel.with_role("parallel"), ()
    width = _width(kernel, lanes, limits)
    deep, tiled = held_points(kernel), is_tiled(kernel)
    block = _rows_of_column(kernel, width, limits.lanes * limits.lane_block, 4, limits.registers)
    dynamic = any(axis.dynamic for axis in kernel.with_role("reduction"))
    if (deep <= block or tiled) and not dynamic:
        if tiled:
            width = max(1, min(width, limits.tile // deep))
        return Row(_warps(width * deep, limits, most=4), 1, width, deep, outer)
    most = 4
    if not _is_read_once(kernel):
        # Programs of columns that are read again are as few as are let be, and each has twice as much on its way; the
        # addresses of several loops take as many registers as values.
        most = 8 if width < limits.lanes else 4
        points = limits.lanes * limits.lane_block * most // 4
        block = _rows_of_column(kernel, width, points, most, limits.held_registers // 2)
    stages = _stages(kernel, kernel.with_role("reduction"), width * block, limits, block)
    warps = _warps(width * block, limits, most=most)
    return LoopedRow(warps, stages, width, block, outer, min(_parts(kernel, width * block, warps), block))


def _rows_of_column(kernel: Kernel, width: int, points: int, warps: int, registers: int) -> int:
    """Rows of a block of columns that a program takes at once: so many points at most, registers allowing."""
    block = max(1, points // width)
    while block > 1 and _looped_words(kernel) * width * block // (WARP * warps) > registers:
        block //= 2
    return block


def _width(kernel: Kernel, lanes: tuple[Axis, ...], limits: Limits) -> int:
    """Lanes of a program that reduces across them: fewer than there may be where that makes more programs."""
    narrowest = min((b.dtype.itemsize for b in kernel.inputs), default=limits.segment)
    spread = next_power(extent(kernel.with_role("parallel")) // limits.lane_programs)
    return min(_room(lanes, limits.lanes), max(spread, limits.segment // narrowest))


def _serial(kernel: Kernel, limits: Limits) -> Serial:
    reduction, serial = kernel.with_role("reduction"), kernel.with_role("serial")
    if not reduction:
        return _serial_lanes(kernel, limits)
    columns, steps = held_points(kernel), _room(serial, limits.tile)
    parts = 1 if _holds_whole(kernel, columns, limits) else _parts_of_rows(kernel, limits)
    if parts > 1:
        columns = next_power(reduction[0].size // parts)
        return Serial(limits.max_warps, 1, 1, columns, parts=parts, most_registers=limits.most_registers)
    turning = replace(limits, registers=limits.held_registers // 2)  # What is read across is there twice.
    across = min(_across_memory(kernel, serial, columns, turning), steps)
    rows = max(1, min(limits.tile // columns, steps), across)
    limits = turning if across > 1 else limits
    stages = _stages(kernel, serial, rows * columns, limits, rows)
    if _draws(kernel):
        # Drawing takes longer than memory: more turns ahead would only take scalar registers for their masks.
        limits, stages = _for_elements(kernel, limits), min(stages, 2)
    warps = _warps(rows * columns, limits, _held_words(kernel, rows * columns, limits))
    if columns > extent(reduction) and _work(kernel, limits) > limits.laborious:
        # The masks of what is beyond a row's end take registers in every stage.
        rows, stages = -(-rows // 2), min(stages, 3)
    return Serial(warps, stages, rows, columns, most_registers=limits.most_registers)


def _serial_lanes(kernel: Kernel, limits: Limits) -> Serial:
    """Without reduction axes, lanes lie along whichever axes have the unit stride."""
    parallel, serial = kernel.with_role("parallel"), kernel.with_role("serial")
    points = _room(serial, limits.flat_block)
    lanes = axes_across(kernel, parallel, serial)
    if not lanes:
        return Serial(_warps(points, limits, most=4), _stages(kernel, serial, points, limits, points), points, 1)
    outer = tuple(axis.name for axis in parallel if axis not in lanes)
    width = _room(lanes, limits.lanes)
    rows = min(max(1, limits.lanes * limits.serial_block // width), points)
    stages = _stages(kernel, serial, width * rows, limits, rows)
    return Serial(_warps(width * rows, limits, most=limits.few_warps), stages, rows, width, outer)


def _room(axes: Sequence[Axis], block: int) -> int:
    """Points of a block along axes, `block` at most: so many where sizes are in no text."""
    return block if any(axis.dynamic for axis in axes) else min(block, next_power(extent(axes)))


def _stages(kernel: Kernel, along: Sequence[Axis], tile: int, limits: Limits, step: int) -> int:
    """Stages of the pipeline of a loop along axes, by steps of so many points, which loads a tile in each turn.

    The present turn is one, and each that is fetched meanwhile is another.
    """
    fetched = int(tile * bytes_fetched(kernel, _names(along)))
    if not fetched:
        return 1
    ahead = min(-(-limits.in_flight // fetched), limits.shared // fetched, limits.ahead)
    if not any(axis.dynamic for axis in along):
        ahead = min(ahead, -(-extent(along) // step) - 1)
    return 1 + max(ahead, 0)


def _warps(tile: int, limits: Limits, words: float = 1, most: int | None = None) -> int:
    """So many that no thread holds too much, and each has a few elements."""
    most = limits.max_warps if most is None else most
    warps = min(next_power(tile // (WARP * limits.elements_per_thread)), limits.few_warps)
    while warps < most and words * tile // (WARP * warps) > limits.registers:
        warps *= 2
    return min(max(warps, 1), most)


def _looped_words(kernel: Kernel) -> float:
    """32-bit words of one point of a looped kernel's tile: what waits, what is fetched, what is accumulated."""
    accumulated = 0 if _is_rescaled(kernel) else accumulated_words(kernel)
    return words_alive(kernel) + loaded_words(kernel) + accumulated
