"""Which lists of ints are tuples in Python, and which are lists: it decides what they are equal to and joined with.

x.shape, x.shape[1:]                     tuples there, lists here
[2, 3], list(x.shape), [1] * 2           lists
x.size()                                 a list in TorchScript, whose formulas compare it with lists
a parameter, what a branch or a loop leaves           not known
"""

from __future__ import annotations

from ..ir.node import Value
from ..types.types import INT, ListType

_PARTS = frozenset(("aten::slice.t",))
_LISTS = frozenset(("prim::ListConstruct", "aten::list.t", "aten::mul.left_t"))


def is_shape(value: Value) -> bool:
    """Whether a list of ints is known to be a tuple in Python: what `.shape` gives, or a part of that."""
    while value.node.kind in _PARTS:
        value = value.node.inputs[0]
    return value.node.kind == "aten::size" and value.node.span.text.endswith(".shape")


def is_python_list(value: Value) -> bool:
    """Whether a list of ints is known to be a list in Python."""
    while value.node.kind in _PARTS:
        value = value.node.inputs[0]
    return value.node.kind in _LISTS and value.type == ListType(INT)


def differ_in_kind(left: Value, right: Value) -> bool:
    """Whether one is a tuple in Python and the other a list, which are not equal there whatever they hold."""
    return (is_shape(left) and is_python_list(right)) or (is_python_list(left) and is_shape(right))
