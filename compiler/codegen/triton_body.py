"""The body of a Triton kernel: lines for straight code and loops.

A temporary that is used once and has no name in the formula stands where it is used; everything else has a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
from ..fusion.index import Index
from ..fusion.kernel import (
    Cast,
    Compute,
    Condition,
    Constant,
    Definition,
    Kernel,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
    Uniform,
)
from ..fusion.padding import identity, needs_mask, outside
from ..fusion.statements import indices, used_names
from ..ops.arrays import numpy_dtype
from ..ops.scalar import PRIMITIVES
from .naming import Names, Variables, is_anonymous
from .phases import Online, online_sums
from .triton_layout import Dimension, Layout, Positions
from .triton_primitives import (
    AND,
    COMPARE,
    COMPARISONS,
    PROPAGATE,
    TYPES,
    UNARY,
    Text,
    Unsupported,
    argument,
    cast,
    literal,
    power,
    spelling,
    typed,
)

INDENT = "    "
INLINE = 48
"""Longer expressions have a line of their own."""
LOWEST = -3.4028234663852886e38
_REDUCES = {"sum": "tl.sum", "max": "tl.max", "min": "tl.min"}
_COMBINES = {
    "prod": "product",
    "max": "nan_max",
    "min": "nan_min",
    "argmax": "first_max",
    "argmin": "first_min",
}


@dataclass
class Scope:
    """Lines under way: those of straight code, or of one loop."""

    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Positions and masks that the lines need, by the name of their axis or dimension, masks with `mask` before it."""
    inside: dict[tuple[Condition, ...], str] = field(default_factory=dict)


class Body:
    """Writes one kernel's statements.

    `positions` are the variables of axes, dimensions and masks, `passed` the parameters of buffers and numbers. `helpers`
    and `parameters` say then what functions the module has to hold, and in which dtypes numbers are wanted.
    """

    def __init__(
        self, kernel: Kernel, layout: Layout, names: Names, positions: dict[str, str], passed: dict[str, str]
    ) -> None:
        self.kernel = kernel
        self.layout = layout
        self.names = names
        self.helpers: dict[str, DType] = {}
        self.parameters: dict[tuple[str, DType], str] = {}
        self.variables = Variables(kernel, names)
        self.values: dict[str, Text] = {}
        self.dtypes: dict[str, DType] = {s.name: s.dtype for s in kernel.body if isinstance(s, Definition)}
        self.axes = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}
        self._positions = positions
        self._passed = passed
        self._declared = {parameter.name: parameter.dtype for parameter in kernel.parameters}
        self._outside = {d.names: outside(kernel.body, d.names) for d in layout.dimensions if d.is_masked}
        self._uses = Counter(name for statement in kernel.body for name in used_names(statement))
        self._online: dict[str, Online] = {}
        if layout.loop is not None:
            self._online = online_sums(kernel.body, layout.loop.names)
        self._in_indices = {n for s in kernel.body for index in indices(s) for n in index.values}
        self._loads_in_place: set[str] = set()
        self.scope = Scope()
        self._here: Counter[str] = Counter()

    # --- scopes ---

    def straight(self, statements: Sequence[Statement], scope: Scope) -> None:
        """Append the lines of straight code."""
        self._begin(statements, scope)
        for statement in statements:
            self._statement(statement)

    def loop(self, statements: Sequence[Statement]) -> tuple[list[str], Scope, list[str]]:
        """The lines before a loop, the loop's own, and those after it."""
        along = self.layout.loop
        assert along is not None
        before: list[str] = []
        after: list[str] = []
        scope = Scope()
        self._begin(statements, scope)
        fused = {total.name for online in self._online.values() for total in online.sums}
        for statement in statements:
            if not (isinstance(statement, Reduce) and statement.over & along.names):
                self._statement(statement)
            elif statement.name in self._online:
                self._rescaling(self._online[statement.name], before, after)
            elif statement.name not in fused:
                self._accumulate(statement, before, after)
        return before, scope, after

    def _begin(self, statements: Sequence[Statement], scope: Scope) -> None:
        self.scope = scope
        self._here = Counter(name for statement in statements for name in used_names(statement))

    def _line(self, text: str) -> None:
        self.scope.lines.append(text)

    # --- statements ---

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement, Store):
            self._store(statement)
            return
        assert isinstance(statement, Definition)
        text = self._expression(statement)
        if self._is_alias(statement) or self._stands_in_place(statement, text):
            self.values[statement.name] = text
            if isinstance(statement, Load):
                self._loads_in_place.add(statement.name)
            return
        variable = self.variables[statement.name]
        self.values[statement.name] = Text(variable)
        if text.text != variable:
            self._line(f"{variable} = {text.text}")

    def _is_alias(self, statement: Definition) -> bool:
        """Whether it is another value or a parameter, in a dtype that it has anyway."""
        if not isinstance(statement, Cast) or not isinstance(statement.operand, str):
            return False
        return statement.operand in self._declared or self.dtypes[statement.operand] == statement.dtype

    def _stands_in_place(self, statement: Definition, text: Text) -> bool:
        """Whether it is written where it is used, for that is one place, in the same scope."""
        if self._here[statement.name] != 1 or self._is_used_elsewhere(statement.name):
            return False
        if statement.name in self._in_indices or not is_anonymous(statement.name):
            return False
        if isinstance(statement, Load):
            return self._next_is_cast(statement.name)
        if isinstance(statement, Cast) and statement.operand in self._loads_in_place:
            return False
        return isinstance(statement, Compute | Cast | Position) and len(text.text) <= INLINE

    def _is_used_elsewhere(self, name: str) -> bool:
        """Whether straight code's value is used in a loop or after one; of a loop's own, all uses are there."""
        along = self.layout.loop
        if along is not None and self.axes[name] & along.names:
            return any(name == online.maximum.operand for online in self._online.values())
        return self._uses[name] != self._here[name]

    def _next_is_cast(self, name: str) -> bool:
        return any(isinstance(s, Cast) and s.operand == name for s in self.kernel.body)

    def _expression(self, statement: Definition) -> Text:
        match statement:
            case Load():
                return self._load(statement)
            case Compute():
                return self._compute(statement)
            case Cast():
                return self._cast(statement)
            case Position():
                return self._position(statement)
            case Uniform():
                counter = self._index(statement.counter)
                offset = counter if statement.counter.terms else typed(statement.counter.constant, INT64)
                return Text(f"tl.rand({self._operand(statement.seed, INT64).text}, {offset.text})")
            case Reduce():
                return self._reduce(statement)
        raise Unsupported(f"no text for {type(statement).__name__}")

    def _compute(self, statement: Compute) -> Text:
        name = statement.primitive
        primitive = PRIMITIVES[name]
        dtype = self._operand_dtype(statement)
        if not statement.operands:
            return typed(primitive.evaluate(numpy_dtype(dtype)).item(), dtype)
        if name == "number":
            return cast(self._operand(statement.operands[0], BOOL), BOOL, dtype)
        operands = statement.operands
        found = power(operands[1].value) if name == "pow" and isinstance(operands[1], Constant) else None
        if found is not None:
            operands = operands[:1]
        else:
            found = spelling(name, dtype)
        dtypes = [BOOL if kind == "bool" else dtype for kind in primitive.operands]
        texts = [self._operand(o, d, found.is_call) for o, d in zip(operands, dtypes, strict=False)]
        if all(isinstance(o, Constant) for o, d in zip(operands, dtypes, strict=False) if d == dtype):
            texts[-1] = typed(operands[-1].value, dtype) if isinstance(operands[-1], Constant) else texts[-1]
        if found.helper:
            self.helpers[found.helper] = dtype
        return found.apply(texts)

    def _operand_dtype(self, statement: Compute) -> DType:
        """What numbers among the operands are of: the result's dtype, unless that is a comparison's."""
        if PRIMITIVES[statement.primitive].result != "bool":
            return statement.dtype
        named = [self.dtypes[o] for o in statement.operands if isinstance(o, str) and o in self.dtypes]
        return named[0] if named else FLOAT64

    def _operand(self, operand: Operand, dtype: DType, is_argument: bool = False) -> Text:
        if isinstance(operand, Constant):
            return argument(operand.value, dtype) if is_argument else literal(operand.value, dtype)
        if operand in self._declared:
            return Text(self._parameter(operand, dtype))
        return self.values[operand]

    def _parameter(self, name: str, dtype: DType) -> str:
        """The variable that holds a parameter in a dtype; the module casts it first."""
        if (name, dtype) not in self.parameters:
            known = any(other == name for other, _ in self.parameters)
            variable = self._passed[name]
            self.parameters[name, dtype] = self.names.take(f"{variable}_{dtype}") if known else variable
        return self.parameters[name, dtype]

    def _cast(self, statement: Cast) -> Text:
        operand = statement.operand
        if isinstance(operand, Constant):
            return typed(operand.value, statement.dtype)
        if operand in self._declared:
            return Text(self._parameter(operand, statement.dtype))
        return cast(self.values[operand], self.dtypes[operand], statement.dtype)

    def _position(self, statement: Position) -> Text:
        text = self._index(statement.index)
        if not statement.index.terms:
            return typed(statement.index.constant, INT64)
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

    # --- memory ---

    def _index(self, index: Index) -> Text:
        return Positions(self.layout, self._positions, self.scope.used, self.values).text(index)

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
            low, high = condition.index.range(self.kernel.sizes)
            text = self._index(condition.index).at(AND) if low < condition.low or high >= condition.high else ""
            if low < condition.low:
                texts.append(f"({text} >= {condition.low})")
            if high >= condition.high:
                texts.append(f"({text} < {condition.high})")
        if not texts:
            return ""
        if conditions not in self.scope.inside:
            self.scope.inside[conditions] = self.names.take("inside")
            text = " & ".join(texts)
            self._line(f"{self.scope.inside[conditions]} = {text[1:-1] if len(texts) == 1 else text}")
        return self.scope.inside[conditions]

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
        """Whether what the load gives outside is seen by a reduction along a masked dimension."""
        padded = {n for d in self._varying(statement.axes) if d.is_masked for n in d.names}
        return any(isinstance(s, Reduce) and s.over & padded for s in self.kernel.body)

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
        self._line(f"tl.store({', '.join(arguments)})")

    # --- reductions ---

    def _over(self, statement: Reduce) -> list[Dimension]:
        over = self.layout.over(statement.over)
        for dimension in over:
            if not dimension.names <= statement.over:
                raise Unsupported(f"{statement.name} is reduced over some of the axes of one dimension of the tile")
            if dimension.kind == "program":
                raise Unsupported(f"{statement.name} is reduced over the parallel axis {dimension.name}")
        return over

    def _operand_axes(self, statement: Reduce) -> frozenset[str]:
        return self.axes[statement.operand] if isinstance(statement.operand, str) else frozenset()

    def _compared_dtype(self, statement: Reduce) -> DType:
        """The dtype of what is reduced."""
        return self.dtypes[statement.operand] if isinstance(statement.operand, str) else statement.dtype

    def _masked(self, statement: Reduce) -> tuple[Text, list[Dimension]]:
        """The operand with the identity in the padding, and the dimensions that it varies along."""
        dtype = self._compared_dtype(statement)
        operand = statement.operand
        text = typed(operand.value, dtype) if isinstance(operand, Constant) else self._operand(operand, dtype)
        varying = self._varying(self._operand_axes(statement))
        masked = [d for d in self._over(statement) if d.is_masked and needs_mask(statement, self._outside[d.names])]
        if masked:
            mask = " & ".join(self._mask(d) for d in masked)
            neutral = argument(identity(statement.combine, dtype), dtype)
            text = Text(f"tl.where({mask}, {text.text}, {neutral.text})")
        together = [d for d in self.layout.tile if d in varying or d in masked]
        return text, together

    def _reduce(self, statement: Reduce) -> Text:
        text, varying = self._masked(statement)
        over = [d for d in self._over(statement) if d.is_vector]
        missing = [d for d in over if d not in varying]
        together = [d for d in self.layout.tile if d in varying or d in over]
        if missing:
            text = Text(f"tl.broadcast_to({text.text}, {self.layout.shape(together)})")
        if statement.combine in ("argmax", "argmin"):
            return self._arg_reduce(statement, text.text, self._position_along(over[0], together), over, together)
        return self._reduced(statement, text, over, together)

    def _position_along(self, over: Dimension, together: list[Dimension]) -> str:
        self.scope.used.add(over.name)
        position = self._positions[over.name]
        return position if len(together) == 1 else f"tl.broadcast_to({position}, {self.layout.shape(together)})"

    def _axis(self, over: list[Dimension], together: list[Dimension]) -> str:
        """The arguments that say along what a tile is reduced."""
        if len(self.layout.tile) == 1:
            return "axis=0"
        if not [d for d in together if d not in over]:
            return "axis=None"
        return f"axis={self.layout.tile.index(over[0])}"

    def _keep(self, over: list[Dimension], together: list[Dimension]) -> str:
        return ", keep_dims=True" if [d for d in together if d not in over] else ""

    def _reduced(self, statement: Reduce, text: Text, over: list[Dimension], together: list[Dimension]) -> Text:
        if not over:
            return text
        axis, keep = self._axis(over, together), self._keep(over, together)
        dtype = self._compared_dtype(statement)
        if statement.combine in ("any", "all"):
            combine = "tl.max" if statement.combine == "any" else "tl.min"
            wide = cast(text, BOOL, INT32).text
            return Text(f"{combine}({wide}, {axis}{keep}) != 0", COMPARE)
        is_plain = statement.combine == "sum" or (statement.combine in _REDUCES and not dtype.is_floating)
        if is_plain:
            result = Text(f"{_REDUCES[statement.combine]}({text.text}, {axis}{keep})")
            narrow = not dtype.is_floating and dtype.itemsize < 4
            return cast(result, INT32, statement.dtype) if narrow else result
        helper = _COMBINES[statement.combine]
        self.helpers[helper] = dtype
        return Text(f"tl.reduce({text.text}, {axis}, combine_fn={helper}{keep})")

    def _arg_reduce(
        self, statement: Reduce, values: str, positions: str, over: list[Dimension], together: list[Dimension]
    ) -> Text:
        variable = self.variables[statement.name]
        helper = _COMBINES[statement.combine]
        self.helpers[helper] = self._compared_dtype(statement)
        axis, keep = self._axis(over, together), self._keep(over, together)
        self._line(f"_, {variable} = tl.reduce(({values}, {positions}), {axis}, combine_fn={helper}{keep})")
        return Text(variable)

    # --- loops ---

    def _accumulate(self, statement: Reduce, before: list[str], after: list[str]) -> None:
        """Elementwise accumulators in the loop, reduced after it."""
        text, varying = self._masked(statement)
        over = [d for d in self._over(statement) if d.is_vector]
        together = [d for d in self.layout.tile if d in varying or d in over]
        variable = self.variables[statement.name]
        self.values[statement.name] = Text(variable)
        dtype = self._compared_dtype(statement)
        shape = self.layout.shape(together)
        total = self.names.take(f"{variable}_acc") if over else variable
        if statement.combine in ("argmax", "argmin"):
            self._accumulate_position(statement, text, over, together, before, after)
            return
        start = identity(statement.combine, dtype)
        if start == 0 and dtype != BOOL:
            before.append(f"{total} = tl.zeros({shape}, {TYPES[dtype]})")
        else:
            before.append(f"{total} = tl.full({shape}, {literal(start, dtype).text}, {TYPES[dtype]})")
        self._line(_update(statement.combine, total, text, dtype))
        if over:
            after.append(f"{variable} = {self._reduced(statement, Text(total), over, together).text}")

    def _accumulate_position(
        self,
        statement: Reduce,
        text: Text,
        over: list[Dimension],
        together: list[Dimension],
        before: list[str],
        after: list[str],
    ) -> None:
        along = self.layout.loop
        assert along is not None
        dtype = self._compared_dtype(statement)
        variable = self.variables[statement.name]
        shape = self.layout.shape(together)
        best = self.names.take("best")
        at = self.names.take(f"{best}_at") if over else variable
        index = TYPES[INT64] if self.layout.is_wide else TYPES[INT32]
        before.append(
            f"{best} = tl.full({shape}, {literal(identity(statement.combine, dtype), dtype).text}, {TYPES[dtype]})"
        )
        self.scope.used.add(along.name)
        position = self._positions[along.name]
        # Where no element is above the identity the first position counts.
        before.append(f"{at} = tl.full({shape}, {2**31 - 1}, {index})")
        helper = _COMBINES[statement.combine]
        self.helpers[helper] = dtype
        self._line(f"{best}, {at} = {helper}({best}, {at}, {text.text}, {position})")
        if over:
            axis, keep = self._axis(over, together), self._keep(over, together)
            after.append(f"_, {variable} = tl.reduce(({best}, {at}), {axis}, combine_fn={helper}{keep})")

    def _rescaling(self, online: Online, before: list[str], after: list[str]) -> None:
        """A maximum and sums of exponentials in one loop."""
        maximum = online.maximum
        text, varying = self._masked(maximum)
        over = [d for d in self._over(maximum) if d.is_vector]
        together = [d for d in self.layout.tile if d in varying or d in over]
        kept = self.layout.shape([d for d in together if d not in over])
        dtype = maximum.dtype
        name = self.variables[maximum.name]
        self.values[maximum.name] = Text(name)
        largest = self.names.take(f"{name}_new")
        lowest = LOWEST if dtype == FLOAT32 else -1.7976931348623157e308
        before.append("# Finite, for -inf - -inf is NaN.")
        before.append(f"{name} = tl.full({kept}, {lowest}, {TYPES[dtype]})")
        found = self._reduced(maximum, text, over, together).text
        self._line(f"{largest} = nan_max({name}, {found})")
        self.helpers["nan_max"] = dtype
        exp = spelling("exp", dtype)
        for total in online.sums:
            variable = self.variables[total.name]
            self.values[total.name] = Text(variable)
            before.append(f"{variable} = tl.zeros({kept}, {TYPES[dtype]})")
            shifted = exp.apply([Text(f"{text.at(UNARY)} - {largest}")]).text
            scale = exp.apply([Text(f"{name} - {largest}")]).text
            added = self._reduced(replace(total, operand=maximum.operand), Text(shifted), over, together).text
            self._line(f"{variable} = {variable} * {scale} + {added}")
        self._line(f"{name} = {largest}")
        if self._is_seen(maximum):
            total_name = self.variables[online.sums[0].name]
            after.append(f'{name} = tl.where({total_name} == 0, -float("inf"), {name})')

    def _is_seen(self, maximum: Reduce) -> bool:
        """Whether the maximum is used otherwise than to be subtracted from the values that it is of."""
        for statement in self.kernel.body:
            if maximum.name not in used_names(statement):
                continue
            if not isinstance(statement, Compute) or statement.primitive != "sub":
                return True
            if statement.operands[0] != maximum.operand:
                return True
        return False


def _update(combine: str, total: str, text: Text, dtype: DType) -> str:
    """One turn of an accumulator."""
    operators = {"sum": "+=", "prod": "*=", "any": "|=", "all": "&="}
    if combine in operators:
        return f"{total} {operators[combine]} {text.text}"
    function = {"max": "tl.maximum", "min": "tl.minimum"}[combine]
    return f"{total} = {function}({total}, {text.text}{PROPAGATE if dtype.is_floating else ''})"


def _stores_as(dtype: DType, to: DType) -> bool:
    """Whether a store converts by itself: to the same dtype, or by rounding."""
    return dtype == to or (dtype.is_floating and to.is_floating)
