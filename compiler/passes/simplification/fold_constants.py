"""Compute at compile time what does not depend on the inputs.

Before:
    graph f(%x : Tensor[float32, rank=2]):
      %1 : int = aten::dim(%x)
      %2 : int = prim::Constant[value=2]()
      %3 : bool = aten::eq.int(%1, %2)
      %y : Tensor = prim::If(%3)
        block():
          %4 : Tensor = aten::t(%x)
          return (%4)
        block():
          return (%x)
      return (%y)
After, dead constants aside:
    graph f(%x : Tensor[float32, rank=2]):
      %y : Tensor = aten::t(%x)
      return (%y)

Evaluation is the op's own, on numbers, strings, None and lists of them; tensors are never made. An evaluation
that raises leaves its node, so that the error comes when and if the program gets there. Results are limited in
size, and so are the arguments of ops that make much out of little.
"""

from __future__ import annotations

from collections.abc import Callable

from ...analysis.definedness import is_unsure_input
from ...ir.builder import Builder
from ...ir.evaluation import evaluate_constants
from ...ir.graph import Graph
from ...ir.kinds import entering
from ...ir.node import Node
from ...ir.rewrite import NOT_CONSTANT, constant_of, replace_by_constant, replace_node, rewrite_nodes, splice
from ...ir.structure import constant_fits
from ...types.dtypes import BOOL, UINT8
from ...types.types import NONE, ListType, OptionalType, TensorType, is_subtype, may_be_none


def fold_constants(graph: Graph) -> bool:
    """Evaluate pure ops on constants, take branches that are decided, and use what static types say."""
    return rewrite_nodes(graph, _fold)


def fold_unwritten(graph: Graph) -> bool:
    """The same in a graph whose writes are still to be followed: a list there may hold what it was not made of."""
    return rewrite_nodes(graph, _fold_unwritten)


def _fold_unwritten(node: Node) -> Node | None:
    rule = _RULES.get(node.kind)
    if rule is not None:
        return None if node.kind in _OF_ITEMS else rule(node)
    has_list = any(isinstance(value.type, ListType) for value in (*node.inputs, *node.outputs))
    return None if has_list or node.schema is None else _evaluate(node)


def _fold(node: Node) -> Node | None:
    rule = _RULES.get(node.kind)
    folded = rule(node) if rule is not None else None
    if folded is not None or node.schema is None:
        return folded
    return _evaluate(node)


# Ops on constants


def _evaluate(node: Node) -> Node | None:
    result = evaluate_constants(node)
    return None if result is NOT_CONSTANT else replace_by_constant(node, result)


# Control flow


def _fold_if(node: Node) -> Node | None:
    condition = constant_of(node.inputs[0])
    return splice(node, node.blocks[0 if condition else 1]) if isinstance(condition, bool) else None


def _fold_loop(node: Node) -> Node | None:
    """A loop that does not run gives its initial values."""
    trips, condition = map(constant_of, node.inputs[:2])
    if condition is False or (isinstance(trips, int) and trips <= 0):
        return replace_node(node, entering(node))
    return None


# What types and constructors say


def _fold_is(node: Node) -> Node | None:
    left, right = (value.type for value in node.inputs)
    if left == NONE or right == NONE:
        other = right if left == NONE else left
        if other == NONE or not may_be_none(other):
            return replace_by_constant(node, (other == NONE) == (node.kind == "aten::__is__"))
    return None


def _fold_narrowing(node: Node) -> Node | None:
    """A cast or unwrapping that says nothing new, or is of what no path reads."""
    value = node.inputs[0]
    if is_unsure_input(node.output):
        return None
    if value.type != NONE and is_subtype(value.type, node.output.type):
        return replace_node(node, [value])
    if value.node.kind == "prim::Uninitialized":
        return replace_node(node, [Builder.in_front_of(node).uninitialized(node.output.type)])
    if isinstance(value.type, OptionalType) and constant_of(value) not in (NOT_CONSTANT, None):
        known = constant_of(value)
        return replace_by_constant(node, known) if constant_fits(known, node.output.type) else None
    return None


def _fold_tuple_index(node: Node) -> Node | None:
    made = node.inputs[0].node
    if made.kind != "prim::TupleConstruct":
        return None
    return replace_node(node, [made.inputs[node.attr("index")]])


def _fold_list_unpack(node: Node) -> Node | None:
    made = node.inputs[0].node
    if made.kind != "prim::ListConstruct" or len(made.inputs) != len(node.outputs):
        return None
    return replace_node(node, made.inputs)


def _fold_getitem(node: Node) -> Node | None:
    made, index = node.inputs[0].node, constant_of(node.inputs[1])
    if made.kind == "prim::ListConstruct" and isinstance(index, int) and -len(made.inputs) <= index < len(made.inputs):
        return replace_node(node, [made.inputs[index]])
    return None


def _fold_len(node: Node) -> Node | None:
    made = node.inputs[0].node
    if made.kind == "prim::ListConstruct":
        return replace_by_constant(node, len(made.inputs))
    if made.kind == "aten::size":
        rank = _tensor(made).rank
        return replace_by_constant(node, rank) if rank is not None else None
    return None


def _fold_dim(node: Node) -> Node | None:
    rank = _tensor(node).rank
    return replace_by_constant(node, rank) if rank is not None else None


def _fold_index_rank(node: Node) -> Node | None:
    index = _tensor(node)
    if index.dtype is None:
        return None
    rank = index.rank if index.dtype in (BOOL, UINT8) else 1
    return replace_by_constant(node, rank) if rank is not None else None


def _fold_dtype(node: Node) -> Node | None:
    dtype = _tensor(node).dtype
    return replace_by_constant(node, dtype.code) if dtype is not None else None


def _fold_is_floating_point(node: Node) -> Node | None:
    dtype = _tensor(node).dtype
    return replace_by_constant(node, dtype.is_floating) if dtype is not None else None


def _tensor(node: Node) -> TensorType:
    """What is known about a node's first input."""
    type = node.inputs[0].type
    return type if isinstance(type, TensorType) else TensorType()


_OF_ITEMS = frozenset({"prim::ListUnpack", "aten::__getitem__.t", "aten::len.t"})
_RULES: dict[str, Callable[[Node], Node | None]] = {
    "prim::If": _fold_if,
    "prim::Loop": _fold_loop,
    "prim::TupleIndex": _fold_tuple_index,
    "prim::ListUnpack": _fold_list_unpack,
    "prim::unchecked_unwrap_optional": _fold_narrowing,
    "prim::unchecked_cast": _fold_narrowing,
    "prim::dtype": _fold_dtype,
    "prim::grad_dtype": _fold_dtype,
    "aten::__is__": _fold_is,
    "aten::__isnot__": _fold_is,
    "aten::__getitem__.t": _fold_getitem,
    "aten::len.t": _fold_len,
    "aten::_index_rank": _fold_index_rank,
    "aten::dim": _fold_dim,
    "aten::is_floating_point": _fold_is_floating_point,
}
