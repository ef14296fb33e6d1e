"""Steps from a place to a part of it: how the part is read, and what the whole is once the part was written.

A view op has its inverse in WRITERS. One that has no short inverse is undone by the positions of its elements: the same
view of `arange` says where each came from, and index_put sends the new ones back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ...lang.light_dataclasses import dataclass
from ...lang.patterns import pattern
from ..ir.builder import Builder
from ..ir.node import Node, Value
from ..ops.registry import OPS, Op, Trait
from ..types.types import TENSOR, OptionalType, TupleType, Type, strip_optional

ViewArgument: TypeAlias = Any
"""A Value, or what a constant holds: a step may outlive the block of the constants that it was made with."""
WriteBack: TypeAlias = Callable[[Builder, Value, Value, Sequence[ViewArgument]], Value]
"""(builder, whole, new part, arguments of the view) → new whole."""

GET = "aten::__getitem__.t"
SET = "aten::_set_item.t"
TAKE = "aten::take"


@dataclass(frozen=True, slots=True)
class ViewOpStep:
    """A view op with its arguments."""

    op: Op
    arguments: tuple[ViewArgument, ...]

    def read(self, builder: Builder, whole: Value) -> Value:
        return builder.op(self.op, whole, *self.arguments)

    def write(self, builder: Builder, whole: Value, part: Value) -> Value | None:
        writer = writer_of(self.op, self.arguments)
        return writer(builder, whole, part, self.arguments) if writer is not None else None


@dataclass(frozen=True, slots=True)
class ElementStep:
    """An element of a list."""

    index: ViewArgument

    def read(self, builder: Builder, whole: Value) -> Value:
        return builder.op(GET, whole, self.index)

    def write(self, builder: Builder, whole: Value, part: Value) -> Value | None:
        return builder.op(SET, whole, self.index, part)


@dataclass(frozen=True, slots=True)
class FieldStep:
    """An element of a tuple."""

    index: int

    def read(self, builder: Builder, whole: Value) -> Value:
        return builder.tuple_index(whole, self.index)

    def write(self, builder: Builder, whole: Value, part: Value) -> Value | None:
        assert isinstance(whole.type, TupleType)
        count = len(whole.type.elements)
        return builder.tuple([part if i == self.index else builder.tuple_index(whole, i) for i in range(count)])


@dataclass(frozen=True, slots=True)
class TypeStep:
    """The same object under another type: an optional that is known to be there."""

    type: Type

    def read(self, builder: Builder, whole: Value) -> Value:
        if isinstance(whole.type, OptionalType) and strip_optional(whole.type) == self.type:
            return builder.unwrap(whole)
        return whole if whole.type == self.type else builder.cast(whole, self.type)

    def write(self, builder: Builder, whole: Value, part: Value) -> Value | None:
        return part if part.type == whole.type else builder.cast(part, whole.type)


@dataclass(frozen=True, slots=True)
class EquationStep:
    """`torch.einsum("ij->ji", y)`: one operand whose labels all stay is seen in another order, and along diagonals."""

    equation: str

    def read(self, builder: Builder, whole: Value) -> Value:
        return builder.op("aten::einsum", self.equation, builder.list([whole], TENSOR), path=None)

    def write(self, builder: Builder, whole: Value, part: Value) -> Value | None:
        return put_by_numbers(builder, whole, part, self.read(builder, numbered(builder, whole)))


ViewStep: TypeAlias = ViewOpStep | ElementStep | FieldStep | TypeStep | EquationStep


_LABEL = pattern(r"\.\.\.|.")


def is_view_equation(equation: str) -> bool:
    """Whether an einsum gives a view: it has one operand, and sums over nothing."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    labels = _LABEL.findall(left)
    if not arrow:
        return "," not in left and len(set(labels)) == len(labels)
    return "," not in left and set(labels) == set(_LABEL.findall(right))


def argument_of(value: Value) -> ViewArgument:
    """An argument of a step: the value, or the constant that it is. The value is one of a graph without writes."""
    node = value.node
    if node.kind == "prim::ListConstruct" and node.inputs and all(v.node.kind == "prim::Constant" for v in node.inputs):
        return [v.node.attrs["value"] for v in node.inputs]
    return node.attrs["value"] if node.kind == "prim::Constant" else value


def view_step(node: Node) -> ViewOpStep | None:
    """The step that a node of a view op is; None where its result is not surely a view of its first argument."""
    return _step(node, WRITERS)


def possible_step(node: Node) -> ViewOpStep | None:
    """The step that a node is where its result is a view at all."""
    return _step(node, POSSIBLE_WRITERS)


def _step(node: Node, writers: Mapping[str, WriteBack | None]) -> ViewOpStep | None:
    op = OPS.of(node.schema)
    if op is None or len(node.outputs) != 1 or op.schema.full_name not in writers:
        return None
    return ViewOpStep(op, tuple(map(argument_of, node.inputs[1:])))


def may_alias(op: Op) -> bool:
    """Whether the result of an op may be, or be a view of, one of its arguments."""
    return op.has(Trait.MAY_ALIAS | Trait.VIEW)


def by_numbers(step: ViewStep) -> bool:
    """Whether the step only says where elements are, each once: so do the numbers of the elements that it takes."""
    if isinstance(step, ElementStep):
        return True
    if not isinstance(step, ViewOpStep) or step.op.schema.full_name in _MEANS_MORE:
        return False
    return writer_of(step.op, step.arguments) is not None


_MEANS_MORE = (
    *("aten::detach", "aten::_unrecorded_view", "gs::constant", "gs::constant.optional"),
    *("gs::save", "gs::recompute", "gs::surrogate"),
)
"""Views that say something of gradients."""


def is_detaching(step: ViewStep) -> bool:
    """Whether the step leads to a tensor with the same elements, and no gradient or one of its own."""
    return isinstance(step, ViewOpStep) and step.op.schema.full_name in ("aten::detach", "aten::_unrecorded_view")


def writer_of(op: Op, arguments: Sequence[ViewArgument]) -> WriteBack | None:
    """How a write through a view is put back; None where torch refuses it, or may."""
    name = op.schema.full_name
    writer = WRITERS[name] if name in WRITERS else POSSIBLE_WRITERS[name]
    condition = _ONLY_IF.get(op.schema.full_name)
    if condition is None or condition(arguments):
        return writer
    return _FALLBACK.get(op.schema.full_name)


# --- inverses ---


def _again(name: str) -> WriteBack:
    """A view that undoes itself."""
    return lambda b, whole, part, args: b.op(name, part, *args)


def _identity(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    return part


def _reshaped(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    return b.op("aten::reshape", part, b.op("aten::size", whole))


def _into_slice(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    return b.op("aten::slice_scatter", whole, part, *args)


def _into_narrow(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    dim, start, length = args
    end = start + length if isinstance(length, int) else b.op("aten::add.int", start, length)
    return b.op("aten::slice_scatter", whole, part, dim, start, end)


def _moved_back(name: str) -> WriteBack:
    return lambda b, whole, part, args: b.op(name, part, args[1], args[0])


def _permuted_back(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    dims = [d % len(args[0]) for d in args[0]]
    return b.op("aten::permute", part, [dims.index(i) for i in range(len(dims))])


def _joined_again(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    return b.op("aten::cat", part, args[-1])


def _stacked(name: str) -> WriteBack:
    """`hstack` of what `hsplit` gave, and its like."""
    return lambda b, whole, part, args: b.op(name, part)


def by_positions(name: str) -> WriteBack:
    """Any view: see where each element was taken from."""

    return lambda b, whole, part, args: put_by_numbers(b, whole, part, b.op(name, numbered(b, whole), *args))


def numbered(b: Builder, whole: Value) -> Value:
    """Its elements' numbers in the shape of a tensor."""
    size, count = b.op("aten::size", whole), b.op("aten::numel", whole)
    numbers = b.op("aten::arange", count, dtype=None, device=b.op("prim::device", whole))
    return b.op("aten::reshape", numbers, size)


def put_by_numbers(b: Builder, whole: Value, part: Value, positions: Value) -> Value:
    """The whole once a part was written: `positions` are the numbers of its elements there."""
    everything = b.constant([-1])
    index = b.list([b.op("aten::reshape", positions, everything)], OptionalType(TENSOR))
    flat = b.op("aten::reshape", whole, everything)
    written = b.op("aten::index_put", flat, index, b.op("aten::reshape", part, everything))
    return b.op("aten::reshape", written, b.op("aten::size", whole))


def _replaced(b: Builder, whole: Value, part: Value, args: Sequence[ViewArgument]) -> Value:
    return b.op("aten::_replaced", whole, part)


_SELF_INVERSE = (
    "aten::transpose.int",
    "aten::swapaxes",
    "aten::swapdims",
    "aten::t",
    "aten::numpy_T",
    "aten::mT",
    "aten::adjoint",
)
_RESHAPES = (
    "aten::view",
    "aten::view_as",
    "aten::unflatten.int",
    "aten::squeeze",
    "aten::squeeze.dim",
    "aten::squeeze.dims",
    "aten::atleast_1d",
    "aten::atleast_2d",
    "aten::atleast_3d",
)
_BY_POSITIONS = ("aten::diagonal", "aten::linalg_diagonal", "aten::narrow.Tensor", "aten::unfold")
_SPLITS = (
    "aten::split.Tensor",
    "aten::split.sizes",
    "aten::split_with_sizes",
    "aten::chunk",
    "aten::tensor_split.sections",
    "aten::tensor_split.indices",
)
_EXPANDS = ("aten::expand", "aten::expand_as", "aten::_expand_into", "aten::broadcast_to")
_STACKS = {"hsplit": "hstack", "vsplit": "vstack", "dsplit": "dstack"}

WRITERS: dict[str, WriteBack | None] = {
    "aten::select.int": lambda b, whole, part, args: b.op("aten::select_scatter", whole, part, *args),
    "aten::slice.Tensor": _into_slice,
    "aten::narrow": _into_narrow,
    "aten::unsqueeze": lambda b, whole, part, args: b.op("aten::squeeze.dim", part, *args),
    "aten::permute": _permuted_back,
    "aten::positive": _identity,
    "aten::conj": _identity,
    # The elements change, and what is known of the gradient stays.
    **dict.fromkeys(("aten::detach", "aten::_unrecorded_view", "gs::constant", "gs::constant.optional"), _replaced),
    **dict.fromkeys(("gs::save", "gs::recompute", "gs::surrogate"), _identity),
    "aten::unbind.int": lambda b, whole, part, args: b.op("aten::stack", part, *args),
    **{name: _again(name) for name in _SELF_INVERSE},
    **{
        f"aten::{name}.{kind}": _moved_back(f"aten::{name}.{kind}")
        for name in ("movedim", "moveaxis")
        for kind in ("int", "intlist")
    },
    **dict.fromkeys(_RESHAPES, _reshaped),
    **{name: by_positions(name) for name in _BY_POSITIONS},
    **dict.fromkeys(_SPLITS, _joined_again),
    **{
        f"aten::{split}.{kind}": _stacked(f"aten::{stack}")
        for split, stack in _STACKS.items()
        for kind in ("int", "array")
    },
    **dict.fromkeys(_EXPANDS),
}
"""Every op whose result is surely a view of its first argument. None: torch refuses a write into it."""

POSSIBLE_WRITERS: dict[str, WriteBack] = {
    "aten::take": lambda b, whole, part, args: put_by_numbers(b, whole, part, args[0]),
    "aten::index.Tensor": lambda b, whole, part, args: b.op("aten::index_put", whole, args[0], part),
}
"""Ops whose result is a view for some arguments (`arguments.py`), and the inverse that it then has."""

_ONLY_IF: dict[str, Callable[[Sequence[ViewArgument]], bool]] = {
    # The positions of a permutation that is known when it runs come from the view itself.
    "aten::permute": lambda args: isinstance(args[0], list),
    "aten::narrow": lambda args: isinstance(args[1], int) and args[1] >= 0,
    # Windows that overlap are several numbers in one place.
    "aten::unfold": lambda args: all(isinstance(a, int) for a in args) and args[2] >= args[1],
}
_FALLBACK: dict[str, WriteBack] = {name: by_positions(name) for name in ("aten::permute", "aten::narrow")}
