"""What a block has changed, what a loop has shown of its rounds, and a write, for messages."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...lang.diagnostics import Abort
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span
from ..ir.node import Node, Value
from ..types.types import Type
from .places import Cell, Content, Key, Place


class UndecidedWrite(Abort):
    """Reported as an error, and one that a run could decide: which of some objects is which."""


class CellParts(NamedTuple):
    """The cells of an object, and of what it holds; whether two of what it holds may be one."""

    own: list[Cell]
    elements: list[Cell]
    repeats: bool


@dataclass(frozen=True, slots=True)
class Write:
    """A write of the program, for messages; its node, where it has one of its own."""

    what: str
    span: Span
    node: Node | None = None


@dataclass(eq=False, slots=True)
class Scope:
    """What one block has changed, and what was read in it."""

    level: int
    contents: dict[Cell, Content] = field(default_factory=dict)
    snapshots: dict[Place, tuple[Any, Value]] = field(default_factory=dict)
    stale: dict[Cell, Write] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class RoundFacts:
    """What walking a loop's body has shown of a round, so that the next walk starts from it. Only ever grows.

    `changed` are the cells from outside that the body writes, `moved` the lists among them whose elements move,
    `stale` those that a round leaves unknown, `links` what may be one object, `repeats` what may hold one object twice,
    `varying` the carried values that do not stay one place, by index, and `types` those of what is carried.
    """

    level: int
    changed: dict[Key, None] = field(default_factory=dict)
    moved: dict[Key, None] = field(default_factory=dict)
    stale: dict[Key, Write] = field(default_factory=dict)
    links: dict[tuple[Key, Key], None] = field(default_factory=dict)
    repeats: dict[Key, None] = field(default_factory=dict)
    varying: dict[int, None] = field(default_factory=dict)
    types: dict[int | Key, Type] = field(default_factory=dict)
    widened: int = 0

    @property
    def size(self) -> int:
        shown = len(self.changed) + len(self.moved) + len(self.stale) + len(self.links) + len(self.repeats)
        return shown + len(self.varying) + self.widened

    def widen(self, key: int | Key, type: Type) -> None:
        if self.types.get(key) != type:
            self.types[key] = type
            self.widened += 1
