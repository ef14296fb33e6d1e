"""Ops on lists of open length, all of whose elements are alike: what a loop of open rounds keeps of them.

    kept : n × [8]        aten::append.t(kept, [8])       n + 1 × [8]
                          aten::len.t(kept)               n
                          kept[i]                         [8]
                          aten::stack(kept)               [n, 8]

What an op makes of such a list in any other way is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ops.meta import UNKNOWN, Meta, OpenList, is_defined, join
from ..ops.registry import OPS
from ..types.open_sizes import is_open
from ..types.types import INT, ListType, is_tensor, strip_optional
from .infer import infer

_REFINED = ("prim::unchecked_cast", "prim::unchecked_unwrap_optional")
_STACK, _CAT = OPS.named("aten::stack"), OPS.named("aten::cat")


def on_open_lists(node: Node, inputs: Sequence[Any]) -> list[Any]:
    """The results of an op that takes lists of open length, or makes one. Raises what the op raises."""
    rule = _RULES.get(node.kind)
    if rule is None:
        return [UNKNOWN] * len(node.outputs)
    return [rule(*inputs)]


def takes_open_lists(node: Node, inputs: Sequence[Any]) -> bool:
    """Whether an op is one for `on_open_lists`."""
    if OpenList in map(type, inputs):
        return True
    if node.kind == "prim::no_grads" or node.kind in _REPEATED:
        return is_open(list(inputs))
    if node.kind != "aten::unbind.int":
        return False
    tensor, dim = inputs
    return isinstance(tensor, Meta) and type(dim) is int and is_open(tensor.shape[dim : dim + 1 or None])


def whole_lists(graph: Graph) -> frozenset[int]:
    """The arguments that are lists of ints of which an op on tensors takes all: dimensions, a size. Were it not
    known how many there are, nothing would be known of what is made by them."""
    return frozenset(i for i, value in enumerate(graph.inputs) if _is_taken_whole(value))


def _is_taken_whole(value: Value) -> bool:
    pending = [value]
    for listed in pending:
        if not _lists_ints(listed):
            continue
        for user, _ in listed.uses:
            is_op = OPS.of(user.schema) is not None
            if is_op and any(is_tensor(other.type) for other in (*user.inputs, *user.outputs)):
                return True
            if is_op or user.kind in _REFINED:
                pending += [made for made in user.outputs if made not in pending]
    return False


def _lists_ints(value: Value) -> bool:
    type = strip_optional(value.type)
    return isinstance(type, ListType) and type.element == INT


def repeated(item: Any, length: int) -> Any:
    """A list of so many of one element."""
    return OpenList(item, length) if is_open(length) else [item] * length


def item_of(items: Any) -> Any:
    """What all elements of a list are, UNKNOWN where they differ; of an empty one that is to be added to, None is
    given."""
    if type(items) is OpenList:
        return items.item
    if not isinstance(items, list) or not items:
        return UNKNOWN
    found = items[0]
    for item in items[1:]:
        found = join(found, item)
    return found


def length_of(items: Any) -> Any:
    """How long a list is; UNKNOWN where that is not known."""
    if type(items) is OpenList:
        return items.length
    return len(items) if isinstance(items, list) else UNKNOWN


def joined_lists(one: Any, other: Any) -> Any:
    """Two lists, one behind the other."""
    lengths = length_of(one), length_of(other)
    if UNKNOWN in lengths:
        return UNKNOWN
    items = [item_of(items) for items, length in zip((one, other), lengths, strict=True) if is_open(length) or length]
    return repeated(items[0] if len(items) == 1 else join(*items), lengths[0] + lengths[1])


def added_lists(left: OpenList, right: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The sums of gradients, element by element."""
    if length_of(right) is UNKNOWN or left.length != length_of(right):
        return UNKNOWN
    return OpenList(add(left.item, item_of(right)), left.length)


def _set(items: Any, index: Any, item: Any) -> Any:
    return OpenList(join(items.item, item), items.length) if type(items) is OpenList else UNKNOWN


def _sliced(items: Any, start: Any, end: Any, step: Any) -> Any:
    if type(items) is not OpenList or UNKNOWN in (start, end) or step != 1:
        return UNKNOWN
    first, last = _place(items.length, 0 if start is None else start), _place(items.length, items.length, end)
    return repeated(items.item, last - first if last > first else 0)


def _place(length: int, place: int, given: int | None = None) -> int:
    """Where a slice begins or ends."""
    place = place if given is None else given
    if place < 0:
        place = place + length
        return place if place >= 0 else 0
    return place if place <= length else length


def _times(items: Any, count: Any) -> Any:
    if isinstance(count, OpenList | list):
        items, count = count, items
    if UNKNOWN in (length_of(items), count):
        return UNKNOWN
    if not is_open(length_of(items)) and not length_of(items):
        return []
    return repeated(item_of(items), length_of(items) * count if count > 0 else 0)


def _same_length(items: Any, primal: Any) -> bool:
    return UNKNOWN not in (length_of(items), length_of(primal)) and length_of(items) == length_of(primal)


def _filled(gradients: Any, primal: Any) -> Any:
    """With the shape of the primal for what is undefined."""
    if gradients is None:
        return primal
    if not _same_length(gradients, primal):
        return UNKNOWN
    item = item_of(gradients)
    return repeated(item_of(primal) if item is None else item, length_of(primal))


def _fitted(gradients: Any, primal: Any, function: Any, argument: Any) -> Any:
    item, like = item_of(gradients), item_of(primal)
    if not _same_length(gradients, primal) or not isinstance(item, Meta) or item != like:
        return UNKNOWN
    return repeated(item, length_of(primal))


def _spread(gradients: Any, like: Any) -> Any:
    if gradients is None or like is None:
        return gradients
    item, shaped = item_of(gradients), item_of(like)
    if not _same_length(gradients, like) or not isinstance(shaped, Meta):
        return UNKNOWN
    if item is None:
        return gradients
    return repeated(Meta(shaped.shape, item.dtype), length_of(like)) if isinstance(item, Meta) else UNKNOWN


def _stacked(tensors: OpenList, dim: Any) -> Any:
    """Of two there is a rule; the length takes their number's place."""
    if not isinstance(tensors.item, Meta) or type(dim) is not int:
        return UNKNOWN
    (made,) = infer(_STACK, [[tensors.item, tensors.item], dim])
    return _with_size(made, dim, tensors.length)


def _concatenated(tensors: OpenList, dim: Any) -> Any:
    if not isinstance(tensors.item, Meta) or type(dim) is not int:
        return UNKNOWN
    (made,) = infer(_CAT, [[tensors.item], dim])
    return _with_size(made, dim, made.shape[dim] * tensors.length)


def _with_size(made: Meta, dim: int, size: int) -> Meta:
    shape = list(made.shape)
    shape[dim] = size
    return Meta(tuple(shape), made.dtype)


def _unbound(tensor: Meta, dim: int) -> Any:
    kept = list(tensor.shape)
    length = kept.pop(dim)
    return OpenList(Meta(tuple(kept), tensor.dtype), length)


_REPEATED = frozenset(("aten::mul.left_t", "aten::mul.right_"))
_RULES: dict[str, Callable[..., Any]] = {
    "aten::len.t": length_of,
    "aten::__getitem__.t": lambda items, index: item_of(items),
    "prim::grad_item": lambda items, index: item_of(items),
    "aten::pop.t": lambda items, index: item_of(items),
    "aten::append.t": lambda items, item: joined_lists(items, [item]),
    "aten::extend.t": joined_lists,
    "aten::add.t": joined_lists,
    "aten::mul.left_t": _times,
    "aten::mul.right_": _times,
    "aten::_set_item.t": _set,
    "aten::slice.t": _sliced,
    "aten::_without.t": lambda items, index: repeated(item_of(items), length_of(items) - 1),
    "aten::reverse.t": lambda items: items,
    "aten::copy.t": lambda items: items,
    "aten::list.t": lambda items: items,
    "aten::clear.t": lambda items: [],
    "aten::stack": _stacked,
    "aten::cat": _concatenated,
    "aten::unbind.int": _unbound,
    "aten::__is__": lambda one, other: False if None in (one, other) else UNKNOWN,
    "aten::__isnot__": lambda one, other: True if None in (one, other) else UNKNOWN,
    "prim::grad_zeros": lambda primal: primal,
    "prim::grad_shapes": lambda primal: primal,
    "prim::grad_list": _filled,
    "prim::grad_fit": _fitted,
    "prim::grad_spread": _spread,
    "prim::no_grads": lambda like, count: repeated(None, count),
    "prim::grad_defined": is_defined,
}
