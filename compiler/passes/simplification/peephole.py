"""Local identities that hold for every value, nan, infinities and negative zero included.

Before:
    graph f(%x : Tensor):
      %1 : Optional[List[int]] = prim::Constant[value=None]()
      %2 : Tensor = aten::_grad_sum_to_size(%x, %1)
      %3 : Tensor = aten::neg(%2)
      %4 : Tensor = aten::neg(%3)
      %y : Tensor = aten::exp(%4)
      return (%y)
After, dead nodes aside:
    graph f(%x : Tensor):
      %y : Tensor = aten::exp(%x)
      return (%y)

What is replaced must be provably equal in elements, shape and dtype, so `x * 1` waits for x's dtype to be known,
and `x + 0` stays: it makes 0 of -0. A value that torch computes anew is kept where the program returns it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import RETURN, Node, Value
from ...ir.rewrite import constant_of, replace_node, rewrite_nodes
from ...types.types import TensorType, is_subtype

_Identity = Callable[[Node], Value | None]
"""The value that a node with one output is equal to, if it is known."""


def peephole(graph: Graph) -> bool:
    """Replace nodes by values that are equal to what they compute."""
    return rewrite_nodes(graph, _simplify)


def _simplify(node: Node) -> Node | None:
    if node.kind == "prim::If":
        return _shared_results(node)
    if node.kind in _FRESH and any(use.user.kind == RETURN for use in node.output.uses):
        return None
    if node.kind in _PLAIN and _drops_nothing(node):
        return replace_node(node, [Builder.in_front_of(node).op(_PLAIN[node.kind], *node.inputs)])
    rule = _RULES.get(node.kind)
    equal = rule(node) if rule is not None else None
    return replace_node(node, [equal]) if equal is not None else None


def _shared_results(node: Node) -> Node | None:
    """An output for which both branches give the same value from outside is that value."""
    changed = False
    for value, left, right in zip(node.outputs, node.blocks[0].outputs, node.blocks[1].outputs, strict=True):
        if left is right and value.use_count and is_subtype(left.type, value.type):
            value.replace_uses_with(left)
            changed = True
    return node if changed else None


def _drops_nothing(node: Node) -> bool:
    """Whether a value surely has no more dimensions than the place that it is, or was, written to."""
    left, right = node.inputs
    if node.kind == _SUM:
        if right.node.kind != "aten::size":
            return False
        left, right = right.node.inputs[0], left
    value, place = _tensor(left).rank, _tensor(right).rank
    return value is not None and place is not None and value <= place


def _no_size(node: Node) -> Value | None:
    """_grad_sum_to_size to no size, or to the size that the gradient has."""
    return node.inputs[0] if constant_of(node.inputs[1]) is None else _own_size(node)


def _own_size(node: Node) -> Value | None:
    """x.expand(x.size()) and its like."""
    size = node.inputs[1].node
    return node.inputs[0] if size.kind == "aten::size" and size.inputs[0] is node.inputs[0] else None


def _like_itself(node: Node) -> Value | None:
    """x.expand_as(x) and its like."""
    return node.inputs[0] if node.inputs[1] is node.inputs[0] else None


def _twice(node: Node) -> Value | None:
    """An involution of itself."""
    inner = node.inputs[0].node
    return inner.inputs[0] if inner.kind == node.kind else None


def _transposed_twice(node: Node) -> Value | None:
    inner = node.inputs[0].node
    if inner.kind != node.kind:
        return None
    dims, inner_dims = ({constant_of(value) for value in n.inputs[1:]} for n in (node, inner))
    known = all(isinstance(dim, int) for dim in dims)
    return inner.inputs[0] if known and dims == inner_dims else None


def _permuted_back(node: Node) -> Value | None:
    inner = node.inputs[0].node
    dims = constant_of(node.inputs[1])
    if not isinstance(dims, list):
        return None
    if inner.kind == node.kind and isinstance(before := constant_of(inner.inputs[1]), list):
        count = len(dims)
        inverse = len(before) == count and all(before[d % count] % count == i for i, d in enumerate(dims))
        return inner.inputs[0] if inverse else None
    return None


def _tensor(value: Value) -> TensorType:
    return value.type if isinstance(value.type, TensorType) else TensorType()


def _by_one(node: Node) -> Value | None:
    """x * 1 and x ** 1 where neither the dtype changes nor a bool becomes a number."""
    dtype, one = _tensor(node.inputs[0]).dtype, constant_of(node.inputs[1])
    if dtype is None or isinstance(one, bool) or not isinstance(one, int | float) or one != 1:
        return None
    kept = dtype.is_floating or (isinstance(one, int) and dtype.category == 1)
    return node.inputs[0] if kept else None


def _over_one(node: Node) -> Value | None:
    """x / 1: an integer would become a float."""
    dtype = _tensor(node.inputs[0]).dtype
    return _by_one(node) if dtype is not None and dtype.is_floating else None


def _same_dtype(node: Node) -> Value | None:
    """x.to(dtype) where x has that dtype, or where none is asked for."""
    dtype, wanted = _tensor(node.inputs[0]).dtype, constant_of(node.inputs[1])
    asked = isinstance(wanted, int) and not isinstance(wanted, bool)
    same = wanted is None or (asked and dtype is not None and wanted == dtype.code)
    return node.inputs[0] if same else None


def _same_dtype_as(node: Node) -> Value | None:
    """x.type_as(y) where both are known to have one dtype."""
    given, like = (_tensor(value).dtype for value in node.inputs[:2])
    return node.inputs[0] if node.inputs[0] is node.inputs[1] or (given is not None and given == like) else None


def _int_unit(unit: int) -> _Identity:
    """n * 1, n + 0 and their like, among ints."""

    def rule(node: Node) -> Value | None:
        left, right = node.inputs
        if constant_of(right) == unit:
            return left
        commutes = node.kind != "aten::sub.int"
        return right if commutes and constant_of(left) == unit else None

    return rule


_SUM = "aten::_grad_sum_to_size"
_PLAIN = {"aten::_expand_into": "aten::expand_as", _SUM: "aten::sum_to_size"}
"""What a write and its gradient are where no dimensions are dropped."""
_FRESH = {"aten::neg", "aten::mul.Scalar", "aten::div.Scalar", "aten::pow.Tensor_Scalar"}
"""Kinds that give an array of their own, which a caller may write into without changing an argument."""

_RULES: dict[str, _Identity] = {
    "aten::_grad_sum_to_size": _no_size,
    "aten::sum_to_size": _own_size,
    "aten::expand": _own_size,
    "aten::broadcast_to": _own_size,
    "aten::view": _own_size,
    "aten::reshape": _own_size,
    "aten::expand_as": _like_itself,
    "aten::_expand_into": _like_itself,
    "aten::view_as": _like_itself,
    "aten::reshape_as": _like_itself,
    "aten::type_as": _same_dtype_as,
    "aten::to.other": _same_dtype_as,
    "aten::to.dtype": _same_dtype,
    "aten::to.prim_dtype": _same_dtype,
    "aten::neg": _twice,
    "aten::t": _twice,
    "aten::numpy_T": _twice,
    "aten::mT": _twice,
    "aten::__not__.bool": _twice,
    "aten::transpose.int": _transposed_twice,
    "aten::permute": _permuted_back,
    "aten::mul.Scalar": _by_one,
    "aten::pow.Tensor_Scalar": _by_one,
    "aten::div.Scalar": _over_one,
    "aten::mul.int": _int_unit(1),
    "aten::add.int": _int_unit(0),
    "aten::sub.int": _int_unit(0),
}
