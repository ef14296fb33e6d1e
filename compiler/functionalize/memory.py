"""What stands in each place now: read, written, and what a write may have changed unseen.

A scope is opened for each block, so that what a block wrote is its scope's own content. A value read from a place is
kept as its snapshot, which holds until the place's root is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ...lang.diagnostics import Abort
from ..ir.node import Value
from ..types.types import ListType, OptionalType
from .contents import COPY_FIRST, COPY_LIST, Contents
from .places import (
    Cell,
    ChosenPlace,
    Either,
    Place,
    Plain,
    Root,
    Slots,
    Spread,
    View,
    Whole,
    places_in,
    type_of,
)
from .scopes import UndecidedWrite, Write
from .unrecorded import is_last_use, may_carry_gradient
from .views import GET, SET, is_detaching

_DETACHED = "a write of what has a gradient into a tensor that shares memory with the one it was detached from"


class Memory(Contents):
    """The contents of all places at one point of the program, which writes change."""

    def write(self, place: Place, value: Value, write: Write) -> None:
        """Make `value` what stands in the place, and forget what may share memory with it."""
        cells = self.own(place)
        self.permit(cells, write)
        if isinstance(place, View):
            unknown = self.stale(place)
            if unknown is not None:
                raise self.unknown(*unknown)
        if not isinstance(place, Root):
            unknown = self._moved(place, is_known=False)
            if unknown is not None:
                raise self.unknown(*unknown)
        self._permit_gradient(place, value, write)
        self._assign(place, value)
        self.spoil(cells, write)

    def _permit_gradient(self, place: Place, value: Value, write: Write) -> None:
        """Report a write of a gradient into what was detached, unless nobody reads it there: what shares its memory
        keeps the gradient that it has."""
        pending = [place]
        while pending:
            place = pending.pop()
            if isinstance(place, View):
                if is_detaching(place.step) and may_carry_gradient(value) and not is_last_use(write.node):
                    note = "write into a copy: `z = y.detach().clone()`"
                    raise self.diagnostics.fail("E305", _DETACHED, write.span, note)
                pending.append(place.parent)
            elif isinstance(place, Either | ChosenPlace):
                pending += places_in(place)

    def permit(self, cells: list[Cell], write: Write) -> None:
        """Report a write into what the caller, a closure or the function around holds."""
        for exact, cell in [*((True, c) for c in cells), *((False, o) for c in cells for o in c.others)]:
            verb = "writes" if exact else "may write"
            instead = COPY_LIST if isinstance(cell.type, ListType) and not cell.key[1] else COPY_FIRST
            if cell.argument:
                message = f"{write.what} {verb} into argument '{cell.argument}'"
                self.diagnostics.report("E305", message, write.span, instead)
                raise Abort(message) if exact else UndecidedWrite(message)
            named = f"'{cell.name}'" if cell.name else "a value"
            if cell in self.captured:
                raise self.diagnostics.fail(
                    "E305",
                    f"{write.what} {verb} into {named}, which closure '{self.captured[cell]}' has captured",
                    write.span,
                    "a closure keeps what it captures as it was",
                    instead,
                )
            for level, name, _ in self.closures:
                if cell.level <= level:
                    message = f"{write.what} {verb} into {named} of the function around '{name}'"
                    raise self.diagnostics.fail("E305", message, write.span, instead)

    def spoil(self, cells: list[Cell], write: Write) -> None:
        """After a write into these: nobody knows the contents of what may be one of them."""
        for cell in cells:
            if cell.repeats:
                self.scope.stale[cell] = write
            self.scope.stale.update(dict.fromkeys(cell.others, write))

    def _assign(self, place: Place, value: Value) -> None:
        base = place.root if isinstance(place, View) else place
        # Elements of a list in a list move too, and what was taken out of it before is not where it was.
        moved = isinstance(type_of(place), ListType)
        value = self._there(place, value)
        self._assign_base(base, self._written(place, value), moved=moved)
        if isinstance(place, View):
            if moved and place.structure is not None:
                place.structure = self.structure(place.root)
            self.keep(place, value)

    def _there(self, place: Place, value: Value) -> Value:
        """A value to be written into one of several places, where others may hold None."""
        is_there = isinstance(value.type, OptionalType) and not isinstance(type_of(place), OptionalType)
        return self.builder.unwrap(value) if is_there else value

    def _written(self, place: Place, value: Value) -> Value:
        """What stands in the base of a place once a value stands in the place."""
        while isinstance(place, View):
            written = place.step.write(self.builder, self._read(place.parent), value)
            if written is None:
                span = self.builder.current_span
                raise self.diagnostics.fail(
                    "E305", "a write into a tensor whose elements share memory with each other", span, COPY_FIRST
                )
            place, value = place.parent, written
        return value

    def _assign_base(self, base: Place, value: Value, *, moved: bool = False) -> None:
        if isinstance(base, ChosenPlace):
            self._assign_choice(base, value)
        elif isinstance(base, Either):
            # One after the other, so that the two may overlap.
            for condition, place in self._sides(base):
                self._assign_where(condition, place, value)
            self.keep(base, value)
        elif isinstance(base, Root):
            self._assign_cell(base, value, moved=moved)

    def _sides(self, base: Either | ChosenPlace, given: Value | None = None) -> Iterator[tuple[Value, Place]]:
        """The places that one may be, each with the condition under which it is that, where a condition is `given`."""
        if isinstance(base, Either):
            conditions: Iterable[Value] = (base.condition, self.builder.op("aten::__not__.bool", base.condition))
        else:
            position = self.builder.op("aten::remainder.int", base.index, len(base.slots))
            conditions = (self.builder.op("aten::eq.int", position, i) for i in range(len(base.slots)))
        for condition, place in zip(conditions, places_in(base), strict=True):
            yield self.builder.op("aten::__and__.bool", given, condition) if given is not None else condition, place

    def _assign_where(self, condition: Value, place: Place, value: Value) -> None:
        """As `_assign`, where a condition holds alone: elsewhere there may be nothing that a view could be of."""
        base = place.root if isinstance(place, View) else place
        if isinstance(base, Plain):
            return
        moved = isinstance(type_of(place), ListType)

        def written() -> Value:
            return self._written(place, self._there(place, value))

        if isinstance(base, Either | ChosenPlace):
            type = type_of(base)
            whole = self._decide(condition, [written, partial(self.builder.uninitialized, type)], type)
            for both, side in self._sides(base, condition):
                self._assign_where(both, side, whole)
            return
        self._assign_base(
            base, self._decide(condition, [written, partial(self._beside, base)], type_of(base)), moved=moved
        )

    def _beside(self, place: Place) -> Value:
        """What stands in one of several places of which another may be written. What was written before may have moved
        what it holds."""
        unknown = self._moved(place.root if isinstance(place, View) else place)
        if unknown is not None:
            raise self.unknown(*unknown)
        return self._read(place)

    def _assign_cell(self, root: Root, value: Value, *, moved: bool) -> None:
        cell = root.cell
        old = self.content(cell)
        if isinstance(old, Slots | Spread):
            self.collapse(cell, old)
            elements = self.elements_of(root)
            self.scope.contents[cell] = Whole(value)
            for element in elements:
                self.scope.stale[element] = Write("a write into a list", self.builder.current_span)
        else:
            keeps = not moved
            self.scope.contents[cell] = Whole(value, structure=old.structure) if keeps else Whole(value)
        if not value.name_hint and cell.name and value.node.kind != "prim::Constant":
            value.name_hint = cell.name
        self.keep(root, value)

    def _assign_choice(self, place: ChosenPlace, value: Value) -> None:
        """Each of the places gets what it has now, and one of them the new value."""
        slots = place.slots
        if any(self.may_share(slot, other) for i, slot in enumerate(slots) for other in slots[i + 1 :]):
            position = self.builder.op("aten::remainder.int", place.index, len(slots))
            for i, slot in enumerate(slots):
                is_it = self.builder.op("aten::eq.int", position, i)
                sides = [partial(self._value, value), partial(self._beside, slot)]
                self._assign(slot, self._decide(is_it, sides, place.type))
            return
        before = self.builder.list([self._beside(slot) for slot in slots], place.type)
        after = self.builder.op(SET, before, place.index, value)
        for i, slot in enumerate(slots):
            self._assign(slot, self.builder.op(GET, after, i))

    def collapse(self, cell: Cell, content: Slots | Spread) -> None:
        """From here on a list is one value; what its elements share with other objects is told by its cell of them."""
        assert cell.elements is not None
        places = content.places if isinstance(content, Slots) else (content.place,)
        # Another walk over a loop may have linked the two: that is no second time that the list has an element.
        repeats = self.repeats(cell.root)
        for place in places:
            for held in self.reach(place):
                repeats = repeats or held.repeats or held is cell.elements
                if held is not cell.elements:
                    self.link(cell.elements, held)
            unknown = self.stale(place)
            if unknown is not None:
                self.scope.stale[cell.elements] = unknown[1]
        if repeats:
            self.repeat(cell.elements)
