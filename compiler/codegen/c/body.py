"""The body of a kernel in C: lines for the items of its nest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...kernel_ir.kernel import (
    POSITIONS,
    Definition,
    Reduce,
    Uniform,
)
from ...scheduling.nest import Accumulate, AxisLoop, Evaluate, Item, Put, Start
from ...scheduling.padding import identity
from ...types.dtypes import FLOAT64, INT64, DType
from ..text import Text
from .angles import PARTS, TOGETHER, angles_of
from .drawing import SPARE, successive
from .drawing import TOGETHER as DRAWN_TOGETHER
from .expressions import INDENT, CExpressions
from .lanes import lanes_of
from .primitives import CHOICE, COMBINED, SUM, TYPES, literal, spelling, suffix
from .traffic import Strip
from .uses import is_of_computed_index, uses

__all__ = ["INDENT", "CBody"]
_OPERATORS = {"sum": "+", "prod": "*", "any": "|", "all": "&"}


class CBody(CExpressions):
    """Writes one kernel's items."""

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
        first, end = self.positions.first_of(loop.axis), self.positions.end_of(loop.axis)
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
        drawn, angles = successive(loop, self._declared), angles_of(loop)
        if not drawn and not angles:
            return self._plain_turns(loop, first, end)
        together = TOGETHER if angles else DRAWN_TOGETHER
        position = self.positions.axes[loop.axis]
        start, stop = self.names.take(f"{position}_start"), self.names.take(f"{position}_stop")
        self.helpers["gs_least"] = None
        lines = [f"const int64_t {stop} = gs_least({start} + {together}, {end});"]
        for statement in drawn:
            lines += self._draw(statement, loop.axis, start, stop, together)
        for angle, (dtype, needed) in angles.items():
            lines += self._reduce_angle(angle, dtype, needed, loop, (start, stop))
        lines += self._plain_turns(loop, start, stop)
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
        self, angle: str, dtype: DType, needed: Sequence[Definition], loop: AxisLoop, ends: tuple[str, str]
    ) -> list[str]:
        """The lines that reduce an angle, of what its parts have, at the points of a piece of the loop."""
        start, stop = ends
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
            f"for (int64_t {position} = {start}; {position} < {stop}; ++{position}) {{",
            *(INDENT + line for line in inner),
            "}",
            f"gs_turn_{ending}({', '.join(parts)}, {stop} - {start});",
        ]

    def _plain_turns(self, loop: AxisLoop, first: str, end: str) -> list[str]:
        position = self.positions.axes[loop.axis]
        ahead = [] if loop.is_innermost else self.traffic.ahead(loop.body, loop.axis)
        inner = [*ahead, *self.lines(loop.body)]
        pragma = self._pragma(loop, int(end) if first == "0" and end.isdigit() else 0)
        head = f"for (int64_t {position} = {first}; {position} < {end}; ++{position}) {{"
        return [*pragma, head, *(INDENT + line for line in inner), "}"]

    def _pragma(self, loop: AxisLoop, extent: int) -> list[str]:
        """Points side by side, with what they are combined by, where that can be; an extent of 0 is not known."""
        if not _is_side_by_side(loop):
            return []
        turns = [item.reduce for item in loop.body if isinstance(item, Accumulate)]
        by_operator: dict[str, list[str]] = {}
        for turn in turns:
            if turn.name not in self._arrays:
                operator = _OPERATORS.get(turn.combine, turn.combine)
                by_operator.setdefault(operator, []).append(self._orders.get(turn.name) or self._variable(turn))
        if any(isinstance(item, Evaluate) and is_of_computed_index(item.statement) for item in loop.body):
            by_operator.setdefault("|", []).append(self._outside())
        clauses = [f" reduction({operator} : {', '.join(names)})" for operator, names in by_operator.items()]
        lanes = lanes_of(loop, extent)
        return [f"#pragma omp simd{f' simdlen({lanes})' if lanes else ''}{''.join(clauses)}"]

    # --- reductions ---

    def _start(self, reduce: Reduce, is_array: bool) -> list[str]:
        dtype = self._compared(reduce)
        pairs = [(reduce.name, self._neutral(reduce))]
        if reduce.combine not in POSITIONS:
            return self._started(reduce, pairs[0][1], is_array)
        best = self.names.take(f"{self._variable(reduce)}_of")
        self._best[reduce.name] = best
        start = literal(identity(reduce.combine, dtype), dtype).text
        if is_array:
            return [*self._started(reduce, "0", True), *self._filled(best, reduce, start)]
        return [f"{TYPES[dtype]} {best} = {start};", *self._started(reduce, "0", False)]

    def _neutral(self, reduce: Reduce) -> str:
        return literal(identity(reduce.combine, reduce.dtype), reduce.dtype).text

    def _started(self, reduce: Reduce, start: str, is_array: bool) -> list[str]:
        if is_array:
            return self._filled(self._array(reduce.name), reduce, start)
        variable = self._variable(reduce)
        self._values[reduce.name] = Text(variable)
        if reduce.combine in ("max", "min") and reduce.dtype.is_floating:
            order = self._orders[reduce.name] = self.names.take(f"{variable}_order")
            self._turn_orders[reduce.name] = self.names.take(f"{order}_here")
            ending = suffix(reduce.dtype)
            self._values[reduce.name] = Text(f"gs_of_order_{ending}({order})")
            self.helpers |= {f"gs_of_order_{ending}": None, f"gs_order_{ending}": None}
            return [f"int{ending[1:]}_t {order} = {self._order(Text(start), reduce)};"]
        return [f"{COMBINED[reduce.dtype]} {variable} = {start};"]

    def _order(self, text: Text, reduce: Reduce) -> str:
        """An integer that is in order as floats are, NaN where none is passed over."""
        ending = suffix(reduce.dtype)
        return f"gs_order_{ending}({text.text}, INT{ending[1:]}_{reduce.combine.upper()})"

    def _filled(self, array: str, reduce: Reduce, start: str) -> list[str]:
        count = 1
        for axis in self.nest.arrays[reduce.name]:
            count *= self.positions.extent_of(axis)
        position = self.names.take("k")
        self.names.release(position)
        return [f"for (int64_t {position} = 0; {position} < {count}; ++{position}) {array}[{position}] = {start};"]

    def _accumulate(self, reduce: Reduce) -> list[str]:
        dtype = self._compared(reduce)
        text = self._operand(reduce.operand, dtype)
        is_array = reduce.name in self.nest.arrays
        total = self._element(reduce.name).text if is_array else self._variable(reduce)
        if reduce.combine in POSITIONS:
            return self._first(reduce, total, text, dtype)
        if reduce.combine in ("any", "all"):
            return [f"{total} {_OPERATORS[reduce.combine]}= {text.text};"]
        if reduce.combine in _OPERATORS:
            found = spelling("add" if reduce.combine == "sum" else "mul", reduce.dtype)
            if found.level != spelling("add", FLOAT64).level and found.template.startswith("("):
                return [f"{total} = {found.apply([Text(total), text]).text};"]
            return [f"{total} {_OPERATORS[reduce.combine]}= {text.text};"]
        if is_array:
            return [f"{total} = {self._comparing(reduce)}({text.text}, {total});"]
        return self._compared_with(reduce, text)

    def _compared_with(self, reduce: Reduce, text: Text) -> list[str]:
        """One turn of a largest or smallest number, which compilers have instructions for where they are integers."""
        total, sign = self._orders.get(reduce.name), ">" if reduce.combine == "max" else "<"
        if total is None:
            total = self._variable(reduce)
            return [f"{total} = {text.at(SUM)} {sign} {total} ? {text.at(CHOICE)} : {total};"]
        order = self._turn_orders[reduce.name]
        return [
            f"const int{suffix(reduce.dtype)[1:]}_t {order} = {self._order(text, reduce)};",
            f"{total} = {order} {sign} {total} ? {order} : {total};",
        ]

    def _comparing(self, reduce: Reduce) -> str:
        primitive = "maximum" if reduce.combine == "max" else "minimum"
        helper = f"gs_{primitive}_{suffix(reduce.dtype)}"
        self.helpers[helper] = None
        return helper

    def _first(self, reduce: Reduce, position: str, text: Text, dtype: DType) -> list[str]:
        helper = f"gs_first_{reduce.combine.removeprefix('arg')}_{suffix(dtype)}"
        self.helpers[helper] = None
        best = self._best[reduce.name]
        if reduce.name in self.nest.arrays:
            best = self.positions.element(best, self.nest.arrays[reduce.name]).text
        (over,) = reduce.over
        return [
            f"if ({helper}({text.text}, {best})) {{",
            f"{INDENT}{best} = {text.text};",
            f"{INDENT}{position} = {self.positions.axes[over]};",
            "}",
        ]


def _is_side_by_side(loop: AxisLoop) -> bool:
    """Whether the points of a loop may be computed together."""
    turns = [item.reduce for item in loop.body if isinstance(item, Accumulate)]
    return loop.is_innermost and not any(turn.combine in POSITIONS for turn in turns)
