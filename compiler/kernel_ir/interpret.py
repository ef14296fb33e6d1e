"""Running a kernel on arrays: the meaning of kernel IR, and the reference for every emitter.

Each value is held as one array with a dimension per axis of the kernel, of size 1 where it does not vary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..ops.arrays import Array, compute_dtype, dtype_of, numpy_dtype
from ..ops.scalar import PRIMITIVES
from ..types.dtypes import BOOL, FLOAT64, INT64, DType
from .index import Atom, AxisAtom, Index, Quotient, ValueAtom
from .kernel import (
    IDENTITY,
    POSITIONS,
    Buffer,
    Cast,
    Compute,
    Condition,
    Kernel,
    KernelConstant,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
    Uniform,
)

Numbers = bool | int | float


def run_kernel(
    kernel: Kernel, arrays: Mapping[str, Array], numbers: Mapping[str, Numbers] | None = None
) -> dict[str, Array]:
    """The outputs by name, for one array per input buffer and one number per parameter.

    Elements of an output that nothing writes are zeros.
    """
    run = _KernelRun(kernel, arrays, numbers or {})
    with np.errstate(all="ignore"):
        for statement in kernel.body:
            _STATEMENTS[type(statement)](run, statement)
    return {buffer.name: run.view(buffer) for buffer in kernel.outputs}


class _Memory:
    """A buffer's elements in one dimension: where strides lead, from the least offset on."""

    def __init__(self, buffer: Buffer) -> None:
        ends = [(size - 1) * stride for size, stride in zip(buffer.shape, buffer.strides, strict=True) if size]
        self.origin = -sum(end for end in ends if end < 0)
        extent = self.origin + sum(end for end in ends if end > 0) + 1
        self.elements = np.zeros(extent if buffer.numel else 0, numpy_dtype(buffer.dtype))

    def view(self, buffer: Buffer) -> Array:
        if not buffer.numel:
            return np.zeros(buffer.shape, self.elements.dtype)
        strides = [stride * self.elements.itemsize for stride in buffer.strides]
        return as_strided(self.elements[self.origin :], buffer.shape, strides)


class _KernelRun:
    def __init__(self, kernel: Kernel, arrays: Mapping[str, Array], numbers: Mapping[str, Numbers]) -> None:
        self.kernel = kernel
        self.sizes = kernel.sizes
        self.names = [axis.name for axis in kernel.axes]
        self.values: dict[str, Array] = {}
        self._parameters = {parameter.name for parameter in kernel.parameters}
        self.memory = {buffer.name: _Memory(buffer) for buffer in kernel.buffers}
        for buffer in kernel.inputs:
            array = np.asarray(arrays[buffer.name])
            if array.shape != buffer.shape or array.dtype != numpy_dtype(buffer.dtype):
                raise ValueError(f"{buffer.name} is {array.dtype}{list(array.shape)}, not as the kernel has it")
            self.memory[buffer.name].view(buffer)[...] = array
        for parameter in kernel.parameters:
            number = np.asarray(numbers[parameter.name], numpy_dtype(parameter.dtype))
            self.values[parameter.name] = number.reshape((1,) * len(self.names))

    def view(self, buffer: Buffer) -> Array:
        return self.memory[buffer.name].view(buffer)

    def operand(self, operand: Operand, dtype: DType) -> Array:
        """An operand in the dtype of the operation; a number is converted as a weak scalar is."""
        found = self.values[operand] if isinstance(operand, str) else np.asarray(operand.value)
        return found.astype(numpy_dtype(dtype), copy=False)

    def index(self, index: Index) -> Array:
        total = np.full((1,) * len(self.names), index.constant, np.int64)
        for coefficient, atom in index.terms:
            total = total + coefficient * self._atom(atom)
        return total

    def _atom(self, atom: Atom) -> Array:
        if isinstance(atom, AxisAtom):
            shape = [self.sizes[atom.name] if name == atom.name else 1 for name in self.names]
            return np.arange(self.sizes[atom.name], dtype=np.int64).reshape(shape)
        if isinstance(atom, ValueAtom):
            return self.values[atom.name].astype(np.int64, copy=False)
        inner = self.index(atom.index)
        return inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor

    def holds(self, conditions: tuple[Condition, ...]) -> Array:
        result = np.ones((1,) * len(self.names), np.bool_)
        for condition in conditions:
            index = self.index(condition.index)
            result = result & (index >= condition.low) & (index < condition.high)
        return result

    # --- statements ---

    def load(self, statement: Load) -> None:
        memory = self.memory[statement.buffer]
        index, holds = self.index(statement.index), self.holds(statement.conditions)
        index, holds = np.broadcast_arrays(index, holds)
        other = np.asarray(statement.other).astype(memory.elements.dtype)
        # Of an empty buffer no point asks for an element, though a statement may stand for no axis that tells so.
        if not holds.any() or not memory.elements.size:
            self.values[statement.name] = np.broadcast_to(other, holds.shape)
            return
        found = memory.elements[np.where(holds, index + memory.origin, 0)]
        self.values[statement.name] = np.where(holds, found, other)

    def compute(self, statement: Compute) -> None:
        primitive = PRIMITIVES[statement.primitive]
        numbers = self._operand_dtype(statement)
        operands = [
            self.operand(operand, BOOL if kind == "bool" else numbers)
            for operand, kind in zip(statement.operands, primitive.operands, strict=True)
        ]
        result = np.asarray(primitive.evaluate(*operands))
        self.values[statement.name] = result.astype(numpy_dtype(statement.dtype), copy=False)

    def _operand_dtype(self, statement: Compute) -> DType:
        """What numbers among the operands are of: the result's dtype, unless that is a comparison's."""
        if statement.dtype != BOOL or PRIMITIVES[statement.primitive].result != "bool":
            return statement.dtype
        named = [self.values[o] for o in statement.operands if isinstance(o, str) and o not in self._parameters]
        return dtype_of(named[0]) if named else FLOAT64

    def cast(self, statement: Cast) -> None:
        if isinstance(statement.operand, KernelConstant):
            found = np.full((1,) * len(self.names), statement.operand.value)
        else:
            found = self.values[statement.operand]
        to = numpy_dtype(statement.dtype)
        if statement.dtype.category == 1 and found.dtype.kind in "fV":
            found = np.trunc(found.astype(np.float64)).astype(np.int64)
        if statement.dtype.is_half:
            found = found.astype(np.float32)
        self.values[statement.name] = found != 0 if statement.dtype == BOOL else found.astype(to)

    def position(self, statement: Position) -> None:
        self.values[statement.name] = self.index(statement.index)

    def uniform(self, statement: Uniform) -> None:
        from ..ops.families.random import uniform_at

        seed = int(self.operand(statement.seed, INT64).reshape(()))
        self.values[statement.name] = uniform_at(seed, self.index(statement.counter))

    def reduce(self, statement: Reduce) -> None:
        operand = self.values[statement.operand] if isinstance(statement.operand, str) else None
        if operand is None:
            operand = self.operand(statement.operand, statement.dtype).reshape((1,) * len(self.names))
        over = tuple(i for i, name in enumerate(self.names) if name in statement.over)
        shape = [self.sizes[n] if i in over else operand.shape[i] for i, n in enumerate(self.names)]
        operand = np.broadcast_to(operand, shape)
        if statement.combine in POSITIONS:
            result = getattr(np, statement.combine)(operand, axis=over[0], keepdims=True)
        else:
            ufunc = _COMBINES[statement.combine]
            wide = operand.astype(numpy_dtype(compute_dtype(statement.dtype)), copy=False)
            result = ufunc.reduce(wide, axis=over, keepdims=True, initial=_identity(statement))
        self.values[statement.name] = np.asarray(result).astype(numpy_dtype(statement.dtype), copy=False)

    def store(self, statement: Store) -> None:
        buffer = self.kernel.buffer(statement.buffer)
        memory = self.memory[statement.buffer]
        operand = self.values[statement.operand] if isinstance(statement.operand, str) else None
        if operand is None:
            operand = self.operand(statement.operand, buffer.dtype)
        index, holds, operand = np.broadcast_arrays(
            self.index(statement.index), self.holds(statement.conditions), operand
        )
        stored = operand[holds].astype(np.float32) if buffer.dtype.is_half else operand[holds]
        memory.elements[index[holds] + memory.origin] = stored.astype(memory.elements.dtype)


def _identity(statement: Reduce) -> Any:
    """Where a reduction starts, in its dtype."""
    identity = IDENTITY[statement.combine]
    if statement.dtype.category == 1 and statement.combine in ("max", "min"):
        limits = np.iinfo(numpy_dtype(statement.dtype))
        return limits.min if statement.combine == "max" else limits.max
    return identity


_COMBINES: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}
_STATEMENTS: dict[type[Statement], Callable[[_KernelRun, Any], None]] = {
    Load: _KernelRun.load,
    Compute: _KernelRun.compute,
    Cast: _KernelRun.cast,
    Position: _KernelRun.position,
    Uniform: _KernelRun.uniform,
    Reduce: _KernelRun.reduce,
    Store: _KernelRun.store,
}
