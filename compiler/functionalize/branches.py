"""Branches: what either side wrote is a result of the branch, and a name that either bound is one place or the other.

An object that only one side made is one for both afterwards, with nothing in it on the other side; so a name can stand
for one of two objects by the condition, and a write goes to the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from ...lang.light_dataclasses import dataclass, field
from ...lang.trampoline import Walk
from ..ir.node import Block, Node, Value
from ..types.types import ListType, Type, is_subtype
from .joins import Joined, common_type, inside, is_missing, is_visible, joined_place, values_of
from .lists import MAX_CHOICES, depth_of
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
    is_mutable,
    is_none,
    is_object,
    is_same_place,
    same_content,
)
from .scopes import Scope
from .views import ElementStep, ViewOpStep, ViewStep, argument_of
from .walker import Walker


def walk_branch(f: Walker, node: Node) -> Walk:
    condition = f.read(node.inputs[0])
    decided = argument_of(condition)
    # What the source says itself is left as it says it.
    if isinstance(decided, bool) and (f.thorough or node.inputs[0].node.kind != "prim::Constant"):
        found = yield _walk_side(f, node.blocks[0 if decided else 1])
    else:
        sides = [partial(_walk_side, f, block) for block in node.blocks]
        found = yield walk_sides(f, node, condition, sides)
    f.places.update(zip(node.outputs, found, strict=True))


def _walk_side(f: Walker, block: Block) -> Walk:
    yield f.block(block)
    return [f.places[value] for value in block.outputs]


def walk_sides(f: Walker, node: Node, condition: Value, ways: Sequence[Callable[[], Walk]]) -> Walk:
    """A branch that goes one of two ways, each of which ends with the places of what `node` gives there; their places
    after the branch."""
    made = f.builder.node(
        "prim::If", [condition], attrs=dict(node.attrs) if node.kind == "prim::If" else None, blocks=2
    )
    sides, ends = [], []
    for way, into in zip(ways, made.blocks, strict=True):
        side = _Side(f, made, into, Scope(f.memory.scope.level + 1))
        with side.inside():
            ends.append((yield way()))
        sides.append(side)
    f.builder.current_span = node.span
    join = _Join(f, node, made, sides, ends)
    results = [join.result(k) for k in range(len(node.outputs))]
    join.contents()
    for side in sides:
        side.settle()
    found: list[Place] = []
    for value, result in zip(node.outputs, results, strict=True):
        if isinstance(result, Joined):
            found.append(joined_place(f, value, result))
            continue
        place, snapshot = result
        found.append(place)
        if snapshot is not None:
            f.memory.keep(place, snapshot)
    return found


@dataclass(eq=False, slots=True)
class _Side:
    """One side of a branch, at its end; `exported` are its objects as they are known outside."""

    f: Walker
    made: Node
    block: Block
    scope: Scope
    exported: dict[Cell, Root] = field(default_factory=dict)
    values: dict[Value, Value] = field(default_factory=dict)

    def inside(self) -> AbstractContextManager[None]:
        """At the end of this side."""
        return inside(self.f, self.scope, self.block)

    def result(self, value: Value) -> Value:
        """A value of this side as a result of the branch; nothing on the other."""
        found = self.values.get(value)
        if found is None:
            for block in self.made.blocks:
                with self.f.builder.at(block):
                    given = value if block is self.block else self.f.builder.uninitialized(value.type)
                block.ret.add_input(given)
            found = self.values[value] = self.made.add_output(value.type, value.name_hint)
        return found

    def decision(self, value: Value, elsewhere: bool | int) -> Value:
        """What tells places of this side apart, outside; something that can be looked at on the other."""
        if is_visible(self.f, Plain(value)):
            return value
        found = self.values.get(value)
        if found is None:
            for block in self.made.blocks:
                with self.f.builder.at(block):
                    block.ret.add_input(value if block is self.block else self.f.builder.constant(elsewhere))
            found = self.values[value] = self.made.add_output(value.type, value.name_hint)
        return found

    def export(self, place: Place) -> Place | None:
        """The place as it is known outside; None for one that is told apart in too many ways."""
        f = self.f
        if is_none(place):
            return Plain(f.builder.constant(None))
        if is_visible(f, place):
            return place
        match place:
            case Root(cell):
                return self._export_cell(cell)
            case Plain(value):
                return Plain(self.result(value))
            case Items(slots):
                exported = [self.export(slot) for slot in slots]
                return None if None in exported else Items(tuple(e for e in exported if e is not None))
            case View():
                return self._export_view(place)
            case Either(condition, then, otherwise, type, depth):
                first, second = self.export(then), self.export(otherwise)
                if _is_either(first, second):
                    assert first is not None and second is not None
                    return Either(self.decision(condition, False), first, second, type, depth)
            case ChosenPlace(slots, index, type, depth):
                found = tuple(filter(is_object, map(self.export, slots)))
                if len(found) == len(slots):
                    return ChosenPlace(found, self.decision(index, 0), type, depth)
        return None

    def _export_view(self, place: View) -> Place | None:
        chain: list[View] = []
        found: Place | None = place
        while isinstance(found, View):
            chain.append(found)
            found = found.parent
        assert found is not None
        found = self.export(found)
        if found is None or isinstance(found, Plain | Items) or any(v.structure is not None for v in chain):
            return None
        for view in reversed(chain):
            found = self.f.memory.view(found, self._export_step(view.step), view.type)
        return found

    def _export_step(self, step: ViewStep) -> ViewStep:
        around = {value: value for value in values_of(step) if is_visible(self.f, Plain(value))}
        if isinstance(step, ViewOpStep):
            given = (a if not isinstance(a, Value) or a in around else self.result(a) for a in step.arguments)
            return ViewOpStep(step.op, tuple(given))
        if isinstance(step, ElementStep) and isinstance(step.index, Value) and step.index not in around:
            return ElementStep(self.result(step.index))
        return step

    def _export_cell(self, cell: Cell) -> Place | None:
        found = self.exported.get(cell)
        if found is not None:
            return found
        memory = self.f.memory
        with self.inside():
            content = memory.content(cell)
            value, stale = memory.carry(cell.root, cell.type)
        if stale is not None or isinstance(content, Spread):
            return None
        places: list[Place] = []
        if isinstance(content, Slots):
            for slot in content.places:
                exported = self.export(slot)
                if exported is None:
                    return None
                places.append(exported)
        kept: Content | None = Slots(tuple(places)) if isinstance(content, Slots) else None
        new = self.result(value)
        root = memory.allocate(new, kept, origin=cell.key[0])
        root.cell.name = cell.name
        within = [(self.decision(condition, not wanted), wanted) for condition, wanted in cell.exists]
        root.cell.exists = ((self.made.inputs[0], self.block is self.made.blocks[0]), *within)
        self.exported[cell] = root
        return root

    def settle(self) -> None:
        """What may share memory inside does outside."""
        memory = self.f.memory
        for cell, root in self.exported.items():
            for inner, outer in ((cell, root.cell), (cell.elements, root.cell.elements)):
                if inner is None or outer is None:
                    continue
                if inner.repeats:
                    memory.repeat(outer)
                # What else the branch gives, and may be the object, knows it by the cell that it had inside.
                memory.link(outer, inner)
                for other in list(inner.others):
                    memory.share(outer, self._outside(other))

    def _outside(self, cell: Cell) -> Cell:
        for inner, root in self.exported.items():
            if cell is inner:
                return root.cell
            if cell is inner.elements and root.cell.elements is not None:
                return root.cell.elements
        return cell


def _is_either(then: Place | None, otherwise: Place | None) -> bool:
    """Whether a name may stand for one or the other: two objects, or an object and None."""
    objects = [is_object(place) for place in (then, otherwise)]
    return any(objects) and all(is_one or is_none(p) for p, is_one in zip((then, otherwise), objects, strict=True))


_Result = tuple[Place, Value | None] | Joined


class _Join:
    """The two sides of a branch, brought together."""

    def __init__(self, f: Walker, node: Node, made: Node, sides: list[_Side], ends: list[list[Place]]) -> None:
        """`ends` are the places of what either side gives."""
        self.f = f
        self.node = node
        self.made = made
        self.sides = sides
        self.ends = ends

    def result(self, k: int) -> _Result:
        """What result `k` of the branch stands for, and the value that it has now."""
        value = self.node.outputs[k]
        places = [end[k] for end in self.ends]
        if is_mutable(value.type):
            found = self._one_place(places)
            if found is not None:
                return found, None
        carried, parts = [], []
        for place, side in zip(places, self.sides, strict=True):
            with side.inside():
                carried.append(self.f.memory.carry(place, value.type))
                parts.append(self.f.memory.parts(place))
        new = self._add([v for v, _ in carried], value.type, value.name_hint)
        if not is_mutable(value.type):
            return Plain(new), None
        stale = next((write for _, write in carried if write is not None), None)
        leaves = value.name_hint == "return" and not self.f.memory.calls
        either = self._either(places, value.type) if stale is None and not leaves else None
        if either is None or holds_mutable(value.type):
            self.f.lose(self.node)
        return (either, new) if either is not None else Joined(new, parts, stale)

    def _one_place(self, places: list[Place]) -> Place | None:
        """The one place that both sides give, where there is one."""
        known = [place for place in places if not is_missing(place)]
        is_one = bool(known) and all(is_same_place(known[0], other) for other in known)
        return known[0] if is_one and is_visible(self.f, known[0]) else None

    def _either(self, places: list[Place], type: Type) -> Place | None:
        """One place or the other, where a later write may be seen through another name."""
        if not any(self._is_known_outside(place) for place in places):
            return None
        return self._chosen(places, type)

    def _chosen(self, places: Sequence[Place], type: Type) -> Either | None:
        exported = [side.export(place) for place, side in zip(places, self.sides, strict=True)]
        then, otherwise = exported
        if not _is_either(then, otherwise):
            return None
        assert then is not None and otherwise is not None
        depth = 1 + max(depth_of(then), depth_of(otherwise))
        return Either(self.made.inputs[0], then, otherwise, type, depth) if depth <= MAX_CHOICES else None

    def _is_known_outside(self, place: Place) -> bool:
        """Whether somebody outside the branch may hold the object."""
        level = self.f.memory.scope.level
        for side in self.sides:
            if place in side.exported.values():
                return True
        pending = [place.root if isinstance(place, View) else place]
        while pending:
            found = pending.pop()
            if isinstance(found, Root):
                near = (found.cell, *found.cell.others)
                if any(cell.level <= level for cell in near):
                    return True
            elif isinstance(found, Either):
                pending += [p.root if isinstance(p, View) else p for p in (found.then, found.otherwise)]
        return False

    def _add(self, values: list[Value], type: Type, name: str) -> Value:
        """A result of the branch, of the type that both sides have in common where it is not the one expected."""
        if not all(is_subtype(value.type, type) for value in values):
            type = common_type(type, (value.type for value in values))
        for block, value in zip(self.made.blocks, values, strict=True):
            block.ret.add_input(value)
        return self.made.add_output(type, name)

    def contents(self) -> None:
        """What the objects from outside contain after the branch."""
        memory = self.f.memory
        level = memory.scope.level
        changed = dict.fromkeys(c for side in self.sides for c in side.scope.contents if c.level <= level)
        after = {cell: self._content(cell) for cell in changed}
        memory.scope.contents.update(after)
        for side in self.sides:
            memory.scope.stale.update((c, write) for c, write in side.scope.stale.items() if c.level <= level)

    def _content(self, cell: Cell) -> Content:
        memory = self.f.memory
        contents = []
        for side in self.sides:
            with side.inside():
                contents.append(memory.content(cell))
        first = contents[0]
        if isinstance(first, Slots) and same_content(first, contents[1]) and self._are_visible(first.places):
            return first
        slots = self._slots(cell, contents) if self.f.thorough else None
        if slots is not None:
            return Slots(slots)
        if not all(isinstance(content, Whole) for content in contents):
            self.f.lose(self.node)
        values = []
        for side, content in zip(self.sides, contents, strict=True):
            with side.inside():
                if isinstance(content, Slots | Spread):
                    memory.collapse(cell, content)
                values.append(memory.carry(cell.root, cell.type)[0])
        new = self._add(values, cell.type, cell.name)
        kept = {content.structure for content in contents if isinstance(content, Whole)}
        is_kept = len(kept) == 1 and all(isinstance(content, Whole) for content in contents)
        return Whole(new, structure=kept.pop()) if is_kept else Whole(new)

    def _slots(self, cell: Cell, contents: Sequence[Content]) -> tuple[Place, ...] | None:
        """The elements of a list of which each side knows the elements, and as many."""
        first, second = contents
        if not isinstance(first, Slots) or not isinstance(second, Slots) or len(first.places) != len(second.places):
            return None
        assert isinstance(cell.type, ListType)
        found: list[Place] = []
        for pair in zip(first.places, second.places, strict=True):
            place = self._one_place(list(pair))
            if place is None:
                place = self._chosen(pair, cell.type.element)
                if holds_mutable(cell.type.element):
                    self.f.lose(self.node)
            if place is None:
                return None
            found.append(place)
        return tuple(found)

    def _are_visible(self, places: tuple[Place, ...]) -> bool:
        return all(is_visible(self.f, place) for place in places)
