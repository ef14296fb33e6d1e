"""What every kernel must be: names, dtypes and axes that fit, and no element out of bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.scalar import PRIMITIVES
from ..types.dtypes import BOOL, FLOAT32, INT64, DType
from .bounds import beyond_ends
from .in_place import may_take_place
from .index import Index
from .kernel import (
    POSITIONS,
    Cast,
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
    Uniform,
)
from .printer import print_statement


class InvalidKernel(Exception):
    """A kernel breaks a rule; the message names the rule and shows the statement, `sources` are the kernel's."""

    def __init__(self, message: str, kernel: Kernel) -> None:
        super().__init__(message)
        self.sources = kernel.sources


def verify_kernel(kernel: Kernel) -> None:
    """Raise InvalidKernel unless the kernel is well formed."""
    _KernelVerifier(kernel).run()


class _Broken(Exception):
    pass


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise _Broken(rule)


class _KernelVerifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.axes = {axis.name for axis in kernel.axes}
        self.buffers = {buffer.name: buffer for buffer in kernel.buffers}
        self.dtypes: dict[str, DType] = {p.name: p.dtype for p in kernel.parameters}
        self.varies: dict[str, frozenset[str]] = {p.name: frozenset() for p in kernel.parameters}

    def run(self) -> None:
        names = [*(a.name for a in self.kernel.axes), *self.dtypes]
        if len(names) != len(set(names)) or len(self.buffers) != len(self.kernel.buffers):
            message = f"{self.kernel.name}: axes and parameters, and buffers, have names of their own"
            raise InvalidKernel(message, self.kernel)
        for axis in self.kernel.axes:
            if axis.size < 0:
                raise InvalidKernel(f"{self.kernel.name}: axis {axis.name} has the size {axis.size}", self.kernel)
        for buffer in self.kernel.buffers:
            source = self.buffers.get(buffer.place_of)
            if buffer.place_of and (source is None or not may_take_place(self.kernel, buffer, source)):
                message = f"{self.kernel.name}: %{buffer.name} may not lie where %{buffer.place_of} does"
                raise InvalidKernel(message, self.kernel)
        for statement in self.kernel.body:
            try:
                self._statement(statement)
            except _Broken as broken:
                shown = print_statement(statement, self.kernel)
                raise InvalidKernel(f"{self.kernel.name}: {broken}:\n    {shown}", self.kernel) from None

    def _statement(self, statement: Statement) -> None:
        _RULES[type(statement)](self, statement)
        if isinstance(statement, Definition):
            taken = statement.name in self.dtypes or statement.name in self.axes
            _require(not taken, f"%{statement.name} is defined twice")
            self.dtypes[statement.name] = statement.dtype
            self.varies[statement.name] = statement.axes

    # --- parts ---

    def operand(self, operand: Operand) -> DType | None:
        """Its dtype; None for a literal or a parameter, which take any."""
        if isinstance(operand, KernelConstant):
            return None
        _require(operand in self.dtypes, f"%{operand} is used before it is defined")
        return None if any(operand == p.name for p in self.kernel.parameters) else self.dtypes[operand]

    def axes_of(self, *operands: Operand) -> frozenset[str]:
        return frozenset[str]().union(*(self.varies[o] for o in operands if isinstance(o, str)))

    def axes_of_index(self, index: Index) -> frozenset[str]:
        for name in index.values:
            dtype = self.operand(name)
            _require(dtype is not None and dtype.category == 1, f"%{name} is no integer, so it is no index")
        _require(index.axes <= self.axes, f"{', '.join(sorted(index.axes - self.axes))} is no axis")
        return index.axes.union(*(self.varies[name] for name in index.values))

    def _axes_are(self, statement: Definition, axes: frozenset[str]) -> None:
        _require(statement.axes == axes, f"the value varies over [{', '.join(sorted(axes))}]")

    def address(self, buffer: str, index: Index, conditions: tuple[Condition, ...]) -> frozenset[str]:
        """Check that an element lies in its buffer, as far as the ranges of axes tell; returns the axes."""
        axes = self.axes_of_index(index)
        for condition in conditions:
            axes |= self.axes_of_index(condition.index)
        shape = list(zip(self.buffers[buffer].shape, self.buffers[buffer].strides, strict=True))
        low = sum((size - 1) * stride for size, stride in shape if stride < 0)
        high = sum((size - 1) * stride for size, stride in shape if stride > 0)
        if not index.values and all(self.kernel.axis(a).size for a in axes):
            beyond = beyond_ends(index, conditions, self.kernel.sizes, low, high)
            if beyond is not None:
                least, greatest = beyond
                _require(False, f"elements {least:g} to {greatest:g} of {low} to {high}")
        return axes

    # --- statements ---

    def load(self, load: Load) -> None:
        buffer = self.buffers.get(load.buffer)
        _require(buffer is not None and not buffer.is_output, f"%{load.buffer} is no input")
        _require(buffer is not None and buffer.dtype == load.dtype, "a load has the dtype of its buffer")
        self._axes_are(load, self.address(load.buffer, load.index, load.conditions))

    def compute(self, compute: Compute) -> None:
        primitive = PRIMITIVES.get(compute.primitive)
        _require(primitive is not None, f"{compute.primitive} is no primitive")
        assert primitive is not None
        _require(len(compute.operands) == primitive.arity, f"{primitive.name} takes {primitive.arity} operands")
        _require(not compute.dtype.is_half, "halves are computed in float32")
        found = [self.operand(operand) for operand in compute.operands]
        self._axes_are(compute, self.axes_of(*compute.operands))
        booleans = [d for d, kind in zip(found, primitive.operands, strict=True) if kind == "bool"]
        numbers = {d for d, kind in zip(found, primitive.operands, strict=True) if kind != "bool" and d is not None}
        _require(all(d in (None, BOOL) for d in booleans), "a condition is a bool")
        if primitive.result == "bool":
            _require(compute.dtype == BOOL and len(numbers) <= 1, "a comparison is of one dtype and gives a bool")
        else:
            _require(numbers <= {compute.dtype}, "operands have the dtype of the result")

    def cast(self, cast: Cast) -> None:
        self.operand(cast.operand)
        self._axes_are(cast, self.axes_of(cast.operand))

    def position(self, position: Position) -> None:
        _require(position.dtype == INT64, "a position is an int64")
        self._axes_are(position, self.axes_of_index(position.index))

    def uniform(self, uniform: Uniform) -> None:
        _require(uniform.dtype == FLOAT32, "uniform numbers are float32")
        dtype = self.operand(uniform.seed)
        _require(dtype in (None, INT64), "a seed is an int64")
        self._axes_are(uniform, self.axes_of_index(uniform.counter) | self.axes_of(uniform.seed))

    def reduce(self, reduce: Reduce) -> None:
        dtype = self.operand(reduce.operand)
        _require(bool(reduce.over) and reduce.over <= self.axes, "a reduction is over axes of the kernel")
        self._axes_are(reduce, self.axes_of(reduce.operand) - reduce.over)
        if reduce.combine in POSITIONS:
            _require(reduce.dtype == INT64 and len(reduce.over) == 1, "a position is an int64, along one axis")
        elif reduce.combine in ("any", "all"):
            _require(reduce.dtype == BOOL and dtype in (None, BOOL), "any and all are of bools")
        else:
            _require(dtype in (None, reduce.dtype), "a reduction has the dtype of its operand")

    def store(self, store: Store) -> None:
        buffer = self.buffers.get(store.buffer)
        _require(buffer is not None and buffer.is_output, f"%{store.buffer} is no output")
        self.operand(store.operand)
        axes = self.address(store.buffer, store.index, store.conditions)
        _require(self.axes_of(store.operand) <= axes, "each point writes an element of its own")


_RULES: dict[type[Statement], Callable[[_KernelVerifier, Any], None]] = {
    Load: _KernelVerifier.load,
    Compute: _KernelVerifier.compute,
    Cast: _KernelVerifier.cast,
    Position: _KernelVerifier.position,
    Uniform: _KernelVerifier.uniform,
    Reduce: _KernelVerifier.reduce,
    Store: _KernelVerifier.store,
}
