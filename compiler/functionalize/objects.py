"""Which objects there are at one point of the program, what they contain, and which of them may share memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...lang.diagnostics import Diagnostics
from ..ir.builder import Builder
from ..types.types import ListType, strip_optional
from .places import (
    Base,
    Cell,
    ChosenPlace,
    Content,
    Either,
    Items,
    Key,
    Place,
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
from .scopes import CellParts, RoundFacts, Scope


class Objects:
    """The cells of a function and their contents, by the blocks that wrote them."""

    def __init__(self, builder: Builder, diagnostics: Diagnostics) -> None:
        self.builder = builder
        self.diagnostics = diagnostics
        self.scopes = [Scope(0)]
        self.cells: dict[Key, Cell] = {}
        self.allocated: list[Cell] = []
        self.path: tuple[object, ...] = ()
        self.calls = 0
        self.loops: list[RoundFacts] = []
        self.captured: dict[Cell, str] = {}
        self.closures: list[tuple[int, str, dict[Cell, None]]] = []
        """The closures around: the depth outside, the name, and what was read from there."""
        self.reading: set[Place] = set()
        """What is being put together just now, of other places."""

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @contextmanager
    def within(self, scope: Scope) -> Iterator[Scope]:
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    def forget(self, mark: int) -> None:
        """Drop the objects allocated since there were so many: the walk that made them is made again."""
        for cell in self.allocated[mark:]:
            for other in cell.others:
                other.others.pop(cell, None)
        del self.allocated[mark:]

    def knows(self, cell: Cell) -> bool:
        """Whether the object exists here."""
        return any(cell in scope.contents for scope in self.scopes)

    def content(self, cell: Cell) -> Content:
        for scope in reversed(self.scopes):
            found = scope.contents.get(cell)
            if found is not None:
                return found
        raise AssertionError("a cell has a content from the start")

    def link(self, left: Cell, right: Cell) -> None:
        """From now on the first may be the second, and so share memory with what that shares memory with."""
        for other in (right, *right.others):
            self.share(left, other)

    def share(self, left: Cell, right: Cell) -> None:
        """From now on these two may share memory: what else either may be says nothing of the other."""
        if right is left or right in left.others:
            return
        left.others[right] = right.others[left] = None
        for facts in self.loops:
            if left.level <= facts.level and right.level <= facts.level:
                facts.links[left.key, right.key] = None

    def own(self, place: Place) -> list[Cell]:
        """The cells that a write into the place changes."""
        return self._cells(place, of_elements=False)

    def elements_of(self, place: Place) -> list[Cell]:
        """The cells of what a container holds."""
        return self._cells(place, of_elements=True)

    def _cells(self, place: Place, *, of_elements: bool) -> list[Cell]:
        # A list may hold what is read from it, so places lead in circles.
        found: dict[Cell, None] = {}
        pending, seen = [(of_elements, place)], set[tuple[bool, Place]]()
        while pending:
            elements, reached = pending.pop()
            for leaf in leaf_places(reached):
                if (elements, leaf) in seen:
                    continue
                seen.add((elements, leaf))
                if isinstance(leaf, View):
                    if not elements:
                        pending.append((leaf.of_element, leaf.root))
                    elif holds_mutable(leaf.type):
                        pending.append((holds_mutable(type_of(leaf.root)), leaf.root))
                elif isinstance(leaf, Root):
                    pending += self._below(leaf, found) if elements else ()
                    found.update({} if elements else {leaf.cell: None})
        return list(found)

    def _below(self, leaf: Root, found: dict[Cell, None]) -> list[tuple[bool, Place]]:
        """Where the cells of what a container holds are to be looked for; those known are put in `found`."""
        content = self.content(leaf.cell)
        if isinstance(content, Slots):
            return [(elements, slot) for elements in (True, False) for slot in content.places]
        if isinstance(content, Spread):
            return [(False, content.place)]
        if leaf.cell.elements is not None:
            found[leaf.cell.elements] = None
        return []

    def reach(self, place: Place) -> list[Cell]:
        """The cells of the object and of all that it holds."""
        return list(dict.fromkeys((*self.own(place), *self.elements_of(place))))

    def may_share(self, left: Place, right: Place) -> bool:
        others = set(self.reach(right))
        return any(cell in others or any(o in others for o in cell.others) for cell in self.reach(left))

    def parts(self, place: Place) -> CellParts:
        """The cells of the object, and those of what it holds: of a tuple the cells of its elements are both."""
        elements = self.elements_of(place)
        for leaf in leaf_places(place):
            if isinstance(leaf, Items):
                elements += self.reach(leaf)
        repeats = self.repeats(place) or any(cell.repeats for cell in elements)
        return CellParts(self.own(place), list(dict.fromkeys(elements)), repeats)

    def repeats(self, place: Place) -> bool:
        """Whether two of the elements that are known of a list or a tuple may be one object."""
        pending, seen = [place], set[Place]()
        while pending:
            for leaf in leaf_places(pending.pop()):
                if leaf in seen:
                    continue
                seen.add(leaf)
                slots = self._slots(leaf)
                met: set[Cell] = set()
                for slot in slots:
                    found = self.reach(slot)
                    if any(cell in met or not met.isdisjoint(cell.others) for cell in found):
                        return True
                    met.update(found)
                pending += slots
        return False

    def _slots(self, place: Place) -> tuple[Place, ...]:
        """The elements of a container, where they are known one by one."""
        if isinstance(place, Items):
            return place.slots
        content = self.content(place.cell) if isinstance(place, Root) else None
        return content.places if isinstance(content, Slots) else ()

    def join(self, cell: Cell, parts: CellParts) -> None:
        """`cell` may be the object of these parts, and hold what that holds."""
        for other in parts.own:
            self.link(cell, other)
        if cell.elements is None:
            return
        for held in parts.elements:
            if held is not cell.elements:
                self.link(cell.elements, held)
        if parts.repeats:
            self.repeat(cell.elements)

    def hold(self, elements: Cell, cells: list[Cell], *, repeats: bool = False) -> None:
        """A list's elements may be these, too."""
        for cell in cells:
            repeats = repeats or cell.repeats or cell is elements or cell in elements.others
            if cell is not elements:
                self.link(elements, cell)
        if repeats:
            self.repeat(elements)

    def repeat(self, elements: Cell) -> None:
        """From now on two of these elements may be one object."""
        elements.repeats = True
        for facts in self.loops:
            if elements.level <= facts.level:
                facts.repeats[elements.key] = None

    def structure(self, root: Base) -> object:
        """Equal as long as no elements of a list moved, of those that it may be or that these hold."""
        found: list[object] = []
        pending: list[Place] = [root]
        seen: set[Place] = set()
        while pending:
            place = pending.pop()
            base = place.root if isinstance(place, View) else place
            if base in seen:
                continue
            seen.add(base)
            if isinstance(base, Either | ChosenPlace):
                pending += places_in(base)
            elif isinstance(base, Root):
                type = strip_optional(base.cell.type)
                if not isinstance(type, ListType):
                    continue
                content = self.content(base.cell)
                found.append(content.structure if isinstance(content, Whole) else content)
                pending += content.places if isinstance(content, Slots) and holds_mutable(type.element) else ()
        return tuple(found) or None
