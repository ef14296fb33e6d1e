"""The body of a Triton kernel: lines for straight code and loops.

A temporary that is used once and has no name in the formula stands where it is used; everything else has a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from ...kernel_ir.kernel import (
    POSITIONS,
    Cast,
    Compute,
    Definition,
    Kernel,
    Load,
    Position,
    Reduce,
    Statement,
    Store,
    Uniform,
)
from ...kernel_ir.passed_sizes import passed_sizes, size_parameter
from ...kernel_ir.statements import used_names
from ...scheduling.padding import identity, needs_mask, outside
from ...scheduling.phases import Online, online_sums
from ...scheduling.row_parts import RowParts
from ...types.dtypes import BOOL, INT32, INT64, DType
from ..naming import Names, Variables, is_anonymous
from ..text import Text, Unsupported
from .expressions import OpenLines, TritonExpressions, is_sine
from .layout import Dimension, TritonLayout
from .online import Rescaling
from .primitives import COMPARE, PROPAGATE, TYPES, argument, cast, literal

INDENT = "    "
INLINE = 48
"""Longer expressions have a line of their own."""
_REDUCES = {"sum": "tl.sum", "max": "tl.max", "min": "tl.min"}
_COMBINES = {
    "prod": "_multiply",
    "max": "_nan_max",
    "min": "_nan_min",
    "argmax": "_first_max",
    "argmin": "_first_min",
}


class TritonBody(TritonExpressions):
    """Writes one kernel's statements, scope by scope."""

    def __init__(
        self,
        kernel: Kernel,
        layout: TritonLayout,
        names: Names,
        positions: dict[str, str],
        passed: dict[str, str],
        parts: RowParts,
    ) -> None:
        super().__init__(kernel, layout, names, positions, passed)
        self._variables = Variables(kernel, names)
        self._outside = {d.names: outside(kernel.body, d.names) for d in layout.dimensions if d.is_masked}
        self._uses = Counter(name for statement in kernel.body for name in used_names(statement))
        self._here: Counter[str] = Counter()
        self._online = online_sums(kernel.body, layout.loop.names) if layout.loop is not None else {}
        self._loads_in_place: set[str] = set()
        self._made_beside: set[str] = set()
        self._parts = parts

    # --- scopes ---

    def straight(self, statements: Sequence[Statement], scope: OpenLines) -> None:
        """Append the lines of straight code."""
        self._begin(statements, scope)
        for statement in statements:
            self._statement(statement)

    def loop(self, statements: Sequence[Statement]) -> tuple[list[str], OpenLines, list[str]]:
        """The lines before a loop, the loop's own, and those after it."""
        along = self.layout.loop
        assert along is not None
        before: list[str] = []
        after: list[str] = []
        scope = OpenLines()
        self._begin(statements, scope)
        fused = {total.name for online in self._online.values() for total in online.sums}
        for number, part in groupby(statements, self._branch):
            begins = len(scope.lines)
            for statement in part:
                if not (isinstance(statement, Reduce) and statement.over & along.names):
                    self._statement(statement)
                elif statement.name in self._online:
                    self._rescaling(self._online[statement.name], before, after)
                elif statement.name not in fused:
                    self._accumulate(statement, before, after)
            if number:
                inner = [INDENT + line for line in scope.lines[begins:]]
                scope.lines[begins:] = [f"if {self._always(number)}:", *inner]
        return before, scope, after

    def _branch(self, statement: Statement) -> int:
        """The number of the branch that a statement stands in; 0 for straight code."""
        if isinstance(statement, Definition):
            return self._parts.part_of.get(statement.name, 0)
        return max((self._parts.part_of.get(name, 0) for name in used_names(statement)), default=0)

    def _always(self, number: int) -> str:
        """What holds in each turn, and another for each number, though no compiler can know it.

        Without the turn in it all of them are found before the loop, and on AMD's devices kept, two scalar registers
        each.
        """
        loop, sizes = self.layout.loop, passed_sizes(self.kernel)
        assert loop is not None
        names = [name for name in sizes if name not in loop.names]
        turn = "start" if loop.is_vector else self._positions[loop.name]
        return f"{size_parameter([*sizes, *names][-1])} - {turn} > -{number}"

    def _begin(self, statements: Sequence[Statement], scope: OpenLines) -> None:
        self.scope = scope
        self.statements = statements
        self._made_beside = set()
        self._far = {}
        self._here = Counter(name for statement in statements for name in used_names(statement))

    # --- statements ---

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement, Store):
            self._store(statement)
            return
        assert isinstance(statement, Definition)
        if self._is_sine_beside_cosine(statement):
            return
        text = self._expression(statement)
        if statement.name in self._parts.totals:
            variable = self._variables[self._parts.totals[statement.name]]
            self.values[statement.name] = Text(variable)
            self.line(f"{variable} = {text.text}")
            return
        is_bare = isinstance(statement, Position) and text.text.isidentifier()
        if is_bare or self._is_alias(statement) or self._stands_in_place(statement, text):
            self.values[statement.name] = text
            if isinstance(statement, Load):
                self._loads_in_place.add(statement.name)
            return
        variable = self._variables[statement.name]
        self.values[statement.name] = Text(variable)
        if text.text != variable:
            self.line(f"{variable} = {text.text}")

    def _is_sine_beside_cosine(self, statement: Definition) -> bool:
        """Whether it is one of the sine and the cosine of a tile, which cost less together and have a line of both."""
        if statement.name in self._made_beside:
            return True
        if not is_sine(statement) or not self._varying(statement.axes):
            return False
        same = [s for s in self.statements if is_sine(s) and s.operands == statement.operands]
        both = {s.primitive: s for s in reversed(same)}
        if len(both) < 2:
            return False
        names = [self._variables[both[name].name] for name in ("sin", "cos")]
        text = self._both(statement.operands[0], all(s.name in self.coarse for s in both.values()))
        self.line(f"{', '.join(names)} = {text}")
        for name, variable in zip(("sin", "cos"), names, strict=True):
            self.values[both[name].name] = Text(variable)
            self._made_beside.add(both[name].name)
        return True

    def _is_alias(self, statement: Definition) -> bool:
        """Whether it is another value or a parameter, in a dtype that it has anyway."""
        if not isinstance(statement, Cast) or not isinstance(statement.operand, str):
            return False
        return statement.operand in self._declared or self.dtypes[statement.operand] == statement.dtype

    def _stands_in_place(self, statement: Definition, text: Text) -> bool:
        """Whether it is written where it is used, for that is one place, in the same scope."""
        if self._here[statement.name] != 1 or self._is_used_elsewhere(statement.name):
            return False
        if statement.name in self._angles:
            return False
        if isinstance(statement, Load):
            return self._variables.is_absorbed(statement.name)
        if statement.name in self._in_indices or not is_anonymous(statement.name):
            return False
        if isinstance(statement, Cast) and statement.operand in self._loads_in_place:
            return False
        if isinstance(statement, Reduce) and (statement.combine in POSITIONS or self._is_late(statement)):
            return False
        return not isinstance(statement, Uniform) and len(text.text) <= INLINE

    def _is_late(self, reduction: Reduce) -> bool:
        """Whether more of the row would be loaded before a reduction that is written where its result is used."""
        name = reduction.name
        for statement in self.statements[self.statements.index(reduction) + 1 :]:
            if isinstance(statement, Load) and statement.axes & reduction.over:
                return True
            if name in used_names(statement):
                if not isinstance(statement, Definition) or not is_anonymous(statement.name):
                    return False
                name = statement.name
        return False

    def _is_used_elsewhere(self, name: str) -> bool:
        """Whether straight code's value is used in a loop or after one; of a loop's own, all uses are there."""
        along = self.layout.loop
        if along is not None and self.axes[name] & along.names:
            return any(name == online.maximum.operand for online in self._online.values())
        return self._uses[name] != self._here[name]

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
                return self._uniform(statement)
            case Reduce():
                return self._reduce(statement)
        raise Unsupported(f"no text for {type(statement).__name__}")

    # --- reductions ---

    def _over(self, statement: Reduce) -> list[Dimension]:
        over = self.layout.over(statement.over)
        for dimension in over:
            if dimension.kind == "program":
                raise Unsupported(f"{self.kernel.name} reduces over parallel axes; split it first")
            if not dimension.names <= statement.over:
                raise Unsupported(f"{self.kernel.name} reduces over some of the axes of one dimension of the tile")
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
        text = self._typed_operand(operand, dtype)
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
        if statement.combine in POSITIONS:
            return self._arg_reduce(statement, text.text, self._position_along(over[0], together), over, together)
        return self._reduced(statement, text, over, together)

    def _position_along(self, over: Dimension, together: list[Dimension]) -> str:
        self.scope.used.add(over.name)
        position = self._positions[over.name]
        return position if len(together) == 1 else f"tl.broadcast_to({position}, {self.layout.shape(together)})"

    def _along(self, over: list[Dimension], together: list[Dimension], helper: str = "") -> list[str]:
        """The arguments that say along what a tile is reduced: at once, or along one dimension after the other."""
        combine = f", combine_fn={helper}" if helper else ""
        if len(self.layout.tile) == 1:
            return [f"axis=0{combine}"]
        if not [d for d in together if d not in over]:
            return [f"axis=None{combine}"]
        return [f"axis={self.layout.tile.index(dimension)}{combine}, keep_dims=True" for dimension in over]

    def _reduced(self, statement: Reduce, text: Text, over: list[Dimension], together: list[Dimension]) -> Text:
        if not over:
            return text
        dtype = self._compared_dtype(statement)
        if statement.combine in ("any", "all"):
            combine = "tl.max" if statement.combine == "any" else "tl.min"
            wide = cast(text, BOOL, INT32)
            return Text(f"{_nested(combine, wide, self._along(over, together)).text} != 0", COMPARE)
        is_plain = statement.combine == "sum" or (statement.combine in _REDUCES and not dtype.is_floating)
        if is_plain:
            result = _nested(_REDUCES[statement.combine], text, self._along(over, together))
            narrow = not dtype.is_floating and dtype.itemsize < 4
            return cast(result, INT32, statement.dtype) if narrow else result
        helper = _COMBINES[statement.combine]
        self.helpers[helper] = None
        return _nested("tl.reduce", text, self._along(over, together, helper))

    def _arg_reduce(
        self, statement: Reduce, values: str, positions: str, over: list[Dimension], together: list[Dimension]
    ) -> Text:
        variable = self._variables[statement.name]
        helper = _COMBINES[statement.combine]
        self.helpers[helper] = None
        (axis,) = self._along(over, together, helper)
        self.line(f"_, {variable} = tl.reduce(({values}, {positions}), {axis})")
        return Text(variable)

    # --- loops ---

    def _accumulate(self, statement: Reduce, before: list[str], after: list[str]) -> None:
        """Elementwise accumulators in the loop, reduced after it."""
        text, varying = self._masked(statement)
        over = [d for d in self._over(statement) if d.is_vector]
        together = [d for d in self.layout.tile if d in varying or d in over]
        variable = self._variables[statement.name]
        self.values[statement.name] = Text(variable)
        dtype = self._compared_dtype(statement)
        shape = self.layout.shape(together)
        total = self.names.take(f"{variable}_acc") if over else variable
        if statement.combine in POSITIONS:
            self._accumulate_position(statement, text, over, together, before, after)
            return
        start = identity(statement.combine, dtype)
        if start == 0 and dtype != BOOL:
            before.append(f"{total} = tl.zeros({shape}, {TYPES[dtype]})")
        else:
            before.append(f"{total} = tl.full({shape}, {literal(start, dtype).text}, {TYPES[dtype]})")
        self.line(_update(statement.combine, total, text, dtype))
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
        variable = self._variables[statement.name]
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
        self.helpers[helper] = None
        self.line(f"{best}, {at} = {helper}({best}, {at}, {text.text}, {position})")
        if over:
            (axis,) = self._along(over, together, helper)
            after.append(f"_, {variable} = tl.reduce(({best}, {at}), {axis})")

    def _rescaling(self, online: Online, before: list[str], after: list[str]) -> None:
        """A maximum and sums of exponentials in one loop."""
        maximum = online.maximum
        text, _ = self._masked(maximum)
        exp = self._spelling("exp", maximum.dtype, all(total.operand in self.coarse for total in online.sums))
        names = [self._variables[reduction.name] for reduction in (maximum, *online.sums)]
        for reduction, name in zip((maximum, *online.sums), names, strict=True):
            self.values[reduction.name] = Text(name)
        self.helpers["_nan_max"] = None
        lines = Rescaling(self.layout, self.names, maximum.dtype, exp)
        lines.write(text.text, names[0], names[1:], self._is_seen(maximum))
        before += lines.before
        after += lines.after
        for line in lines.inner:
            self.line(line)

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


def _nested(function: str, text: Text, along: Sequence[str]) -> Text:
    """A function of what it gives, for each of the dimensions that it reduces along."""
    for arguments in along:
        text = Text(f"{function}({text.text}, {arguments})")
    return text


def _update(combine: str, total: str, text: Text, dtype: DType) -> str:
    """One turn of an accumulator."""
    operators = {"sum": "+=", "prod": "*=", "any": "|=", "all": "&="}
    if combine in operators:
        return f"{total} {operators[combine]} {text.text}"
    function = {"max": "tl.maximum", "min": "tl.minimum"}[combine]
    return f"{total} = {function}({total}, {text.text}{PROPAGATE if dtype.is_floating else ''})"
