"""The values of a kernel in C: expressions, and lines that give them a name or store them.

A temporary that is used once and has no name in the formula stands where it is used; everything else has a line.
"""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np

from ...kernel_ir.kernel import (
    Cast,
    Compute,
    Definition,
    Kernel,
    KernelConstant,
    Load,
    Operand,
    Position,
    Reduce,
    Store,
    Total,
    Uniform,
)
from ...kernel_ir.statements import indices
from ...ops.arrays import numpy_dtype
from ...ops.scalar import PRIMITIVES
from ...scheduling.nest import Nest
from ...types.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType
from ...types.open_sizes import is_open
from ..naming import Names, Variables, is_anonymous, parameter_variable
from ..text import Text, Unsupported
from .angles import is_of_angle
from .positions import CPositions
from .primitives import CHOICE, SUM, TYPES, cast, literal, loaded_bool, power, quick_log1p, spelling, suffix
from .traffic import Traffic
from .uses import is_of_computed_index

INDENT = "    "
INLINE = 48
"""Longer expressions have a line of their own."""


class CExpressions:
    """Writes one kernel's values. `passed` are the variables of buffers, `numbers` those of parameters by dtype."""

    def __init__(self, kernel: Kernel, nest: Nest, names: Names, positions: CPositions, passed: dict[str, str]) -> None:
        self.kernel = kernel
        self.nest = nest
        self.names = names
        self.positions = positions
        self.traffic = Traffic(kernel, positions, names, passed)
        self.helpers: dict[str, None] = {}
        self.parameters: dict[tuple[str, DType], str] = {}
        self._passed = passed
        self._variables = Variables(kernel, names)
        self._declared = {parameter.name: parameter.dtype for parameter in kernel.parameters}
        self._in_indices = {n for s in kernel.body for index in indices(s) for n in index.values}
        self.outside = ""
        """The variable that holds whether an index that was computed lay out of range, where there are such."""
        self._values: dict[str, Text] = {}
        self._arrays: dict[str, str] = {}
        self._best: dict[str, str] = {}
        self._orders: dict[str, str] = {}
        self._turn_orders: dict[str, str] = {}
        """Variables of the largest and smallest floats so far, as integers, and of what one turn has."""
        self._angles: dict[str, str] = {}
        """Angles that are reduced before a loop."""
        self._elements: dict[int, str] = {}
        """Where stores write that go past the caches, and what goes on to the end of a vector lies."""
        self._in_lines: set[int] = set()
        """Those of them that have room for a whole block."""
        self._mask, self._masked_axis = "", ""
        """What tells a lane that has a point from one that has none, in a loop along an axis."""
        self._beside = ""
        """The axis of the loop whose points are computed side by side."""
        self._guarded: set[tuple[str, object]] = set()
        self.alone: dict[str, str] = {}
        """What is read by conditions, and pointers of their own for more of it, by name, with the buffer."""
        self._drawn: dict[str, str] = {}
        """Elements of random numbers that are made before a loop."""

    def _variable(self, d: Definition) -> str:
        return self._variables[d.name]

    def _evaluate(self, statement: Definition, is_kept: bool, uses: Counter[str]) -> list[str]:
        text = self._expression(statement)
        told = self._told(statement)
        if told:
            return [*told, *self._defined(statement, text, is_kept)]
        if not is_kept and (self._is_alias(statement) or self._stands_in_place(statement, text, uses)):
            self._values[statement.name] = text
            return []
        return self._defined(statement, text, is_kept)

    def _defined(self, statement: Definition, text: Text, is_kept: bool) -> list[str]:
        variable = self._variable(statement)
        self._values[statement.name] = Text(variable)
        lines = [f"const {TYPES[statement.dtype]} {variable} = {text.text};"]
        if is_kept:
            lines.append(f"{self._element(statement.name).text} = {variable};")
        return lines

    def _element(self, name: str) -> Text:
        return self.positions.element(self._array(name), self.nest.arrays[name])

    def _array(self, name: str) -> str:
        if name not in self._arrays:
            d = self.nest.definitions[name]
            wanted = self._variable(d)
            self._arrays[name] = wanted if isinstance(d, Reduce) else self.names.take(f"{wanted}s")
        return self._arrays[name]

    @property
    def arrays(self) -> list[tuple[str, DType, int, str]]:
        """The arrays that were used: names, dtypes, elements, and these as text."""
        found: list[tuple[str, DType, int, str]] = []
        for name, array in self._arrays.items():
            axes = self.nest.arrays[name]
            count = prod(self.positions.room_of(axis) for axis in axes)
            text = self.positions.rooms_of(axes) if self.positions.has_any_size else ""
            d = self.nest.definitions[name]
            found.append((array, d.dtype, count, text))
            if name in self._best:
                found.append((self._best[name], self._compared(d), count, text))
        return found

    def _compared(self, d: Definition) -> DType:
        """The dtype of what a reduction is of."""
        assert isinstance(d, Reduce)
        return self.nest.definitions[d.operand].dtype if isinstance(d.operand, str) else d.dtype

    def _is_alias(self, statement: Definition) -> bool:
        """Whether it is another value or a parameter, in a type that it has anyway."""
        if isinstance(statement, Position):
            return self.positions.text(statement.index, self._known).text.isidentifier()
        if not isinstance(statement, Cast) or not isinstance(statement.operand, str):
            return False
        if statement.operand in self._declared:
            return True
        dtype = self.nest.definitions[statement.operand].dtype
        return dtype == statement.dtype or (dtype.is_half and statement.dtype == FLOAT32)

    def _stands_in_place(self, statement: Definition, text: Text, uses: Counter[str]) -> bool:
        """Whether it is written where it is used, for that is one place, in the same block."""
        if uses[statement.name] != 1 or isinstance(statement, Load | Uniform):
            return False
        if statement.name in self._in_indices or not is_anonymous(statement.name):
            return False
        return len(text.text) <= INLINE

    @property
    def _known(self) -> _Known:
        return _Known(self)

    def value(self, name: str) -> Text:
        """A value: its variable, or its element in an array."""
        found = self._values.get(name)
        if found is not None:
            return found
        element = self._element(name)
        return loaded_bool(element) if self.nest.definitions[name].dtype == BOOL else element

    def _operand(self, operand: Operand, dtype: DType) -> Text:
        if isinstance(operand, Total):
            return cast(Text(self.positions.parameter(operand.size_of)), INT64, dtype)
        if isinstance(operand, KernelConstant) and is_open(operand.value):
            return cast(Text(self.positions.number(operand.value)), INT64, dtype)
        if isinstance(operand, KernelConstant):
            return literal(operand.value, dtype)
        if operand in self._declared:
            return Text(self._parameter(operand, dtype))
        return self.value(operand)

    def _parameter(self, name: str, dtype: DType) -> str:
        """The variable that holds a parameter in a dtype."""
        return parameter_variable(self.parameters, self._passed[name], self.names, name, dtype)

    def _expression(self, statement: Definition) -> Text:
        match statement:
            case Load():
                return self._load(statement)
            case Compute():
                return self._compute(statement)
            case Cast():
                return self._cast(statement)
            case Position():
                return self.positions.text(statement.index, self._known)
            case Uniform() if statement.name in self._drawn:
                return Text(self._drawn[statement.name])
            case Uniform():
                self.helpers["gs_uniform"] = None
                counter = self.positions.text(statement.counter, self._known)
                return Text(f"gs_uniform({self._operand(statement.seed, INT64).text}, {counter.text})")
        raise Unsupported(f"no text for {type(statement).__name__}")

    def _compute(self, statement: Compute) -> Text:
        name = statement.primitive
        dtype = self._operand_dtype(statement)
        if not statement.operands:
            return literal(np.asarray(PRIMITIVES[name].evaluate(numpy_dtype(dtype))).item(), dtype)
        if name == "number":
            return self._converted(self._operand(statement.operands[0], BOOL), BOOL, dtype)
        operands = statement.operands
        found = power(operands[1].value) if name == "pow" and isinstance(operands[1], KernelConstant) else None
        if found is not None:
            return self._power(operands[0], dtype, found.template.count("{0}"))
        found = spelling(name, dtype)
        if is_of_angle(statement) and operands[0] in self._angles:
            helper = f"gs_turned_{name}_{suffix(dtype)}"
            self.helpers[helper] = None
            return Text(f"{helper}({self._operand(operands[0], dtype).text}, {self._angles[operands[0]]})")
        if name == "log1p" and dtype != FLOAT64 and self._is_part(operands[0]):
            found = quick_log1p()
        if found.helper:
            self.helpers[found.helper] = None
        kinds = PRIMITIVES[name].operands
        return found.apply(
            [self._operand(o, BOOL if kind == "bool" else dtype) for o, kind in zip(operands, kinds, strict=True)]
        )

    def _is_part(self, operand: Operand) -> bool:
        """Whether a value is exp(-|x|), between 0 and 1, as losses have it: log(1 + exp(x)) = max(x, 0) + log1p(…)."""
        for primitive in ("exp", "neg", "abs"):
            found = self.nest.definitions.get(operand) if isinstance(operand, str) else None
            if not isinstance(found, Compute) or found.primitive != primitive:
                return False
            operand = found.operands[0]
        return True

    def _power(self, base: Operand, dtype: DType, factors: int) -> Text:
        """A product of factors, which are a name or, of a largest or smallest number, what compilers compute once."""
        product = spelling("mul", dtype)
        text = factor = self._operand(base, dtype)
        for _ in range(factors - 1):
            text = product.apply([text, factor])
        return text

    def _operand_dtype(self, statement: Compute) -> DType:
        """What numbers among the operands are of: the result's dtype, unless that is a comparison's."""
        if PRIMITIVES[statement.primitive].result != "bool":
            return statement.dtype
        definitions = self.nest.definitions
        named = [definitions[o].dtype for o in statement.operands if isinstance(o, str) and o in definitions]
        return named[0] if named else FLOAT64

    def _cast(self, statement: Cast) -> Text:
        operand = statement.operand
        if isinstance(operand, KernelConstant):
            return self._converted(literal(operand.value, FLOAT64), FLOAT64, statement.dtype)
        if operand in self._declared:
            return Text(self._parameter(operand, statement.dtype))
        return self._converted(self.value(operand), self.nest.definitions[operand].dtype, statement.dtype)

    def _converted(self, text: Text, dtype: DType, to: DType) -> Text:
        if to.is_half and to != dtype:
            self.helpers[f"gs_rounded_{to.name}"] = None
        return text if dtype == to else cast(text, dtype, to)

    # --- memory ---

    def _load(self, statement: Load) -> Text:
        condition = self.positions.condition(statement.conditions, self._known)
        if self._masked_axis in statement.axes:
            condition = _both(self._mask, condition)
        text = self._elements.get(id(statement), "")
        if not text:
            pointer = self._pointer(statement) if condition else self._passed[statement.buffer]
            text = f"{pointer}[{self.positions.text(statement.index, self._known).text}]"
        if statement.dtype.is_half:
            self.helpers[f"gs_load_{statement.dtype.name}"] = None
            text = f"gs_load_{statement.dtype.name}({text})"
        element = loaded_bool(Text(text)) if statement.dtype == BOOL else Text(text)
        if not condition:
            return element
        other = literal(statement.other, FLOAT32 if statement.dtype.is_half else statement.dtype)
        return Text(f"{condition} ? {element.at(SUM)} : {other.at(SUM)}", CHOICE)

    def _pointer(self, load: Load) -> str:
        """Where a buffer begins: for what is read by conditions beside other elements of it that a point reads so, by a
        pointer of its own."""
        times = load.index.coefficient(self._beside)
        if is_open(times) or abs(times) <= 1:
            return self._passed[load.buffer]
        key = (load.buffer, load.index.terms)
        if key not in self._guarded:
            self._guarded.add(key)
            return self._passed[load.buffer]
        name = self.names.take(f"{self._passed[load.buffer]}_alone")
        self.alone[name] = load.buffer
        return name

    def _told(self, statement: Definition) -> list[str]:
        """What tells that an index that was computed is out of range: a load of nothing, where the op would refuse."""
        if not isinstance(statement, Load) or not is_of_computed_index(statement):
            return []
        computed = [c for c in statement.conditions if c.index.values]
        condition = self.positions.condition(computed, self._known)
        return [f"{self._outside()} |= !({condition});"] if condition else []

    def _outside(self) -> str:
        self.outside = self.outside or self.names.take("outside")
        return self.outside

    def _put(self, statement: Store) -> list[str]:
        dtype = self.kernel.buffer(statement.buffer).dtype
        text = self._operand(statement.operand, FLOAT32 if dtype.is_half else dtype)
        if isinstance(statement.operand, str) and statement.operand in self.nest.definitions:
            found = self.nest.definitions[statement.operand].dtype
            text = self._converted(text, found, FLOAT32 if dtype.is_half else dtype)
        if dtype.is_half:
            self.helpers[f"gs_store_{dtype.name}"] = None
            text = Text(f"gs_store_{dtype.name}({text.text})")
        element = self._elements.get(id(statement))
        if element is None:
            index = self.positions.text(statement.index, self._known)
            element = f"{self._passed[statement.buffer]}[{index.text}]"
        line = f"{element} = {text.text};"
        condition = self.positions.condition(statement.conditions, self._known)
        if id(statement) not in self._in_lines:
            condition = _both(self._mask, condition)
        return [f"if ({condition}) {line}"] if condition else [line]


def _both(mask: str, condition: str) -> str:
    if mask and condition:
        return f"({mask}) & {condition}" if condition.startswith("(") else f"({mask}) & ({condition})"
    return mask or condition


class _Known(dict[str, Text]):
    """Values as indices ask for them."""

    def __init__(self, body: CExpressions) -> None:
        self._body = body

    def __missing__(self, name: str) -> Text:
        return self._body.value(name)
