"""What stands in each place now, read: a value read from a place is kept as its snapshot until its root is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...lang.diagnostics import Abort
from ..ir.node import Value
from ..ops.registry import OPS
from ..types.types import ListType, Type, is_subtype, is_tensor, unify
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
    holds_mutable,
    leaf_places,
    places_in,
    type_of,
)
from .scopes import Scope, UndecidedWrite, Write
from .views import GET, TAKE, ElementStep, FieldStep, ViewOpStep, ViewStep, by_numbers, numbered

COPY_FIRST = "write into a copy, `y = x.clone()`, or make a new value: `y = x + 1`, `y = torch.add(x, 1)`"
COPY_LIST = "write into a copy, `y = list(x)`, or make a new list: `y = x + [item]`"


MAX_STEPS = 16
"""How many views of each other are followed one by one."""


class Contents(Objects):
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
                    pending += places_in(given)
        return None

    def unknown(self, cell: Cell, write: Write) -> Abort:
        name = f"'{cell.name}'" if cell.name else "another value"
        instead = COPY_LIST if isinstance(cell.type, ListType) else COPY_FIRST
        self.diagnostics.report(
            "E305",
            f"{write.what} may write into {name}, which is read afterwards",
            write.span,
            "whether the two share memory is known only when it runs, or not followed here",
            instead,
        )
        return UndecidedWrite(name)

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
            for leaf in leaf_places(given):
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
