"""The table that schedules are chosen by; what it holds was timed on a GPU, by `benchmarks/schedules.py`."""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The table that schedules are chosen by."""

    flat_block: int = 1024
    heavy: int = 40
    """Primitives of a pointwise kernel above which a thread has half as many elements, for it needs many registers;
    above twice as many, a quarter."""
    busy: int = 20
    """Those above which programs have half the threads, and as many elements for each."""
    function: int = 3
    """What a function such as `exp` counts for among them."""
    least_read: int = 4096
    """Bytes that a program reads at least, where nothing else speaks for fewer points."""
    most_read: int = 16_384
    """Bytes from which on it rather has half as many points."""
    tile: int = 1024
    """Elements that several short rows make up together."""
    elements_per_thread: int = 8
    registers: int = 104
    """32-bit registers of a thread that values may take."""
    held_registers: int = 88
    """The same of a whole row, which comes from memory by registers: what is walked comes by way of shared memory."""
    many_points: int = 64
    """Points of a row for each thread, of which assemblers take many at once."""
    crowded: int = 24
    crowded_halves: int = 16
    """Primitives of such a point, functions counted several times, above which a row is not held; the same where
    halves, once they are widened, take more registers than there are."""
    laborious: int = 40
    """Primitives of any point, functions counted several times, above which
    points that wait leave a sixth of the room, and no row is held of which each thread has `many_points // 2`."""
    addressing: int = 40
    """Registers beside them, for addresses and temporaries."""
    all_registers: int = 215
    """Those that values may take where few warps leave a thread all that it can have."""
    most_registers: int = 128
    """Those of a thread where `few_warps` are to leave room for another program."""
    drawing: int = 72
    """The same at least where random numbers are drawn."""
    few_warps: int = 8
    """Warps beyond which a thread rather has more elements, for then two programs and more run beside each other."""
    max_warps: int = 16
    in_flight: int = 32_768
    """Bytes that a program's loop should have on their way while it computes."""
    shared: int = 98_304
    """Bytes of shared memory that they may take, less than what one program may have on any device."""
    ahead: int = 3
    """Turns of a loop to fetch ahead at most."""
    held: int = 8192
    """Points of a row that are held in registers though one loop over them would do."""
    row_block: int = 2048
    """Points of a long row that are taken at once at least, and four times as many at most; registers allowing."""
    turn: int = 16_384
    """Bytes of such a block where more points are better."""
    lanes: int = 64
    """Points of the parallel axes next to each other, where those have unit stride and what is reduced has not."""
    segment: int = 32
    """Bytes that are worth loading from one place: where programs are few, they have no more lanes than these."""
    lane_programs: int = 128
    """Programs that are not few."""
    lane_block: int = 32
    serial_block: int = 32
    """Rows beside those lanes where more is done with them than reducing them."""
    transposed: int = 32
    """Side of a two-dimensional tile."""
    min_programs: int = 256
    """Short rows share a program only while so many programs remain."""


LIMITS = Limits()
