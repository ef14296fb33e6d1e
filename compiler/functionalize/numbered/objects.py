"""Objects by number: what is kept of each family of objects, and how they are read and written.

Of tensors there is a list of contents, and an object's number is where it stands there. A view has a number below zero,
by which two more lists say whose elements it has, and which: the numbers of these in that tensor. Of lists there is a
list of lists. All of these are values of the program, which its branches and loops carry: a write replaces one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ...ir.builder import Builder
from ...ir.node import Value
from ...types.types import INT, TENSOR, ListType, OptionalType, TupleType, Type, is_tensor
from ..views import GET, SET, TAKE, numbered, put_by_numbers
from .families import ObjectFamily, numbered_type

APPEND, LENGTH = "aten::append.t", "aten::len.t"
KeptSlot: TypeAlias = tuple[ObjectFamily, str]
"""One of the lists that are kept of a family: the contents, or of views whose they are, and of what elements."""
CONTENTS, OWNERS, ELEMENTS = "contents", "owners", "elements"
MadeLater: TypeAlias = Callable[[], Value]

_GIVEN = "a write into an argument: write into a copy, `y = x.clone()` or `l = list(x)`"


class NumberedBranch:
    """A branch that is being made: each side in turn, from what was known before it."""

    def __init__(self, objects: NumberedObjects, condition: Value) -> None:
        self._objects = objects
        self._before = dict(objects.state)
        self._ends: list[dict[KeptSlot, Value]] = []
        self.node = objects.builder.node("prim::If", [condition], blocks=2)

    @contextmanager
    def side(self) -> Iterator[None]:
        """The next side; its results are what its block returns at the end."""
        objects = self._objects
        objects.state = dict(self._before)
        with objects.builder.at(self.node.blocks[len(self._ends)]):
            yield
        self._ends.append(objects.state)

    def close(self, types: Sequence[Type], names: Sequence[str] = ()) -> list[Value]:
        """The results, of these types; what either side wrote is written."""
        for i, type in enumerate(types):
            self.node.add_output(type, names[i] if names else "")
        results = list(self.node.outputs)
        after = dict(self._before)
        for slot, before in self._before.items():
            if any(end[slot] is not before for end in self._ends):
                for block, end in zip(self.node.blocks, self._ends, strict=True):
                    block.ret.add_input(end[slot])
                after[slot] = self.node.add_output(before.type)
        self._objects.state = after
        return results


class NumberedRounds:
    """A loop that is being made, which carries what is kept of the families that a round may write."""

    def __init__(
        self,
        objects: NumberedObjects,
        own: Sequence[Value],
        initial: Sequence[tuple[Value, Type]],
        families: Iterable[ObjectFamily],
    ) -> None:
        """`own` says how many rounds there are, and whether a first; `initial` is what is carried, with its type."""
        self._objects = objects
        written = {family.one for family in families}
        self._slots = [slot for slot in objects.state if slot[0].one in written]
        self.node = objects.builder.node("prim::Loop", [*own, *(value for value, _ in initial)], blocks=1)
        (self.block,) = self.node.blocks
        self.index = self.block.add_input(INT)
        self.carried = [self.block.add_input(type, value.name_hint) for value, type in initial]
        for slot in self._slots:
            value = objects.state[slot]
            self.node.add_input(value)
            objects.state[slot] = self.block.add_input(value.type)

    def close(self, more: Value, results: Sequence[Value]) -> list[Value]:
        """What the loop gives; the builder stands at the end of its block."""
        state = self._objects.state
        self.block.ret.replace_inputs([more, *results, *(state[slot] for slot in self._slots)])
        outputs = [self.node.add_output(value.type, value.name_hint) for value in self.block.inputs[1:]]
        state.update(zip(self._slots, outputs[len(results) :], strict=True))
        return outputs[: len(results)]


class NumberedObjects:
    """What is kept of each family at one point of the program, and the builder of the graph that reads and writes."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.state: dict[KeptSlot, Value] = {}
        self._given: dict[ObjectFamily, Value] = {}

    def begin(self, family: ObjectFamily, type: Type) -> None:
        """Nothing of the family is there yet."""
        held = TENSOR if is_tensor(type) else ListType(numbered_type(type.element, family.part()))  # type: ignore[attr-defined]
        self.state[family, CONTENTS] = self.builder.list([], held)
        if is_tensor(type) and family.seen:
            self.state[family, OWNERS] = self.builder.list([], INT)
            self.state[family, ELEMENTS] = self.builder.list([], TENSOR)

    def given(self) -> None:
        """All objects so far are the caller's."""
        for family, kind in self.state:
            if kind == CONTENTS and family.given:
                self._given[family] = self._count(family)

    # --- objects ---

    def allocate(self, family: ObjectFamily, content: Value) -> Value:
        """The number of a new object."""
        number = self._count(family)
        self._append((family, CONTENTS), content)
        return number

    def read(self, family: ObjectFamily, number: Value) -> Value:
        """What an object contains now."""
        contents = self.state[family, CONTENTS]
        if not self._has_views(family):
            return self.builder.op(GET, contents, number)
        return self._by_number(
            number,
            lambda: self.builder.op(GET, contents, number),
            lambda: self.builder.op(
                TAKE, self.builder.op(GET, contents, self._owner(family, number)), self._elements(family, number)
            ),
            TENSOR,
        )

    def write(self, family: ObjectFamily, number: Value, content: Value) -> None:
        """Make this what an object contains."""
        if not self._has_views(family):
            self._refuse_given(family, number)
            self._replace(family, number, content)
            return
        owner = self._by_number(number, lambda: number, lambda: self._owner(family, number), INT)
        self._refuse_given(family, owner)

        def put() -> Value:
            whole = self.builder.op(GET, self.state[family, CONTENTS], owner)
            return put_by_numbers(self.builder, whole, content, self._elements(family, number))

        self._replace(family, owner, self._by_number(number, lambda: content, put, TENSOR))

    def view(self, family: ObjectFamily, number: Value, see: Callable[[Value], Value]) -> Value:
        """The number of a view: `see` takes it of the numbers of the elements."""
        owner, elements = self.whole(family, number)
        return self.enter_view(family, owner, see(elements))

    def whole(self, family: ObjectFamily, number: Value) -> tuple[Value, Value]:
        """Whose elements an object has, and which."""
        contents = self.state[family, CONTENTS]
        owner = self._by_number(number, lambda: number, lambda: self._owner(family, number), INT)
        return owner, self._by_number(
            number,
            lambda: numbered(self.builder, self.builder.op(GET, contents, number)),
            lambda: self._elements(family, number),
            TENSOR,
        )

    def enter_view(self, family: ObjectFamily, owner: Value, elements: Value) -> Value:
        """The number of a view of these elements."""
        index = self.builder.op(LENGTH, self.state[family, OWNERS])
        self._append((family, OWNERS), owner)
        self._append((family, ELEMENTS), elements)
        return self.builder.op("aten::sub.int", self.builder.constant(-1), index)

    def _has_views(self, family: ObjectFamily) -> bool:
        return (family, OWNERS) in self.state

    def _count(self, family: ObjectFamily) -> Value:
        return self.builder.op(LENGTH, self.state[family, CONTENTS])

    def _append(self, slot: KeptSlot, value: Value) -> None:
        self.state[slot] = self.builder.op(APPEND, self.state[slot], value)

    def _replace(self, family: ObjectFamily, number: Value, content: Value) -> None:
        self.state[family, CONTENTS] = self.builder.op(SET, self.state[family, CONTENTS], number, content)

    def _owner(self, family: ObjectFamily, number: Value) -> Value:
        return self.builder.op(GET, self.state[family, OWNERS], self._index(number))

    def _elements(self, family: ObjectFamily, number: Value) -> Value:
        return self.builder.op(GET, self.state[family, ELEMENTS], self._index(number))

    def _index(self, number: Value) -> Value:
        return self.builder.op("aten::sub.int", self.builder.constant(-1), number)

    def _by_number(self, number: Value, whole: MadeLater, view: MadeLater, type: Type) -> Value:
        """One of two values, by whether an object is a view."""
        is_whole = self.builder.op("aten::ge.int", number, 0)
        branch = NumberedBranch(self, is_whole)
        for made in (whole, view):
            with branch.side():
                self.builder.returns(made())
        return branch.close([type])[0]

    def _refuse_given(self, family: ObjectFamily, owner: Value) -> None:
        """End the run where the object is the caller's."""
        given = self._given.get(family)
        if given is None:
            return
        branch = NumberedBranch(self, self.builder.op("aten::lt.int", owner, given))
        with branch.side():
            self.builder.op_results("prim::RaiseException", _GIVEN, "RuntimeError")
        with branch.side():
            pass
        branch.close([])

    # --- what values hold ---

    def load(self, value: Value, type: Type, family: ObjectFamily) -> Value:
        """The content of a value and of all that it holds, as it is now. Types are shallow, so this recurses."""
        family = family.one
        if not family.holds_numbers:
            return value
        if isinstance(type, OptionalType):
            return self._where_there(value, type, lambda there: self.load(there, type.element, family), type)
        if isinstance(type, TupleType):
            parts = zip(self.builder.unpack(value), type.elements, strict=True)
            return self.builder.tuple([self.load(p, t, family.part(i)) for i, (p, t) in enumerate(parts)])
        content = self.read(family, value) if family.written else value
        if not isinstance(type, ListType) or not family.part().holds_numbers:
            return content
        held, part = type.element, family.part()
        return self.map(content, lambda item: self.load(item, held, part), _plain(held), ())

    def store(self, value: Value, type: Type, family: ObjectFamily) -> Value:
        """What stands for a value of which nobody else has an object yet. Types are shallow, so this recurses."""
        family = family.one
        if not family.holds_numbers:
            return value
        if isinstance(type, OptionalType):
            there = numbered_type(type, family)
            return self._where_there(value, type, lambda found: self.store(found, type.element, family), there)
        if isinstance(type, TupleType):
            parts = zip(self.builder.unpack(value), type.elements, strict=True)
            return self.builder.tuple([self.store(p, t, family.part(i)) for i, (p, t) in enumerate(parts)])
        if isinstance(type, ListType) and family.part().holds_numbers:
            held, part = type.element, family.part()
            value = self.map(
                value, lambda item: self.store(item, held, part), numbered_type(held, part), _numbered_in(part)
            )
        return self.allocate(family, value) if family.written else value

    def _where_there(self, value: Value, type: OptionalType, made: Callable[[Value], Value], result: Type) -> Value:
        if not isinstance(value.type, OptionalType):
            return made(value)
        branch = NumberedBranch(self, self.builder.op("aten::__isnot__", value, self.builder.constant(None)))
        with branch.side():
            self.builder.returns(made(self.builder.unwrap(value)))
        with branch.side():
            self.builder.returns(self.builder.constant(None))
        return branch.close([_plain(result)])[0]

    def map(self, items: Value, made: Callable[[Value], Value], type: Type, touched: Iterable[ObjectFamily]) -> Value:
        """The list of what is made of each element, of which these families may get new objects."""
        builder = self.builder
        own = builder.op(LENGTH, items), builder.constant(True)
        rounds = NumberedRounds(self, own, [(builder.list([], type), ListType(type))], touched)
        with builder.at(rounds.block):
            found = made(builder.op(GET, items, rounds.index))
            grown = builder.op(APPEND, rounds.carried[0], found)
            return rounds.close(builder.constant(True), [grown])[0]


def _plain(type: Type) -> Type:
    """The type with nothing said of tensors but that they are some. Types are shallow, so this recurses."""
    if isinstance(type, OptionalType):
        return OptionalType(_plain(type.element))
    if isinstance(type, ListType):
        return ListType(_plain(type.element))
    if isinstance(type, TupleType):
        return TupleType(tuple(map(_plain, type.elements)), type.names)
    return TENSOR if is_tensor(type) else type


def _numbered_in(family: ObjectFamily) -> list[ObjectFamily]:
    """The numbered families of an object and of what it holds. Types are shallow, so this recurses."""
    family = family.one
    return [*([family] if family.written else []), *(found for part in family.parts for found in _numbered_in(part))]
