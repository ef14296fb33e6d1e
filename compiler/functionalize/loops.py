"""Loops: what a round writes is carried.

A loop's body is walked until a walk shows nothing new (`RoundFacts`): which objects a round writes, which of the
carried values stay one object, and what may have become one. The first walk takes it that nothing does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...lang.trampoline import Walk
from ..ir.kinds import entering, leaving, own_inputs, parameters
from ..ir.node import Node, Value
from ..types.types import INT, ListType, Type, is_subtype
from .joins import Joined, common_type, inside, is_visible, joined_place
from .lists import MAX_CHOICES, depth_of
from .places import (
    Cell,
    ChosenPlace,
    Either,
    Items,
    Key,
    Place,
    Plain,
    Root,
    Slots,
    Spread,
    Whole,
    is_mutable,
    is_none,
    is_same_place,
    places_in,
    same_content,
)
from .rounds import may_be_few, walk_rounds
from .scopes import CellParts, RoundFacts, Scope, Write
from .views import GET
from .walker import Walker


def walk_loop(f: Walker, node: Node) -> Walk:
    if may_be_few(f, node):
        yield walk_rounds(f, node)
        return
    facts = f.facts.setdefault((node, f.memory.path), RoundFacts(f.memory.scope.level))
    sets: dict[int, list[Place]] = {}
    while not (yield _round(f, node, facts, sets)):
        f.walks += 1


MAX_WALKS = 50
"""Walks over loops of a function, after which a carried value that is one of several places is kept as none of them."""


def _round(f: Walker, node: Node, facts: RoundFacts, sets: dict[int, list[Place]]) -> Walk:
    """One walk over the body; whether it has shown nothing new, so that the loop stands as it is to be."""
    loop = _LoopWalk(f, node, facts, sets)
    before, allocated = loop.size, len(f.memory.allocated)
    f.memory.loops.append(facts)
    try:
        with inside(f, loop.scope, loop.block):
            loop.enter()
            yield f.block(node.blocks[0])
            f.builder.current_span = node.span
            loop.observe()
            if loop.size == before:
                loop.close()
    finally:
        f.memory.loops.pop()
    if loop.size != before:
        loop.made.destroy()
        f.memory.forget(allocated)
        return False
    loop.leave()
    return True


class _LoopWalk:
    """One walk over a loop's body: what it begins with, and what it ends with."""

    def __init__(self, f: Walker, node: Node, facts: RoundFacts, sets: dict[int, list[Place]]) -> None:
        """`sets` are the places of the carried values that are one of several places from outside."""
        self.f = f
        self.sets = sets
        self.memory = f.memory
        self.node = node
        self.facts = facts
        self.scope = Scope(f.memory.scope.level + 1)
        self.outer = f.memory.scope
        self.initial = [f.places[value] for value in entering(node)]
        self.made = f.builder.node("prim::Loop", attrs=dict(node.attrs), blocks=1)
        (self.block,) = self.made.blocks
        self.block.param.span = node.blocks[0].param.span
        self.params: dict[int, Value] = {}
        self.cells: dict[Cell, Value] = {}
        self.own: set[Cell] = set()
        self.head: dict[Cell, object] = {}
        self.unknown: dict[Place, Write] = {}
        self.ends: dict[int, CellParts] = {}
        self.indices: dict[int, Value] = {}
        self.unknown_ends: dict[int, Write] = {}

    @property
    def size(self) -> int:
        """What grows while walks show something new."""
        return self.facts.size + sum(map(len, self.sets.values()))

    def enter(self) -> None:
        """The state at the start of a round."""
        f, memory, facts = self.f, self.memory, self.facts
        (old,) = self.node.blocks
        with f.builder.before(self.made):
            inputs = [f.read(value) for value in own_inputs(self.node)]
        f.places[old.inputs[0]] = Plain(self.block.add_input(old.inputs[0].type, old.inputs[0].name_hint))
        for k, (param, place) in enumerate(zip(parameters(old), self.initial, strict=True)):
            if is_mutable(param.type) and k not in facts.varying and k not in self.sets:
                f.places[param] = place
                continue
            if k not in self.sets or k in facts.varying:
                inputs.append(self._initial(place, param.type))
                self._enter_param(k, param, place, inputs[-1])
        for key in facts.changed:
            cell = memory.cells[key]
            inputs.append(self._initial(cell.root, cell.type))
            self._enter_cell(cell, inputs[-1])
        for left, right in list(facts.links):
            if left in memory.cells and right in memory.cells:
                memory.share(memory.cells[left], memory.cells[right])
        for key in facts.repeats.keys() & memory.cells.keys():
            memory.cells[key].repeats = True
        for key, write in facts.stale.items():
            if key in memory.cells:
                self.scope.stale[memory.cells[key]] = write
        for k in sorted(self.sets.keys() - facts.varying.keys()):
            with f.builder.before(self.made):
                inputs.append(f.builder.constant(0))
            self.indices[k] = self.block.add_input(INT)
            f.places[old.inputs[k + 1]] = self._choice(k, self.indices[k], old.inputs[k + 1].type)
        self.made.replace_inputs(inputs)

    def _choice(self, k: int, index: Value, type: Type) -> ChosenPlace:
        slots = tuple(self.sets[k])
        return ChosenPlace(slots, index, type, 1 + max(depth_of(slot) for slot in slots))

    def _initial(self, place: Place, type: Type) -> Value:
        """What a place holds before the loop."""
        with self.f.builder.before(self.made), self._outside():
            value, write = self.memory.carry(place, type)
        if write is not None:
            self.unknown[place] = write
        return value

    @contextmanager
    def _outside(self) -> Iterator[None]:
        self.memory.scopes.pop()
        try:
            yield
        finally:
            self.memory.scopes.append(self.scope)

    def _enter_param(self, k: int, param: Value, place: Place, initial: Value) -> None:
        type = self.facts.types.get(k, param.type)
        if not is_subtype(initial.type, type):
            type = common_type(type, (initial.type,))
            self.facts.widen(k, type)
        new = self.params[k] = self.block.add_input(type, param.name_hint)
        if not is_mutable(param.type):
            self.f.places[param] = Plain(new)
            return
        root = self.memory.allocate(new, None, origin=param)
        for cell in (root.cell, root.cell.elements):
            if cell is not None:
                cell.level = self.facts.level
                self.own.add(cell)
        self.memory.join(root.cell, self.memory.parts(place))
        if place in self.unknown:
            self.scope.stale[root.cell] = self.unknown[place]
        self.f.places[param] = root

    def _enter_cell(self, cell: Cell, initial: Value) -> None:
        type = self.facts.types.get(cell.key, cell.type)
        if not is_subtype(initial.type, type):
            type = common_type(type, (initial.type,))
            self.facts.widen(cell.key, type)
        new = self.cells[cell] = self.block.add_input(type, cell.name)
        before = self.memory.content(cell)
        if isinstance(before, Slots | Spread):
            self.memory.collapse(cell, before)
        keeps = isinstance(before, Whole) and cell.key not in self.facts.moved
        content = Whole(new, structure=before.structure) if keeps and isinstance(before, Whole) else Whole(new)
        self.scope.contents[cell] = content
        self.head[cell] = content

    def observe(self) -> None:
        """What this round has shown."""
        memory, facts = self.memory, self.facts
        (old,) = self.node.blocks
        for k, (param, result) in enumerate(zip(parameters(old), leaving(old), strict=True)):
            if not is_mutable(param.type):
                continue
            place, initial = self.f.places[result], self.initial[k]
            if k in self.params:
                root = self.f.places[param]
                assert isinstance(root, Root)
                memory.join(root.cell, memory.parts(place))
            elif k in self.indices or not is_same_place(place, initial):
                self._observe_choice(k, place)
        for cell, content in self.scope.contents.items():
            if cell.level > facts.level or cell in self.own:
                continue
            before = self.head.get(cell) or self._content_outside(cell)
            if not same_content(before, content):  # type: ignore[arg-type]
                facts.changed[cell.key] = None
                moved = isinstance(cell.type, ListType) and getattr(before, "structure", before) is not getattr(
                    content, "structure", content
                )
                if moved:
                    facts.moved[cell.key] = None
        for cell, write in self.scope.stale.items():
            # What an earlier walk made of the same value is nobody's any more.
            is_present = memory.cells.get(cell.key) is cell and cell not in self.own
            if cell.level <= facts.level and is_present:
                facts.stale.setdefault(cell.key, write)

    def _observe_choice(self, k: int, place: Place) -> None:
        """Whether a carried value stays one of a few places that are known outside."""
        found = self.sets.get(k, [self.initial[k]])
        with self.f.builder.before(self.made), self._outside():
            possible = self._alternatives(place)
            if self.f.walks > MAX_WALKS or possible is None or self._alternatives(self.initial[k]) is None:
                self.facts.varying[k] = None
                return
        new = [p for p in possible if not any(is_same_place(p, other) for other in found)]
        if len(found) + len(new) > MAX_CHOICES or any(depth_of(p) >= MAX_CHOICES for p in new):
            self.facts.varying[k] = None
        elif new or k not in self.sets:
            self.sets[k] = [*found, *new]

    def _alternatives(self, place: Place) -> list[Place] | None:
        """The places from outside that a place may be; None where it may be another."""
        found: list[Place] = []
        pending = [place]
        while pending:
            given = pending.pop()
            if isinstance(given, Either | ChosenPlace) and not is_visible(self.f, given):
                pending += places_in(given)
            elif is_none(given):
                found.append(given)
            elif isinstance(given, Plain | Items) or not is_visible(self.f, given):
                return None
            else:
                found.append(given)
        return found

    def _index_of(self, place: Place, slots: Sequence[Place]) -> Value:
        """Which of the places a place is."""
        builder = self.f.builder
        for i, slot in enumerate(slots):
            if is_same_place(place, slot):
                return builder.constant(i)
        if isinstance(place, ChosenPlace):
            return builder.op(GET, builder.list([self._index_of(p, slots) for p in place.slots]), place.index)
        assert isinstance(place, Either), "a walk shows every place that a round may end with"
        branch = builder.node("prim::If", [place.condition], [INT], blocks=2)
        for block, given in zip(branch.blocks, (place.then, place.otherwise), strict=True):
            with builder.at(block):
                builder.returns(self._index_of(given, slots))
        return branch.output

    def _content_outside(self, cell: Cell) -> object:
        with self._outside():
            return self.memory.content(cell)

    def close(self) -> None:
        """The results of the body."""
        memory = self.memory
        (old,) = self.node.blocks
        values = [self.f.read(old.outputs[0])]
        for k, new in self.params.items():
            place = self.f.places[old.outputs[k + 1]]
            value, write = memory.carry(place, new.type)
            self.ends[k] = memory.parts(place)
            values.append(self._fitting(k, value, new))
            if write is not None:
                self.unknown_ends[k] = write
                param = self.f.places[old.inputs[k + 1]]
                assert isinstance(param, Root)
                self.facts.stale.setdefault(param.cell.key, write)
        for cell, new in self.cells.items():
            values.append(self._fitting(cell.key, memory.carry(cell.root, cell.type)[0], new))
        for k in self.indices:
            values.append(self._index_of(self.f.places[old.outputs[k + 1]], self.sets[k]))
        self.block.ret.replace_inputs(values)

    def _fitting(self, key: int | Key, value: Value, param: Value) -> Value:
        if not is_subtype(value.type, param.type):
            self.facts.widen(key, common_type(param.type, (value.type,)))
        return value

    def leave(self) -> None:
        """What the loop leaves behind."""
        f, memory = self.f, self.memory
        outputs = [self.made.add_output(param.type, param.name_hint) for param in parameters(self.block)]
        results = dict(zip((*self.params, *self.cells, *self.indices.values()), outputs, strict=True))
        for k, (value, place) in enumerate(zip(self.node.outputs, self.initial, strict=True)):
            if k in self.indices:
                f.places[value] = self._choice(k, results[self.indices[k]], value.type)
            elif k not in self.params:
                f.places[value] = place
            elif not is_mutable(value.type):
                f.places[value] = Plain(results[k])
            else:
                stale = self.unknown_ends.get(k) or self.unknown.get(place)
                joined = Joined(results[k], [memory.parts(place), self.ends[k]], stale)
                f.places[value] = joined_place(f, value, joined)
        for cell in self.cells:
            content = self.scope.contents[cell]
            assert isinstance(content, Whole)
            memory.scope.contents[cell] = Whole(results[cell], structure=content.structure)
        memory.scope.stale.update((c, w) for c, w in self.scope.stale.items() if c.level <= self.facts.level)
