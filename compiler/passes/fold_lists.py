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

from typing import Any

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ir.rewrite import NOT_CONSTANT, constant_of, replace_node, rewrite_nodes
from ..ops.registry import OPS
from ..types.types import ListType, TensorType, VariableType

LIST = "prim::ListConstruct"
MAX_LENGTH = 1024
"""A list that would be longer is left as it is: each append to one makes another of them."""
_OF_ANYTHING = ListType(VariableType("t"))


def fold_lists(graph: Graph) -> bool:
    """Follow appended, cut and indexed lists to the tensors themselves."""
    return rewrite_nodes(graph, _fold)


def _fold(node: Node) -> Node | None:
    op = OPS.of(node.schema)
    if op is None or len(node.outputs) != 1 or not any(_is_made_list(value) for value in node.inputs):
        return None
    if not any(argument.type == _OF_ANYTHING for argument in op.schema.arguments):
        return None
    arguments = [_argument(value) for value in node.inputs]
    if any(argument is NOT_CONSTANT for argument in arguments):
        return None
    try:
        result = op.evaluate(*arguments)
    except Exception:
        # An index out of range is an error where the program gets there, and not before.
        return None
    if isinstance(result, Value):
        return replace_node(node, [result])
    if not isinstance(result, list) or len(result) > MAX_LENGTH or not all(isinstance(item, Value) for item in result):
        return None
    assert node.owner is not None
    made = Builder(node.owner, node, node.span).node(LIST, result, [node.output.type])
    return replace_node(node, [made.output])


def _is_made_list(value: Value) -> bool:
    return value.node.kind == LIST and isinstance(value.type, ListType) and isinstance(value.type.element, TensorType)


def _argument(value: Value) -> Any:
    if _is_made_list(value):
        return list(value.node.inputs)
    return value if isinstance(value.type, TensorType) else constant_of(value)
