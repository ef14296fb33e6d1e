"""Reductions of kernels in C: what they begin with, a turn of each, and lanes that are added up."""

from __future__ import annotations

from ...kernel_ir.kernel import POSITIONS, Kernel, Reduce
from ...scheduling.nest import Nest
from ...scheduling.padding import identity
from ...types.dtypes import FLOAT64, DType
from ..naming import Names
from ..text import Text
from .expressions import INDENT, CExpressions
from .lanes import Blocks
from .positions import CPositions
from .primitives import CHOICE, COMBINED, SUM, TYPES, literal, spelling, suffix

OPERATORS = {"sum": "+", "prod": "*", "any": "|", "all": "&"}


class CReductions(CExpressions):
    """Writes the reductions of one kernel."""

    def __init__(self, kernel: Kernel, nest: Nest, names: Names, positions: CPositions, passed: dict[str, str]) -> None:
        super().__init__(kernel, nest, names, positions, passed)
        self._in_lanes: dict[str, int] = {}
        """Sums that are found lane by lane, and how many lanes there are."""
        self._lane = ""
        """The lane of a point, in a loop that goes in blocks."""

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
        lanes = self._in_lanes.get(reduce.name)
        if lanes:
            array = self._lanes(reduce)
            type = TYPES[reduce.dtype]
            declared = f"{type} {array}[{lanes}] __attribute__((aligned(64)));"
            # By whole registers, as they are read: an initializer goes by halves, which processors wait for.
            return [declared, "#pragma omp simd", f"for (int k = 0; k < {lanes}; ++k) {array}[k] = {start};"]
        if reduce.combine in ("max", "min") and reduce.dtype.is_floating:
            order = self._orders[reduce.name] = self.names.take(f"{variable}_order")
            self._turn_orders[reduce.name] = self.names.take(f"{order}_here")
            ending = suffix(reduce.dtype)
            self._values[reduce.name] = Text(f"gs_of_order_{ending}({order})")
            self.helpers |= {f"gs_of_order_{ending}": None, f"gs_order_{ending}": None}
            return [f"int{ending[1:]}_t {order} = {self._order(Text(start), reduce)};"]
        return [f"{COMBINED[reduce.dtype]} {variable} = {start};"]

    def _lanes(self, reduce: Reduce) -> str:
        return f"{self._variable(reduce)}_lanes"

    def _added_up(self, blocks: Blocks) -> list[str]:
        """The lines behind a loop in blocks: the sums that its lanes have."""
        lines: list[str] = []
        for name in blocks.sums:
            reduce = self.nest.definitions[name]
            assert isinstance(reduce, Reduce)
            helper, type = f"gs_lane_sum_{suffix(reduce.dtype)}", TYPES[reduce.dtype]
            self.helpers[helper] = None
            lines.append(f"const {type} {self._variable(reduce)} = {helper}({self._lanes(reduce)}, {blocks.lanes});")
        return lines

    def _order(self, text: Text, reduce: Reduce) -> str:
        """An integer that is in order as floats are, NaN where none is passed over."""
        ending = suffix(reduce.dtype)
        return f"gs_order_{ending}({text.text}, INT{ending[1:]}_{reduce.combine.upper()})"

    def _filled(self, array: str, reduce: Reduce, start: str) -> list[str]:
        position, end = self.names.take("k"), self.positions.rooms_of(self.nest.arrays[reduce.name])
        self.names.release(position)
        return [f"for (int64_t {position} = 0; {position} < {end}; ++{position}) {array}[{position}] = {start};"]

    def _accumulate(self, reduce: Reduce) -> list[str]:
        dtype = self._compared(reduce)
        text = self._operand(reduce.operand, dtype)
        is_array = reduce.name in self.nest.arrays
        if self._mask and not is_array:
            text = Text(f"{self._mask} ? {text.at(SUM)} : {self._neutral(reduce)}", CHOICE)
        if reduce.name in self._in_lanes:
            return [f"{self._lanes(reduce)}[{self._lane}] += {text.text};"]
        total = self._element(reduce.name).text if is_array else self._variable(reduce)
        if reduce.combine in POSITIONS:
            return self._first(reduce, total, text, dtype)
        if reduce.combine in ("any", "all"):
            return [f"{total} {OPERATORS[reduce.combine]}= {text.text};"]
        if reduce.combine in OPERATORS:
            found = spelling("add" if reduce.combine == "sum" else "mul", reduce.dtype)
            if found.level != spelling("add", FLOAT64).level and found.template.startswith("("):
                return [f"{total} = {found.apply([Text(total), text]).text};"]
            return [f"{total} {OPERATORS[reduce.combine]}= {text.text};"]
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
