"""What stands in each place now: read, written, and what a write may have changed unseen.

A scope is opened for each block, so that what a block wrote is its scope's own content. A value read from a place is
kept as its snapshot, which holds until the place's root is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ...lang.diagnostics import Abort
from ..ir.node import Value
from ..ops.registry import OPS
from ..types.types import ListType, OptionalType, Type, is_subtype, is_tensor, unify
from .existence import where_made
from .objects import Objects
from .places import (
    Cell,
    ChosenPlace,
    Content,
    Either,
    Items,
    Place,
    Plain,
    Root,
    Slots,
    Spread,
    View,
    Whole,
    alternatives,
    holds_mutable,
    leaves,
    type_of,
)
from .scopes import Scope, Write
from .views import GET, SET, ElementStep, FieldStep, ViewOpStep, ViewStep, by_numbers, numbered

COPY_FIRST = "write into a copy, `y = x.clone()`, or make a new value: `y = x + 1`, `y = torch.add(x, 1)`"
COPY_LIST = "write into a copy, `y = list(x)`, or make a new list: `y = x + [item]`"


TAKE = "aten::take"
MAX_STEPS = 16
"""How many views of each other are followed one by one."""


class Memory(Objects):
    """The contents of all places at one point of the program, and the builder of the graph that reads them."""

    # Objects

    def allocate(self, value: Value, content: Content | None, *, origin: Value, argument: str = "") -> Root:
        """A new object, which `value` of the new graph is the content of."""
        cell = Cell(value.type, (origin, False, self.path), self.scope.level, argument, origin.name_hint)
        cell.returned = origin.name_hint == "return" and not self.calls
        self.cells[cell.key] = cell
        self.allocated.append(cell)
        if holds_mutable(cell.type):
            cell.elements = Cell(cell.type, (origin, True, self.path), cell.level, argument, cell.name, cell.returned)
            self.cells[cell.elements.key] = cell.elements
            self.allocated.append(cell.elements)
        self.scope.contents[cell] = content or Whole(value)
        self.keep(cell.root, value)
        return cell.root

    # Reading

    def keep(self, place: Place, value: Value) -> None:
        """Remember the value that the place has now."""
        self.scope.snapshots[place] = (self._stamp(place), value)

    def snapshot(self, place: Place) -> Value | None:
        """The value read before, if it is still what stands there."""
        stamp = None
        for scope in reversed(self.scopes):
            found = scope.snapshots.get(place)
            if found is not None:
                stamp = stamp if stamp is not None else self._stamp(place)
                return found[1] if found[0] == stamp else None
        return None

    def read(self, place: Place) -> Value:
        """The value that stands in the place now."""
        write = self.stale(place)
        if write is not None:
            raise self.unknown(*write)
        return self._read(place)

    def read_shape(self, place: Place) -> Value:
        """A value of the shape and dtype of what stands there, which no write into a tensor changes."""
        for scope in reversed(self.scopes):
            found = scope.snapshots.get(place)
            if found is not None:
                return found[1]
        return self._read(place)

    def carry(self, place: Place, type: Type) -> tuple[Value, Write | None]:
        """As `read`, for what a block hands on and nobody may want: a write that made it unknown comes with it."""
        write = self.stale(place)
        if write is not None:
            return self.builder.uninitialized(type), write[1]
        return self._read(place), None

    def stale(self, place: Place) -> tuple[Cell, Write] | None:
        """The cell among those of a place, and the write that may have changed it unseen."""
        cells = self.reach(place)
        for level, _, read in self.closures:
            read.update(dict.fromkeys(cell for cell in cells if cell.level <= level))
        if isinstance(place, View) and isinstance(place.root, Root):
            cells.append(place.root.cell)
        for cell in cells:
            if cell.returned:
                continue
            for scope in self.scopes:
                if cell in scope.stale:
                    return cell, scope.stale[cell]
        return self._moved(place)

    def _moved(self, place: Place, *, is_known: bool = True) -> tuple[Cell, Write] | None:
        """The list in which an element is not where it was that the place is, or holds: what `is_known` of it is not
        asked for. To write is to ask for the place alone."""
        pending, seen = [place], set[Place]()
        while pending:
            given = pending.pop()
            if given in seen or (is_known and self.snapshot(given) is not None):
                continue
            seen.add(given)
            match given:
                case View(root=root):
                    if not self._is_in_position(given):
                        return self.own(root)[0], Write("a change of the list", self.builder.current_span)
                    pending.append(root)
                case Root(cell):
                    content = self.content(cell)
                    if is_known and not isinstance(content, Whole):
                        pending += content.places if isinstance(content, Slots) else (content.place,)
                case Items() | Either() | ChosenPlace():
                    pending += alternatives(given)
        return None

    def unknown(self, cell: Cell, write: Write) -> Abort:
        name = f"'{cell.name}'" if cell.name else "another value"
        instead = COPY_LIST if isinstance(cell.type, ListType) else COPY_FIRST
        return self.diagnostics.fail(
            "E305",
            f"{write.what} may write into {name}, which is read afterwards",
            write.span,
            "whether the two share memory is known only when it runs, or not followed here",
            instead,
        )

    def _read(self, place: Place) -> Value:
        pending: list[View] = []
        value = self.snapshot(place)
        while value is None:
            if not isinstance(place, View):
                value = self._read_root(place)
                break
            pending.append(place)
            place = place.parent
            value = self.snapshot(place)
        if pending:
            there = where_made(self.builder, pending[0].root)
            if there is not None:
                sides = [partial(self._taken, value, pending), partial(self.builder.uninitialized, pending[0].type)]
                value = self._decide(there, sides, pending[0].type)
                self.keep(pending[0], value)
                return value
        return self._taken(value, pending)

    def _taken(self, value: Value, views: Sequence[View]) -> Value:
        """What the first of these views has of a value, which the last is of."""
        for view in reversed(views):
            value = view.step.read(self.builder, value)
            self.keep(view, value)
        return value

    def _read_root(self, place: Place) -> Value:
        if place in self.reading:
            # An element of a list was read from what now holds that list: as a whole, neither can be told first.
            raise self.unknown(self.own(place)[0], Write("a write into a list", self.builder.current_span))
        self.reading.add(place)
        try:
            return self._gathered(place)
        finally:
            self.reading.discard(place)

    def _gathered(self, place: Place) -> Value:
        """What stands in a place, of what it is made of."""
        match place:
            case Plain(value):
                return value
            case Items(slots):
                value = self.builder.tuple([self._read(slot) for slot in slots])
            case ChosenPlace(slots, index, type):
                value = self.builder.op(GET, self.builder.list([self._read(slot) for slot in slots], type), index)
            case Either(condition, then, otherwise, type):
                value = self.select(condition, then, otherwise, type)
            case Root(cell):
                value = self._read_cell(cell)
            case View():
                raise AssertionError("a view is read from its root")
        self.keep(place, value)
        return value

    def select(self, condition: Value, then: Place | Value, otherwise: Place | Value, type: Type) -> Value:
        """One of two places or values, read where the condition asks for it."""
        sides = [partial(self._value, found) for found in (then, otherwise)]
        return self._decide(condition, sides, type)

    def _value(self, found: Place | Value) -> Value:
        return found if isinstance(found, Value) else self._read(found)

    def _decide(self, condition: Value, sides: Sequence[Callable[[], Value]], type: Type) -> Value:
        """A branch that gives what either side makes."""
        branch = self.builder.node("prim::If", [condition], blocks=2)
        values = []
        for block, side in zip(branch.blocks, sides, strict=True):
            with self.within(Scope(self.scope.level + 1)), self.builder.at(block):
                value = side()
                self.builder.returns(value)
                values.append(value)
        for value in values:
            type = type if is_subtype(value.type, type) else unify(type, value.type) or type
        return branch.add_output(type)

    def _read_cell(self, cell: Cell) -> Value:
        content = self.content(cell)
        if isinstance(content, Whole):
            return content.value
        if isinstance(content, Spread):
            return self._read(content.place)
        assert isinstance(cell.type, ListType)
        return self.builder.list([self._read(slot) for slot in content.places], cell.type.element)

    def _stamp(self, place: Place) -> Any:
        """Equal to what it was before if nothing has been written since into what the place depends on: of a list in
        which it is an element, into the elements; of one that it is, or holds, into the list as well."""
        found: dict[object, None] = {}
        pending, seen = [(place, True)], set[tuple[Place, bool]]()
        while pending:
            given, whole = pending.pop()
            for leaf in leaves(given):
                if (leaf, whole) in seen:
                    continue
                seen.add((leaf, whole))
                if isinstance(leaf, View):
                    # An optional that is there is the object itself.
                    pending.append((leaf.root, not leaf.of_element))
                elif isinstance(leaf, Root):
                    content = self.content(leaf.cell)
                    if isinstance(content, Whole):
                        found[content.elements] = None
                        found.update({content.structure: None} if whole else {})
                        continue
                    found[content] = None
                    pending += [(p, True) for p in (content.places if isinstance(content, Slots) else (content.place,))]
        return tuple(found)

    def _is_in_position(self, view: View) -> bool:
        """Whether the elements of the list that a view counts in are where they were."""
        return view.structure is None or view.structure == self.structure(view.root)

    # Writing

    def view(self, parent: Place, step: ViewStep, type: Type) -> View:
        """The part of a place that a step takes."""
        assert isinstance(parent, Root | ChosenPlace | Either | View), "only objects have parts"
        root = parent.root if isinstance(parent, View) else parent
        enters = isinstance(step, ElementStep | FieldStep) and holds_mutable(type_of(root))
        of_element = enters or (isinstance(parent, View) and parent.of_element)
        # What is taken out of an element stands where that stood when it was taken: its list may have moved it since.
        structure = parent.structure if isinstance(parent, View) else None
        made = View(parent, step, root, type, of_element, structure or (self.structure(root) if of_element else None))
        return self._shortened(made) or made

    def _shortened(self, view: View) -> View | None:
        """A view of views of views by the numbers of its elements, which no write changes: so that what many writes and
        views in turn make stays as long as they are many."""
        steps: list[ViewStep] = []
        place: Place = view
        while isinstance(place, View):
            steps.append(place.step)
            place = place.parent
        if len(steps) <= MAX_STEPS or not is_tensor(view.type) or not is_tensor(type_of(view.root)):
            return None
        if not all(map(by_numbers, steps)):
            return None
        first = steps[-1]
        if isinstance(first, ViewOpStep) and first.op is OPS.named(TAKE):
            numbers: Value = first.arguments[0]
            steps.pop()
        else:
            numbers = numbered(self.builder, self.read_shape(view.root))
        for step in reversed(steps):
            numbers = step.read(self.builder, numbers)
        return View(view.root, ViewOpStep(OPS.named(TAKE), (numbers,)), view.root, view.type, False, None)

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
        self._assign(place, value)
        self.spoil(cells, write)

    def permit(self, cells: list[Cell], write: Write) -> None:
        """Report a write into what the caller, a closure or the function around holds."""
        for exact, cell in [*((True, c) for c in cells), *((False, o) for c in cells for o in c.others)]:
            verb = "writes" if exact else "may write"
            instead = COPY_LIST if isinstance(cell.type, ListType) and not cell.key[1] else COPY_FIRST
            if cell.argument:
                raise self.diagnostics.fail(
                    "E305", f"{write.what} {verb} into argument '{cell.argument}'", write.span, instead
                )
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
        for condition, place in zip(conditions, alternatives(base), strict=True):
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
        for place in places:
            self.hold(cell.elements, self.reach(place))
            unknown = self.stale(place)
            if unknown is not None:
                self.scope.stale[cell.elements] = unknown[1]
