"""What several ways through the program have in common: one place, one value, one type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...lang.light_dataclasses import dataclass
from ..ir.node import Block, Value, enclosing_blocks
from ..types.types import Type, unify
from .places import ChosenPlace, Either, Items, Place, Plain, Root, View, places_in
from .scopes import CellParts, Scope, Write
from .views import ElementStep, ViewOpStep
from .walker import Walker


@contextmanager
def inside(f: Walker, scope: Scope, block: Block) -> Iterator[None]:
    """At the end of a block, with what it has changed."""
    with f.memory.within(scope), f.builder.at(block):
        yield


def common_type(type: Type, others: Iterable[Type]) -> Type:
    for other in others:
        type = unify(type, other) or type
    return type


@dataclass(frozen=True, slots=True)
class Joined:
    """An object that may be any of several: its value, their parts, and a write that made one of them unknown."""

    value: Value
    parts: list[CellParts]
    stale: Write | None


def joined_place(f: Walker, value: Value, joined: Joined) -> Place:
    """The place of a value of the program that is such an object."""
    root = f.memory.allocate(joined.value, None, origin=value)
    for parts in joined.parts:
        f.memory.join(root.cell, parts)
    if joined.stale is not None:
        f.memory.scope.stale[root.cell] = joined.stale
    return root


def is_missing(place: Place) -> bool:
    """Whether it stands for what no path sets."""
    return isinstance(place, Plain) and place.value.node.kind == "prim::Uninitialized"


def is_visible(f: Walker, place: Place) -> bool:
    """Whether all that a place is made of is known where the builder stands."""
    around = set(enclosing_blocks(f.builder.block))
    pending, seen = [place], set[Place]()
    while pending:
        found = pending.pop()
        if found in seen:
            continue
        seen.add(found)
        match found:
            case Root(cell):
                if not f.memory.knows(cell):
                    return False
            case View(parent, step):
                pending.append(parent)
                if not all(value.node.owner in around for value in values_of(step)):
                    return False
            case Plain(value) | ChosenPlace(index=value) | Either(condition=value):
                if value.node.owner not in around:
                    return False
        if isinstance(found, ChosenPlace | Either | Items):
            pending += places_in(found)
    return True


def values_of(step: object) -> list[Value]:
    """The values among the arguments of a step."""
    arguments: tuple[object, ...] = ()
    if isinstance(step, ViewOpStep):
        arguments = step.arguments
    elif isinstance(step, ElementStep):
        arguments = (step.index,)
    return [argument for argument in arguments if isinstance(argument, Value)]
