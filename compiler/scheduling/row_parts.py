"""Rows that a program walks, longer than its registers hold: each is taken in parts, all of which are written out.

    %x : [r, j] = load …                       %x0, %x1 = load …              in turn, half a row each
    %s : [r] = reduce sum %x over j       →    %x_sum = add(%x0, %x1)
    %g : [r, j] = mul(%x, %s)                  %s = reduce sum %x_sum over j
    %w : [j] = reduce sum %g over r            %x2, %x3 = load …              again, from a cache
    store %w[j], %w                            %w0 = reduce sum %g0 over r    stays in registers, as does %w1
                                               store %w[j], %w0; store %w[j + 512], %w1

What is accumulated along the rows has to stay: a loop over the parts could not tell one register from another. What is
read again was read a moment before, by the same program, so that memory gives it once.

Compilers gather alike computations of straight code, and would hold all parts at once. So a text has each part but the
first in a branch of its own, which is taken always, as only the one who launches it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...lang.light_dataclasses import dataclass, field, replace
from ..kernel_ir.index import AxisAtom, Index, axis
from ..kernel_ir.kernel import (
    POSITIONS,
    Cast,
    Combine,
    Compute,
    Definition,
    Kernel,
    Load,
    Reduce,
    Statement,
    Uniform,
)
from ..kernel_ir.queries import fresh, names_of
from ..kernel_ir.statements import used_names, with_indices, with_operands
from .limits import Limits
from .phases import phases_of
from .pressure import words_alive
from .strides import next_power

COMBINED: dict[Combine, str] = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "or",
    "all": "and",
}
"""The primitive that combines two parts' elements."""


def parts_of_rows(kernel: Kernel, threads: int, limits: Limits) -> int:
    """In how many parts so many threads take the rows of a kernel; 1 where they cannot hold what they accumulate, and
    where they accumulate nothing along them, for then a loop over blocks does.

    Rows have to lie along one axis, and what is reduced is reduced along these alone, or along the serial axes.
    """
    row, serial = kernel.with_role("reduction"), frozenset(a.name for a in kernel.with_role("serial"))
    if len(row) != 1 or not serial or row[0].dynamic or not all(_may_be_in_parts(s, row[0].name) for s in kernel.body):
        return 1
    (along,) = row
    sums = [s for s in kernel.body if isinstance(s, Reduce) and s.over & serial and along.name in s.axes]
    if not sums:
        return 1
    accumulated = sum(-(-s.dtype.itemsize // 4) for s in sums)
    # Halves are widened as soon as they are there, and something is made of them.
    loads = [s for s in kernel.body if isinstance(s, Load) and along.name in s.axes]
    words = max(words_alive(kernel) - accumulated, sum(-(-s.dtype.itemsize // 4) for s in loads)) + 1
    for block in (2 * limits.row_block, limits.row_block, limits.row_block // 2):
        parts = _parts_of(along.size, block)
        each = -(-next_power(along.size // max(parts, 1)) // threads)
        if parts > 1 and (accumulated * parts + words) * each <= limits.held_registers:
            return parts
    return 1


def _may_be_in_parts(statement: Statement, row: str) -> bool:
    if not isinstance(statement, Reduce):
        return not isinstance(statement, Uniform)
    is_plain = statement.combine not in POSITIONS and isinstance(statement.operand, str)
    return is_plain and (row not in statement.over or statement.over == {row})


def _parts_of(points: int, most: int) -> int:
    """The fewest parts of a row, all alike and no longer than `most`; 0 where there are none of half that."""
    for parts in range(-(-points // most), 2 * -(-points // most) + 1):
        if points % parts == 0:
            return parts
    return 0


@dataclass(frozen=True)
class RowParts:
    """A kernel whose rows are taken in so many parts, `count`.

    `part_of` are the branches of values, by number, where these are not straight code; `totals` what is combined from
    part to part, one variable each, by the names that it has on the way.
    """

    kernel: Kernel
    count: int = 1
    part_of: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, str] = field(default_factory=dict)


def in_parts(kernel: Kernel, parts: int) -> RowParts:
    """The kernel whose rows are taken in so many parts, which divide them."""
    (row,) = kernel.with_role("reduction")
    writer = _Writer(kernel, row.name, row.size // parts, parts)
    body = tuple(writer.body())
    axes = tuple([replace(a, size=writer.size) if a == row else a for a in kernel.axes])
    return RowParts(replace(kernel, axes=axes, body=body), parts, writer.part_of, writer.totals)


@dataclass
class _Writer:
    """`size` points along the axis `row` are one part."""

    kernel: Kernel
    row: str
    size: int
    parts: int
    part_of: dict[str, int] = field(default_factory=dict)
    totals: dict[str, str] = field(default_factory=dict)
    _branches: int = 0
    _written: list[Statement] = field(default_factory=list)
    _names: dict[tuple[str, int], str] = field(default_factory=dict)
    """Of values along a row: what each is called in each part."""

    def body(self) -> list[Statement]:
        self._taken = names_of(self.kernel) | {buffer.name for buffer in self.kernel.buffers}
        self._serial = frozenset(a.name for a in self.kernel.with_role("serial"))
        self._sizes = {**self.kernel.sizes, self.row: self.size}
        self._after = self._after_rows()
        for number, phase in enumerate(phases_of(self.kernel.body, frozenset({self.row}), rescaled=False)):
            self._written += phase.straight
            self._phase(phase.loop, backwards=number % 2 == 1)
        return self._written

    def _after_rows(self) -> frozenset[str]:
        """What is accumulated along all rows, and what follows from it."""
        found: set[str] = set()
        for statement in self.kernel.body:
            is_sum = isinstance(statement, Reduce) and bool(statement.over & self._serial)
            if isinstance(statement, Definition) and (is_sum or found & set(used_names(statement))):
                found.add(statement.name)
        return frozenset(found)

    def _phase(self, statements: Sequence[Statement], *, backwards: bool) -> None:
        """What was read last is read first the next time, while a cache has it."""
        totals: dict[str, str] = {}
        for turn in range(self.parts):
            number = self.parts - 1 - turn if backwards else turn
            self._names = {key: name for key, name in self._names.items() if key[0] in self._after}
            self._branches += 1
            begins = len(self._written)
            for statement in statements:
                if isinstance(statement, Reduce) and self.row in statement.over:
                    self._add(statement, number, totals)
                elif not isinstance(statement, Definition) or (statement.name, number) not in self._names:
                    self._written.append(self._part(statement, number))
            if turn:
                made = [s.name for s in self._written[begins:] if isinstance(s, Definition)]
                self.part_of.update(dict.fromkeys(made, self._branches))
        for statement in statements:
            if isinstance(statement, Reduce) and self.row in statement.over:
                self._written.append(replace(statement, operand=totals[statement.name]))

    def _add(self, statement: Reduce, number: int, totals: dict[str, str]) -> None:
        """Elements of parts are combined first, so that threads wait for each other once."""
        assert isinstance(statement.operand, str)
        operand = self._names.get((statement.operand, number), statement.operand)
        before = totals.get(statement.name)
        defined = next(s for s in self.kernel.body if isinstance(s, Definition) and s.name == statement.operand)
        name = totals[statement.name] = fresh(f"{statement.name}_parts", self._taken)
        axes = defined.axes | {self.row}
        if before is None:
            self._written.append(Cast(name, defined.dtype, axes, operand))
        else:
            combine = COMBINED[statement.combine]
            self._written.append(Compute(name, defined.dtype, axes, combine, (before, operand)))
        self.totals[name] = self.totals.get(before or "", name)

    def _part(self, statement: Statement, number: int) -> Statement:
        names = {name: self._names[name, number] for name in used_names(statement) if (name, number) in self._names}
        moved = with_operands(with_indices(statement, lambda index: self._moved(index, number)), names)
        if not isinstance(moved, Definition) or not isinstance(statement, Definition):
            return moved
        name = fresh(statement.name, self._taken)
        self._names[statement.name, number] = name
        # What is the same in each row is read with each, for it would take registers from the first to the last.
        waits = statement.name not in self._after
        return replace(moved, name=name, axes=moved.axes | self._serial if waits else moved.axes)

    def _moved(self, index: Index, number: int) -> Index:
        position = axis(self.row) + number * self.size
        return index.substitute(
            lambda atom: position if isinstance(atom, AxisAtom) and atom.name == self.row else None, self._sizes
        )
