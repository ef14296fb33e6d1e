"""Evaluate ops on lists of tensors that are put together in the graph: they move values about and look into none.

Before:
    graph f(%x : Tensor, %y : Tensor):
      %l : List[Tensor] = prim::ListConstruct(%x, %y)
      %i : int = prim::Constant[value=1]()
      %z : Tensor = aten::__getitem__.t(%l, %i)
      return (%z)
After:
    graph f(%x : Tensor, %y : Tensor):
      %l : List[Tensor] = prim::ListConstruct(%x, %y)
      %i : int = prim::Constant[value=1]()
      return (%y)
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import NOT_CONSTANT, constant_of, replace_node, rewrite_nodes
from ...ops.registry import OPS, Op
from ...types.open_sizes import is_open
from ...types.types import NONE, ListType, TensorType, VariableType, strip_optional

LIST = "prim::ListConstruct"
MAX_LENGTH = 1024
"""A list that would be longer is left as it is."""
_REPEATS = frozenset(("prim::no_grads", "aten::mul.left_t", "aten::mul.right_"))
"""Ops whose result is as long as a number says, which may be an open size."""
_OF_ANYTHING = ListType(VariableType("t"))
Lists = dict[Value, list[Value]]
"""What is in lists that ops give, in program order."""


def fold_lists(graph: Graph) -> bool:
    """Follow appended, cut and indexed lists to the tensors themselves."""
    lists: Lists = {}
    changed = rewrite_nodes(graph, lambda node: _fold(node, lists))
    for value, items in reversed(lists.items()):
        _put_together(value.node, items)
    return changed or bool(lists)


def _put_together(node: Node, items: list[Value]) -> None:
    """A list in the place of a node that gives it, unless nobody is left who uses it.

    Last come first: of a list that has grown by a hundred appends, the hundredth alone is made.
    """
    if not node.output.use_count:
        node.destroy()
        return
    made = Builder.in_front_of(node).node(LIST, items, [node.output.type])
    replace_node(node, [made.output])


def _fold(node: Node, lists: Lists) -> Node | None:
    op = OPS.of(node.schema)
    if op is None or len(node.outputs) != 1 or not _is_of_lists(op):
        return None
    if not any(_is_known(value, lists) for value in node.inputs):
        return None
    arguments = [_argument(node, value, lists) for value in node.inputs]
    if any(argument is NOT_CONSTANT for argument in arguments):
        return None
    if node.kind in _REPEATS and any(map(is_open, arguments)):
        return None
    try:
        result = op.evaluate(*arguments)
    except Exception:
        # An index out of range is an error where the program gets there, and not before.
        return None
    if isinstance(result, Value):
        return replace_node(node, [result]) if isinstance(node.output.type, TensorType) else None
    if isinstance(result, list) and len(result) <= MAX_LENGTH and set(map(type, result)) <= {Value}:
        lists[node.output] = result
    return None


@cache
def _is_of_lists(op: Op) -> bool:
    return any(argument.type == _OF_ANYTHING for argument in op.schema.arguments)


def _is_known(value: Value, lists: Lists) -> bool:
    return value in lists or (value.node.kind == LIST and _is_list_of_tensors(value))


def _is_list_of_tensors(value: Value) -> bool:
    """Of tensors, or of tensors and None: those that stand where an index takes a dimension whole."""
    return isinstance(value.type, ListType) and isinstance(strip_optional(value.type.element), TensorType)


def _argument(node: Node, value: Value, lists: Lists) -> Any:
    if _is_known(value, lists):
        return list(lists.get(value, value.node.inputs))
    if value.type == ListType(NONE):
        known = constant_of(value)
        return known if known is NOT_CONSTANT else [Builder.in_front_of(node).constant(None)] * len(known)
    return value if isinstance(value.type, TensorType) else constant_of(value)
