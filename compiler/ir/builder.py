"""Making nodes: one insertion point, and Python values that become constants where a node needs a Value.

    b = Builder(graph)
    product = b.op("aten::mul.Tensor", x, y)
    total = b.op("aten::sum.dim_IntList", product, [0], keepdim=True, name="total")
    with b.before(node), b.span(node.span):
        half = b.op("aten::mul.Scalar", total, 0.5)

Types of results follow from those of the arguments, by the op's own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ...lang.source import NO_SPAN, Span
from ..ops.registry import OPS, Op
from ..types.dtypes import DType
from ..types.schema import Argument, FunctionSchema, NoDefault
from ..types.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    UNDEFINED,
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
    is_subtype,
    strip_optional,
    unify,
)
from .constants import TensorConstant
from .graph import Graph
from .node import Block, Node, Value
from .signature import result_types

ConstantValue: TypeAlias = int | float | bool | str | DType | TensorConstant | Sequence[Any] | None
"""What `Builder.op` makes a prim::Constant of; a sequence that holds a Value becomes a prim::ListConstruct."""

# Inside Builder the names `list` and `tuple` are its methods.
Values: TypeAlias = tuple[Value, ...]
ValueList: TypeAlias = list[Value]


def constant_type(value: Any) -> Type:
    """The type that a constant has on its own; ValueError for an empty list or for elements of unlike types."""
    for python_type, type in ((bool, BOOL), (int, INT), (float, FLOAT), (str, STR)):
        if isinstance(value, python_type):
            return type
    if value is None:
        return NONE
    if isinstance(value, TensorConstant):
        return value.type
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{value!r} has no type of its own: give one")
    element: Type | None = constant_type(value[0])
    for item in value[1:]:
        element = unify(element, constant_type(item)) if element is not None else None
    if element is None:
        raise ValueError(f"the elements of {value!r} have no common type")
    return ListType(element)


def default_fits(default: Any, type: Type) -> bool:
    """Whether a constant may be the default of a parameter of some type."""
    if isinstance(default, tuple) and any(isinstance(item, tuple) for item in default):
        return False
    if default == ():
        return isinstance(strip_optional(type), ListType)
    if isinstance(default, bool) and strip_optional(type) == NUMBER:
        # As no call may pass one.
        return False
    return is_subtype(NONE if default is None else constant_type(default), type)


class Builder:
    """Inserts nodes before `before`, or at the end of a block. Every node gets the current span."""

    def __init__(self, where: Graph | Block, before: Node | None = None, span: Span = NO_SPAN) -> None:
        self._next = before or (where.body if isinstance(where, Graph) else where).ret
        self.current_span = span
        self._told: Callable[[Node], object] | None = None

    @classmethod
    def in_front_of(cls, node: Node) -> Builder:
        """One that inserts before a node, with its span."""
        assert node.owner is not None
        return cls(node.owner, node, node.span)

    @property
    def block(self) -> Block:
        """The block that nodes go into."""
        assert self._next.owner is not None, "the node that marked the insertion point has been removed"
        return self._next.owner

    @contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Insert at the end of `block` meanwhile."""
        with self.before(block.ret):
            yield block

    @contextmanager
    def before(self, node: Node) -> Iterator[None]:
        """Insert in front of `node` meanwhile."""
        saved, self._next = self._next, node
        try:
            yield
        finally:
            self._next = saved

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        """Give new nodes this span meanwhile."""
        saved, self.current_span = self.current_span, span
        try:
            yield
        finally:
            self.current_span = saved

    @contextmanager
    def telling(self, told: Callable[[Node], object]) -> Iterator[None]:
        """Tell of each node meanwhile that is inserted."""
        saved, self._told = self._told, told
        try:
            yield
        finally:
            self._told = saved

    def insert(self, node: Node) -> Node:
        """Link a finished node at the insertion point: `copy_nodes(block, env, builder.insert)`."""
        if self._told is not None:
            self._told(node)
        return node.insert_before(self._next)

    def node(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        types: Sequence[Type] = (),
        *,
        attrs: dict[str, Any] | None = None,
        names: Sequence[str] = (),
        schema: FunctionSchema | None = None,
        blocks: int = 0,
    ) -> Node:
        """Insert a node with one output per type and as many empty blocks as asked for."""
        node = Node(kind, schema, attrs, self.current_span)
        for value in inputs:
            node.add_input(value)
        for i, type in enumerate(types):
            node.add_output(type, names[i] if i < len(names) else "")
        for _ in range(blocks):
            node.add_block()
        return self.insert(node)

    def constant(self, value: ConstantValue, type: Type | None = None, name: str = "") -> Value:
        """A prim::Constant; the type follows from the value unless given (an empty list needs one)."""
        plain = _plain(value)
        node = self.node("prim::Constant", (), [type or constant_type(plain)], attrs={"value": plain}, names=[name])
        return node.output

    def undefined(self) -> Value:
        """A gradient that nobody computes."""
        return self.node("prim::AutogradZero", (), [UNDEFINED]).output

    def uninitialized(self, type: Type) -> Value:
        """A value of the type that no path reads."""
        return self.node("prim::Uninitialized", (), [type]).output

    def op(
        self, op: str | Op, *inputs: Value | ConstantValue, name: str = "", **keywords: Value | ConstantValue
    ) -> Value:
        """A call of an op with one result. Missing arguments take their defaults; keywords are the schema's names."""
        (value,) = self.op_results(op, *inputs, names=[name], **keywords)
        return value

    def op_results(
        self, op: str | Op, *inputs: Value | ConstantValue, names: Sequence[str] = (), **keywords: Value | ConstantValue
    ) -> Values:
        """As `op`, for any number of results."""
        op = OPS.named(op) if isinstance(op, str) else op
        given = _arguments(op.schema, inputs, keywords)
        values = [self._argument(a, v) for a, v in zip(op.schema.arguments, given, strict=True)]
        types = result_types(op, [v.type for v in values])
        node = self.node(op.schema.full_name, values, types, names=names, schema=op.schema)
        return (*node.outputs,)

    def _argument(self, argument: Argument, value: Value | ConstantValue) -> Value:
        if isinstance(value, Value):
            return value
        formal = strip_optional(argument.type)
        element = formal.element if isinstance(formal, ListType) else None
        if isinstance(value, Sequence) and any(isinstance(item, Value) for item in value):
            items = [v if isinstance(v, Value) else self.constant(v) for v in value]
            return self.list(items, element if element and not isinstance(element, VariableType) else None)
        if argument.fixed_size and isinstance(value, int | float):
            value = [value] * argument.fixed_size
        constant = _converted(_plain(value), formal)
        known = constant is not None and element is not None and not isinstance(element, VariableType)
        return self.constant(constant, formal if known else None)

    def tuple(self, values: Sequence[Value], name: str = "") -> Value:
        type = TupleType(tuple(v.type for v in values))
        return self.node("prim::TupleConstruct", values, [type], names=[name]).output

    def list(self, values: Sequence[Value], element_type: Type | None = None, name: str = "") -> Value:
        """A list; the element type is what the values have in common unless given (an empty list needs one)."""
        if element_type is None:
            element_type = values[0].type
            for value in values[1:]:
                element_type = unify(element_type, value.type) if element_type is not None else None
            assert element_type is not None, "the elements have no common type"
        return self.node("prim::ListConstruct", values, [ListType(element_type)], names=[name]).output

    def unpack(self, value: Value, names: Sequence[str] = ()) -> ValueList:
        """The elements of a tuple."""
        assert isinstance(value.type, TupleType), f"{value.type} is no tuple"
        return self.node("prim::TupleUnpack", [value], value.type.elements, names=names).outputs

    def tuple_index(self, value: Value, index: int, name: str = "") -> Value:
        assert isinstance(value.type, TupleType), f"{value.type} is no tuple"
        type = value.type.elements[index]
        return self.node("prim::TupleIndex", [value], [type], attrs={"index": index}, names=[name]).output

    def unwrap(self, value: Value, name: str = "") -> Value:
        """T from Optional[T], where control flow has shown that the value is there."""
        type = strip_optional(value.type)
        return self.node("prim::unchecked_unwrap_optional", [value], [type], names=[name]).output

    def cast(self, value: Value, type: Type, name: str = "") -> Value:
        """The same value under another static type."""
        return self.node("prim::unchecked_cast", [value], [type], names=[name]).output

    def optional(self, value: Value, element: Type) -> Value:
        """The value under the type Optional[element]; where an Optional is asked for, any T may stand as it is."""
        return value if isinstance(value.type, OptionalType) else self.cast(value, OptionalType(element))

    def returns(self, *values: Value) -> None:
        """Make these the results of the current block."""
        self.block.ret.replace_inputs(values)


def _plain(value: Any) -> Any:
    """A constant as attributes hold it: lists for tuples, the code for a dtype."""
    if isinstance(value, DType):
        return value.code
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _converted(value: Any, formal: Type) -> Any:
    """An int where a float is asked for becomes one, in lists too."""
    if isinstance(formal, ListType) and isinstance(value, list):
        return [_converted(item, formal.element) for item in value]
    return float(value) if formal == FLOAT and type(value) is int else value


def _arguments(
    schema: FunctionSchema, inputs: Sequence[Value | ConstantValue], keywords: dict[str, Value | ConstantValue]
) -> list[Value | ConstantValue]:
    """One value per argument of the schema, in order; TypeError where one is missing, unknown or given twice."""
    if len(inputs) > len(schema.arguments):
        raise TypeError(f"{schema.full_name} takes {len(schema.arguments)} arguments, not {len(inputs)}")
    given = list(inputs)
    rest = dict(keywords)
    for argument in schema.arguments[len(inputs) :]:
        value = rest.pop(argument.name, argument.default)
        if isinstance(value, NoDefault):
            raise TypeError(f"{schema.full_name} needs '{argument.name}'")
        given.append(value)
    if rest:
        raise TypeError(f"{schema.full_name} has no argument '{next(iter(rest))}', or it is given twice")
    return given
