"""Derive the types of results again, after those of inputs became more precise.

Before:
    graph f(%x : Tensor[float32, rank=2], %c : bool):
      %y : Tensor = prim::If(%c)
        block():
          %1 : Tensor = aten::neg(%x)
          return (%1)
        block():
          return (%x)
      return (%y)
After:
    graph f(%x : Tensor[float32, rank=2], %c : bool):
      %y : Tensor[float32, rank=2] = prim::If(%c)
        block():
          %1 : Tensor[float32, rank=2] = aten::neg(%x)
          return (%1)
        block():
          return (%x)
      return (%y)

Types start at nothing and widen, along uses, to what all that flows into a value has in common; a loop's parameters
thus start from its initial values. What a type says already is kept.

An empty list says nothing of its elements: a list that a loop appends to is one of what is appended. Where that is
known more precisely than the empty list's own type, the list is made there with the type that is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..analysis.dataflow import Dataflow
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import handed_to, is_loop, own_parameters
from ..ir.node import PARAM, Node, Value
from ..ir.rewrite import constant_of
from ..ir.signature import result_types
from ..ops.registry import OPS
from ..types.dtypes import BY_CODE
from ..types.types import (
    INT_LIST,
    UNDEFINED,
    ListType,
    ScalarKind,
    TensorType,
    TupleType,
    Type,
    is_subtype,
    strip_optional,
    unify,
)

MAX_WIDENINGS = 8
"""After so many, a value keeps the type it had before the pass."""
_EMPTY = ListType(ScalarKind("nothing"))
"""What is known of an empty list while the pass runs."""
_CONSTRUCT, _APPEND, _READ = "prim::ListConstruct", "aten::append.t", "aten::__getitem__.t"


def propagate_types(graph: Graph) -> bool:
    """Make the types of values as precise as the types of what they are computed from allow."""
    types = _Types(graph).solve()
    changed = False
    for value, type in types.items():
        if type is not _EMPTY:
            changed |= type != value.type
            value.type = type
    empty = [value.node for value, type in types.items() if type is _EMPTY and value.node.kind == _CONSTRUCT]
    return _make_as_needed(empty) or changed


class _Types(Dataflow[Type]):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._lengths: dict[Value, int | None] = {}
        self._widenings: dict[Value, int] = {}
        nodes = list(graph.all_nodes())
        for node in [graph.body.param, *(b.param for n in nodes for b in n.blocks if not is_loop(n))]:
            for value in node.outputs:
                self.states[value] = value.type
                self._lengths[value] = None

    def made(self, node: Node) -> Iterable[tuple[Value, Type]]:
        if self.hands_on(node):
            return [(index, index.type) for block in node.blocks for index in own_parameters(block)]
        for value in node.outputs:
            if _is_sizes(value.type):
                self._measure(node, value)
        inputs = [self._given(node, value) for value in node.inputs]
        known = [type for type in inputs if type is not None]
        if not node.outputs or len(known) != len(inputs) or self._awaits_size(node):
            return ()
        return zip(node.outputs, self._results(node, known), strict=True)

    def joined(self, value: Value, before: Type | None, found: Type) -> Type:
        if before is not None and found is _EMPTY:
            return before
        type = found if before is None or before is _EMPTY else unify(before, found)
        if type is _EMPTY:
            return _EMPTY
        count = self._widenings.get(value, 0)
        after = value.type if type is None or count >= MAX_WIDENINGS else _refined(value.type, type)
        if after != before:
            self._widenings[value] = count + 1
        return after

    def hand(self, source: Value, into: Value) -> None:
        super().hand(source, into)
        if source in self._lengths:
            self._lengthen(into, self._lengths[source])

    def _given(self, node: Node, value: Value) -> Type | None:
        """The type of an input, None before it has one. An empty list that is appended to is one of what is appended,
        and nothing is read from one."""
        type = self.states.get(value)
        if type is not _EMPTY or node.kind == _READ:
            return None if type is _EMPTY else type
        element = self.states.get(node.inputs[1]) if node.kind == _APPEND else _EMPTY
        return value.type if element is None or element is _EMPTY else ListType(element)

    def _awaits_size(self, node: Node) -> bool:
        """Whether nothing is known yet of the size that a tensor is brought to."""
        return node.kind in _SIZED and _is_sizes(node.inputs[1].type) and node.inputs[1] not in self._lengths

    def _measure(self, node: Node, value: Value) -> None:
        """How many ints a list holds, or each list of a list of such: the rank of what has that size."""
        if node.kind == "aten::size":
            tensor = self.states.get(node.inputs[0])
            if tensor is not None:
                self._lengthen(value, tensor.rank if isinstance(tensor, TensorType) else None)
        elif node.kind == _CONSTRUCT and value.type == INT_LIST:
            self._lengthen(value, len(node.inputs))
        elif node.kind == _APPEND and value.type == INT_LIST:
            self._lengthen(value, None)
        elif node.kind in (_CONSTRUCT, _APPEND, _READ):
            for given in node.inputs:
                if given in self._lengths and _is_sizes(given.type):
                    self._lengthen(value, self._lengths[given])
        else:
            known = constant_of(value)
            self._lengthen(value, len(known) if isinstance(known, list) and value.type == INT_LIST else None)

    def _lengthen(self, value: Value, length: int | None) -> None:
        """Let a length flow into a value's; None where there are several."""
        if value in self._lengths and self._lengths[value] != length:
            length = None
        if value not in self._lengths or self._lengths[value] != length:
            self._lengths[value] = length
            self.look_again(value)

    def _results(self, node: Node, types: Sequence[Type]) -> Sequence[Type]:
        found = _results(node, types)
        if node.kind not in _SIZED:
            return found
        return [_sized(types[0], self._lengths.get(node.inputs[1]), found[0], keeps_dtype=node.kind not in _MADE)]


def _refined(declared: Type, found: Type) -> Type:
    """What both types say; the declared one where they cannot be put together."""
    if is_subtype(found, declared):
        return found
    if isinstance(declared, TensorType) and isinstance(found, TensorType):
        merged = TensorType(
            declared.dtype or found.dtype,
            found.rank if declared.rank is None else declared.rank,
            found.requires_grad if declared.requires_grad is None else declared.requires_grad,
        )
        return merged if is_subtype(merged, found) else declared
    return declared


def _make_as_needed(empty: Iterable[Node]) -> bool:
    """Give uses for which the type of an empty list is not precise enough an empty list that has the type."""
    changed = False
    for node in empty:
        made: dict[Type, Value] = {}
        for use in node.output.uses:
            wanted = next((v.type for v in handed_to(*use) if not is_subtype(node.output.type, v.type)), None)
            if wanted is not None:
                if wanted not in made:
                    made[wanted] = Builder.in_front_of(node).node(_CONSTRUCT, (), [wanted]).output
                use.user.set_input(use.index, made[wanted])
                changed = True
    return changed


def _results(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    """One type per output; the declared ones where nothing better is known."""
    declared = [value.type for value in node.outputs]
    op = OPS.of(node.schema)
    if op is not None and node.kind not in _RULES:
        try:
            return result_types(op, types)
        except Exception:
            # A rule may not know what to make of types more precise than it has met.
            return declared
    rule = _RULES.get(node.kind)
    return rule(node, types) if rule is not None and node.kind != PARAM else declared


def _is_sizes(type: Type) -> bool:
    """Whether a type is a list of ints, or of lists of them."""
    while type != INT_LIST and isinstance(type, ListType):
        type = type.element
    return type == INT_LIST


def _sized(tensor: Type, rank: int | None, found: Type, *, keeps_dtype: bool) -> Type:
    """A tensor brought to a size of so many dimensions, in its own dtype if it is floating."""
    if not isinstance(found, TensorType) or not isinstance(tensor, TensorType):
        return found
    rank, dtype = rank if found.rank is None else found.rank, found.dtype
    if keeps_dtype and dtype is None and tensor.dtype is not None and tensor.dtype.is_floating:
        dtype = tensor.dtype
    return TensorType(dtype, rank)


def _to_dtype(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    """A conversion to a dtype that is a constant, or that is known only when it runs."""
    code = constant_of(node.inputs[1])
    tensor = types[0]
    if not isinstance(tensor, TensorType):
        return types[:1]
    if not isinstance(code, int) or isinstance(code, bool):
        return [TensorType(None, tensor.rank)]
    return [TensorType(BY_CODE.get(code), tensor.rank)]


def _of_dtype(at: int) -> Callable[[Node, Sequence[Type]], Sequence[Type]]:
    """What is made in a dtype that operand `at` asks for."""

    def rule(node: Node, types: Sequence[Type]) -> Sequence[Type]:
        code = constant_of(node.inputs[at])
        return [TensorType(BY_CODE.get(code) if isinstance(code, int) and not isinstance(code, bool) else None)]

    return rule


def _autograd_add(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    defined = [type for type in types if type != UNDEFINED] or [UNDEFINED]
    joined = unify(defined[0], defined[-1])
    return [joined if joined is not None else node.output.type]


def _materialize(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    code = constant_of(node.inputs[2])
    zeros = TensorType(BY_CODE.get(code) if isinstance(code, int) else None)
    joined = None if types[0] == UNDEFINED else unify(types[0], zeros)
    return [joined if joined is not None else zeros]


def _list_construct(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    if not types:
        return [_EMPTY]
    element: Type | None = types[0]
    for type in types:
        element = unify(element, type) if element is not None else None
    return [ListType(element) if element is not None else node.output.type]


def _elements(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    elements = types[0].elements if isinstance(types[0], TupleType) else ()
    return elements if len(elements) == len(node.outputs) else [value.type for value in node.outputs]


def _element(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    elements = types[0].elements if isinstance(types[0], TupleType) else ()
    index = node.attr("index")
    return [elements[index] if index < len(elements) else node.output.type]


def _list_elements(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    return [types[0].element if isinstance(types[0], ListType) else value.type for value in node.outputs]


_MADE = ("aten::new_zeros", "aten::new_empty", "aten::new_full", "aten::new_ones")
"""Ops that make a tensor of a size, in the dtype of another or in one that is asked for."""
_SIZED = ("aten::sum_to_size", "aten::_grad_sum_to_size", "aten::expand", "aten::reshape", "aten::view", *_MADE)
"""Ops on a tensor and a size."""
_RULES: dict[str, Callable[[Node, Sequence[Type]], Sequence[Type]]] = {
    "aten::to.dtype": _to_dtype,
    "aten::zeros": _of_dtype(1),
    "aten::ones": _of_dtype(1),
    "aten::empty.memory_format": _of_dtype(1),
    "aten::full": _of_dtype(2),
    "prim::TupleConstruct": lambda node, types: [TupleType(tuple(types))],
    "prim::TupleUnpack": _elements,
    "prim::TupleIndex": _element,
    "prim::ListConstruct": _list_construct,
    "prim::ListUnpack": _list_elements,
    "prim::AutogradAdd": _autograd_add,
    "prim::MaterializeGrad": _materialize,
    "prim::unchecked_unwrap_optional": lambda node, types: [strip_optional(types[0])],
    "prim::unchecked_cast": lambda node, types: [types[0]],
}
