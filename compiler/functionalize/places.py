"""Places: which object a value of the program is.

A place begins at a cell, which is one object with a content of its own, and may go on through views (a row of a tensor,
an element of a list). A list whose elements are known one by one keeps the place of each; one that is not known so well
keeps them as one value, and what its elements may share with other objects is told by its cell `elements`.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from ...lang.light_dataclasses import dataclass, field
from ..ir.node import Value
from ..types.types import NONE, ListType, OptionalType, TupleType, Type, is_tensor
from .views import ViewStep


def is_mutable(type: Type) -> bool:
    """Whether a value of the type is an object that can change, or holds one."""
    pending = [type]
    while pending:
        found = pending.pop()
        if is_tensor(found) or isinstance(found, ListType):
            return True
        if isinstance(found, OptionalType):
            pending.append(found.element)
        elif isinstance(found, TupleType):
            pending += found.elements
    return False


def holds_mutable(type: Type) -> bool:
    """Whether it is a container of such objects."""
    if isinstance(type, OptionalType):
        return holds_mutable(type.element)
    if isinstance(type, ListType):
        return is_mutable(type.element)
    return isinstance(type, TupleType) and is_mutable(type)


Key: TypeAlias = tuple[Value, bool, tuple[object, ...]]
"""What a cell is known by when a loop's body is walked again: the value that made it, whether it is what that holds,
and the calls and rounds around, where they are walked one by one."""


@dataclass(eq=False, slots=True)
class Cell:
    """One object: an allocation, or what a branch or a loop gave.

    `others` may share memory with it. `level` is the depth of the block that made it. `argument` is the parameter's
    name where the caller owns the object. `repeats` says of a list's elements that two of them may be one object.
    """

    type: Type
    key: Key
    level: int
    argument: str = ""
    name: str = ""
    returned: bool = False
    """Whether it stands for what a `return` gave: nothing is written on the way from there."""
    others: dict[Cell, None] = field(default_factory=dict)
    elements: Cell | None = None
    repeats: bool = False
    exists: tuple[tuple[Value, bool], ...] = ()
    """Of what one side of a branch made: the conditions, and what each is where it was made."""

    @property
    def root(self) -> Root:
        """The place that is all of it."""
        if self._root is None:
            self._root = Root(self)
        return self._root

    _root: Root | None = None


@dataclass(eq=False, slots=True)
class Plain:
    """A value that never changes: a number, a string, None."""

    value: Value


@dataclass(eq=False, slots=True)
class Root:
    """All of a cell."""

    cell: Cell


@dataclass(eq=False, slots=True)
class ChosenPlace:
    """One of several places, by an index known when it runs: `l[i]` where the elements of l are known."""

    slots: tuple[Place, ...]
    index: Value
    type: Type
    depth: int


@dataclass(eq=False, slots=True)
class Either:
    """One of two places, by the condition of a branch."""

    condition: Value
    then: Place
    otherwise: Place
    type: Type
    depth: int


@dataclass(eq=False, slots=True)
class View:
    """What a step takes out of another place.

    `of_element` tells that it is in what the container at the root holds; `structure` is then that of the container.
    """

    parent: Place
    step: ViewStep
    root: Base
    type: Type
    of_element: bool
    structure: object = None


@dataclass(eq=False, slots=True)
class Items:
    """A tuple: the places of its elements."""

    slots: tuple[Place, ...]


Base: TypeAlias = Root | ChosenPlace | Either
Place: TypeAlias = Plain | Base | View | Items


@dataclass(frozen=True, eq=False, slots=True)
class Whole:
    """A content kept as one value. `elements` changes with each write, `structure` where elements of a list move."""

    value: Value
    elements: object = field(default_factory=object)
    structure: object = field(default_factory=object)


@dataclass(frozen=True, eq=False, slots=True)
class Slots:
    """A list whose elements are known."""

    places: tuple[Place, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Spread:
    """A list of views that an op made of one tensor: `y.chunk(2)`. The place is that of all of them."""

    place: View


Content: TypeAlias = Whole | Slots | Spread


def is_same_place(left: Place, right: Place) -> bool:
    """Whether two places are surely one."""
    pending = [(left, right)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        match a, b:
            case Root(), Root() if a.cell is b.cell:
                pass
            case Items(), Items() if len(a.slots) == len(b.slots):
                pending += zip(a.slots, b.slots, strict=True)
            case View(), View() if a.step == b.step and a.structure == b.structure:
                pending.append((a.parent, b.parent))
            case Plain(), Plain() if a.value is b.value or (is_none(a) and is_none(b)):
                pass
            case _:
                return False
    return True


def same_content(left: Content, right: Content) -> bool:
    if isinstance(left, Slots) and isinstance(right, Slots) and len(left.places) == len(right.places):
        return all(is_same_place(a, b) for a, b in zip(left.places, right.places, strict=True))
    return left is right


def type_of(place: Place) -> Type:
    """The type of what stands in a place."""
    match place:
        case Plain(value):
            return value.type
        case Root(cell):
            return cell.type
        case Items(slots):
            return TupleType(tuple(type_of(slot) for slot in slots))
    return place.type


def is_object(place: Place | None) -> TypeGuard[Root | ChosenPlace | Either | View]:
    """Whether it is one object or view, which can be written into."""
    return place is not None and not isinstance(place, Plain | Items)


def is_none(place: Place | None) -> bool:
    """Whether it is None: of a name that may be an object or None, the other way."""
    return isinstance(place, Plain) and place.value.type == NONE


def there(place: Place) -> Place:
    """What a place is where it is known not to be None. Choices are shallow, so this recurses."""
    if isinstance(place, ChosenPlace):
        found = [slot for slot in map(there, place.slots) if not is_none(slot)]
        return found[0] if found and all(is_same_place(found[0], slot) for slot in found) else place
    if not isinstance(place, Either):
        return place
    then, otherwise = there(place.then), there(place.otherwise)
    if is_none(then):
        return otherwise
    if is_none(otherwise):
        return then
    return place


def leaf_places(place: Place) -> list[Place]:
    """The objects and views that a place is, through choices and tuples, each once."""
    found: dict[Place, None] = {}
    pending = [place]
    while pending:
        given = pending.pop()
        if given in found:
            continue
        found[given] = None
        if isinstance(given, ChosenPlace | Items | Either):
            pending += places_in(given)
    return list(found)


def places_in(place: ChosenPlace | Items | Either) -> tuple[Place, ...]:
    """The places that a place may be, or is made of."""
    return (place.then, place.otherwise) if isinstance(place, Either) else place.slots
