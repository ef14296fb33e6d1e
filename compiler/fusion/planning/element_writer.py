"""Elements of tensors as a kernel in the making has them: read from memory, or computed where they are asked for."""

from __future__ import annotations

from collections.abc import Set

from ....lang.light_dataclasses import dataclass, field
from ....lang.source import Span
from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...kernel_ir.bounds import beyond_ends
from ...kernel_ir.index import Index, SizeValues, constant
from ...kernel_ir.kernel import POSITIONS, Buffer, Condition, KernelConstant, KernelParameter, Operand
from ...kernel_ir.layout import Layout, StridedView
from ...kernel_ir.statements import used_names
from ...scheduling.row_parts import COMBINED
from ...types.dtypes import BOOL, FLOAT64, INT64
from ..elements.body import Body, register_dtype
from ..elements.guarded import brought_together, decided, is_told, positions_left
from ..elements.rule import ElementPlace, Incompatible, LoadGuards, as_dtype
from .kernel_work import KernelWork
from .reductions import Reduction
from .space import Held, IterationSpace
from .swapped_axes import swapped_axes, with_axes_swapped


@dataclass
class ElementWriter(IterationSpace):
    """A kernel's body, and the buffers and numbers that it is given, as elements are written into it."""

    body: Body = field(default_factory=Body)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    parameters: dict[Value, KernelParameter] = field(default_factory=dict)
    sources: dict[Span, None] = field(default_factory=dict)
    _own_names: dict[tuple[str, bool], str] = field(default_factory=dict)
    """Of buffers, by the arguments that they are and whether they are written; some may have been taken back."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.axes:
            self.body.reserve(name)
        self.work = KernelWork(self.body, self.memory, self._is_read)

    def views(self, node: Node) -> list[StridedView]:
        views = self.memory.views(node)
        if views is None:
            raise Incompatible
        return views

    def ranges(self, guards: LoadGuards) -> SizeValues:
        """The axes' sizes, or within guards the positions that are left."""
        return positions_left(guards, self.sizes)

    def within(self, guards: LoadGuards, condition: Condition) -> LoadGuards | None:
        """The guards and a condition more; None where it never holds within them."""
        both = (*guards, condition)
        if not is_told(self.sizes, both, ()):
            return both
        holds = decided(condition.index, condition.low, condition.high, positions_left(guards, self.sizes))
        if holds is not None:
            return guards if holds else None
        left = positions_left(both, self.sizes)
        is_empty = any(isinstance(found, tuple) and found[0] > found[1] for found in left.values())
        return None if is_empty else brought_together(both, self.sizes, left)

    def inside(self, index: Index, low: int | None, high: int | None, guards: LoadGuards) -> Operand:
        """Whether an index lies in a half-open range, of which an end may be missing, where guards hold."""
        if is_told(self.sizes, guards, [index.constant, low, high]):
            holds = decided(index, low, high, positions_left(guards, self.sizes))
            if holds is not None:
                return KernelConstant(holds)
        return self.body.within(index, low, high)

    def is_in_memory(self, value: Value) -> bool:
        """Whether the tensors of a list are in memory."""
        return value in self.memory.lists

    def load_part(self, value: Value, which: int, place: ElementPlace, guards: LoadGuards) -> Operand:
        """An element of one tensor of a list that is in memory."""
        names, order = self.memory.lists[value]
        if order >= self.order:
            raise Incompatible
        return self._load(value, names[which], place, guards)

    # --- elements ---

    def element(self, value: Value, place: ElementPlace, guards: LoadGuards) -> Walk:
        """The operand that is one element of a tensor, in its register dtype."""
        meta = self.known[value]
        if 1 in meta.shape:
            place = tuple([constant(0) if size == 1 else index for index, size in zip(place, meta.shape, strict=True)])
        if guards and not any(index.terms for index in place):
            # It is there wherever it is asked for: guards of places would have it computed anew for each of them.
            guards = tuple(guard for guard in guards if guard.index.values)
        key = (value, place, guards)
        found = self.body.memo.get(key)
        if found is None:
            before = self.work.begin(value, place, guards)
            found = yield self._make(value, place, guards)
            self.body.memo[key] = found
            self.work.end(value, before)
        return found

    def _is_read(self, value: Value) -> bool:
        """Whether its elements are there: in memory, or as a reduction of this kernel."""
        placed = self.memory.placed.get(value)
        return value in self.held or (placed is not None and placed[1] < self.order)

    def _make(self, value: Value, place: ElementPlace, guards: LoadGuards) -> Walk:
        held = self.held.get(value)
        if held is not None:
            return held.name if held.place == place else (yield self._reduced_along(value, held, place))
        stored = self.memory.where(value, self.order)
        if stored is not None:
            return self._load(value, stored, place, guards)
        if value in self.memory.kept:
            raise Incompatible
        node, which = value.node, value.index
        self.remember(node.span)
        reduction = self.memory.reductions.get(value)
        if reduction is not None:
            if reduction.dims:
                raise Incompatible
            return (yield self._trivial(reduction, value, place, guards))
        rule = self.memory.rules.get(node)
        if rule is None:
            raise Incompatible
        return (yield rule(self, node, which, place, guards))

    def _reduced_along(self, value: Value, held: Held, place: ElementPlace) -> Walk:
        """What a tile's reduction gives along another axis than it ran along, where nothing asked for it there: in both
        places it would be added up in other orders, and an element not be equal to itself."""
        swapped = swapped_axes(held.place, place, self.reduced, self.sizes) if self.is_tile else None
        if swapped is None or held.across or any(held.name in used_names(s) for s in self.body.statements):
            raise Incompatible
        reduction = self.memory.reductions[value]
        of = with_axes_swapped(held.of, swapped, self.sizes)
        operand = yield self.element(reduction.operand, of, ())
        over = frozenset(swapped.get(name, name) for name in held.over)
        name = self.combined(value, reduction, operand, over)
        self.held[value] = Held(name, place, self.body.axes[name], held.across, of, over)
        return name

    def combined(
        self, value: Value, reduction: Reduction, operand: Operand, inside: Set[str], across: Set[str] = frozenset()
    ) -> str:
        """An operand reduced over axes of a program, then over those that programs share out."""
        operand = self._accumulated(operand, reduction)
        dtype, combine, hint = reduction.accumulate, reduction.combine, value.name_hint
        total = f"{hint}_sum" if hint and (reduction.times != 1 or reduction.divisor not in (None, 1)) else hint
        if isinstance(operand, KernelConstant):
            raise Incompatible
        for axes in (inside, across):
            if axes:
                operand = self.body.reduce(total, combine, dtype, operand, frozenset(axes), of_programs=axes is across)
        result = as_dtype(self, self.scaled(operand, reduction, hint), dtype, self.known[value].dtype)
        assert isinstance(result, str)
        return result

    def _accumulated(self, operand: Operand, reduction: Reduction) -> Operand:
        """The operand as the reduction takes it: positions are sought among elements as they are."""
        if reduction.combine in POSITIONS:
            return operand
        dtype = register_dtype(self.known[reduction.operand].dtype)
        return (
            as_dtype(self, operand, dtype, reduction.accumulate)
            if dtype != BOOL or reduction.accumulate != BOOL
            else operand
        )

    def _trivial(self, reduction: Reduction, value: Value, place: ElementPlace, guards: LoadGuards) -> Walk:
        """A reduction over dimensions of size 1, or of few parts."""
        meta = self.known[reduction.operand]
        inner: list[Index] = [constant(0)] * meta.rank
        for index, dim in zip(place, reduction.kept, strict=True):
            if dim is not None:
                inner[dim] = index
        operand = yield self.element(reduction.operand, tuple(inner), guards)
        if reduction.combine in POSITIONS:
            return KernelConstant(0)
        operand = as_dtype(self, operand, register_dtype(meta.dtype), reduction.accumulate)
        for dim, part in ((d, part) for d in reduction.stacked for part in range(1, meta.shape[d])):
            inner[dim] = constant(part)
            other = yield self.element(reduction.operand, tuple(inner), guards)
            other = as_dtype(self, other, register_dtype(meta.dtype), reduction.accumulate)
            operand = self.body.compute("", COMBINED[reduction.combine], reduction.accumulate, [operand, other])
        if reduction.combine == "sum" and reduction.accumulate.is_floating and not reduction.copies:
            # The sum of a negative zero is a positive one.
            operand = self.body.compute("", "add", reduction.accumulate, [operand, KernelConstant(0)])
        return as_dtype(self, self.scaled(operand, reduction), reduction.accumulate, self.known[value].dtype)

    def scaled(self, operand: Operand, reduction: Reduction, hint: str = "") -> Operand:
        if reduction.times != 1:
            return self.body.compute(hint, "mul", reduction.accumulate, [operand, KernelConstant(reduction.times)])
        if reduction.divisor in (None, 1):
            return operand
        return self.body.compute(hint, "div", reduction.accumulate, [operand, KernelConstant(reduction.divisor)])

    def _load(self, value: Value, name: str, place: ElementPlace, guards: LoadGuards) -> Operand:
        layout = self.memory.layouts[name]
        address = constant(0)
        for index, stride in zip(place, layout.strides, strict=True):
            address += index * stride
        open_guards = [guard for guard in guards if not self._always_holds(guard)]
        if any(self._never_holds(guard) for guard in open_guards):
            return self.body.cast(KernelConstant(0), register_dtype(layout.dtype))
        if open_guards:
            self._require_within(layout, address, tuple(open_guards))
        buffer = self.buffer(name, layout, is_output=False)
        return self.body.load(value.name_hint, buffer, layout.dtype, address, open_guards)

    def _require_within(self, layout: Layout, address: Index, guards: LoadGuards) -> None:
        """Overgrown where the way to an element has become so long that guards do not tell that it is in its buffer:
        then a value on this way goes into memory."""
        if (
            0 in self.sizes.values()
            or address.values
            or not is_told(self.sizes, guards, [address.constant, *layout.shape, *layout.strides])
        ):
            return
        ends = [(size - 1) * stride for size, stride in zip(layout.shape, layout.strides, strict=True)]
        low, high = sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
        least, greatest = address.range(self.sizes)
        if (low <= least and greatest <= high) or beyond_ends(address, guards, self.sizes, low, high) is None:
            return
        self.work.refuse_half_way()

    def _always_holds(self, guard: Condition) -> bool:
        low, high = guard.index.range(self.sizes)
        return guard.low <= low and high < guard.high

    def _never_holds(self, guard: Condition) -> bool:
        low, high = guard.index.range(self.sizes)
        return guard.low >= guard.high or high < guard.low or low >= guard.high

    def number(self, value: Value) -> Operand:
        """A number that is given at each call, or that an earlier step computes."""
        parameter = self.parameters.get(value)
        if parameter is None:
            given, order = self.memory.number(value)
            if order >= self.order:
                raise Incompatible
            name = self.body.reserve(value.name_hint or "number")
            while name in self.arguments:
                # A buffer has it: a gradient that is read, say, of another function's `t`.
                name = self.body.reserve(name)
            parameter = KernelParameter(name, INT64 if str(value.type) in ("int", "bool") else FLOAT64)
            self.parameters[value] = parameter
            self.body.parameter(name, parameter.dtype)
            self.arguments[name] = given
        return parameter.name

    def buffer(self, name: str, layout: Layout, *, is_output: bool) -> str:
        found = self._own_names.get((name, is_output))
        if found is not None and found in self.buffers and self.arguments.get(found) == name:
            return found
        own, number = name, 1
        while own in self.buffers or own in self.arguments:
            own, number = f"{name}_{number}", number + 1
        self.buffers[own] = Buffer(own, layout.dtype, layout.shape, layout.strides, is_output)
        self.arguments[own] = name
        self._own_names[name, is_output] = own
        return own

    def remember(self, span: Span) -> None:
        self.sources.setdefault(span)
