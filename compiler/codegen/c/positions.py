"""Positions in C: indices as expressions, loops' bounds, and where the elements of arrays lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from math import prod

from ...kernel_ir.index import Atom, AxisAtom, Index, Quotient, ValueAtom
from ...kernel_ir.kernel import Condition, Kernel
from ...kernel_ir.passed_sizes import open_sizes, strides
from ...scheduling.cpu import CpuSchedule
from ...types.dtypes import Number
from ...types.open_sizes import is_open
from ..naming import Names
from ..text import ATOM, Text
from .primitives import PRODUCT, SUM, UNARY


class CPositions:
    """`axes` are the variables of axes, `sizes` those of sizes that have one; `ends` of loops that end early."""

    def __init__(
        self,
        kernel: Kernel,
        schedule: CpuSchedule,
        ends: Mapping[str, Condition],
        axes: Mapping[str, str],
        sizes: dict[str, str],
        names: Names,
        has_any_size: bool = False,
    ) -> None:
        self._sizes = kernel.sizes
        self._open = open_sizes(kernel)
        self._dynamic = {axis.name: axis.size for axis in kernel.axes if axis.dynamic}
        self.schedule = schedule
        self._ends = ends
        self._size_parameters = sizes
        self._names = names
        self.has_any_size = has_any_size
        """Whether the text is to be the same for all sizes but for the numbers in it."""
        self.numbers: list[Number] = []
        self.axes = axes
        self.helpers: dict[str, None] = {}
        self.lanes: dict[str, int] = {}
        """Points of a block, of axes whose loops go on to its end."""

    def text(self, index: Index, values: Mapping[str, Text]) -> Text:
        """An index over positions and values."""
        parts: list[str] = []
        found = strides(index, self._dynamic)
        for coefficient, atom in sorted(index.terms, key=lambda term: term[0] < 0):
            sign = "-" if coefficient < 0 else "+"
            number, sizes = found.get(atom, (coefficient, ()))
            text = self._term(abs(number), atom, values, sizes)
            if isinstance(atom, AxisAtom) and self.axes[atom.name] == "0":
                continue
            parts.append(f"{sign} {text}" if parts else f"-{text}" if coefficient < 0 else text)
        if index.constant or not parts:
            constant = self.number(abs(index.constant))
            sign = "-" if index.constant < 0 else "+"
            parts.append(f"{sign} {constant}" if parts else f"-{constant}" if index.constant < 0 else constant)
        level = SUM if len(parts) > 1 else self._level(index)
        return Text(" ".join(parts), level)

    def steps(self, index: Index) -> dict[Atom, int]:
        """The numbers by which an index grows along each axis, times sizes that are passed."""
        found = strides(index, self._dynamic)
        return {atom: found.get(atom, (coefficient, ()))[0] for coefficient, atom in index.terms}

    def step(self, index: Index, axis: str) -> str:
        """By how much an index grows with the position along an axis."""
        number, sizes = strides(index, self._dynamic).get(AxisAtom(axis), (index.coefficient(axis), ()))
        factors = [] if abs(number) == 1 and sizes else [self.number(abs(number))]
        text = " * ".join([*factors, *(self._size_parameters[name] for name in sizes)])
        return f"-{text}" if number < 0 else text

    def text_at(self, index: Index, moved: Mapping[str, str]) -> str:
        """An index of axes alone, where some of them are at other positions."""
        other = copy(self)
        other.axes = {**self.axes, **moved}
        return other.text(index, {}).text

    def number(self, number: Number) -> str:
        """A number; one that is open is passed, behind the sizes."""
        if not is_open(number):
            return str(number)
        found = next((axis for axis, size in self._dynamic.items() if size is number), None)
        key = found if found in self._size_parameters else repr(number)
        if key not in self._size_parameters:
            self._size_parameters[key] = self._names.take("number")
            self.numbers.append(number)
        return self._size_parameters[key]

    def _level(self, index: Index) -> int:
        if not index.terms:
            return UNARY if index.constant < 0 else ATOM
        coefficient, atom = index.terms[0]
        if coefficient == 1 and isinstance(atom, AxisAtom | ValueAtom):
            return ATOM
        return PRODUCT if coefficient > 0 else SUM

    def _term(self, number: int, atom: Atom, values: Mapping[str, Text], sizes: Sequence[str] = ()) -> str:
        """A multiple of an atom, by a number and by sizes that are passed."""
        text = self._atom(atom, values)
        first = text.at(PRODUCT) if number == 1 else f"{self.number(number)} * {text.at(UNARY)}"
        return " * ".join([first, *(self._size_parameters[name] for name in sizes)])

    def _atom(self, atom: Atom, values: Mapping[str, Text]) -> Text:
        if isinstance(atom, AxisAtom):
            return Text(self.axes[atom.name])
        if isinstance(atom, ValueAtom):
            return values[atom.name]
        inner = self.text(atom.index, values)
        is_quotient = isinstance(atom, Quotient)
        low, _ = atom.index.range(self._open)
        if low >= 0:
            return Text(f"{inner.at(PRODUCT)} {'/' if is_quotient else '%'} {self.number(atom.divisor)}", PRODUCT)
        name = "gs_quotient" if is_quotient else "gs_rest"
        self.helpers[name] = None
        return Text(f"{name}({inner.text}, {self.number(atom.divisor)})")

    def condition(self, conditions: Sequence[Condition], values: Mapping[str, Text]) -> str:
        """Whether conditions hold; nothing where they always do."""
        found: list[str] = []
        for condition in conditions:
            low, high = condition.index.range(self._open)
            text = self.text(condition.index, values).at(SUM)
            found += [f"({text} >= {self.number(condition.low)})"] if low < condition.low else []
            found += [f"({text} < {self._high(condition)})"] if high >= condition.high else []
        if len(found) == 1:
            return found[0][1:-1]
        return " & ".join(found)

    def _high(self, condition: Condition) -> str:
        return self.parameter(condition.size_of) if condition.size_of else self.number(condition.high)

    def parameter(self, axis: str) -> str:
        """The variable of a size that is passed."""
        return self._size_parameters[axis]

    # --- loops ---

    def first_of(self, axis: str) -> str:
        return f"{self.axes[axis]}_first" if self.schedule.block_of(axis) else "0"

    def end_of(self, axis: str) -> str:
        """The end of the loop along an axis."""
        if self.schedule.block_of(axis):
            return f"{self.axes[axis]}_end"
        if axis in self._ends:
            self.helpers["gs_least"] = None
            return f"gs_least({self.size_of(axis)}, {self._end(self._ends[axis], axis)})"
        return self.size_of(axis)

    def _end(self, condition: Condition, axis: str) -> str:
        """How many points of an axis fulfil a condition on the sum of them and of where their chunk begins."""
        start = condition.index.substitute(lambda a: Index() if a == AxisAtom(axis) else None, {})
        if not condition.size_of:
            return self.text(-start + condition.high, {}).text
        ((_, chunk),) = start.terms
        number, sizes = strides(condition.index, self._dynamic)[chunk]
        return f"{self._high(condition)} - {self._term(number, chunk, {}, sizes)}"

    def size_of(self, axis: str) -> str:
        return self._size_parameters[axis] if axis in self._size_parameters else self.number(self._sizes[axis])

    def extent_of(self, axis: str) -> int:
        """Points of an axis that an array has to have room for: a whole block where the size is passed."""
        block = self.schedule.block_of(axis)
        if block and axis in self._dynamic:
            return block
        return min(block or self._sizes[axis], max(self._sizes[axis], 1))

    def room_of(self, axis: str) -> int:
        """Points along an axis of an array: a whole number of blocks where loops go through it by such."""
        extent, lanes = self.extent_of(axis), self.lanes.get(axis, 1)
        return extent if lanes == 1 else -(-extent // lanes) * lanes

    def rooms_of(self, axes: Sequence[str]) -> str:
        """Elements of an array, as text.

        Of any size blocks are told apart from what is like them for some sizes: 622 is 20 of 32 points, and 10 of 64.
        """
        if not self.has_any_size or not any(axis in self.lanes for axis in axes):
            return self.number(prod(self.room_of(axis) for axis in axes))
        return " * ".join(self._room(axis) for axis in axes)

    def _room(self, axis: str) -> str:
        lanes = self.lanes.get(axis, 1)
        if not self.has_any_size or lanes == 1:
            return self.number(self.room_of(axis))
        return f"{lanes} * (({self.number(self.extent_of(axis))} + {lanes - 1}) / {lanes})"

    def known_extent_of(self, axis: str) -> int | None:
        """Points of an axis that a program goes through at most; None where that is passed."""
        if axis in self._dynamic and not self.schedule.block_of(axis):
            return None
        extent = self.extent_of(axis)
        return None if is_open(extent) else extent

    def element(self, array: str, axes: Sequence[str]) -> Text:
        """The element of an array at the present positions."""
        index = ""
        for axis in axes:
            position = self.axes[axis]
            if self.schedule.block_of(axis):
                position = f"{position} - {self.first_of(axis)}"
            if index:
                inner = f"({index})" if "-" in index or "+" in index else index
                index = f"{self._room(axis)} * {inner} + {position}"
            else:
                index = position
        return Text(f"{array}[{index}]")
