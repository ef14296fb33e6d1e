"""Kernels for the tests, built by hand."""

from __future__ import annotations

from typing import Any

from gradscript.compiler.kernel_ir.index import Index, axis, constant, value
from gradscript.compiler.kernel_ir.kernel import (
    POSITIONS,
    Axis,
    Buffer,
    Cast,
    Combine,
    Compute,
    Condition,
    Definition,
    Kernel,
    KernelConstant,
    KernelParameter,
    Load,
    Operand,
    Position,
    Reduce,
    Role,
    Statement,
    Store,
    Uniform,
)
from gradscript.compiler.ops.scalar import PRIMITIVES
from gradscript.compiler.types.dtypes import BOOL, FLOAT32, INT64, DType, Number
from gradscript.lang.light_dataclasses import replace


class KernelBuilder:
    """Appends statements; values are their names. Halves are widened when loaded, as a lowering does."""

    def __init__(self, name: str, **axes: int | tuple[int, Role]) -> None:
        self.name = name
        self.axes = [Axis(n, *(size if isinstance(size, tuple) else (size,))) for n, size in axes.items()]
        self.buffers: list[Buffer] = []
        self.parameters: list[KernelParameter] = []
        self.body: list[Statement] = []
        self._count = 0

    @property
    def sizes(self) -> dict[str, int]:
        return {a.name: a.size for a in self.axes}

    def input(self, name: str, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> str:
        self.buffers.append(Buffer(name, dtype, shape, strides or contiguous(shape)))
        return name

    def output(self, name: str, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> str:
        self.buffers.append(Buffer(name, dtype, shape, strides or contiguous(shape), True))
        return name

    def number(self, name: str, dtype: DType) -> str:
        self.parameters.append(KernelParameter(name, dtype))
        return name

    def index(self, buffer: str, at: str | list[Index]) -> Index:
        """`"ij"` is the element [i, j]; `-` a dimension of which there is one element."""
        found = next(b for b in self.buffers if b.name == buffer)
        places = [constant(0) if c == "-" else axis(c) for c in at] if isinstance(at, str) else at
        total = constant(0)
        for place, stride in zip(places, found.strides, strict=True):
            total = total + place * stride
        return total

    def load(
        self,
        buffer: str,
        at: str | list[Index],
        conditions: tuple[Condition, ...] = (),
        other: Number = 0,
        name: str = "",
    ) -> str:
        index = self.index(buffer, at)
        dtype = next(b for b in self.buffers if b.name == buffer).dtype
        axes = self._axes(index, *(c.index for c in conditions))
        loaded = self._define(Load("", dtype, axes, buffer, index, conditions, other), "" if dtype.is_half else name)
        return self.cast(loaded, FLOAT32, name) if dtype.is_half else loaded

    def compute(self, primitive: str, *operands: str | Number, name: str = "", dtype: DType | None = None) -> str:
        given: list[Operand] = [o if isinstance(o, str) else KernelConstant(o) for o in operands]
        declared = {p.name for p in self.parameters}
        named = [self.definition(o) for o in given if isinstance(o, str) and o not in declared]
        axes = frozenset[str]().union(*(d.axes for d in named))
        if dtype is None:
            dtype = BOOL if PRIMITIVES[primitive].result == "bool" else named[-1].dtype if named else FLOAT32
        return self._define(Compute("", dtype, axes, primitive, tuple(given)), name)

    def cast(self, operand: str, dtype: DType, name: str = "") -> str:
        return self._define(Cast("", dtype, self.definition(operand).axes, operand), name)

    def position(self, index: Index, name: str = "") -> str:
        return self._define(Position("", INT64, self._axes(index), index), name)

    def uniform(self, seed: str, counter: Index, name: str = "") -> str:
        return self._define(Uniform("", FLOAT32, self._axes(counter), seed, counter), name)

    def reduce(self, combine: Combine, operand: str, over: str, name: str = "") -> str:
        found = self.definition(operand)
        dtype = INT64 if combine in POSITIONS else found.dtype
        axes = found.axes - set(over)
        return self._define(Reduce("", dtype, axes, combine, operand, frozenset(over)), name)

    def store(
        self, buffer: str, at: str | list[Index], operand: str | Number, conditions: tuple[Condition, ...] = ()
    ) -> None:
        given: Operand = operand if isinstance(operand, str) else KernelConstant(operand)
        self.body.append(Store(buffer, self.index(buffer, at), given, conditions))

    def definition(self, name: str) -> Definition:
        return next(s for s in self.body if isinstance(s, Definition) and s.name == name)

    def build(self, **changes: Any) -> Kernel:
        return Kernel(
            self.name, tuple(self.axes), tuple(self.buffers), tuple(self.parameters), tuple(self.body), **changes
        )

    def _define(self, statement: Definition, name: str) -> str:
        self._count += 1
        name = name or str(self._count)
        self.body.append(replace(statement, name=name))
        return name

    def _axes(self, *indices: Index) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for index in indices:
            found |= index.axes.union(*(self.definition(v).axes for v in index.values))
        return found


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


__all__ = ["Condition", "Index", "KernelBuilder", "axis", "constant", "contiguous", "value"]
