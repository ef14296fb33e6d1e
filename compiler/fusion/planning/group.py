"""One kernel in the making: an iteration space, the reductions in it, and the elements that it stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass, field
from ....lang.source import Span
from ....lang.trampoline import Walk, run
from ....stdlib_grads import formula_files
from ...ir.node import Node, Value
from ...kernel_ir.bounds import beyond_ends
from ...kernel_ir.index import Index, SizeValues, constant
from ...kernel_ir.kernel import (
    POSITIONS,
    Axis,
    Buffer,
    Condition,
    Kernel,
    KernelConstant,
    KernelParameter,
    Load,
    Operand,
    Store,
)
from ...kernel_ir.layout import Layout, StridedView
from ...kernel_ir.queries import restricted
from ...kernel_ir.statements import without_unused
from ...scheduling.row_parts import COMBINED
from ...types.dtypes import BOOL, FLOAT64, INT64
from ..elements.body import Body, register_dtype
from ..elements.guarded import brought_together, decided, is_told, positions_left
from ..elements.rule import ElementPlace, Incompatible, LoadGuards, as_dtype
from .growth import SELDOM, Asked, Overgrown, is_long, largest_again, room_left
from .reductions import Reduction
from .space import Held, IterationSpace
from .turned import reads_alike, walks_alike


@dataclass
class Group(IterationSpace):
    """A kernel over the dimensions of `shape`; `order` is its place among the steps of the program.

    What a program reduces, it reduces over all the axes `reduced`; of a tile, over any of them.
    """

    body: Body = field(default_factory=Body)
    stored: dict[Value, str] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    parameters: dict[Value, KernelParameter] = field(default_factory=dict)
    sources: dict[Span, None] = field(default_factory=dict)
    domain: frozenset[str] = frozenset()
    may_grow: bool = True
    """Whether what joins it may ask for more buffers."""
    _own_names: dict[tuple[str, bool], str] = field(default_factory=dict)
    """Of buffers, by the arguments that they are and whether they are written; some may have been taken back."""
    _within: list[Value] = field(default_factory=list)
    """Whose elements are being computed, each for the one before it."""
    _before: int = 0
    """How many elements were remembered when the trial began."""
    _work: int = 0
    """What the elements took that were computed, those of trials that failed too."""
    _anew: int = 0
    """What the trial took of that on what kernels have computed already, and how much it may."""
    _most_anew: int = 0
    _enough: int = 0
    """Up to how much work it is sure that no more than a kernel may do is done again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.axes:
            self.body.reserve(name)

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
            if is_long(place):
                raise Overgrown(self._within[-1]) if len(self._within) > 1 else Incompatible
            before, work = self._work, self.memory.work_of(value)
            self._within.append(value)
            found = yield self._make(value, place, guards)
            self._within.pop()
            self.body.memo[key] = found
            self._work += work
            self.body.work.append((work, self._work - before))
            if value in self.memory.done.computed and not self._is_read(value):
                self._anew += work
                if self._anew > self._most_anew and self._within:
                    self._require_new()
            if self._work > self._enough:
                self._require_room()
        return found

    def _require_room(self) -> None:
        """Overgrown where what is tried computes too much again by itself; Incompatible where this kernel would."""
        most = self.memory.most_again
        room = room_left(self._asked(0), self._is_read, most)
        # What only reads, as what stores a reduction, may always: less is allowed than was once something is kept.
        if room < 0 and not all(self._is_read(value) for value, *_ in self._asked(self._before)):
            is_own = room_left(self._asked(self._before), self._is_read, most) < 0
            value = largest_again(self._asked(self._before), self._is_read) if is_own else None
            raise Overgrown(value) if value is not None else Incompatible
        self._enough = self._work + max(room, SELDOM, len(self.body.memo) // 4)

    def _require_new(self) -> None:
        """Overgrown where what is tried computes too much that kernels have computed already."""
        value = self.memory.done.largest(self._asked(self._before), self._is_read)
        if value is not None:
            raise Overgrown(value)
        self._most_anew *= 2

    def _asked(self, first: int) -> Iterator[Asked]:
        """What was asked for, from the `first` on."""
        body = self.body
        return islice(((key[0], key[1], *work) for key, work in zip(body.memo, body.work, strict=True)), first, None)

    def _is_read(self, value: Value) -> bool:
        """Whether its elements are there: in memory, or as a reduction of this kernel."""
        placed = self.memory.placed.get(value)
        return value in self.held or (placed is not None and placed[1] < self.order)

    def _make(self, value: Value, place: ElementPlace, guards: LoadGuards) -> Walk:
        held = self.held.get(value)
        if held is not None:
            if held.place != place:
                raise Incompatible
            yield from ()
            return held.name
        stored = self.memory.where(value, self)
        if stored is not None:
            return self._load(value, stored, place, guards)
        if value in self.memory.kept:
            raise Incompatible
        node, which = value.node, value.index
        self._remember(node.span)
        reduction = self.memory.reductions.get(value)
        if reduction is not None:
            if reduction.dims:
                raise Incompatible
            return (yield self._trivial(reduction, value, place, guards))
        rule = self.memory.rules.get(node)
        if rule is None:
            raise Incompatible
        return (yield rule(self, node, which, place, guards))

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
        return as_dtype(self, self._scaled(operand, reduction), reduction.accumulate, self.known[value].dtype)

    def _scaled(self, operand: Operand, reduction: Reduction, hint: str = "") -> Operand:
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
        buffer = self._buffer(name, layout, is_output=False)
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
        raise Overgrown(self._within[len(self._within) // 2]) if len(self._within) > 2 else Incompatible

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

    def _buffer(self, name: str, layout: Layout, *, is_output: bool) -> str:
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

    def _remember(self, span: Span) -> None:
        self.sources.setdefault(span)

    # --- what it does ---

    def try_reduction(self, value: Value, reduction: Reduction) -> bool:
        """Compute a reduction here; False, and nothing changed, where this group cannot."""
        places = self._likely_first(self.known[reduction.operand].shape)
        if any(self._try_reduction_at(value, reduction, place) for place in places):
            return True
        return self.try_turned(value, reduction, [reduction.operand])

    def _likely_first(self, shape: tuple[int, ...]) -> list[ElementPlace]:
        """The places of tensors of a shape: where a tile has axes of one size, first that of what is reduced to this
        shape already, for with that it is likely to be computed, element by element."""
        found = list(self.places(shape))
        taken = {held.place for value, held in self.held.items() if self.known[value].shape == shape}
        return sorted(found, key=lambda place: place not in taken)

    def try_turned(self, value: Value, reduction: Reduction, beside: Iterable[Value]) -> bool:
        """Compute a reduction here of what is the elements of this space in another order, as those of one of some
        values of its operand's shape are."""
        for place in dict.fromkeys(place for found in beside for place in self.turned(found)):
            is_whole = not self.is_cut_short(reduction, place)
            if is_whole and self._try_reduction_at(value, reduction, place, is_turned=bool(self.body.statements)):
                self.orders_found[self.known[reduction.operand].shape] = place
                return True
        return False

    def _try_reduction_at(
        self, value: Value, reduction: Reduction, place: ElementPlace, *, is_turned: bool = False
    ) -> bool:
        place = tuple(p if d in (*reduction.dims, *reduction.kept) else constant(0) for d, p in enumerate(place))
        over = frozenset(name for d in reduction.dims for name in place[d].axes)
        inside, across = over & self.reduced, over - self.reduced
        if inside and inside != self.reduced and not self.is_tile:
            return False
        if reduction.combine in POSITIONS and (across or len(over) > 1):
            return False
        if across and any(held.across not in (across, frozenset()) for held in self.held.values()):
            # Programs share out one set of axes.
            return False
        return self._attempt(lambda: self._reduce(value, reduction, place, inside, across), is_turned)

    def _reduce(
        self, value: Value, reduction: Reduction, place: ElementPlace, inside: frozenset[str], across: frozenset[str]
    ) -> None:
        self.domain = frozenset[str]().union(*(index.axes for index in place))
        operand = run(self.element(reduction.operand, place, ()))
        operand = self._accumulated(operand, reduction)
        self._require_there(operand)
        dtype, combine, hint = reduction.accumulate, reduction.combine, value.name_hint
        total = f"{hint}_sum" if hint and (reduction.times != 1 or reduction.divisor not in (None, 1)) else hint
        if isinstance(operand, KernelConstant):
            raise Incompatible
        for axes in (inside, across):
            if axes:
                operand = self.body.reduce(total, combine, dtype, operand, axes, of_programs=axes == across)
        result = as_dtype(self, self._scaled(operand, reduction, hint), dtype, self.known[value].dtype)
        assert isinstance(result, str)
        kept = tuple(constant(0) if dim is None else place[dim] for dim in reduction.kept)
        self.held[value] = Held(result, kept, self.body.axes[result], across)
        self._remember(value.node.span)

    def _require_there(self, operand: Operand) -> None:
        """What follows from a reduction across programs is there when all of them are through, and then none has an
        axis of theirs any more."""
        if self.body.gone(operand) & self.domain:
            raise Incompatible

    def _require_programs(self, value: Value, operand: Operand) -> None:
        """No program runs along an axis without elements, so what has elements all the same is stored elsewhere."""
        run_along = self.sizes.keys() - self.reduced - self.domain - self.body.gone(operand)
        if any(self.sizes[name] == 0 for name in run_along) and 0 not in self.known[value].shape:
            raise Incompatible

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

    def try_store(self, value: Value, name: str, offset: ElementPlace | None = None, *, may_read: bool = True) -> bool:
        """Store a tensor here, in the buffer `name`, at an offset from its beginning; False where that cannot be, or
        unless it `may_read`, would read for it another tensor that is as large."""
        held, shape = self.held.get(value), self.known[value].shape
        places = [held.place] if held is not None else list(self.places(shape))
        if not places:
            reshaped = self.reshaped(shape)
            places = [reshaped] if reshaped is not None else []
        most = None if may_read else self.known[value].numel

        def stored(place: ElementPlace, *, is_turned: bool = False) -> bool:
            return self._attempt(lambda: self._store(value, name, place, offset), is_turned, most)

        if any(map(stored, places)):
            return True
        if held is not None:
            return False
        for place in dict.fromkeys(self.turned(value)):
            if stored(place, is_turned=True):
                self.orders_found[shape] = place
                return True
        return False

    def _store(self, value: Value, name: str, place: ElementPlace, offset: ElementPlace | None) -> None:
        self.domain = frozenset[str]().union(*(index.axes for index in place))
        operand = run(self.element(value, place, ()))
        if not self.body.axes_of(operand) <= self.domain:
            raise Incompatible
        self._require_there(operand)
        self._require_programs(value, operand)
        layout = self.memory.layouts[name]
        address = constant(0)
        for d, (index, stride) in enumerate(zip(place, layout.strides, strict=True)):
            address += ((index + offset[d]) if offset is not None else index) * stride
        buffer = self._buffer(name, layout, is_output=True)
        self.body.store(buffer, address, operand)
        if offset is None:
            self.stored[value] = name
        self._remember(value.node.span)

    def _attempt(self, act: Any, is_turned: bool = False, most: int | None = None) -> bool:
        """Whether what is done fits here, reading no tensor besides of so many elements, if that is said, as `most`."""
        mark = self.body.mark()
        before = (dict(self.buffers), dict(self.arguments), dict(self.parameters), dict(self.held), dict(self.sources))
        wanted, left = self.memory.mark(), self._enough - self._work
        self._before = mark.remembered
        self._anew, self._most_anew = 0, self.memory.done.most_of_a_trial
        try:
            act()
            if len(self.buffers) > len(before[0]) and not self.may_grow:
                raise Incompatible
            if most is not None and any(
                prod(buffer.shape) >= most
                for key, buffer in self.buffers.items()
                if key not in before[0] and not buffer.is_output
            ):
                raise Incompatible
            if is_turned and not self._walks_alike(mark.statements):
                raise Incompatible
        except Incompatible as error:
            if isinstance(error, Overgrown):
                self.memory.overgrown = error.value
            self.body.take_back(mark)
            self._within.clear()
            self._enough = self._work + left
            self.buffers, self.arguments, self.parameters, self.held, self.sources = before
            self.memory.take_back(wanted)
            return False
        self.memory.overgrown = None
        self.memory.done.add(self._asked(self._before), self._is_read)
        return True

    def _walks_alike(self, count: int) -> bool:
        """Whether what came after so many statements walks memory as they do, or programs turn what they read."""
        before, added = self.body.statements[:count], self.body.statements[count:]
        if self.memory.turns:
            return reads_alike(before, added)
        is_walked = any(held.across for held in self.held.values())
        return walks_alike(before, added, self.reduced if is_walked else None)

    def buffers_along_rows(self) -> int:
        """How many buffers vary along what the kernel reduces, where it does."""
        if not self.reduced:
            return len(self.buffers)
        moved = [s for s in self.body.statements if isinstance(s, Load | Store)]
        return len({s.buffer for s in moved if s.index.axes & self.reduced})

    # --- the kernel ---

    def kernel(self, name: str) -> Kernel:
        """What was put together, with the role of each axis, but for what no store asks for: where one of no more than
        one element is the largest, say, is known, and what it was computed of would only be in the way of a split."""
        axes = tuple(
            Axis(axis_name, size, "reduction" if axis_name in self.reduced else "parallel")
            for axis_name, size in self.sizes.items()
        )
        kernel = Kernel(
            name,
            axes,
            tuple(self.buffers.values()),
            tuple(self.parameters.values()),
            tuple(self.body.statements),
            _users(self.sources),
        )
        used = without_unused(kernel.body)
        return kernel if len(used) == len(kernel.body) else restricted(kernel, name, axes, [*kernel.buffers], used)


def _users(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The places in users' sources, in order; those in the library where there are no others."""
    in_order = sorted(spans, key=lambda span: (span.source.filename, span.start))
    library = formula_files()
    own = [span for span in in_order if span.source.filename not in library]
    return tuple(own or in_order)
