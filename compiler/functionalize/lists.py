"""Ops on lists of objects: which places the lists that they make hold.

Where the elements are known, so are those of the list made of them: SLOT_OPS are Python's own on sequences of places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.node import Node, Value
from ..ops.registry import OPS
from ..types.types import ListType, TupleType, Type
from .memory import Memory
from .places import (
    ChosenPlace,
    Either,
    Items,
    Place,
    Plain,
    Root,
    Slots,
    Spread,
    View,
    Whole,
    is_mutable,
    is_same_place,
)
from .scopes import Write
from .views import ElementStep, ViewOpStep, argument_of
from .write_nodes import WRITE

MAX_SLOTS = 256
"""Lists that are longer are one value."""
MAX_CHOICES = 8
"""How deep places that are told apart by indices known when it runs may stand in each other."""


def _inserted(slots: Sequence[Place], index: int, place: Place) -> list[Place]:
    result = list(slots)
    result.insert(index, place)
    return result


def _without(slots: Sequence[Place], index: int = -1) -> list[Place]:
    result = list(slots)
    del result[index]
    return result


def _replaced(slots: Sequence[Place], index: int, place: Place) -> list[Place]:
    result = list(slots)
    result[index] = place
    return result


def _repeated(slots: Sequence[Place], count: int) -> list[Place]:
    if count * len(slots) > MAX_SLOTS:
        raise ValueError("a list that is kept as one value")
    return [*slots] * count


SLOT_OPS: dict[str, Callable[..., Sequence[Place]]] = {
    "aten::append.t": lambda slots, place: [*slots, place],
    "aten::extend.t": lambda slots, more: [*slots, *more],
    "aten::add.t": lambda slots, more: [*slots, *more],
    "aten::insert.t": _inserted,
    "aten::_without.t": _without,
    "aten::_set_item.t": _replaced,
    "aten::reverse.t": lambda slots: slots[::-1],
    "aten::clear.t": lambda slots: [],
    "aten::list.t": lambda slots: slots,
    "aten::copy.t": lambda slots: slots,
    "aten::slice.t": lambda slots, start, end, step: slots[start:end:step],
    "aten::mul.left_t": _repeated,
    "aten::mul.right_": lambda count, slots: _repeated(slots, count),
}


def makes_list_of_objects(node: Node) -> bool:
    """Whether an op on lists moves elements, rather than computing new ones."""
    if len(node.outputs) != 1 or not isinstance(node.output.type, ListType):
        return False
    lists = [v for v in node.inputs if isinstance(v.type, ListType) and is_mutable(v.type.element)]
    return bool(lists) and is_mutable(node.output.type.element) and _is_generic(node)


def _is_generic(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is not None and "t" in {str(getattr(a.type, "element", a.type)) for a in op.schema.arguments}


def list_result(memory: Memory, node: Node, places: Sequence[Place], value: Value) -> Place:
    """The list that an op made of others: `value` in the new graph."""
    known = slots_after(memory, node, places)
    if known is not None:
        return memory.allocate(value, Slots(tuple(known)), origin=node.output)
    made = memory.allocate(value, None, origin=node.output)
    grown = _grown_list(memory, node, places)
    if grown is not None:
        # What thousands of appends made would each be all that was there before.
        made.cell.elements = grown.cell.elements
    elements = made.cell.elements
    assert elements is not None
    assert node.schema is not None
    taken = list(zip(node.schema.arguments, node.inputs, places, strict=True))
    for argument, source, place in taken[grown is not None :]:
        if isinstance(argument.type, ListType):
            memory.hold(elements, memory.elements_of(place), repeats=memory.repeats(place))
        elif is_mutable(source.type):
            # An element of a list of lists is a list, too.
            memory.hold(elements, memory.reach(place))
    if node.kind in ("aten::mul.left_t", "aten::mul.right_"):
        memory.repeat(elements)
    return made


def _grown_list(memory: Memory, node: Node, places: Sequence[Place]) -> Root | None:
    """The list that becomes what the node makes of it, and nothing else does: it may hold what it did, and more."""
    uses = node.output.uses
    target = places[0]
    if len(uses) != 1 or uses[0].user.kind != WRITE or uses[0].user.inputs[0] is not node.inputs[0]:
        return None
    if not isinstance(target, Root) or target.cell.elements is None:
        return None
    return target if isinstance(memory.content(target.cell), Whole) else None


def slots_after(memory: Memory, node: Node, places: Sequence[Place]) -> Sequence[Place] | None:
    """The places of the elements afterwards, where they are known."""
    function = SLOT_OPS.get(node.kind)
    if function is None:
        return None
    arguments: list[Any] = []
    lists = 1 + (node.kind in _TWO_LISTS)
    for source, place in zip(node.inputs, places, strict=True):
        if isinstance(source.type, ListType) and lists:
            lists -= 1
            slots = slots_of(memory, place)
            if slots is None:
                return None
            arguments.append(slots)
        elif is_mutable(source.type):
            arguments.append(place)
        else:
            constant = argument_of(source)
            if isinstance(constant, Value):
                return None
            arguments.append(constant)
    try:
        result = function(*arguments)
    except (IndexError, ValueError):
        # It fails when it runs, or is too long.
        return None
    return result if len(result) <= MAX_SLOTS else None


_TWO_LISTS = ("aten::extend.t", "aten::add.t")


def slots_of(memory: Memory, place: Place) -> tuple[Place, ...] | None:
    """The places of a list's elements, if they are known."""
    if isinstance(place, Either):
        return _slots_of_either(memory, place)
    if not isinstance(place, Root):
        return None
    content = memory.content(place.cell)
    return content.places if isinstance(content, Slots) else None


def _slots_of_either(memory: Memory, place: Either) -> tuple[Place, ...] | None:
    """Of one of two lists of as many elements: one element or the other."""
    then, otherwise = (slots_of(memory, side) for side in (place.then, place.otherwise))
    if then is None or otherwise is None or len(then) != len(otherwise) or not isinstance(place.type, ListType):
        return None
    found: list[Place] = []
    for a, b in zip(then, otherwise, strict=True):
        either = _either(memory, place.condition, a, b, place.type.element)
        if either is None:
            return None
        found.append(either)
    return tuple(found)


def _either(memory: Memory, condition: Value, a: Place, b: Place, type: Type) -> Place | None:
    """One place or the other; of tuples, one of each two elements. Types are shallow, so this recurses."""
    if is_same_place(a, b):
        return a
    if isinstance(a, Items) and isinstance(b, Items) and isinstance(type, TupleType):
        pairs = zip(a.slots, b.slots, type.elements, strict=True)
        found = [_either(memory, condition, *pair) for pair in pairs]
        return Items(tuple(place for place in found if place is not None)) if None not in found else None
    if isinstance(a, Plain) and isinstance(b, Plain) and not is_mutable(type):
        return Plain(memory.select(condition, a, b, type))
    depth = 1 + max(depth_of(a), depth_of(b))
    if depth > MAX_CHOICES or isinstance(a, Plain | Items) or isinstance(b, Plain | Items):
        return None
    return Either(condition, a, b, type, depth)


def element_place(memory: Memory, node: Node, place: Place, index: Value) -> Place | None:
    """`l[i]`: the place of the element; None where only the value is known, which fails when it runs."""
    constant = argument_of(index)
    slots = slots_of(memory, place)
    type = node.output.type
    if slots is not None:
        if isinstance(constant, int):
            return slots[constant] if -len(slots) <= constant < len(slots) else None
        return _chosen(slots, index, node.output)
    if isinstance(place, Root):
        content = memory.content(place.cell)
        if isinstance(content, Spread):
            return _spread_element(memory, content.place, constant, node.output)
    return memory.view(place, ElementStep(constant), type)


def _spread_element(memory: Memory, views: View, index: Any, origin: Value) -> Place:
    """One of the views that an op gave as a list; a row of `unbind` is what a subscript selects."""
    step = views.step
    if isinstance(step, ViewOpStep) and step.op.schema.full_name == "aten::unbind.int":
        select = ViewOpStep(OPS.named("aten::select.int"), (*step.arguments, index))
        return memory.view(views.parent, select, origin.type)
    return memory.view(views, ElementStep(index), origin.type)


def _chosen(slots: tuple[Place, ...], index: Value, origin: Value) -> Place | None:
    if not slots or any(isinstance(slot, Plain) for slot in slots):
        return None
    if all(is_same_place(slots[0], slot) for slot in slots):
        return slots[0]
    depth = 1 + max(depth_of(slot) for slot in slots)
    if depth > MAX_CHOICES or any(isinstance(slot, Items) for slot in slots):
        return None
    return ChosenPlace(slots, index, origin.type, depth)


def depth_of(place: Place) -> int:
    """How many choices stand in each other."""
    root = place.root if isinstance(place, View) else place
    return root.depth if isinstance(root, ChosenPlace | Either) else 0


def write_list(memory: Memory, target: Place, source: Place, write: Write) -> None:
    """A list becomes what another, made of it, is: `l.append(x)`."""
    assert isinstance(source, Root)
    cells = memory.own(target)
    memory.permit(cells, write)
    content = memory.content(source.cell)
    if not isinstance(target, Root):
        memory.write(target, memory.read(source), write)
        _hold_all(memory, memory.elements_of(target), source)
        return
    value = memory.read(source)
    elements = target.cell.elements
    if elements is not None and not isinstance(content, Slots):
        before = memory.content(target.cell)
        if isinstance(before, Slots | Spread):
            memory.collapse(target.cell, before)
        _hold_all(memory, [elements], source)
        token = before.elements if isinstance(before, Whole) else object()
        content = Whole(value, token)
    memory.scope.contents[target.cell] = content
    if not value.name_hint and target.cell.name and value.node.kind != "prim::Constant":
        value.name_hint = target.cell.name
    memory.keep(target, value)
    memory.spoil(cells, write)


def _hold_all(memory: Memory, elements: Sequence[Any], source: Root) -> None:
    """The list now holds what the one made of it does, whose own elements are gone with it."""
    if source.cell.elements is None:
        return
    content = memory.content(source.cell)
    if isinstance(content, Slots | Spread):
        memory.collapse(source.cell, content)
    mine = source.cell.elements
    for cell in elements:
        if cell is mine:
            continue
        if mine.repeats:
            memory.repeat(cell)
        for other in list(mine.others):
            memory.share(cell, other)
