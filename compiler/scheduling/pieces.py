"""An axis in pieces, all of which a program computes: where each of them reads what another one reads too.

    axes k < 128 parallel                                   axes k < 64 parallel
      %x = load %x[k]                                         %x = load %x[k]
      %up = load %x[k + 64] where 0 <= k < 64 else 0          %x1 = load %x[k + 64]
      %down = load %x[k - 64] where 64 <= k < 128 else 0  →   store %result[k], … %x …, … %x1 …
      %turned = where(k < 64, %up, %down)                     store %result[k + 64], … %x1 …, … %x …
      store %result[k], … %x …, … %turned …

Halves that are turned into each other, as rotary positions turn them, are so read once, and without conditions.

Pieces that have nothing to do with each other, as what `torch.cat` puts together, may have kernels of their own:

    axes i < 96 parallel, j < 256 parallel                     axes i < 32 parallel, j < 256 parallel
      %a = load %a[256*i + j] where 0 <= i < 32 else 0           %a = load %a[256*i + j]
      %b = load %b[256*i + j - 8192] where 32 <= i < 96   →      store %result[256*i + j], … %a …
      %c = where(i < 32, %a, %b)
      store %result[256*i + j], … %c …                         axes i < 64 parallel, j < 256 parallel
                                                                 %b = load %b[256*i + j]
                                                                 store %result[256*i + j + 8192], … %b …

A processor that looks for the part of each element computes one at a time, and else several.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from ...lang.light_dataclasses import dataclass, field, replace
from ..kernel_ir.bounds import positions_within
from ..kernel_ir.index import Atom, AxisAtom, Index, SizeValues, axis, constant
from ..kernel_ir.kernel import (
    Axis,
    Compute,
    Condition,
    Definition,
    Kernel,
    KernelConstant,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
)
from ..kernel_ir.queries import fresh, names_of, restricted, statement_axes
from ..kernel_ir.statements import (
    conditions,
    indices,
    used_names,
    with_axes_found,
    with_indices,
    with_operands,
    without_unused,
)
from ..types.open_sizes import is_open

MOST_PIECES = 4
LEAST_POINTS = 32
"""Of a piece: neighbours that are read and written together."""
MOST_APART = 16
MOST_LONGER = 4
"""Times that the text of all pieces is longer than one for them all: it is to be compiled."""
LEAST_RUN = 32
"""Elements of a piece with a kernel of its own that lie beside each other, so that pieces share no lines of memory."""
LEAST_CALLED = 256
"""Points of such a piece: fewer take no longer than one call more."""
_COMPARED = ("lt", "ge")


def in_pieces(kernel: Kernel) -> Kernel:
    """The kernel with axes in pieces that read less together, of those that nothing is reduced over; else itself.

    What is summed over other axes, as biases' gradients are over a batch, is a sum of each piece.
    """
    reduced = {name for statement in kernel.body if isinstance(statement, Reduce) for name in statement.over}
    for cut in kernel.axes:
        length = 0 if cut.name in reduced else _length(kernel, cut)
        if length:
            found = _unrolled(kernel, cut, length)
            if _elements_read(found) < _elements_read(kernel) and _walks_what_it_reduces(found):
                kernel = found
    return kernel


def parts_apart(kernel: Kernel) -> list[Kernel]:
    """The kernels of the parts in place of one, in order, or one that computes an element of each in turn where these
    lie beside each other; itself where it has no parts, or it does not pay.

    Nothing is computed twice: all that is reduced and stored varies from part to part.
    """
    for cut in kernel.axes:
        ends = [] if is_open(cut.size) or cut.role != "parallel" else sorted(ends_along(kernel, cut))
        if not 0 < len(ends) < MOST_APART or not _varies_along(kernel, cut):
            continue
        lengths = [end - start for start, end in zip([0, *ends], [*ends, cut.size], strict=True)]
        if _pay(kernel, cut, min(lengths)):
            numbered = enumerate(zip([0, *ends], lengths, strict=True), 1)
            parts = [
                of_pieces(kernel, f"{kernel.name}_part_{number}", replace(cut, size=length), [start])
                for number, (start, length) in numbered
            ]
        elif cut.size <= MOST_APART:
            parts = [of_pieces(kernel, kernel.name, replace(cut, size=1), range(cut.size))]
        else:
            continue
        if sum(len(part.body) for part in parts) <= MOST_LONGER * len(kernel.body):
            return parts
    return [kernel]


def _pay(kernel: Kernel, cut: Axis, shortest: int) -> bool:
    """Whether pieces of an axis pay for kernels of their own."""
    others = prod(axis.size for axis in kernel.axes if axis.name != cut.name)
    strides = [abs(s.index.coefficient(cut.name)) for s in kernel.body if isinstance(s, Store)]
    return reaches(min(strides, default=0) * shortest, LEAST_RUN) and reaches(others * shortest, LEAST_CALLED)


def reaches(size: int, least: int) -> bool:
    """Whether a size is no less; an open one is taken to be, for what is decided on is no longer open."""
    return is_open(size) or size >= least


def _varies_along(kernel: Kernel, cut: Axis) -> bool:
    """Whether all that takes time is of one point of an axis."""
    reduced = [s for s in kernel.body if isinstance(s, Reduce)]
    if any(cut.name in s.over or cut.name not in s.axes for s in reduced):
        return False
    return all(cut.name in s.index.axes for s in kernel.body if isinstance(s, Store))


def _walks_what_it_reduces(kernel: Kernel) -> bool:
    """Whether what is reduced varies along all that it is reduced over, as it may not where a piece is a number."""
    axes = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}
    reduced = [s for s in kernel.body if isinstance(s, Reduce)]
    return all(isinstance(s.operand, str) and s.over <= axes.get(s.operand, frozenset()) for s in reduced)


def _length(kernel: Kernel, cut: Axis) -> int:
    """Points of a piece, at whose ends conditions along an axis change; 0 where there are no such pieces."""
    if is_open(cut.size):
        return 0
    ends = ends_along(kernel, cut)
    length = gcd(cut.size, *ends) if ends else 0
    return length if length >= LEAST_POINTS and cut.size <= MOST_PIECES * length else 0


def ends_along(kernel: Kernel, cut: Axis) -> set[int]:
    """Points of an axis from which on something else is read or chosen than before."""
    positions = {s.name: s.index for s in kernel.body if isinstance(s, Position)}
    ends: set[int] = set()
    for statement in kernel.body:
        for condition in conditions(statement):
            ends |= _ends(condition.index, cut, (condition.low, condition.high))
        if isinstance(statement, Compute) and statement.primitive in _COMPARED:
            left, right = statement.operands
            if isinstance(left, str) and left in positions and isinstance(right, KernelConstant):
                ends |= _ends(positions[left], cut, (right.value,))
    return ends


def _ends(index: Index, cut: Axis, bounds: Sequence[int | float]) -> set[int]:
    """Where along an axis an index that is a place along it comes to bounds."""
    if index != axis(cut.name) + index.constant or any(is_open(bound) for bound in (*bounds, index.constant)):
        return set()
    return {end for bound in bounds if 0 < (end := int(bound) - index.constant) < cut.size}


def _elements_read(kernel: Kernel) -> int:
    """Elements that are asked for, each as often as it is."""
    total, axes_of = 0, statement_axes(kernel)
    for statement in kernel.body:
        ranges = positions_within(kernel.sizes, statement.conditions) if isinstance(statement, Load) else None
        if ranges is not None:
            points = 1
            for name in axes_of(statement):
                low, high = ranges[name]
                points *= high - low + 1
            total += points
    return total


@dataclass
class _Pieces:
    """The body under way: of each piece the operands that stand for values, and what is loaded."""

    cut: str
    sizes: SizeValues
    places: Sequence[Index]
    taken: set[str]
    operands: list[dict[str, Operand]]
    body: list[Statement] = field(default_factory=list)
    positions: dict[str, Index] = field(default_factory=dict)
    loaded: dict[Statement, str] = field(default_factory=dict)

    def add(self, statement: Statement, piece: int) -> None:
        """Append what a statement is in a piece."""
        known = self.operands[piece]

        def moved(atom: Atom) -> Index | None:
            return self.places[piece] if atom == AxisAtom(self.cut) else None

        made = with_operands(statement, known)
        made = with_indices(made, lambda index: index.substitute(moved, self.sizes))
        if isinstance(made, Load | Store):
            kept = self._left(made.conditions)
            if kept is None:
                if isinstance(made, Load):
                    known[made.name] = KernelConstant(made.other)
                return
            made = replace(made, conditions=kept)
        if not isinstance(made, Definition):
            self.body.append(made)
            return
        folded = self._folded(made)
        if folded is not None:
            known[made.name] = folded
            return
        key = replace(made, name="")
        if isinstance(made, Load | Position) and key in self.loaded:
            known[made.name] = self.loaded[key]
            return
        own = made.name if piece == 0 else fresh(made.name, self.taken)
        self.loaded[key] = known[made.name] = own
        if isinstance(made, Position):
            self.positions[own] = made.index
        self.body.append(replace(made, name=own))

    def _left(self, asked: tuple[Condition, ...]) -> tuple[Condition, ...] | None:
        """The conditions that may or may not hold; None where one never does."""
        left = []
        for condition in asked:
            low, high = condition.index.range(self.sizes)
            if high < condition.low or low >= condition.high:
                return None
            if low < condition.low or high >= condition.high:
                left.append(condition)
        return tuple(left)

    def _folded(self, made: Definition) -> Operand | None:
        """What a comparison of places gives, what a choice by one chooses, a sum with 0, and one of zeros."""
        if isinstance(made, Position) and not made.index.terms:
            return KernelConstant(made.index.constant)
        if isinstance(made, Reduce) and made.combine == "sum" and isinstance(made.operand, KernelConstant):
            return made.operand if made.operand.value == 0 else None
        if not isinstance(made, Compute):
            return None
        first, *others = made.operands or (None,)
        if made.primitive == "where" and isinstance(first, KernelConstant):
            return others[0] if first.value else others[1]
        if made.primitive == "add" and others and _is_zero(first) != _is_zero(others[0]):
            return others[0] if _is_zero(first) else first
        if made.primitive in _COMPARED and isinstance(others[0], KernelConstant):
            at = others[0].value
            if isinstance(first, KernelConstant):
                low = high = first.value
            elif first in self.positions:
                low, high = self.positions[first].range(self.sizes)
            else:
                return None
            if low >= at or high < at:
                return KernelConstant((low >= at) == (made.primitive == "ge"))
        if made.primitive in ("and", "or") and any(isinstance(o, KernelConstant) for o in made.operands):
            literal, other = first, others[0]
            if not isinstance(literal, KernelConstant):
                literal, other = other, literal
            assert isinstance(literal, KernelConstant)
            return literal if literal.value == (made.primitive == "or") else other
        if made.primitive == "not" and isinstance(first, KernelConstant):
            return KernelConstant(not first.value)
        return None


def _is_zero(operand: Operand | None) -> bool:
    return isinstance(operand, KernelConstant) and type(operand.value) is float and operand.value == 0


def _unrolled(kernel: Kernel, cut: Axis, length: int) -> Kernel:
    return of_pieces(kernel, kernel.name, replace(cut, size=length), range(0, cut.size, length))


def of_pieces(kernel: Kernel, name: str, cut: Axis, starts: Sequence[int]) -> Kernel:
    """A kernel of pieces of an axis, which are as long as `cut` and begin where they are told to: it computes all."""
    axes = [cut if a.name == cut.name else a for a in kernel.axes]
    sizes, count = {a.name: a.size for a in axes}, len(starts)
    places = [constant(start) if cut.size == 1 else axis(cut.name) + start for start in starts]
    pieces = _Pieces(cut.name, sizes, places, names_of(kernel), [{} for _ in range(count)])
    along: set[str] = set()
    for statement in kernel.body:
        walks = any(cut.name in index.axes for index in indices(statement))
        if walks or not along.isdisjoint(used_names(statement)):
            along |= {statement.name} if isinstance(statement, Definition) else set()
            for piece in range(count):
                pieces.add(statement, piece)
        else:
            pieces.body.append(statement)
            if isinstance(statement, Position):
                pieces.positions[statement.name] = statement.index
    body = without_unused(with_axes_found(pieces.body))
    return restricted(kernel, name, axes, [*kernel.buffers], body)
