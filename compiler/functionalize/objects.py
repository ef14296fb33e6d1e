"""Which objects there are at one point of the program, what they contain, and which of them may share memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...lang.diagnostics import Diagnostics
from ..ir.builder import Builder
from ..types.types import ListType
from .places import (
    Base,
    Cell,
    Content,
    Key,
    Place,
    Root,
    Slots,
    Spread,
    View,
    Whole,
    holds_mutable,
    leaves,
    type_of,
)
from .scopes import Facts, Parts, Scope


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
        self.loops: list[Facts] = []
        self.captured: dict[Cell, str] = {}
        self.closures: list[tuple[int, str, dict[Cell, None]]] = []
        """The closures around: the depth outside, the name, and what was read from there."""

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
        """From now on the two, and what the second may be, may share memory."""
        for other in (right, *right.others):
            if other is left or other in left.others:
                continue
            left.others[other] = other.others[left] = None
            for facts in self.loops:
                if left.level <= facts.level and other.level <= facts.level:
                    facts.links[left.key, other.key] = None

    def own(self, place: Place) -> list[Cell]:
        """The cells that a write into the place changes."""
        found: dict[Cell, None] = {}
        for leaf in leaves(place):
            if isinstance(leaf, Root):
                found[leaf.cell] = None
            elif isinstance(leaf, View):
                found.update(dict.fromkeys(self.elements_of(leaf.root) if leaf.of_element else self.own(leaf.root)))
        return list(found)

    def elements_of(self, place: Place) -> list[Cell]:
        """The cells of what a container holds."""
        found: dict[Cell, None] = {}
        pending, seen = [place], set[Place]()
        while pending:
            for leaf in leaves(pending.pop()):
                if leaf in seen:
                    continue
                seen.add(leaf)
                if isinstance(leaf, View) and holds_mutable(leaf.type):
                    holder = holds_mutable(type_of(leaf.root))
                    pending += [leaf.root] if holder else []
                    found.update(dict.fromkeys(() if holder else self.own(leaf.root)))
                elif isinstance(leaf, Root):
                    content = self.content(leaf.cell)
                    if isinstance(content, Slots):
                        pending += content.places
                        found.update(dict.fromkeys(c for slot in content.places for c in self.own(slot)))
                    elif isinstance(content, Spread):
                        found.update(dict.fromkeys(self.own(content.place)))
                    elif leaf.cell.elements is not None:
                        found[leaf.cell.elements] = None
        return list(found)

    def reach(self, place: Place) -> list[Cell]:
        """The cells of the object and of all that it holds."""
        return list(dict.fromkeys((*self.own(place), *self.elements_of(place))))

    def may_share(self, left: Place, right: Place) -> bool:
        others = set(self.reach(right))
        return any(cell in others or any(o in others for o in cell.others) for cell in self.reach(left))

    def parts(self, place: Place) -> Parts:
        """The cells of the object, and those of what it holds."""
        return self.own(place), self.elements_of(place)

    def join(self, cell: Cell, parts: Parts) -> None:
        """`cell` may be the object of these parts, and hold what that holds."""
        own, elements = parts
        for other in own:
            self.link(cell, other)
        if cell.elements is not None:
            self.hold(cell.elements, elements)

    def hold(self, elements: Cell, cells: list[Cell]) -> None:
        """A list's elements may be these, too."""
        for cell in cells:
            elements.repeats = elements.repeats or cell.repeats or cell is elements or cell in elements.others
            if cell is not elements:
                self.link(elements, cell)

    def structure(self, root: Base) -> object:
        """What changes when elements of a list that is one value move."""
        if not isinstance(root, Root) or not isinstance(root.cell.type, ListType):
            return None
        content = self.content(root.cell)
        return content.structure if isinstance(content, Whole) else content
