"""Writing the body of a kernel: statements under unique names, each made once, and taken back when a trial fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....lang.light_dataclasses import dataclass, field
from ...kernel_ir.index import Index
from ...kernel_ir.kernel import (
    POSITIONS,
    Cast,
    Combine,
    Compute,
    Condition,
    Definition,
    KernelConstant,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
    Uniform,
)
from ...kernel_ir.statements import used_names
from ...ops.arrays import numpy_dtype
from ...ops.scalar import PRIMITIVES
from ...types.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType, Number
from ...types.open_sizes import is_open


def register_dtype(dtype: DType) -> DType:
    """In what a value of a tensor's dtype is computed: halves in float32."""
    return FLOAT32 if dtype.is_half else dtype


@dataclass(slots=True)
class Mark:
    """How far a body had come."""

    statements: int
    made: int
    remembered: int


@dataclass(slots=True)
class Body:
    """The statements so far. `dtypes` and `axes` tell those of each value.

    `ended` has the axes of the programs that have all to be through before it is there, `rows` those of rows that a
    program reduced for it: what comes when all programs are through would have to reduce them again.
    """

    statements: list[Statement] = field(default_factory=list)
    dtypes: dict[str, DType] = field(default_factory=dict)
    axes: dict[str, frozenset[str]] = field(default_factory=dict)
    ended: dict[str, frozenset[str]] = field(default_factory=dict)
    rows: dict[str, frozenset[str]] = field(default_factory=dict)
    memo: dict[Any, Operand] = field(default_factory=dict)
    work: list[tuple[int, int]] = field(default_factory=list)
    """Of each that is remembered, the work that it takes by itself, and with all that was computed for it."""
    _made: dict[Any, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)
    """The last number of each name that was given: all up to it are taken."""

    # --- trying ---

    def mark(self) -> Mark:
        return Mark(len(self.statements), len(self._made), len(self.memo))

    def take_back(self, mark: Mark) -> None:
        """Forget what came after a mark. Dicts keep the order in which they were filled."""
        for statement in self.statements[mark.statements :]:
            if isinstance(statement, Definition):
                for table in (self.dtypes, self.axes, self.ended, self.rows):
                    table.pop(statement.name, None)
                self._taken.discard(statement.name)
        self._numbers.clear()
        del self.statements[mark.statements :]
        del self.work[mark.remembered :]
        for memory, count in ((self._made, mark.made), (self.memo, mark.remembered)):
            while len(memory) > count:
                memory.popitem()

    # --- names ---

    def reserve(self, name: str) -> str:
        """A name that nothing else has."""
        base = name or "v"
        number = self._numbers.get(base, 0)
        unique = _numbered(base, number) if name or number else f"{base}0"
        while unique in self._taken:
            number += 1
            unique = _numbered(base, number)
        self._taken.add(unique)
        self._numbers[base] = number
        return unique

    def parameter(self, name: str, dtype: DType) -> str:
        """Announce a parameter of the kernel."""
        self.dtypes[name], self.axes[name] = dtype, frozenset()
        return name

    # --- statements ---

    def load(self, hint: str, buffer: str, dtype: DType, index: Index, conditions: Sequence[Condition]) -> str:
        key = ("load", buffer, index, tuple(conditions))
        axes = self._axes_of(index, conditions)
        found = self._define(key, hint, lambda name: Load(name, dtype, axes, buffer, index, tuple(conditions)))
        return self._as_name(self.cast(found, register_dtype(dtype), hint))

    def loads_within(self, condition: Condition) -> bool:
        """Whether anything is loaded under a condition: that is what tells where it does not hold."""
        return any(isinstance(s, Load) and condition in s.conditions for s in reversed(self.statements))

    def is_place_of(self, operand: str, size: int, sizes: Mapping[str, int]) -> bool:
        """Whether an operand says where along so many elements at most the largest or the least is."""
        found = next(s for s in self.statements if isinstance(s, Definition) and s.name == operand)
        if not isinstance(found, Reduce) or found.combine not in POSITIONS:
            return False
        return prod([sizes[name] for name in found.over]) <= size

    def compute(self, hint: str, primitive: str, dtype: DType, operands: Sequence[Operand]) -> Operand:
        """A primitive; computed at once where all operands are literals."""
        folded = self._folded(primitive, dtype, operands)
        if folded is not None:
            return folded
        if primitive == "where" and isinstance(operands[0], KernelConstant):
            return self.cast(operands[1] if operands[0].value else operands[2], dtype, hint)
        key = (primitive, dtype, tuple(map(repr, operands)))
        axes = self.axes_of(*operands)
        return self._define(key, hint, lambda name: Compute(name, dtype, axes, primitive, tuple(operands)))

    def cast(self, operand: Operand, dtype: DType, hint: str = "") -> Operand:
        """The operand in another dtype; itself where that changes nothing."""
        if isinstance(operand, KernelConstant):
            return KernelConstant(_converted(operand.value, dtype))
        if self.dtypes[operand] == dtype:
            return operand
        key = ("cast", operand, dtype)
        return self._define(key, hint, lambda name: Cast(name, dtype, self.axes[operand], operand))

    def position(self, index: Index) -> Operand:
        """An index as a value."""
        if not index.terms:
            return KernelConstant(index.constant)
        axes = self._axes_of(index, ())
        return self._define(("position", index), "position", lambda name: Position(name, INT64, axes, index))

    def uniform(self, hint: str, seed: Operand, counter: Index) -> str:
        axes = self._axes_of(counter, ())
        key = ("uniform", repr(seed), counter)
        return self._define(key, hint, lambda name: Uniform(name, FLOAT32, axes, seed, counter))

    def reduce(
        self, hint: str, combine: Combine, dtype: DType, operand: Operand, over: frozenset[str], *, of_programs: bool
    ) -> str:
        """A reduction, `of_programs` where each has a part of what is reduced, as it has of what such a one gives."""
        axes = self.axes_of(operand) - over
        key = (combine, dtype, repr(operand), over)
        name = self._define(key, hint, lambda name: Reduce(name, dtype, axes, combine, operand, over))
        ended = _of(self.ended, operand)
        if of_programs or ended:
            self.ended[name] = ended | over
        self.rows[name] = frozenset() if of_programs else _of(self.rows, operand) | over
        return name

    def store(self, buffer: str, index: Index, operand: Operand) -> None:
        self.statements.append(Store(buffer, index, operand))

    def both(self, left: Operand, right: Operand) -> Operand:
        """Whether two conditions hold, of which each may be known."""
        if isinstance(left, KernelConstant):
            return right if left.value else left
        if isinstance(right, KernelConstant):
            return left if right.value else right
        return self.compute("", "and", BOOL, [left, right])

    def within(self, index: Index, low: int | None, high: int | None) -> Operand:
        """Whether an index lies in a half-open range, of which an end may be missing."""
        position = self.position(index)
        parts = [] if low is None else [self.compute("", "ge", BOOL, [position, KernelConstant(low)])]
        parts += [] if high is None else [self.compute("", "lt", BOOL, [position, KernelConstant(high)])]
        result: Operand = KernelConstant(True)
        for part in parts:
            result = self.both(result, part)
        return result

    def where(self, condition: Operand, yes: Operand, no: Operand, dtype: DType) -> Operand:
        if isinstance(condition, KernelConstant):
            return yes if condition.value else no
        if dtype == BOOL:
            chosen = self.both(condition, yes)
            return self.compute("", "or", BOOL, [chosen, self.both(self.compute("", "not", BOOL, [condition]), no)])
        return self.compute("", "where", dtype, [condition, yes, no])

    def axes_of(self, *operands: Operand) -> frozenset[str]:
        return frozenset[str]().union(*(self.axes[o] for o in operands if isinstance(o, str)))

    def gone(self, operand: Operand) -> frozenset[str]:
        """The axes that are there no more when an operand is, which has to wait for all programs."""
        ended = _of(self.ended, operand)
        return ended | _of(self.rows, operand) if ended else ended

    def _axes_of(self, index: Index, conditions: Sequence[Condition]) -> frozenset[str]:
        indices = [index, *(condition.index for condition in conditions)]
        direct = frozenset[str]().union(*(i.axes for i in indices))
        return direct.union(*(self.axes[name] for i in indices for name in i.values))

    def _define(self, key: Any, hint: str, make: Any) -> str:
        found = self._made.get(key)
        if found is not None:
            return found
        name = self.reserve(hint)
        statement = make(name)
        self.dtypes[name], self.axes[name] = statement.dtype, statement.axes
        used = used_names(statement)
        for table in (self.ended, self.rows):
            found_along = [along for one in used if (along := table.get(one))]
            table[name] = frozenset[str]().union(*found_along)
        self.statements.append(statement)
        self._made[key] = name
        return name

    def _folded(self, primitive: str, dtype: DType, operands: Sequence[Operand]) -> KernelConstant | None:
        if not all(isinstance(operand, KernelConstant) and not is_open(operand.value) for operand in operands):
            return None
        numbers = [operand.value for operand in operands if isinstance(operand, KernelConstant)]
        kinds = PRIMITIVES[primitive].operands
        wide = dtype if dtype != BOOL or PRIMITIVES[primitive].result != "bool" else _common(numbers)
        arrays = [
            np.asarray(_converted(n, BOOL if kind == "bool" else wide), numpy_dtype(BOOL if kind == "bool" else wide))
            for n, kind in zip(numbers, kinds, strict=True)
        ]
        with np.errstate(all="ignore"):
            result = np.asarray(PRIMITIVES[primitive].evaluate(*arrays)).astype(numpy_dtype(dtype))
        return KernelConstant(result.item())

    @staticmethod
    def _as_name(operand: Operand) -> str:
        assert isinstance(operand, str)
        return operand


def _numbered(base: str, number: int) -> str:
    if not number:
        return base
    return f"{base}{number}" if base[-1:].isalpha() else f"{base}_{number}"


def _of(table: Mapping[str, frozenset[str]], operand: Operand) -> frozenset[str]:
    return table.get(operand, frozenset()) if isinstance(operand, str) else frozenset()


def _common(numbers: Sequence[Number]) -> DType:
    return FLOAT64 if any(isinstance(n, float) for n in numbers) else INT64


def _converted(number: Number, dtype: DType) -> Number:
    """A literal as a number of a dtype; integers wrap around as torch's do."""
    if dtype == BOOL:
        return bool(number)
    if dtype.is_floating:
        return float(number)
    whole = int(number)
    return whole if dtype == INT64 or is_open(whole) else int(np.asarray(whole).astype(numpy_dtype(dtype)))
