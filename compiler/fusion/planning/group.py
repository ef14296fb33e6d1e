"""One kernel in the making: an iteration space, the reductions in it, and the elements that it stores."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass, field
from ....lang.source import Span
from ....lang.trampoline import run
from ....stdlib_grads import formula_files
from ...ir.node import Value
from ...kernel_ir.index import constant
from ...kernel_ir.kernel import POSITIONS, Axis, Kernel, Load, Operand, Store
from ...kernel_ir.queries import restricted
from ...kernel_ir.statements import without_unused
from ..elements.rule import ElementPlace, Incompatible
from .element_writer import ElementWriter
from .growth import Overgrown
from .reductions import Reduction
from .space import Held
from .turned import reads_alike, walks_alike


@dataclass
class Group(ElementWriter):
    """A kernel over the dimensions of `shape`; `order` is its place among the steps of the program.

    What a program reduces, it reduces over all the axes `reduced`; of a tile, over any of them.
    """

    stored: dict[Value, str] = field(default_factory=dict)
    domain: frozenset[str] = frozenset()
    may_grow: bool = True
    """Whether what joins it may ask for more buffers."""

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
        self._require_there(operand)
        result = self.combined(value, reduction, operand, inside, across)
        kept = tuple(constant(0) if dim is None else place[dim] for dim in reduction.kept)
        self.held[value] = Held(result, kept, self.body.axes[result], across, place, inside)
        self.remember(value.node.span)

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
        buffer = self.buffer(name, layout, is_output=True)
        self.body.store(buffer, address, operand)
        if offset is None:
            self.stored[value] = name
        self.remember(value.node.span)

    def _attempt(self, act: Any, is_turned: bool = False, most: int | None = None) -> bool:
        """Whether what is done fits here, reading no tensor besides of so many elements, if that is said, as `most`."""
        mark = self.body.mark()
        before = (dict(self.buffers), dict(self.arguments), dict(self.parameters), dict(self.held), dict(self.sources))
        wanted = self.memory.mark()
        self.work.begin_trial(mark.remembered)
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
            self.work.give_up_trial()
            self.buffers, self.arguments, self.parameters, self.held, self.sources = before
            self.memory.take_back(wanted)
            return False
        self.memory.overgrown = None
        self.work.end_trial()
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
