"""The body of a kernel in C: lines for the items of its nest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ...kernel_ir.kernel import (
    POSITIONS,
    Definition,
    Kernel,
    Load,
    Store,
    Uniform,
)
from ...scheduling.nest import Accumulate, AxisLoop, Evaluate, Item, Nest, Put, Start, items_of
from ...types.dtypes import INT64, DType
from ..naming import Names
from ..text import Text
from .angles import PARTS, TOGETHER, angles_of
from .drawing import SPARE, successive
from .drawing import TOGETHER as DRAWN_TOGETHER
from .edges import is_apart, moved_of, points_of_vector
from .expressions import INDENT
from .gathers import Gathers
from .lanes import LANES, Blocks, blocks_of
from .positions import CPositions
from .primitives import STORED, TYPES, suffix
from .reductions import OPERATORS, CReductions
from .stages import LoopStage, stages_of
from .traffic import Strip
from .uses import is_of_computed_index, uses

__all__ = ["INDENT", "CBody"]


class CBody(CReductions):
    """Writes one kernel's items."""

    def __init__(self, kernel: Kernel, nest: Nest, names: Names, positions: CPositions, passed: dict[str, str]) -> None:
        super().__init__(kernel, nest, names, positions, passed)
        self._staged = self._at_once = 0
        self.gathers = Gathers(kernel, positions, names, passed, self._elements)
        self.tiled = self.gathers.tiles(positions.schedule)
        """The lines before and behind the loops of a tile."""
        loops = [item for item in items_of(nest.items) if isinstance(item, AxisLoop)]
        self.blocks = {id(loop): self._blocks_of(loop) for loop in loops}
        self._leave_unlike(loops)
        for loop in loops:
            blocks = self.blocks[id(loop)]
            if blocks is not None:
                self._in_lanes |= dict.fromkeys(blocks.sums, blocks.lanes)
                if blocks.has_masks and not blocks.is_whole:
                    positions.lanes[loop.axis] = blocks.lanes

    @property
    def is_in_stages(self) -> bool:
        """Whether all innermost loops that were written are in stages."""
        return self._staged > 0 and not self._at_once

    @property
    def has_lanes(self) -> bool:
        """Whether sums are found lane by lane."""
        return bool(self._in_lanes)

    def _leave_unlike(self, loops: Sequence[AxisLoop]) -> None:
        """Leave loops as they are that add up what another one adds up anew without lanes, or with others."""
        changes = True
        while changes:
            lanes: dict[str, set[int]] = {}
            for loop in loops:
                blocks = self.blocks[id(loop)]
                for item in loop.body:
                    if isinstance(item, Accumulate):
                        is_of_lanes = blocks is not None and item.reduce.name in blocks.sums
                        lanes.setdefault(item.reduce.name, set()).add(blocks.lanes if blocks and is_of_lanes else 0)
            unlike = {name for name, counts in lanes.items() if len(counts) > 1}
            left = [loop for loop in loops if (b := self.blocks[id(loop)]) is not None and unlike & {*b.sums}]
            self.blocks |= {id(loop): None for loop in left}
            changes = bool(left)

    def _blocks_of(self, loop: AxisLoop) -> Blocks | None:
        if not _is_side_by_side(loop):
            return None
        first, end = self.positions.first_of(loop.axis), self.positions.end_of(loop.axis)
        is_known = first == "0" and end.isdigit() and not self.positions.has_any_size
        extent = int(end) if is_known else None
        of_lines = self.traffic.lanes_of_lines(loop)
        of_lines = 0 if of_lines and stages_of(loop) else of_lines
        return blocks_of(loop, self.kernel, self.nest, extent, first == "0", of_lines, self.gathers.placed)

    # --- items ---

    def lines(self, items: Sequence[Item]) -> list[str]:
        """The lines of a block."""
        outside = dict(self._values)
        counted = uses(items)
        lines: list[str] = []
        for item in items:
            lines += self._item(item, counted)
        self._values = outside
        return lines

    def _item(self, item: Item, uses: Counter[str]) -> list[str]:
        match item:
            case Evaluate():
                return self._evaluate(item.statement, item.is_kept, uses)
            case Put():
                return self._put(item.statement)
            case Start():
                return self._start(item.reduce, item.is_array)
            case Accumulate():
                return self._accumulate(item.reduce)
        return self._loop(item)

    def _loop(self, loop: AxisLoop) -> list[str]:
        blocks = self.blocks[id(loop)]
        lines = self._whole_loop(loop, blocks)
        return lines if blocks is None else [*lines, *self._added_up(blocks)]

    def _whole_loop(self, loop: AxisLoop, blocks: Blocks | None) -> list[str]:
        first, end = self.positions.first_of(loop.axis), self.positions.end_of(loop.axis)
        if blocks is not None and blocks.has_lines:
            return self._turns(loop, first, end)
        strips = self.traffic.strips(loop) if _is_side_by_side(loop) else []
        if not strips:
            return self._turns(loop, first, end)
        if not self.traffic.needs_several(loop.axis):
            return self._strip(loop, strips, first, end)
        position = self.positions.axes[loop.axis]
        strip = self.traffic.length
        start, stop = self.names.take(f"{position}_start"), self.names.take(f"{position}_stop")
        self.helpers["gs_least"] = None
        lines = [f"const int64_t {stop} = gs_least({start} + {strip}, {end});", *self._strip(loop, strips, start, stop)]
        head = f"for (int64_t {start} = {first}; {start} < {end}; {start} += {strip}) {{"
        return [head, *(INDENT + line for line in lines), "}"]

    def _strip(self, loop: AxisLoop, strips: Sequence[Strip], first: str, end: str) -> list[str]:
        """A loop that writes strips of results."""
        position = self.positions.axes[loop.axis]
        at = position if first == "0" else f"{position} - {first}"
        self._elements |= {id(strip.store): f"{strip.here}[{at}]" for strip in strips}
        return self.traffic.in_strips(loop.axis, strips, self._turns(loop, first, end), first, end)

    def _turns(self, loop: AxisLoop, first: str, end: str) -> list[str]:
        """A loop, in pieces where it needs what is made before it: random numbers, and angles reduced."""
        if not _is_side_by_side(loop):
            return self._plain_turns(loop, first, end)
        self._beside = loop.axis
        drawn, angles = successive(loop, self._declared), angles_of(loop)
        stages = stages_of(loop) if self.blocks[id(loop)] is None and not self._is_short(end) else []
        if not drawn and not angles and not stages:
            return self._plain_turns(loop, first, end)
        together = TOGETHER if angles or stages else DRAWN_TOGETHER
        position = self.positions.axes[loop.axis]
        start, stop = self.names.take(f"{position}_start"), self.names.take(f"{position}_stop")
        self.helpers["gs_least"] = None
        lines = [f"const int64_t {stop} = gs_least({start} + {together}, {end});"]
        for statement in drawn:
            lines += self._draw(statement, loop.axis, start, stop, together)
        moved = moved_of(loop, self.nest, self._elements, self.gathers.placed) if stages else []
        if self._is_of_vectors(first, end) and not any(is_apart(statement, loop.axis) for statement in moved):
            moved = []
        last, behind = stop, list[str]()
        if moved:
            last = self.names.take(f"{position}_whole")
            before, behind = self._at_edges(loop.axis, moved, (start, stop, last))
            lines += before
        for angle, (dtype, needed) in angles.items():
            lines += self._reduce_angle(angle, dtype, needed, loop, (start, stop, last))
        self._staged += bool(stages)
        lines += self._in_stages(loop, stages, start, last) if stages else self._plain_turns(loop, start, stop)
        lines += behind
        for one in moved:
            self._elements.pop(id(one), None)
        self._drawn.clear()
        self._angles.clear()
        head = f"for (int64_t {start} = {first}; {start} < {end}; {start} += {together}) {{"
        return [head, *(INDENT + line for line in lines), "}"]

    def _draw(self, draw: Uniform, axis: str, start: str, stop: str, together: int) -> list[str]:
        self.helpers["gs_uniforms"] = None
        numbers = self.names.take(f"{self._variable(draw)}s")
        room = self.names.take(f"{numbers}_room")
        seed, place = self._operand(draw.seed, INT64), self.positions.text_at(draw.counter, {axis: start})
        self._drawn[draw.name] = f"{numbers}[{self.positions.axes[axis]} - {start}]"
        return [
            f"float {room}[{together + SPARE}];",
            f"const float *const {numbers} = gs_uniforms({room}, {seed.text}, {place}, {stop} - {start});",
        ]

    def _reduce_angle(
        self, angle: str, dtype: DType, needed: Sequence[Definition], loop: AxisLoop, ends: tuple[str, str, str]
    ) -> list[str]:
        """The lines that reduce an angle, of what its parts have, at the points of a piece of the loop."""
        start, stop, last = ends
        ending, type = suffix(dtype), TYPES[dtype]
        self.helpers |= {f"gs_{name}_{ending}": None for name in ("angle_of", "near_angle", "turn")}
        variable = self._variable(self.nest.definitions[angle])
        parts = [self.names.take(f"{variable}_{part}") for part in PARTS[dtype]]
        at = f"{self.positions.axes[loop.axis]} - {start}"
        items = [Evaluate(statement) for statement in needed]
        counted = uses(items)
        outside = dict(self._values)
        inner = [line for item in items for line in self._item(item, counted)]
        inner.append(f"{parts[0]}[{at}] = {self._operand(angle, dtype).text};")
        self._values = outside
        elements = ", ".join(f"{part}[{at}]" for part in parts)
        self._angles[angle] = f"(gs_angle_{ending}){{{elements}}}"
        position = self.positions.axes[loop.axis]
        return [
            f"{type} {', '.join(f'{part}[{TOGETHER}]' for part in parts)};",
            "#pragma omp simd",
            f"for (int64_t {position} = {start}; {position} < {last}; ++{position}) {{",
            *(INDENT + line for line in inner),
            "}",
            f"gs_turn_{ending}({', '.join(parts)}, {stop} - {start});",
        ]

    def _is_of_vectors(self, first: str, end: str) -> bool:
        """Whether a compiler sees that nothing is left behind the last vector."""
        is_known = first == "0" and end.isdigit() and not self.positions.has_any_size
        return is_known and int(end) % TOGETHER % LANES == 0

    def _at_edges(
        self, axis: str, moved: Sequence[Load | Store], ends: tuple[str, str, str]
    ) -> tuple[list[str], list[str]]:
        """The lines before and behind the stages of a piece that goes on to the end of its last vector."""
        start, stop, whole = ends
        points = points_of_vector(self.kernel, moved)
        before = [f"const int64_t {whole} = {start} + (({stop} - {start} + {points - 1}) & -{points});"]
        behind: list[str] = []
        for statement in moved:
            edge = self.names.take(f"{statement.buffer}_edge")
            before.append(f"{STORED[self.kernel.buffer(statement.buffer).dtype]} {edge}[{TOGETHER}];")
            way = self._brought_together if is_apart(statement, axis) else self._laid_aside
            lines = way(statement, axis, edge, ends)
            before += lines[0]
            behind += lines[1]
        return before, behind

    def _laid_aside(
        self, moved: Load | Store, axis: str, edge: str, ends: tuple[str, str, str]
    ) -> tuple[list[str], list[str]]:
        """Of neighbours in memory: in an array of their own where the piece ends within a vector."""
        start, stop, whole = ends
        here = self.names.take(f"{moved.buffer}_here")
        self._elements[id(moved)] = f"{here}[{self.positions.axes[axis]} - {start}]"
        type = STORED[self.kernel.buffer(moved.buffer).dtype]
        there = f"{self._passed[moved.buffer]} + {self.positions.text_at(moved.index, {axis: start})}"
        size = f"sizeof({type}) * ({stop} - {start})"
        if isinstance(moved, Load):
            self.helpers["gs_at_edge"] = None
            size_of_all = f"sizeof({type}) * ({whole} - {start})"
            return [f"const {type} *{here} = gs_at_edge({edge}, {there}, {size}, {size_of_all});"], []
        chosen = f"{type} *{here} = {whole} == {stop} ? {there} : {edge};"
        return [chosen], [f"if ({whole} != {stop}) __builtin_memcpy({there}, {edge}, {size});"]

    def _brought_together(
        self, moved: Load | Store, axis: str, edge: str, ends: tuple[str, str, str]
    ) -> tuple[list[str], list[str]]:
        """Of what lies apart: side by side in an array, for gaps are gone through once, and not by each stage."""
        start, stop, whole = ends
        position = self.positions.axes[axis]
        place = self._elements[id(moved)] = f"{edge}[{position} - {start}]"
        element = f"{self._passed[moved.buffer]}[{self.positions.text_at(moved.index, {})}]"
        head = ["#pragma omp simd", f"for (int64_t {position} = {start}; {position} < {stop}; ++{position}) {{"]
        if isinstance(moved, Load):
            rest = f"for (int64_t {position} = {stop}; {position} < {whole}; ++{position}) {place} = 0;"
            return [*head, f"{INDENT}{place} = {element};", "}", rest], []
        return [], [*head, f"{INDENT}{element} = {place};", "}"]

    def _in_stages(self, loop: AxisLoop, stages: Sequence[LoopStage], start: str, stop: str) -> list[str]:
        """Loops one after the other over the points of a piece."""
        position = self.positions.axes[loop.axis]
        outside = dict(self._values)
        waiting: dict[str, Text] = {}
        lines: list[str] = []
        for stage in stages:
            self._values = {**outside, **waiting}
            counted = uses(stage.items)
            counted.update(d.name for d in stage.kept)
            inner = [line for item in stage.items for line in self._item(item, counted)]
            for d in stage.kept:
                strip = self.names.take(f"{self._variable(d)}_strip")
                waiting[d.name] = Text(f"{strip}[{position} - {start}]")
                inner.append(f"{waiting[d.name].text} = {self._operand(d.name, d.dtype).text};")
                lines.append(f"{TYPES[d.dtype]} {strip}[{TOGETHER}];")
            head = f"for (int64_t {position} = {start}; {position} < {stop}; ++{position}) {{"
            lines += ["#pragma omp simd", head, *(INDENT + line for line in inner), "}"]
        self._values = outside
        return lines

    def _plain_turns(self, loop: AxisLoop, first: str, end: str) -> list[str]:
        blocks = self.blocks[id(loop)]
        self._at_once += loop.is_innermost
        if blocks is not None:
            return self._in_blocks(loop, blocks, first, end)
        position = self.positions.axes[loop.axis]
        ahead: list[str] = []
        if not loop.is_innermost:
            ahead += self.gathers.rows(loop.body, loop.axis, end) if first == "0" else []
            ahead += self.traffic.ahead(loop.body, loop.axis, self.blocks)
        inner = [*ahead, *self.lines(loop.body)]
        if not loop.is_innermost:
            self.gathers.leave(loop.body)
        lines: list[str] = []
        if self._is_short(end) and self._is_of_any_order(loop):
            # A compiler that knows how short a row is combines its numbers in another order than one that does not.
            self.helpers["gs_unknown"] = None
            number, end = end, self.names.take(f"{position}_end")
            lines.append(f"const int64_t {end} = gs_unknown({number});")
        head = f"for (int64_t {position} = {first}; {position} < {end}; ++{position}) {{"
        return [*lines, *self._pragma(loop), head, *(INDENT + line for line in inner), "}"]

    def _is_short(self, end: str) -> bool:
        return end.isdigit() and int(end) < LANES and not self.positions.has_any_size

    def _is_of_any_order(self, loop: AxisLoop) -> bool:
        """Whether its points are combined side by side, to numbers that depend on how."""
        turns = [item.reduce for item in loop.body if isinstance(item, Accumulate)] if _is_side_by_side(loop) else []
        alone = [turn for turn in turns if turn.name not in self._arrays and turn.name not in self._in_lanes]
        return any(turn.combine in ("sum", "prod") and turn.dtype.is_floating for turn in alone)

    def _in_blocks(self, loop: AxisLoop, blocks: Blocks, first: str, end: str) -> list[str]:
        """A loop in blocks; in a single one where it has no more points than lanes."""
        position, lanes = self.positions.axes[loop.axis], blocks.lanes
        is_known = first == "0" and end.isdigit() and not self.positions.has_any_size
        is_single = is_known and int(end) <= lanes
        if is_single:
            fetched = self.traffic.fetched(loop, "0", lanes, blocks.has_lines)
            return [*fetched, *self._block(loop, blocks, "", position, "" if int(end) == lanes else end)]
        block, lane = self.names.take(f"{position}_block"), self.names.take(f"{position}_lane")
        rest = ""
        lines = self.traffic.fetched(loop, block, lanes, blocks.has_lines)
        if not blocks.is_whole:
            rest = self.names.take(f"{position}_rest")
            self.helpers["gs_least"] = None
            lines.append(f"const int {rest} = gs_least({lanes}, {end} - {block});")
        lines += self._block(loop, blocks, block, lane, rest)
        for name in (block, lane, rest):
            self.names.release(name)
        head = f"for (int64_t {block} = {first}; {block} < {end}; {block} += {lanes}) {{"
        return [head, *(INDENT + line for line in lines), "}"]

    def _block(self, loop: AxisLoop, blocks: Blocks, block: str, lane: str, rest: str) -> list[str]:
        """The points of one block, `rest` of them where there is that."""
        position = self.positions.axes[loop.axis]
        written = self.traffic.lines(loop, blocks.lanes) if blocks.has_lines else []
        self._elements |= {id(line.store): f"{line.array}[{lane}]" for line in written}
        self._in_lines |= {id(line.store) for line in written}
        outside = self._lane, self._mask, self._masked_axis
        self._lane = lane
        if rest and blocks.has_masks:
            self._mask, self._masked_axis = f"{lane} < {rest}", loop.axis
        inner = self.lines(loop.body)
        if block and any(re.search(rf"\b{position}\b", line) for line in inner):
            inner = [f"const int64_t {position} = {block} + {lane};", *inner]
        end = rest if rest and not blocks.has_masks else str(blocks.lanes)
        type = "int" if block else "int64_t"
        self._lane, self._mask, self._masked_axis = outside
        lines = [*self._pragma(loop), f"for ({type} {lane} = 0; {lane} < {end}; ++{lane}) {{"]
        lines += [*(INDENT + line for line in inner), "}"]
        return self.traffic.in_lines(written, lines, loop.axis, block, rest, blocks.lanes)

    def _pragma(self, loop: AxisLoop) -> list[str]:
        """Points side by side, with what they are combined by, where that can be."""
        if not _is_side_by_side(loop):
            return []
        turns = [item.reduce for item in loop.body if isinstance(item, Accumulate)]
        by_operator: dict[str, list[str]] = {}
        for turn in turns:
            if turn.name not in self._arrays and turn.name not in self._in_lanes:
                operator = OPERATORS.get(turn.combine, turn.combine)
                by_operator.setdefault(operator, []).append(self._orders.get(turn.name) or self._variable(turn))
        if any(isinstance(item, Evaluate) and is_of_computed_index(item.statement) for item in loop.body):
            by_operator.setdefault("|", []).append(self._outside())
        clauses = [f" reduction({operator} : {', '.join(names)})" for operator, names in by_operator.items()]
        return [f"#pragma omp simd{''.join(clauses)}"]


def _is_side_by_side(loop: AxisLoop) -> bool:
    """Whether the points of a loop may be computed together."""
    turns = [item.reduce for item in loop.body if isinstance(item, Accumulate)]
    return loop.is_innermost and not any(turn.combine in POSITIONS for turn in turns)
