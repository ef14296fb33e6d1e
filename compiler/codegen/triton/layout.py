"""Where a schedule puts the axes of a kernel in Triton: the dimensions of the tile, their positions and masks.

A dimension is one or several axes, flattened. Programs cut it into blocks (`program`), a loop walks it in blocks
(`loop`), or one block covers it (`whole`). A block of one point is a scalar and no dimension of the tile.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Literal

from ....lang.light_dataclasses import dataclass, replace
from ...kernel_ir.index import Atom, AxisAtom, Index, Quotient, Remainder, ValueAtom
from ...kernel_ir.kernel import Axis, Buffer, Kernel, Load, Store, Uniform
from ...kernel_ir.passed_sizes import size_parameter, strides
from ...scheduling.row_parts import RowParts, in_parts
from ...scheduling.schedule import Flat, LoopedRow, Row, Schedule, Serial, Tiled
from ...scheduling.strides import extent, is_across, next_power
from ...scheduling.tiles import is_tiled
from ...types.open_sizes import is_open, whole
from ..text import Text
from .open_numbers import OpenNumbers
from .primitives import PRODUCT, SUM, UNARY

INT32_LIMIT = 2**31


@dataclass(frozen=True)
class Dimension:
    """`label` is the name of its block's size in the text; `grid` the grid's dimension that cuts it into programs.

    A loop's block is in so many `parts` where sums are rescaled.
    """

    name: str
    axes: tuple[Axis, ...]
    kind: Literal["program", "loop", "whole"]
    block: int = 1
    label: str = ""
    grid: int = 0
    parts: int = 1

    @property
    def names(self) -> frozenset[str]:
        return frozenset(axis.name for axis in self.axes)

    @property
    def extent(self) -> int:
        return extent(self.axes)

    @property
    def is_vector(self) -> bool:
        return bool(self.label)

    @property
    def is_dynamic(self) -> bool:
        return any(axis.dynamic for axis in self.axes)

    @property
    def is_masked(self) -> bool:
        """Whether a tile may reach past the end."""
        return self.is_vector and (self.is_dynamic or self.extent % self.block != 0 or not self.extent)

    def bound(self, numbers: OpenNumbers) -> Text:
        """The number of points, which only sizes that may change are parameters in."""
        fixed = prod(axis.size for axis in self.axes if not axis.dynamic)
        factors = [size_parameter(axis.name) for axis in self.axes if axis.dynamic]
        if fixed != 1 or not factors:
            factors.append(numbers.text(fixed))
        return Text(" * ".join(factors), PRODUCT if len(factors) > 1 else 0)

    @property
    def programs(self) -> int:
        return -(-self.extent // self.block)


@dataclass(frozen=True)
class TritonLayout:
    """The dimensions: those of the grid, then the rest; `tile` are the vectors among them, as the text orders them."""

    kernel: Kernel
    dimensions: tuple[Dimension, ...]

    @cached_property
    def tile(self) -> tuple[Dimension, ...]:
        """The vectors; the one along which memory is read without gaps last."""
        vectors = [d for d in self.dimensions if d.is_vector]
        first, others = vectors[:1], vectors[1:]
        if others and is_across(self.kernel, first[0].axes, [axis for d in others for axis in d.axes]):
            return (*others, *first)
        return tuple(vectors)

    @property
    def loop(self) -> Dimension | None:
        return next((d for d in self.dimensions if d.kind == "loop"), None)

    def of(self, axis: str) -> Dimension:
        return next(d for d in self.dimensions if axis in d.names)

    def over(self, axes: frozenset[str]) -> list[Dimension]:
        """The dimensions that axes lie in."""
        return [d for d in self.dimensions if d.names & axes]

    @cached_property
    def is_wide(self) -> bool:
        """Whether positions need 64 bits."""
        sizes = self.kernel.sizes
        if any(d.extent + d.block >= INT32_LIMIT for d in self.dimensions):
            return True
        for statement in self.kernel.body:
            if isinstance(statement, Uniform) and statement.counter.range(sizes)[1] >= INT32_LIMIT:
                return True
            if isinstance(statement, Load | Store):
                affine = Index(tuple(t for t in statement.index.terms if not isinstance(t[1], ValueAtom)))
                if affine.range(sizes)[1] >= INT32_LIMIT or self._reach(statement.buffer) >= INT32_LIMIT:
                    return True
        return False

    def _reach(self, name: str) -> int:
        buffer: Buffer = self.kernel.buffer(name)
        return sum((size - 1) * abs(stride) for size, stride in zip(buffer.shape, buffer.strides, strict=True) if size)

    def suffix(self, dimension: Dimension) -> str:
        """What turns a vector along a dimension into a tile."""
        if len(self.tile) < 2:
            return ""
        return f"[{', '.join(':' if d == dimension else 'None' for d in self.tile)}]"

    def shape(self, dimensions: list[Dimension]) -> str:
        """The shape of a tile that varies along some dimensions, as text."""
        sizes = [d.label if d in dimensions else "1" for d in self.tile]
        if all(size == "1" for size in sizes):
            return "()" if len(sizes) < 2 or not dimensions else f"({', '.join(sizes)})"
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def taken_in_parts(kernel: Kernel, schedule: Schedule) -> RowParts:
    """The kernel with its rows in the parts that a schedule takes them in; one that has them so already as it is."""
    if not isinstance(schedule, Serial) or schedule.parts == 1:
        return RowParts(kernel)
    (row,) = kernel.with_role("reduction")
    return in_parts(kernel, schedule.parts) if next_power(row.size) > schedule.columns else RowParts(kernel)


def triton_layout(kernel: Kernel, schedule: Schedule) -> TritonLayout:
    """The dimensions that a schedule cuts a kernel into; no dimension has no axes."""
    kernel = taken_in_parts(kernel, schedule).kernel
    parallel, reduction = kernel.with_role("parallel"), kernel.with_role("reduction")
    serial = kernel.with_role("serial")
    match schedule:
        case Flat():
            found = [_program("offset", parallel, schedule.block, "BLOCK")]
        case Tiled():
            found = _tiled(kernel, schedule)
        case Row():
            found = _rows(parallel, schedule.rows, schedule.outer, _row_label(kernel))
            found += _held(kernel, schedule.columns)
        case LoopedRow():
            found = _rows(parallel, schedule.rows, schedule.outer, _row_label(kernel))
            found.append(_named("column", reduction, "loop", schedule.block, "BLOCK", schedule.parts))
        case Serial():
            found = _rows(parallel, 1 if reduction else schedule.columns, schedule.outer, "COLUMNS")
            found.append(_named("step", serial, "loop", schedule.rows, "ROWS" if schedule.rows > 1 else ""))
            found += _held(kernel, schedule.columns)
        case _:
            raise TypeError(f"no layout for {type(schedule).__name__}")
    return TritonLayout(kernel, tuple(_apart(kernel, dimension) for dimension in found if dimension.axes))


def _held(kernel: Kernel, columns: int) -> list[Dimension]:
    """What a program holds at once: a row, or a dimension for each axis of a tile."""
    reduction = kernel.with_role("reduction")
    if not is_tiled(kernel):
        return [_named("column", reduction, "whole", columns, "COLUMNS")]
    labels = ["COLUMNS", *(f"DEPTH{number or ''}" for number in range(len(reduction) - 1))][::-1]
    pairs = zip(reduction, labels, strict=True)
    return [Dimension(axis.name, (axis,), "whole", next_power(axis.size), label) for axis, label in pairs]


def _apart(kernel: Kernel, dimension: Dimension) -> Dimension:
    """The dimension under a name that is none of an axis, unless it is that axis."""
    name = dimension.name
    while len(dimension.axes) > 1 and name in kernel.sizes:
        name += "_"
    return replace(dimension, name=name)


def _tiled(kernel: Kernel, schedule: Tiled) -> list[Dimension]:
    last, row = kernel.axes[-1], kernel.axis(schedule.row_axis)
    found = [_program(last.name, (last,), schedule.columns, "COLUMNS")]
    if schedule.outer:
        outer = tuple(kernel.axis(name) for name in schedule.outer)
        found.append(_program("row", outer, 1, "", 2))
    return [_program(row.name, (row,), schedule.rows, "ROWS", 1), *found]


def _row_label(kernel: Kernel) -> str:
    """What several points of the parallel axes are: rows above each other, or lanes next to each other."""
    return "LANES" if is_across(kernel, kernel.with_role("parallel"), kernel.with_role("reduction")) else "ROWS"


def _rows(parallel: tuple[Axis, ...], block: int, outer: tuple[str, ...], label: str) -> list[Dimension]:
    inner = tuple(axis for axis in parallel if axis.name not in outer)
    chunks = tuple(axis for axis in parallel if axis.name in outer)
    return [_program("chunk", chunks, 1, "", 1), _program("row", inner, block, label)]


def _program(flat: str, axes: tuple[Axis, ...], block: int, label: str, grid: int = 0) -> Dimension:
    name = axes[0].name if len(axes) == 1 else flat
    return Dimension(name, axes, "program", block, label if block > 1 else "", grid)


def _named(
    flat: str, axes: tuple[Axis, ...], kind: Literal["loop", "whole"], block: int, label: str, parts: int = 1
) -> Dimension:
    name = axes[0].name if len(axes) == 1 else flat
    return Dimension(name, axes, kind, block, label, parts=parts)


# --- indices as text ---


@dataclass(frozen=True)
class StrideTerm:
    """An atom by its stride, which is a factor times sizes that are passed; a number where the atom has no text."""

    stride: int
    atom: Text
    factor: int
    sizes: tuple[str, ...] = ()

    def text(self, numbers: OpenNumbers) -> str:
        """Without a sign. The atom comes before sizes: where positions have 64 bits, so do products with them."""
        number = abs(self.factor)
        if not self.atom.text:
            return numbers.text(number)
        if is_open(number):
            return " * ".join([self.atom.at(PRODUCT), numbers.text(number), *map(size_parameter, self.sizes)])
        first = self.atom.at(PRODUCT) if number == 1 else f"{number} * {self.atom.at(UNARY)}"
        return " * ".join([first, *map(size_parameter, self.sizes)])


@dataclass(frozen=True)
class TritonPositions:
    """Indices of a kernel as text, over the names that positions have in it."""

    layout: TritonLayout
    names: dict[str, str]
    """Axes, and dimensions of several axes, by name → their variable."""
    used: set[str]
    """Filled as texts are made: the axes and flattened dimensions whose variables they need."""
    values: dict[str, Text]
    numbers: OpenNumbers

    def text(self, index: Index) -> Text:
        """A sum of terms, the largest strides first."""
        terms, number = self._terms(index)
        terms.sort(key=lambda term: -abs(term.stride))
        if number or not terms:
            leads = not terms or (terms[0].stride < 0 < number)
            terms.insert(0 if leads else len(terms), StrideTerm(number, Text(""), number))
        parts: list[str] = []
        for term in terms:
            part = term.text(self.numbers)
            sign = "-" if term.stride < 0 else "+"
            parts.append(f" {sign} {part}" if parts else (f"-{part}" if sign == "-" else part))
        if len(parts) > 1:
            return Text("".join(parts), SUM)
        (term,) = terms
        return Text(parts[0], term.atom.level if term.stride == 1 or not term.atom.text else PRODUCT)

    def _terms(self, index: Index) -> tuple[list[StrideTerm], int]:
        """Terms as text, and the constant."""
        flattened: dict[str, int] = {}
        for dimension in self.layout.dimensions:
            factor = _flat_factor(index, dimension)
            if factor:
                flattened[dimension.name] = factor
        taken = {n for d in self.layout.dimensions if d.name in flattened for n in d.names}
        found = [StrideTerm(factor, self._variable(name), factor) for name, factor in flattened.items()]
        number = index.constant
        products = strides(index, {axis.name: axis.size for axis in self.layout.kernel.axes if axis.dynamic})
        for coefficient, atom in index.terms:
            if isinstance(atom, AxisAtom) and atom.name in taken:
                continue
            text, shift = self._atom(atom)
            factor, sizes = products.get(atom, (coefficient, ()))
            found.append(StrideTerm(coefficient, text, factor, sizes))
            number -= coefficient * shift
        return found, number

    def _variable(self, name: str) -> Text:
        self.used.add(name)
        return Text(self.names[name])

    def _atom(self, atom: Atom) -> tuple[Text, int]:
        """An atom as text, and by how much the text is too large."""
        if isinstance(atom, AxisAtom):
            return self._variable(atom.name), 0
        if isinstance(atom, ValueAtom):
            return self.values[atom.name], 0
        inner, shift = self._not_negative(atom)
        operator = "//" if isinstance(atom, Quotient) else "%"
        divisor = self.numbers.text(atom.divisor)
        return Text(f"{self.text(inner).at(UNARY)} {operator} {divisor}", PRODUCT), shift

    def _not_negative(self, atom: Quotient | Remainder) -> tuple[Index, int]:
        """The index made positive by a multiple of the divisor, for Triton's `//` and `%` round towards zero."""
        low, _ = atom.index.range(self.layout.kernel.sizes)
        if low >= 0 or low == float("-inf"):
            return atom.index, 0
        multiple = -(-whole(-low) // atom.divisor)
        return atom.index + multiple * atom.divisor, multiple if isinstance(atom, Quotient) else 0


def goes_by_fours(index: Index, layout: TritonLayout, along: Dimension) -> bool:
    """Whether every four positions of a tile's last dimension have an index at a multiple of 4 and the next three.

    Blocks start at multiples of their sizes. Of an open size nothing is known.
    """
    if along != layout.tile[-1] or along.block % 4 or is_open(index.constant) or index.constant % 4:
        return False
    within = _flat_factor(index, along) if len(along.axes) > 1 else index.coefficient(along.axes[0].name)
    if is_open(within) or within != 1:
        return False
    others = [(c, atom) for c, atom in index.terms if not (isinstance(atom, AxisAtom) and atom.name in along.names)]
    return not any(is_open(c) or c % 4 or Index(((c, atom),)).axes & along.names for c, atom in others)


def _flat_factor(index: Index, dimension: Dimension) -> int:
    """a where the index goes by a times the flattened position; 0 where it does not."""
    if len(dimension.axes) < 2:
        return 0
    factor = index.coefficient(dimension.axes[-1].name)
    stride = 1
    for axis in reversed(dimension.axes):
        if index.coefficient(axis.name) != factor * stride:
            return 0
        stride *= axis.size
    return factor
