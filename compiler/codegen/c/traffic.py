"""Memory's side of a kernel's loops: rows are asked for before they are needed, and large results go past the caches.

    gs_fetch(x_ptr + 1024 * i_next, 4096);                    the next row, while this one is gone through twice
    for (…) {
        float *restrict y_here = is_large ? y_strip : y_ptr + 1024 * i;
        for (…) y_here[j] = …;                                a strip that stays in the first cache
        if (is_large) gs_stream(y_ptr + 1024 * i, y_strip, 4096);
    }

In a loop that goes by blocks (`lanes.py`) that is so block by block, where rows begin at lines of memory:

    gs_fetch(x_ptr + 1024 * i_next + j_block, 256);           the same block of the next row, or one further on in this
    float y_line[64];
    for (…) y_line[j_lane] = …;                               a block that stays in registers
    gs_put(y_ptr + 1024 * i + j_block, y_line, 256, 256, is_large);

A store to memory reads what is there first, unless a whole line is written at once: of a result that no cache holds
that is a third of all traffic. Which results are large is told by sizes, when the kernel runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ....lang.light_dataclasses import dataclass
from ...kernel_ir.index import AxisAtom
from ...kernel_ir.kernel import Compute, Kernel, Load, Store, Uniform
from ...scheduling.nest import CHEAP, AxisLoop, Evaluate, Item, Put
from ...types.open_sizes import is_open
from ..naming import Names
from .lanes import LANES, LEAST_LANES, Blocks
from .positions import CPositions
from .primitives import STORED

QUICK = CHEAP | {"div", "sqrt", "rsqrt"}
LARGE = 1 << 22
"""Bytes from which on a result goes past the caches: of less, the next kernel finds some in them."""
STRIP = 1024
"""Elements that are put together before they go to memory."""
LINE = 64
"""Bytes of a line of memory."""
SHORTEST = 512
"""Bytes that are worth going there by themselves."""
FUNCTIONS = 1
"""Mathematical functions of a loop that takes no longer than memory does."""
SIDE_BY_SIDE = 2
"""The same of one whose blocks stay in registers: those of four are computed side by side. Of more a block is one."""
STRIPS, LINES = 4, 8
"""Results of one loop that have a strip each, and those of one whose blocks are a register."""
AHEAD = 2048
"""Bytes beyond a block that are asked for while it is computed."""
FEW = 3
"""Buffers for which a processor keeps that many; of more half as much is asked for."""
LONGEST_ROW = 1 << 16
"""Bytes of a row that is asked for as a whole; of longer ones the processor notices by itself what comes next."""


@dataclass(frozen=True, slots=True)
class Line:
    """A store whose results go to memory block by block, from an array of its own."""

    store: Store
    array: str
    pointer: str
    is_large: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A store by way of an array of its own: of where the loop writes, and where that goes."""

    store: Store
    array: str
    here: str
    pointer: str
    is_large: str
    elements: int


class Traffic:
    """What the loops of one kernel have of it. `passed` are the variables of buffers."""

    def __init__(self, kernel: Kernel, positions: CPositions, names: Names, passed: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._positions = positions
        self._names = names
        self._passed = passed
        self._parts = Counter(s.buffer for s in kernel.body if isinstance(s, Store))
        self._large: dict[str, str] = {}
        self._strips: list[Strip] = []
        self._has_lines = False
        self._fetched: dict[int, list[tuple[Load, dict[str, str]]]] = {}
        self._first: dict[str, int] = {}
        self.helpers: dict[str, None] = {}
        self.length = STRIP
        """Elements of a strip at most."""

    def declared(self) -> list[str]:
        """Lines before the programs: which results are large, and the arrays of strips."""
        lines = [f"const bool {variable} = GS_STREAMS && {test};" for test, variable in self._large.items()]
        for strip in self._strips:
            type = STORED[self._kernel.buffer(strip.store.buffer).dtype]
            lines.append(f"{type} {strip.array}[{strip.elements}] __attribute__((aligned(64)));")
        return lines

    def ended(self) -> list[str]:
        """Lines behind the programs: what went past the caches is in memory."""
        return ["gs_stream_end();"] if self._strips or self._has_lines else []

    # --- results ---

    def strips(self, loop: AxisLoop) -> list[Strip]:
        """Those of an innermost loop whose points are computed side by side."""
        found = self._stores(loop, STRIPS) if _functions(loop) <= FUNCTIONS else []
        made = [self._strip(store, loop.axis) for store in found if not self._is_short(store, loop.axis)]
        self._strips += made
        if made:
            self.helpers |= {"gs_stream": None}
        return made

    def _stores(self, loop: AxisLoop, most: int) -> list[Store]:
        """The stores of a loop to results that may be large; none where there are too many."""
        puts = [item.statement for item in loop.body if isinstance(item, Put)]
        found = [store for store in puts if self._goes(store, loop.axis)]
        return found if len(found) <= most else []

    def _goes(self, store: Store, axis: str) -> bool:
        """Whether a store writes neighbours one after the other, to a result that may be large.

        What does not vary along all axes is a sum, which is less than what was read for it.
        """
        if store.conditions or not store.index.is_affine() or store.index.coefficient(axis) != 1:
            return False
        if store.index.axes != self._kernel.sizes.keys():
            return False
        sizes, known = self._sizes(store)
        return bool(sizes) or self._bytes(store.buffer, known * self._parts[store.buffer]) >= LARGE

    def _is_short(self, store: Store, axis: str) -> bool:
        extent = self._positions.known_extent_of(axis)
        return extent is not None and self._bytes(store.buffer, extent) < SHORTEST

    def _sizes(self, store: Store) -> tuple[list[str], int]:
        """How many elements a store writes: sizes that are passed, and the product of the others."""
        sizes, known = [], 1
        for axis in sorted(store.index.axes):
            size = self._positions.size_of(axis)
            if size.isdigit():
                known *= int(size)
            else:
                sizes.append(size)
        return sizes, known

    def _strip(self, store: Store, axis: str) -> Strip:
        buffer = self._kernel.buffer(store.buffer)
        test = self._test(store)
        if self._positions.known_extent_of(axis) is None:
            test += f" && {self._positions.size_of(axis)} >= {SHORTEST // buffer.dtype.itemsize}"
        return Strip(
            store,
            self._names.take(f"{buffer.name}_strip"),
            self._names.take(f"{buffer.name}_here"),
            self._passed[buffer.name],
            self._told_large(test),
            min(self._positions.known_extent_of(axis) or self.length, self.length),
        )

    def _test(self, store: Store) -> str:
        """Whether what stores write in all to a result is large, each as much as this one."""
        sizes, known = self._sizes(store)
        return f"{' * '.join([str(self._bytes(store.buffer, known * self._parts[store.buffer])), *sizes])} >= {LARGE}"

    def _told_large(self, test: str) -> str:
        """The variable that holds a test."""
        if test not in self._large:
            self._large[test] = self._names.take("is_large")
        return self._large[test]

    def needs_several(self, axis: str) -> bool:
        """Whether a loop along an axis is longer than a strip."""
        extent = self._positions.known_extent_of(axis)
        return extent is None or extent > self.length

    def in_strips(self, axis: str, strips: Sequence[Strip], loop: Sequence[str], first: str, end: str) -> list[str]:
        """The lines of a loop from `first` to `end`, each strip of which goes to memory once it is whole."""
        before, after = [], []
        for strip in strips:
            buffer = self._kernel.buffer(strip.store.buffer)
            type, alone = STORED[buffer.dtype], "" if buffer.place_of else "restrict "
            start = self._positions.text_at(strip.store.index, {axis: first})
            there = f"{strip.pointer} + {start}"
            before.append(f"{type} *{alone}{strip.here} = {strip.is_large} ? {strip.array} : {there};")
            count = end if first == "0" else f"({end} - {first})"
            after.append(f"if ({strip.is_large}) gs_stream({there}, {strip.array}, sizeof({type}) * {count});")
        return [*before, *loop, *after]

    def lanes_of_lines(self, loop: AxisLoop) -> int:
        """Points of a block at most by whose whole lines what a loop stores may go to memory; 0 where it may not."""
        lanes = LANES if _functions(loop) <= SIDE_BY_SIDE else LEAST_LANES
        found = self._stores(loop, STRIPS if lanes == LANES else LINES)
        return lanes if found and all(self._is_aligned(store, loop.axis, lanes) for store in found) else 0

    def _is_aligned(self, store: Store, axis: str, lanes: int) -> bool:
        """Whether rows and blocks begin where lines of memory do, if their result does, whatever sizes are passed."""
        size = self._kernel.buffer(store.buffer).dtype.itemsize
        extent = self._positions.known_extent_of(axis)
        others = [c for atom, c in self._positions.steps(store.index).items() if atom != AxisAtom(axis)]
        if is_open(store.index.constant) or any(map(is_open, others)):
            return False
        starts = [*others, store.index.constant, lanes if extent is None else min(extent, lanes)]
        return all(start * size % LINE == 0 for start in starts)

    def lines(self, loop: AxisLoop, lanes: int) -> list[Line]:
        """The stores of a loop by way of lines."""
        found: list[Line] = []
        for store in self._stores(loop, LINES):
            pointer = self._passed[store.buffer]
            large = f"{self._test(store)} && (uintptr_t){pointer} % {LINE} == 0"
            array = self._names.take(f"{store.buffer}_line")
            found.append(Line(store, array, pointer, self._told_large(large)))
        self._has_lines = True
        self.helpers |= {"gs_stream": None, "gs_put": None}
        return found

    def in_lines(
        self, written: Sequence[Line], loop: Sequence[str], axis: str, block: str, rest: str, lanes: int
    ) -> list[str]:
        """The lines of text of one block, whose results go to memory behind it; "" is the only one."""
        before, after = [], []
        for line in written:
            type = STORED[self._kernel.buffer(line.store.buffer).dtype]
            start = self._positions.text_at(line.store.index, {axis: block or "0"})
            before.append(f"{type} {line.array}[{lanes}] __attribute__((aligned(64)));")
            whole = f"sizeof({type}) * {lanes}"
            count = f"sizeof({type}) * {rest}" if rest else whole
            after.append(f"gs_put({line.pointer} + {start}, {line.array}, {count}, {whole}, {line.is_large});")
            if block:
                # What is of one turn alone; where there is none, another block may follow.
                self._names.release(line.array)
        return [*before, *loop, *after]

    # --- what is read ---

    def ahead(self, items: Iterable[Item], turn: str, blocks: Mapping[int, Blocks | None]) -> list[str]:
        """Lines that ask for what the next turn along an axis reads, where a turn goes through it several times.

        Where it is read once the processor sees far enough ahead by itself; and where much is computed, in time. Where
        the last loop goes in blocks, loops ask block by block: the one that computes a function, for memory has nothing
        to do then; else each for its share, for what waits to be written takes the place of what is asked for.
        """
        loops = [item for item in items if isinstance(item, AxisLoop) and item.is_innermost]
        for loop in loops:
            for load in _loads(loop):
                self._first.setdefault(load.buffer, id(loop))
        if len(loops) < 2 or any(_functions(loop) > FUNCTIONS for loop in loops):
            return []
        after = self._names.take(f"{self._positions.axes[turn]}_next")
        rows = {row: load for loop in loops for load in _loads(loop) if (row := self._row(load, loop, turn, after))}
        if not rows:
            self._names.release(after)
            return []
        self.helpers["gs_fetch"] = None
        last = loops[-1]
        next_turn = f"const int64_t {after} = {self._positions.axes[turn]} + 1;"
        if blocks[id(last)] is None or any(loop.axis != last.axis for loop in loops):
            return [next_turn, *rows]
        asking = [loop for loop in loops if blocks[id(loop)] is not None]
        busiest = max(asking, key=_functions)
        asking = [busiest] if _functions(busiest) else asking
        for number, load in enumerate(rows.values()):
            asks = asking[number * len(asking) // len(rows)]
            self._fetched.setdefault(id(asks), []).append((load, {turn: after}))
        return [next_turn]

    def fetched(self, loop: AxisLoop, block: str, lanes: int, has_lines: bool) -> list[str]:
        """Lines of a block that ask for what the next turn reads where this one is, or for what this one reads soon.

        Lines that go to memory take the place of those that a processor would ask for by itself, and at each page of a
        long row it begins anew to notice.
        """
        asked = self._fetched.get(id(loop), [])
        if not asked and not self._fetched:
            walked = [load for load in _loads(loop) if self._is_walked(load, loop.axis)]
            asked = [(load, {}) for load in walked if has_lines or self._is_first(load, loop)]
        bytes_ahead = AHEAD if len({load.buffer for load, _ in asked}) <= FEW else AHEAD // 2
        lines: dict[str, None] = {}
        for load, moved in asked:
            start = self._positions.text_at(load.index, {loop.axis: block, **moved})
            ahead = "" if moved else f" + {bytes_ahead // self._kernel.buffer(load.buffer).dtype.itemsize}"
            lines[f"gs_fetch({self._passed[load.buffer]} + {start}{ahead}, {self._bytes(load.buffer, lanes)});"] = None
        if lines:
            self.helpers["gs_fetch"] = None
        return list(lines)

    def _is_walked(self, load: Load, axis: str) -> bool:
        """Whether a load goes through a buffer as its loop does, of which it reads each element once."""
        is_row = not load.conditions and load.index.is_affine() and load.index.coefficient(axis) == 1
        return is_row and load.index.axes == self._kernel.sizes.keys()

    def _is_first(self, load: Load, loop: AxisLoop) -> bool:
        """Whether a loop is the first that goes through a long row."""
        extent = self._positions.known_extent_of(loop.axis)
        is_long = extent is None or self._bytes(load.buffer, extent) > LONGEST_ROW
        return is_long and self._first.get(load.buffer) == id(loop)

    def _row(self, load: Load, loop: AxisLoop, turn: str, after: str) -> str:
        """The line that asks for what a loop reads in the turn after; nothing where that is no row, or not another."""
        extent = self._positions.known_extent_of(loop.axis)
        if extent is None or load.conditions or not load.index.is_affine() or load.index.coefficient(loop.axis) != 1:
            return ""
        size = self._bytes(load.buffer, extent)
        if abs(load.index.coefficient(turn)) < extent or not SHORTEST <= size <= LONGEST_ROW:
            return ""
        start = self._positions.text_at(load.index, {loop.axis: self._positions.first_of(loop.axis), turn: after})
        return f"gs_fetch({self._passed[load.buffer]} + {start}, {size});"

    def _bytes(self, buffer: str, elements: int) -> int:
        return elements * self._kernel.buffer(buffer).dtype.itemsize


def _functions(loop: AxisLoop) -> int:
    """How many values of a loop take some ten operations or more; random numbers are of ten rounds."""
    found = [item.statement for item in loop.body if isinstance(item, Evaluate)]
    random = sum(2 for s in found if isinstance(s, Uniform))
    return random + sum(isinstance(s, Compute) and s.primitive not in QUICK for s in found)


def _loads(loop: AxisLoop) -> list[Load]:
    return [s for s in (i.statement for i in loop.body if isinstance(i, Evaluate)) if isinstance(s, Load)]
