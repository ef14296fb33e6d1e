"""What lies across a kernel's loops, laid side by side before they go through it, as often as a line of memory asks.

    for (i …) {
        if (i == begin || i % 32 == 0) {                      two lines of memory hold elements of 32 rows
            const int64_t i_far = gs_least(i - i % 32 + 32, size_i);
            gs_turn_over_32(x_rows + 1088 * (i % 32), 1088, x_ptr + i, size_i, 1024, i_far - i);
        }
        for (j …) … x_rows[1088 * (i % 32) + j] …
    }

Row by row each line would be asked for as often as it has rows; and where a power of two lies between neighbours, all
lines of a row have places in a few sets of a cache, which then keeps none of them. So it is with tiles of operands that
lie across each other: each row of a tile is read, or written, at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...kernel_ir.in_place import shares_memory
from ...kernel_ir.kernel import Kernel, Load, Store
from ...scheduling.cpu import CpuSchedule
from ...scheduling.nest import AxisLoop, Evaluate, Item, items_of
from ..naming import Names
from .expressions import INDENT
from .positions import CPositions
from .primitives import STORED
from .turning import SIZES

ROOM = 64
"""Points behind each row: the widest vector of bytes. And rows a power of two apart would have one place in a cache."""
RUN = 128
"""Bytes of a row of neighbours in memory that are read at once: two lines, which processors ask for together."""
MOST = 1 << 21
"""Bytes of the rows that share lines; longer ones are read as they lie."""
SHORTEST = 16
"""Points of a row that is worth it."""
TILES = 8
"""Tiles of one kernel that are laid side by side."""


class Gathers:
    """Those of one kernel. `passed` are the variables of buffers, `elements` those that stand for loads and stores."""

    def __init__(
        self,
        kernel: Kernel,
        positions: CPositions,
        names: Names,
        passed: Mapping[str, str],
        elements: dict[int, str],
    ) -> None:
        self._kernel = kernel
        self._positions = positions
        self._names = names
        self._passed = passed
        self._elements = elements
        self.placed: set[int] = set()
        """Loads and stores that go by an array now: one with room for a whole vector behind each row."""
        self.arrays: list[tuple[str, str, int]] = []
        """Of scratch memory: type, name and bytes."""
        self.helpers: dict[str, None] = {}

    def rows(self, items: Sequence[Item], turn: str, end: str, begins: str = "") -> list[str]:
        """Lines at the top of a turn along an axis, which goes on to `end`; `begins` says whether it is the first."""
        found: dict[tuple[str, object, str], list[Load]] = {}
        for loop in items:
            if isinstance(loop, AxisLoop) and loop.is_innermost:
                read = [item.statement for item in loop.body if isinstance(item, Evaluate)]
                for load in read:
                    if isinstance(load, Load) and self._lies_across(load, turn, loop.axis):
                        found.setdefault((load.buffer, load.index, loop.axis), []).append(load)
        if not found:
            return []
        row = self._positions.axes[turn]
        near, far = self._names.take(f"{row}_near"), self._names.take(f"{row}_far")
        lines: list[str] = []
        for (_, _, axis), (load, *others) in found.items():
            lines += self._filled(load, (turn, near, far, end), axis)
            self._elements |= {id(other): self._elements[id(load)] for other in others}
            self.placed |= {id(other) for other in (load, *others)}
        self._names.release(near)
        self._names.release(far)
        return [line.replace("@begins", begins) for line in lines]

    def leave(self, items: Sequence[Item]) -> None:
        """Behind a turn: what is read elsewhere is so where it lies."""
        for item in items_of(items):
            if isinstance(item, Evaluate) and id(item.statement) in self.placed:
                self.placed.discard(id(item.statement))
                self._elements.pop(id(item.statement), None)

    def _lies_across(self, load: Load, turn: str, axis: str) -> bool:
        """Whether a row has gaps, in which the elements of the next rows lie."""
        index = load.index
        if load.conditions or not index.is_affine() or self._is_written(load.buffer) or self._positions.has_any_size:
            return False
        if index.coefficient(turn) != 1 or not abs(index.coefficient(axis)) > 1 or id(load) in self._elements:
            return False
        points = self._positions.known_extent_of(axis)
        return points is not None and points >= SHORTEST and (points + ROOM) * RUN <= MOST

    def _is_written(self, buffer: str) -> bool:
        found = self._kernel.buffer(buffer)
        return found.is_output or shares_memory(self._kernel, found)

    def _filled(self, load: Load, ends: tuple[str, str, str, str], axis: str) -> list[str]:
        turn, near, far, end = ends
        buffer = self._kernel.buffer(load.buffer)
        rows, points = RUN // buffer.dtype.itemsize, self._positions.known_extent_of(axis)
        assert points is not None
        length = points + ROOM
        array = self._array(load.buffer, "rows", rows * length)
        row, position = self._positions.axes[turn], self._positions.axes[axis]
        first, stop = self._positions.first_of(axis), self._positions.end_of(axis)
        at = position if first == "0" else f"{position} - {first}"
        self._elements[id(load)] = f"{array}[{length} * ({row} % {rows}) + {at}]"
        self.helpers["gs_least"] = None
        helper = self._helper(load.buffer)
        if helper:
            start = self._positions.text_at(load.index, {axis: first})
            to, of = f"{array} + {length} * ({row} % {rows})", f"{self._passed[load.buffer]} + {start}"
            step, count = self._positions.step(load.index, axis), stop if first == "0" else f"{stop} - {first}"
            moved = [f"{helper}({to}, {length}, {of}, {step}, {count}, {far} - {row});"]
        else:
            there = self._positions.text_at(load.index, {turn: near})
            moved = [
                f"for (int64_t {position} = {first}; {position} < {stop}; ++{position})",
                f"{INDENT}for (int64_t {near} = {row}; {near} < {far}; ++{near})",
                f"{INDENT * 2}{array}[{length} * ({near} % {rows}) + {at}] = {self._passed[load.buffer]}[{there}];",
            ]
        return [
            f"if (@begins{row} % {rows} == 0) {{",
            f"{INDENT}const int64_t {far} = gs_least({row} - {row} % {rows} + {rows}, {end});",
            *(INDENT + line for line in moved),
            "}",
        ]

    def _helper(self, buffer: str) -> str:
        """The function that turns elements of a buffer over; nothing where it goes one by one."""
        size = self._kernel.buffer(buffer).dtype.itemsize
        name = f"gs_turn_over_{8 * size}" if size in SIZES else ""
        self.helpers |= {name: None} if name else {}
        return name

    def tiles(self, schedule: CpuSchedule) -> tuple[list[str], list[str]]:
        """The lines before and behind the loops of a tile whose sides both are blocks."""
        if len(schedule.loops) != 2 or not all(schedule.block_of(axis) for axis in schedule.loops):
            return [], []
        outer, inner = schedule.loops
        before: list[str] = []
        behind: list[str] = []
        moved = [s for s in self._kernel.body if isinstance(s, Load | Store) and self._is_turned(s, outer, inner)]
        for statement in moved[:TILES]:
            (before if isinstance(statement, Load) else behind).extend(self._turned(statement, schedule))
        return before, behind

    def _is_turned(self, statement: Load | Store, outer: str, inner: str) -> bool:
        """Whether a load or a store has its neighbours along the outer loop of a tile."""
        index = statement.index
        if statement.conditions or not index.is_affine() or self._positions.has_any_size:
            return False
        if isinstance(statement, Load) and self._is_written(statement.buffer):
            return False
        return index.coefficient(outer) == 1 and abs(index.coefficient(inner)) > 1

    def _turned(self, statement: Load | Store, schedule: CpuSchedule) -> list[str]:
        """The loop that moves a tile to where the inner loop has neighbours, or from there."""
        outer, inner = schedule.loops
        side = schedule.block_of(inner)
        array = self._array(statement.buffer, "tile", side * schedule.block_of(outer))
        (one, one_first, one_end), (other, other_first, other_end) = (
            (self._positions.axes[axis], self._positions.first_of(axis), self._positions.end_of(axis))
            for axis in (outer, inner)
        )
        here = f"{array}[{side} * ({one} - {one_first}) + {other} - {other_first}]"
        self._elements[id(statement)] = here
        self.placed.add(id(statement))
        helper = self._helper(statement.buffer)
        if helper:
            start = self._positions.text_at(statement.index, {outer: one_first, inner: other_first})
            there, step = f"{self._passed[statement.buffer]} + {start}", self._positions.step(statement.index, inner)
            ones, others = f"{one_end} - {one_first}", f"{other_end} - {other_first}"
            if isinstance(statement, Load):
                return [f"{helper}({array}, {side}, {there}, {step}, {others}, {ones});"]
            return [f"{helper}({there}, {step}, {array}, {side}, {ones}, {others});"]
        there = f"{self._passed[statement.buffer]}[{self._positions.text(statement.index, {}).text}]"
        to, of = (here, there) if isinstance(statement, Load) else (there, here)
        return [
            f"for (int64_t {other} = {other_first}; {other} < {other_end}; ++{other})",
            f"{INDENT}for (int64_t {one} = {one_first}; {one} < {one_end}; ++{one})",
            f"{INDENT * 2}{to} = {of};",
        ]

    def _array(self, buffer: str, what: str, points: int) -> str:
        name = self._names.take(f"{buffer}_{what}")
        dtype = self._kernel.buffer(buffer).dtype
        self.arrays.append((STORED[dtype], name, points * dtype.itemsize))
        return name
