"""Values of a Triton kernel as expressions, and its loads and stores: operands, indices, masks and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import index as whole_number
from typing import TypeGuard

import numpy as np

from ....lang.light_dataclasses import dataclass, field, replace
from ...kernel_ir.index import Index
from ...kernel_ir.kernel import (
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
    Total,
    Uniform,
)
from ...kernel_ir.passed_sizes import open_sizes, size_parameter
from ...kernel_ir.ranges import ANY, ranges
from ...kernel_ir.statements import indices, used_names
from ...ops.arrays import numpy_dtype
from ...ops.scalar import PRIMITIVES
from ...scheduling.coarse import coarse_values
from ...types.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType, Number
from ...types.open_sizes import is_open, next_power, whole
from ..naming import Names, parameter_variable
from ..text import Text
from .helpers import HELPERS, asked_of_dtypes
from .layout import Dimension, TritonLayout, TritonPositions, goes_by_fours
from .open_numbers import OpenNumbers
from .primitives import (
    COMPARISONS,
    PRODUCT,
    SHIFT,
    TYPES,
    TritonSpelling,
    argument,
    cast,
    exact_inverse,
    is_near,
    literal,
    power,
    spelling,
    typed,
)
from .sines import ASKING, is_far


@dataclass
class OpenLines:
    """Lines under way: those of straight code, or of one loop."""

    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Positions and masks that the lines need, by the name of their axis or dimension, masks with `mask` before it."""
    inside: dict[tuple[Condition, ...], str] = field(default_factory=dict)
    reciprocals: dict[str, str] = field(default_factory=dict)
    """Products of two variables, by the value that multiplying by them divides by."""


class TritonExpressions:
    """Texts of one kernel's values, in the scope that is being written.

    `positions` are the variables of axes, dimensions and masks, `passed` the parameters of buffers and numbers. Then
    `helpers` and `parameters` say what functions the module has to hold, and in which dtypes numbers are wanted.
    """

    def __init__(
        self, kernel: Kernel, layout: TritonLayout, names: Names, positions: dict[str, str], passed: dict[str, str]
    ) -> None:
        self.numbers = OpenNumbers(kernel, names)
        self.kernel = kernel
        self.layout = layout
        self.names = names
        self.helpers: dict[str, None] = {}
        self.parameters: dict[tuple[str, DType], str] = {}
        self.values: dict[str, Text] = {}
        self.dtypes: dict[str, DType] = {s.name: s.dtype for s in kernel.body if isinstance(s, Definition)}
        self.axes = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}
        self._positions = positions
        self._passed = passed
        self._declared = {parameter.name: parameter.dtype for parameter in kernel.parameters}
        self.coarse = coarse_values(kernel)
        self._ranges = ranges(kernel)
        self._angles = {s.operands[0] for s in kernel.body if is_sine(s)}
        self._far: dict[str, str] = {}
        self._in_indices = {n for s in kernel.body for index in indices(s) for n in index.values}
        self.scope = OpenLines()
        self.statements: Sequence[Statement] = ()

    def line(self, text: str) -> None:
        """Append a line to the scope."""
        self.scope.lines.append(text)

    # --- values ---

    def _compute(self, statement: Compute) -> Text:
        name = statement.primitive
        primitive = PRIMITIVES[name]
        dtype = self._operand_dtype(statement)
        if not statement.operands:
            return typed(np.asarray(primitive.evaluate(numpy_dtype(dtype))).item(), dtype)
        if name == "number":
            return cast(self._operand(statement.operands[0], BOOL), BOOL, dtype)
        statement = _with_known_exponent(statement)
        quotient = self._quotient(statement, dtype) if name == "div" else None
        if quotient is not None:
            return quotient
        operands = statement.operands
        found = power(operands[1].value) if name == "pow" and isinstance(operands[1], KernelConstant) else None
        if found is not None:
            operands = operands[:1]
        else:
            known = self._ranges.get(operands[0], ANY) if isinstance(operands[0], str) else ANY
            is_tile = is_sine(statement) and bool(self._varying(statement.axes))
            found = spelling(name, dtype, is_coarse=statement.name in self.coarse, operand=known, is_tile=is_tile)
        dtypes = [BOOL if kind == "bool" else dtype for kind in primitive.operands]
        texts = [
            self.typed(o.value, d) if is_typed and isinstance(o, KernelConstant) else self._operand(o, d, found.is_call)
            for o, d, is_typed in zip(operands, dtypes, _are_typed(found, dtype), strict=False)
        ]
        if all(isinstance(o, KernelConstant) for o, d in zip(operands, dtypes, strict=False) if d == dtype):
            texts[-1] = self.typed(operands[-1].value, dtype) if isinstance(operands[-1], KernelConstant) else texts[-1]
        if found.helper in ASKING:
            texts.append(Text(self._is_far(operands[0])))
        if found.helper:
            self.helpers[found.helper] = None
        return found.apply(texts)

    def _both(self, angle: Operand, is_coarse: bool) -> str:
        """The sine and the cosine of a tile."""
        near = is_near(self._ranges.get(angle, ANY)) if isinstance(angle, str) else False
        helper = f"_{'coarse_' * is_coarse}{'near_' * near}sin_cos"
        self.helpers[helper] = None
        asked = "" if near else f", {self._is_far(angle)}"
        return f"{helper}({self._operand(angle, FLOAT32).text}{asked})"

    def _is_far(self, angle: Operand) -> str:
        """The variable for whether an angle is large somewhere, asked of all together that are known by now."""
        assert isinstance(angle, str)
        if angle not in self._far:
            axes = self._varying(self.axes[angle])
            others = [s.operands[0] for s in self.statements if is_sine(s)]
            there = [o for o in others if isinstance(o, str) and o in self.values and o not in self._far]
            far = [o for o in there if self._varying(self.axes[o]) == axes and not is_near(self._ranges.get(o, ANY))]
            variable = self.names.take("is_far")
            together = dict.fromkeys([angle, *far])
            self.line(f"{variable} = {is_far([self._operand(o, FLOAT32).text for o in together])}")
            self._far |= dict.fromkeys(together, variable)
        return self._far[angle]

    def _spelling(self, primitive: str, dtype: DType, is_coarse: bool) -> TritonSpelling:
        """The spelling of a primitive, whose helper the module will hold."""
        found = spelling(primitive, dtype, is_coarse=is_coarse)
        if found.helper:
            self.helpers[found.helper] = None
        return found

    def _quotient(self, statement: Compute, dtype: DType) -> Text | None:
        """A quotient as a product: by a power of two, or if it may be coarse, by what whole rows are divided by."""
        dividend, divisor = statement.operands
        if isinstance(divisor, Total):
            return None
        if isinstance(divisor, KernelConstant):
            if is_open(divisor.value) and divisor.value != next_power(whole(divisor.value)):
                return None
            inverse = exact_inverse(float(divisor.value))
            if inverse is None or isinstance(dividend, KernelConstant):
                return None
            return spelling("mul", dtype).apply([self._operand(dividend, dtype), literal(inverse, dtype)])
        if statement.name not in self.coarse:
            return None
        if not self._is_of_rows(divisor, statement.axes):
            if dtype != FLOAT32 or self._ranges.get(divisor, ANY)[0] < 0.01:
                return None
            self.helpers["_coarse_quotient"] = None
            return Text(
                f"_coarse_quotient({self._operand(dividend, dtype).text}, {self._operand(divisor, dtype).text})"
            )
        if divisor not in self.scope.reciprocals:
            scale, reciprocal = self.names.take("scale"), self.names.take("reciprocal")
            self.line(f"{scale}, {reciprocal} = _reciprocal({self._operand(divisor, dtype).text})")
            self.helpers["_reciprocal"] = None
            self.scope.reciprocals[divisor] = f"{scale} * {reciprocal}"
        left = self._operand(dividend, dtype).at(PRODUCT)
        return Text(f"{left} * {self.scope.reciprocals[divisor]}", PRODUCT)

    def _is_of_rows(self, name: str, axes: frozenset[str]) -> bool:
        """Whether a value varies along fewer dimensions of the tile than one with these axes."""
        return len(self._varying(self.axes.get(name, frozenset()))) < len(self._varying(axes))

    def _operand_dtype(self, statement: Compute) -> DType:
        """What numbers among the operands are of: the result's dtype, unless that is a comparison's."""
        if PRIMITIVES[statement.primitive].result != "bool":
            return statement.dtype
        named = [self.dtypes[o] for o in statement.operands if isinstance(o, str) and o in self.dtypes]
        return named[0] if named else FLOAT64

    def _operand(self, operand: Operand, dtype: DType, is_argument: bool = False) -> Text:
        if isinstance(operand, Total):
            size = size_parameter(operand.size_of)
            return Text(f"tl.cast({size}, {TYPES[dtype]})") if dtype.is_floating else Text(size)
        if isinstance(operand, KernelConstant):
            if is_open(operand.value):
                return self.typed(operand.value, dtype)
            return argument(operand.value, dtype) if is_argument else literal(operand.value, dtype)
        if operand in self._declared:
            return Text(self._parameter(operand, dtype))
        return self.values[operand]

    def typed(self, value: Number, dtype: DType) -> Text:
        """A number of exactly a dtype; one that is open is passed."""
        if not is_open(value):
            return typed(value, dtype)
        sign = "-" if value < 0 else ""
        return Text(f"tl.cast({sign}{self.numbers.text(abs(value))}, {TYPES[dtype]})")

    def _typed_operand(self, operand: Operand, dtype: DType) -> Text:
        """An operand, of exactly a dtype where it is a number."""
        if isinstance(operand, KernelConstant):
            return self.typed(operand.value, dtype)
        return self._operand(operand, dtype)

    def _parameter(self, name: str, dtype: DType) -> str:
        """The variable that holds a parameter in a dtype; the module casts it first."""
        return parameter_variable(self.parameters, self._passed[name], self.names, name, dtype)

    def _cast(self, statement: Cast) -> Text:
        operand = statement.operand
        if isinstance(operand, KernelConstant):
            return self.typed(operand.value, statement.dtype)
        if operand in self._declared:
            return Text(self._parameter(operand, statement.dtype))
        return cast(self.values[operand], self.dtypes[operand], statement.dtype)

    def _position(self, statement: Position) -> Text:
        text = self._index(statement.index)
        if not statement.index.terms:
            return self.typed(statement.index.constant, INT64)
        if self._is_only_compared(statement.name) or self.layout.is_wide:
            return text
        if not self._varying(statement.axes):
            return Text(f"tl.cast({text.text}, tl.int64)")
        return cast(text, INT32, INT64)

    def _is_only_compared(self, name: str) -> bool:
        users = [s for s in self.kernel.body if name in used_names(s)]
        return name not in self._in_indices and all(
            isinstance(s, Compute) and s.primitive in COMPARISONS for s in users
        )

    def _uniform(self, statement: Uniform) -> Text:
        """One number for each place, or four at once where neighbours along the tile are those that share a block."""
        index, seed = statement.counter, self._operand(statement.seed, INT64).text
        varying = self._varying(index.axes)
        if varying and goes_by_fours(index, self.layout, varying[-1]):
            self.helpers["_uniform_fours"] = None
            fours = self._fours(index, varying[-1])
            return Text(f"tl.reshape(_uniform_fours({seed}, {fours}), {self.layout.shape(varying)})")
        self.helpers["_uniform"] = None
        place = self._index(index).text if index.terms else self.typed(index.constant, INT64).text
        return Text(f"_uniform({seed}, {place})")

    def _fours(self, index: Index, along: Dimension) -> str:
        """The text of an index at every fourth position of a dimension."""
        used: set[str] = set()
        positions = {**self._positions, along.name: self._positions[f"fours {along.name}"]}
        text = TritonPositions(self.layout, positions, used, self.values, self.numbers).text(index).text
        self.scope.used |= {f"fours {name}" if name == along.name else name for name in used}
        return text

    # --- memory ---

    def _index(self, index: Index) -> Text:
        return TritonPositions(self.layout, self._positions, self.scope.used, self.values, self.numbers).text(index)

    def _pointer(self, buffer: str, index: Index) -> str:
        text, pointer = self._index(index).text, self._passed[buffer]
        if text == "0":
            return pointer
        return f"{pointer} - {text[1:]}" if text.startswith("-") else f"{pointer} + {text}"

    def _varying(self, axes: Iterable[str]) -> list[Dimension]:
        """The dimensions of the tile that something with these axes varies along."""
        names = frozenset(axes)
        return [d for d in self.layout.tile if d.names & names]

    def _index_axes(self, index: Index) -> frozenset[str]:
        return index.axes.union(*(self.axes[name] for name in index.values if name in self.axes))

    def _masks(self, index: Index) -> list[str]:
        """The masks of the dimensions that an index varies along."""
        return [self._mask(d) for d in self._varying(self._index_axes(index)) if d.is_masked]

    def _mask(self, dimension: Dimension) -> str:
        self.scope.used.add(f"mask {dimension.name}")
        return self._positions[f"mask {dimension.name}"]

    def _conditions(self, conditions: tuple[Condition, ...]) -> str:
        """A variable for whether conditions hold, or nothing where they always do."""
        texts: list[str] = []
        for condition in conditions:
            low, high = condition.index.range(open_sizes(self.kernel))
            text = self._index(condition.index).at(SHIFT) if low < condition.low or high >= condition.high else ""
            if low < condition.low:
                texts.append(f"({text} >= {self._signed(condition.low)})")
            if high >= condition.high:
                end = size_parameter(condition.size_of) if condition.size_of else self._signed(condition.high)
                texts.append(f"({text} < {end})")
        if not texts:
            return ""
        if conditions not in self.scope.inside:
            self.scope.inside[conditions] = self.names.take("inside")
            text = " & ".join(texts)
            self.line(f"{self.scope.inside[conditions]} = {text[1:-1] if len(texts) == 1 else text}")
        return self.scope.inside[conditions]

    def _signed(self, number: Number) -> str:
        return f"-{self.numbers.text(-number)}" if number < 0 else self.numbers.text(number)

    def _load(self, statement: Load) -> Text:
        inside = self._conditions(statement.conditions)
        masks = self._masks(statement.index)
        condition_axes = frozenset(axis for c in statement.conditions for axis in self._index_axes(c.index))
        is_narrow = bool(set(self._varying(condition_axes)) - set(self._varying(self._index_axes(statement.index))))
        if inside and not is_narrow:
            masks.append(inside)
        arguments = [self._pointer(statement.buffer, statement.index)]
        if masks:
            arguments.append(f"mask={' & '.join(masks)}")
        if masks and (inside or self._feeds_reduction(statement)):
            arguments.append(f"other={literal(statement.other, statement.dtype).text}")
        text = f"tl.load({', '.join(arguments)})"
        if inside and is_narrow:
            return Text(f"tl.where({inside}, {text}, {literal(statement.other, statement.dtype).text})")
        return Text(text)

    def _feeds_reduction(self, statement: Load) -> bool:
        """Whether what the load gives outside comes to a reduction along a masked dimension.

        In a loop its own statements count: what an earlier loop reduced is not reduced again.
        """
        loop = self.layout.loop
        statements = self.statements if loop is not None and statement.axes & loop.names else self.kernel.body
        padded = {n for d in self._varying(statement.axes) if d.is_masked for n in d.names}
        reached = {statement.name}
        for user in statements:
            if not reached & set(used_names(user)):
                continue
            if isinstance(user, Reduce) and user.over & padded:
                return True
            if isinstance(user, Definition):
                reached.add(user.name)
        return False

    def _store(self, statement: Store) -> None:
        dtype = self.kernel.buffer(statement.buffer).dtype
        operand = statement.operand
        text = self._operand(operand, dtype)
        if isinstance(operand, str) and operand in self.dtypes and not _stores_as(self.dtypes[operand], dtype):
            text = cast(text, self.dtypes[operand], dtype)
        masks = self._masks(statement.index)
        inside = self._conditions(statement.conditions)
        arguments = [self._pointer(statement.buffer, statement.index), text.text]
        if masks or inside:
            arguments.append(f"mask={' & '.join([*masks, *([inside] if inside else [])])}")
        self.line(f"tl.store({', '.join(arguments)})")


def is_sine(statement: Statement) -> TypeGuard[Compute]:
    """Whether it is a sine or a cosine in float32 of a value."""
    if not isinstance(statement, Compute) or statement.primitive not in ("sin", "cos"):
        return False
    return statement.dtype == FLOAT32 and isinstance(statement.operands[0], str)


def _with_known_exponent(statement: Compute) -> Compute:
    """A power with its exponent as a number: which it is decides how it is computed."""
    operands = statement.operands
    if statement.primitive != "pow" or not isinstance(operands[1], KernelConstant) or not is_open(operands[1].value):
        return statement
    return replace(statement, operands=(operands[0], KernelConstant(whole_number(whole(operands[1].value)))))


def _stores_as(dtype: DType, to: DType) -> bool:
    """Whether a store converts by itself: to the same dtype, or by rounding."""
    return dtype == to or (dtype.is_floating and to.is_floating)


def _are_typed(found: TritonSpelling, dtype: DType) -> Iterable[bool]:
    """Of each operand whether a number has to be of a dtype there: libdevice takes numbers of one only, and what Triton
    makes of a literal is no float64; a helper may ask."""
    text = found.template + HELPERS.get(found.helper, "")
    if dtype == FLOAT64 and "libdevice." in text:
        return repeat(True)
    return asked_of_dtypes(found.helper) if found.helper else repeat(False)
