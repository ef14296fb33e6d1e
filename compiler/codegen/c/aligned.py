"""Operands that each row reads again, where no line of memory begins with them: a copy that one begins with.

    float weight_line[1024] __attribute__((aligned(64)));
    const float *restrict weight_ptr = gs_aligned(buffers[1], weight_line, 4096, end - begin > 2);

A register of the widest kind is as long as a line of memory, and one that lies in two is read twice: NumPy's arrays
begin anywhere at 16 bytes, and backwards of layer norms whose weight alone did so took 1.3 times as long.
"""

from __future__ import annotations

from ...kernel_ir.in_place import shares_memory
from ...kernel_ir.index import axis as along
from ...kernel_ir.kernel import Buffer, Kernel, Load
from ...scheduling.cpu import CpuSchedule
from .positions import CPositions

MOST = 1 << 14
"""Bytes of all operands of a kernel that are copied where they do not lie so."""
LINE = 64


def read_by_each_row(kernel: Kernel, schedule: CpuSchedule, positions: CPositions) -> dict[str, int]:
    """The operands of which each row reads the same, each once along it, and how many points these are."""
    if not schedule.loops or positions.has_any_size or len(schedule.loops) + len(schedule.programs) < 2:
        return {}
    axis = schedule.loops[-1]
    end = positions.end_of(axis)
    if schedule.block_of(axis) or not end.isdigit():
        return {}
    index = along(axis)
    loads = [statement for statement in kernel.body if isinstance(statement, Load)]
    left = MOST
    found: dict[str, int] = {}
    for buffer in kernel.buffers:
        of_it = [load for load in loads if load.buffer == buffer.name]
        is_alike = bool(of_it) and all(load.index == index and not load.conditions for load in of_it)
        if is_alike and LINE <= _bytes(buffer, end) <= left and not shares_memory(kernel, buffer):
            left -= _bytes(buffer, end)
            found[buffer.name] = int(end)
    return found


def _bytes(buffer: Buffer, points: str) -> int:
    return buffer.dtype.itemsize * int(points)
