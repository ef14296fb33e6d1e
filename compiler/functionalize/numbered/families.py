"""Families: which objects of a function may be one, told by what flows where, whatever the order.

A family has all values that may stand for one object, and for the elements of a list a family of their own. What is
written anywhere in the function is written in all of its family, and numbered; everything else stays a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ....lang.light_dataclasses import dataclass, field
from ...ir.graph import Graph
from ...ir.kinds import entering, is_loop, leaving, parameters
from ...ir.node import Node, Value, walk
from ...ops.registry import OPS, Op
from ...types.schema import FunctionSchema
from ...types.types import (
    CLOSURE,
    INT,
    NONE,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
    is_tensor,
    strip_optional,
)
from ..arguments import is_argument
from ..places import is_mutable
from ..views import argument_of, is_view_equation, may_alias, view_step
from ..write_nodes import WRITE


class Unfit(Exception):
    """A function in which something cannot be followed by numbers either."""


@dataclass(eq=False, slots=True)
class ObjectFamily:
    """Values that may be one object. `parts` are the families of a list's elements, or of each element of a tuple.

    Objects of a family that is `written` are numbered; `seen` tells that some of them are views of others, `given` that
    some are the caller's.
    """

    parts: list[ObjectFamily] = field(default_factory=list)
    written: bool = False
    seen: bool = False
    given: bool = False
    _one: ObjectFamily | None = None

    @property
    def one(self) -> ObjectFamily:
        """What stands for all that have become one with it."""
        found = self
        while found._one is not None:
            found = found._one
        if found is not self:
            self._one = found
        return found

    def part(self, index: int = 0) -> ObjectFamily:
        return self.one.parts[index].one

    @property
    def holds_numbers(self) -> bool:
        """Whether an object of it, or one that it holds, is numbered. Types are shallow, so this recurses."""
        found = self.one
        return found.written or any(part.holds_numbers for part in found.parts)


def family_of(type: Type) -> ObjectFamily:
    """One of its own for a value of a type. Types are shallow, so this recurses."""
    type = strip_optional(type)
    if isinstance(type, ListType):
        return ObjectFamily([family_of(type.element)])
    if isinstance(type, TupleType):
        return ObjectFamily([family_of(element) for element in type.elements])
    return ObjectFamily()


def unite(one: ObjectFamily, other: ObjectFamily) -> None:
    """From now on the two are one, and so are their parts."""
    pending = [(one, other)]
    while pending:
        left, right = (family.one for family in pending.pop())
        if left is right:
            continue
        if left.parts and right.parts and len(left.parts) != len(right.parts):
            raise Unfit
        pending += zip(left.parts, right.parts, strict=False)
        left.parts = left.parts or right.parts
        left.written |= right.written
        left.seen |= right.seen
        left.given |= right.given
        right._one = left


def numbered_type(type: Type, family: ObjectFamily) -> Type:
    """The type that stands for a value: a number, where its objects have numbers; of tensors nothing else is said."""
    if isinstance(type, OptionalType):
        return OptionalType(numbered_type(type.element, family))
    if family.one.written:
        return INT
    if isinstance(type, ListType):
        return ListType(numbered_type(type.element, family.part()))
    if isinstance(type, TupleType):
        parts = enumerate(type.elements)
        return TupleType(tuple(numbered_type(element, family.part(i)) for i, element in parts), type.names)
    return TENSOR if is_tensor(type) else type


class Families:
    """The families of all values of a function."""

    def __init__(self, graph: Graph) -> None:
        self._of: dict[Value, ObjectFamily] = {}
        for value in graph.inputs:
            _give(self.of(value))
        for node in walk(graph.body.nodes):
            self._learn(node)

    def of(self, value: Value) -> ObjectFamily:
        """None is in no family, and a constant list in one by itself."""
        if value.type == NONE:
            return ObjectFamily()
        found = self._of.get(value)
        if found is None:
            found = self._of[value] = family_of(value.type)
        return found.one

    def touched(self, nodes: Iterable[Node]) -> dict[ObjectFamily, None]:
        """The numbered families in which nodes, and those inside them, may make objects or write."""
        pending = [
            self.of(value)
            for node in walk(nodes)
            for value in (*node.outputs, *(v for block in node.blocks for v in block.inputs), *node.inputs)
            if is_mutable(value.type)
        ]
        found: dict[ObjectFamily, None] = {}
        seen: set[ObjectFamily] = set()
        while pending:
            family = pending.pop().one
            if family in seen:
                continue
            seen.add(family)
            if family.written:
                found[family] = None
            pending += family.parts
        return found

    def _learn(self, node: Node) -> None:
        if any(value.type == CLOSURE for value in node.outputs):
            raise Unfit
        rule = _RULES.get(node.kind)
        if rule is not None:
            rule(self, node)
            return
        op = OPS.of(node.schema)
        if op is None:
            if node.kind not in _PLAIN:
                raise Unfit
        elif op.schema.is_generic or any(_is_variable(a.type) for a in op.schema.arguments):
            self._generic(op.schema, node)
        else:
            self._op(op, node)

    def _op(self, op: Op, node: Node) -> None:
        """A result that is, or may be, a view of an argument, or the argument."""
        if view_step(node) is not None:
            source, seen = self.of(node.inputs[0]), self.of(node.output)
            source.seen = True
            unite(seen.part() if isinstance(node.output.type, ListType) else seen, source)
        elif may_alias(op):
            given = [value for value in node.inputs if is_mutable(value.type)]
            if given and is_tensor(given[0].type) and is_argument(node) is False:
                return
            for result in node.outputs if given else ():
                self.meet(given[0], result)

    def meet(self, value: Value, result: Value) -> None:
        """Two of which one may be, or be a view of, the other, or of what that holds."""
        one, other = self._leaf(value), self._leaf(result)
        one.seen = True
        unite(one, other)

    def _leaf(self, value: Value) -> ObjectFamily:
        """The family of an object, or of what the lists in it hold in the end."""
        family, type = self.of(value), strip_optional(value.type)
        while isinstance(type, ListType):
            family, type = family.part(), strip_optional(type.element)
        return family

    def _generic(self, schema: FunctionSchema, node: Node) -> None:
        """An op on lists of anything: what a variable of its schema stands for is one family."""
        bound: dict[str, ObjectFamily] = {}
        formals = [*(a.type for a in schema.arguments), *(result.type for result in schema.returns)]
        for type, value in zip(formals, (*node.inputs, *node.outputs), strict=True):
            type, family = strip_optional(type), self.of(value)
            while isinstance(type, ListType):
                type, family = strip_optional(type.element), family.part()
            if isinstance(type, VariableType):
                unite(bound.setdefault(type.name, family), family)


def _is_variable(type: Type) -> bool:
    type = strip_optional(type)
    while isinstance(type, ListType):
        type = strip_optional(type.element)
    return isinstance(type, VariableType)


def _give(family: ObjectFamily) -> None:
    pending = [family]
    while pending:
        found = pending.pop().one
        found.given = True
        pending += found.parts


def _write(f: Families, node: Node) -> None:
    target, content = node.inputs
    found = f.of(target)
    found.written = True
    if isinstance(target.type, ListType):
        unite(found.part(), f.of(content).part())


def _same(f: Families, node: Node) -> None:
    unite(f.of(node.inputs[0]), f.of(node.output))


def _list(f: Families, node: Node) -> None:
    for value in node.inputs:
        unite(f.of(node.output).part(), f.of(value))


def _list_unpack(f: Families, node: Node) -> None:
    for value in node.outputs:
        unite(f.of(node.inputs[0]).part(), f.of(value))


def _tuple(f: Families, node: Node) -> None:
    for i, value in enumerate(node.inputs):
        unite(f.of(node.output).part(i), f.of(value))


def _tuple_index(f: Families, node: Node) -> None:
    unite(f.of(node.inputs[0]).part(node.attrs["index"]), f.of(node.output))


def _tuple_unpack(f: Families, node: Node) -> None:
    for i, value in enumerate(node.outputs):
        unite(f.of(node.inputs[0]).part(i), f.of(value))


def _blocks(f: Families, node: Node) -> None:
    for block in node.blocks:
        results = leaving(block) if is_loop(node) else block.outputs
        given = zip(parameters(block), entering(node), strict=True) if is_loop(node) else ()
        carried = zip(node.outputs, parameters(block), strict=True) if is_loop(node) else ()
        for value, other in (*given, *carried, *zip(node.outputs, results, strict=True)):
            unite(f.of(value), f.of(other))


def _einsum(f: Families, node: Node) -> None:
    equation = argument_of(node.inputs[0])
    if not isinstance(equation, str) or is_view_equation(equation):
        f.meet(node.inputs[1], node.output)


def _call(f: Families, node: Node) -> None:
    """A function with a backward of its own, which may give what it was given."""
    values = [value for value in (*node.inputs, *node.outputs) if is_mutable(value.type)]
    for value in values[1:]:
        f.meet(values[0], value)


def _nothing(f: Families, node: Node) -> None:
    pass


def _unfit(f: Families, node: Node) -> None:
    raise Unfit


_PLAIN = ("prim::Constant", "prim::Uninitialized")
_RULES: dict[str, Callable[[Families, Node], None]] = {
    WRITE: _write,
    "prim::If": _blocks,
    "prim::Loop": _blocks,
    "prim::ListConstruct": _list,
    "prim::ListUnpack": _list_unpack,
    "prim::TupleConstruct": _tuple,
    "prim::TupleIndex": _tuple_index,
    "prim::TupleUnpack": _tuple_unpack,
    "prim::unchecked_unwrap_optional": _same,
    "prim::unchecked_cast": _same,
    "prim::CallFunction": _call,
    "aten::einsum": _einsum,
    "aten::__is__": _nothing,
    "aten::__isnot__": _nothing,
    "prim::AutogradAdd": _unfit,
    "prim::AutogradZero": _unfit,
    "prim::MaterializeGrad": _unfit,
}
