"""What ops refuse, kernels refuse: each op of a graph is asked, by a run on a few elements like its arguments'.

A rule of shapes says what a result is like, not all that its op has against it: a softmax of integers, the maximum of
nothing, a negative threshold. Only the op's own evaluation knows; what it computes takes a few microseconds.

    torch.amax(float32[0])                      amax of an array without elements: refused
    F.huber_loss(x, y, delta=0.0)               refused, whatever is in x and y
    F.huber_loss(x, y, delta=%delta)            refused for some numbers: Unsettled, each takes a plan of its own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...lang.light_dataclasses import dataclass
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ops.arrays import numpy_dtype
from ..ops.meta import UNKNOWN, Meta, OpenList, UnknownType, for_each
from ..ops.registry import OPS, Op, Trait
from ..shapes.propagate import ShapeError
from ..types.open_floats import Expression, OpenFloat, evaluated
from ..types.open_sizes import at_hand
from ..types.types import FLOAT, INT, NUMBER, leaf_of
from .decompose import primitive_definition
from .straight import Unfusable

MAX_DIMS = 64
"""Of NumPy's arrays, on which is tried what an op refuses."""
LARGEST = 3
"""Sizes up to which a size stays as it is: what is larger becomes one of the next, equal ones the same."""
MOST = 1 << 16
"""Elements on which an op is asked as they are, if few do not do. Of more the rule of shapes alone is asked."""
NUMBERS = (-1.5, 0.0, 0.5, 2.0, 1e5, float("inf"), float("nan"))
"""One of these is refused by an op that looks at its numbers; 1e5 by what turns it into a half."""
INTEGERS = (-2, 0, 3, 1 << 62)
"""The same of integers: some ops of whole numbers are not for negative ones, or for 0, and not all hold a large one."""
FILLS: tuple[Callable[[tuple[int, ...]], Any], ...] = (np.ones, np.zeros, lambda shape: _identities(shape))
"""What tensors are full of. No element is to blame for what is refused of all."""


class Unsettled(Unfusable):
    """An op refuses some numbers, and those at hand are not known."""


def require_accepted(graph: Graph, known: Mapping[Value, Any]) -> None:
    """ShapeError where an op of a graph would refuse its arguments, Unsettled where only their numbers tell."""
    accepted: set[Any] = set()
    left_out = Trait.RANDOM | Trait.SIDE_EFFECT | Trait.SHAPE_ONLY
    for node in graph.all_nodes():
        op = OPS.of(node.schema)
        if op is None or op.has(left_out):
            continue
        inputs = [known.get(value, UNKNOWN) for value in node.inputs]
        if Meta not in map(type, inputs):
            continue
        # Rounds that are written out ask the same again and again.
        asked = None if UnknownType in map(type, inputs) else (op, *map(_object, inputs))
        if asked is None or asked not in accepted:
            _require(graph, node, op, inputs)
            accepted.add(asked)


def _object(given: Any) -> Any:
    """What tells that the same is given again: comparing tensors' sizes would hold those that are open."""
    if type(given) in (int, bool, str, type(None)):
        return type(given), given
    if type(given) is float:
        return repr(given)
    if type(given) is list and all(type(item) is int for item in given):
        return tuple(given)
    return id(given)


def keep_refusing(graph: Graph) -> Graph:
    """The graph with the values that its gradients start from as further results, where an op might refuse what such
    a value is computed from: nobody reads it, and what is wrong is told all the same.

    Before:
        graph f(%x : Tensor, %i : Tensor, %g : Tensor):
          %dim : int = prim::Constant[value=0]()
          %no : bool = prim::Constant[value=False]()
          %y : Tensor = aten::gather(%x, %dim, %i, %no)
          %loss : Tensor = aten::exp(%y)
          %1 : Tensor = prim::scalar_seed(%loss)
          %2 : Tensor = aten::mul.Tensor(%1, %g)
          return (%2)
    After:
        graph f(%x : Tensor, %i : Tensor, %g : Tensor):
          %dim : int = prim::Constant[value=0]()
          %no : bool = prim::Constant[value=False]()
          %y : Tensor = aten::gather(%x, %dim, %i, %no)
          %loss : Tensor = aten::exp(%y)
          %1 : Tensor = prim::scalar_seed(%loss)
          %2 : Tensor = aten::mul.Tensor(%1, %g)
          return (%2, %loss)
    """
    if not _looks_at_elements(graph):
        return graph
    copied = graph.copy()
    seeds = [node for node in copied.body.nodes if node.kind == "prim::scalar_seed"]
    kept = [node.inputs[0] for node in seeds if node.inputs[0] not in copied.inputs]
    copied.body.ret.replace_inputs([*copied.outputs, *kept])
    return copied


def _looks_at_elements(graph: Graph) -> bool:
    """Whether kernels for a graph may refuse what elements are: an index, or what its ops are made of reads by one."""
    ops = {op for node in graph.all_nodes() if (op := OPS.of(node.schema)) is not None}
    return any(map(_may_refuse_elements, ops))


@cache
def _may_refuse_elements(op: Op) -> bool:
    made_of = primitive_definition(op)
    return op.has(Trait.READS_BY_INDEX) or (made_of is not None and _looks_at_elements(made_of.graph.without_closure()))


def _require(graph: Graph, node: Node, op: Op, inputs: Sequence[Any]) -> None:
    floats = {i: given for i, given in enumerate(inputs) if type(given) is OpenFloat}
    inputs = [UNKNOWN if i in floats else given for i, given in enumerate(inputs)] if floats else inputs
    kinds = tuple([_kind(given) for given in inputs])
    if any(kind is None for kind in kinds):
        return
    numbers = tuple([i for i, given in enumerate(inputs) if given is UNKNOWN])
    if any(not _is_number(op, i) for i in numbers):
        return
    integers = frozenset(i for i in numbers if node.inputs[i].type == INT)
    error = _refused(op, kinds, numbers, integers)
    if error is not None and floats and _is_accepted(op, kinds, numbers, integers, floats):
        return
    if error is not None and numbers:
        raise Unsettled(f"{node.kind} refuses some numbers, and what it is given is not known", node.span)
    if error is not None:
        raise ShapeError(graph.name, node, inputs, error)


def _is_accepted(
    op: Op, kinds: tuple[Any, ...], numbers: tuple[int, ...], integers: frozenset[int], floats: Mapping[int, Any]
) -> bool:
    """Whether the numbers at hand are, which is noted."""
    owners = {id(given.owner): given.owner for given in floats.values()}
    rest = tuple([i for i in numbers if i not in floats])
    expressions = tuple([(i, given.expression) for i, given in floats.items()])
    found = Acceptance(op.schema.full_name, kinds, rest, integers, expressions)
    return len(owners) == 1 and next(iter(owners.values())).found_to_hold(found)


def _is_number(op: Op, index: int) -> bool:
    return leaf_of(op.schema.arguments[index].type) in (FLOAT, NUMBER)


def _kind(given: Any) -> Any:
    """What an answer depends on, as a key; None for what is not known well enough.

    Open sizes count as they are at hand: which of the larger ones it is makes no difference.
    """
    if given is UNKNOWN:
        return UNKNOWN
    if isinstance(given, Meta):
        if len(given.shape) > MAX_DIMS:
            raise Unfusable(f"arrays have {MAX_DIMS} dimensions at most")
        return (Meta, Meta(tuple(map(at_hand, given.shape)), given.dtype))
    if type(given) is OpenList:
        return None
    if not isinstance(given, list | tuple):
        # Zeros differ in their signs, which equality does not see.
        return (float, repr(given)) if isinstance(given, float) else (type(at_hand(given)), at_hand(given))
    if any(item is UNKNOWN or isinstance(item, list | tuple | OpenList) for item in given):
        return None
    return (type(given), tuple(for_each(given, _kind)))


@dataclass(frozen=True, slots=True)
class Acceptance:
    """That an op accepts numbers: asked again of each that was not met before."""

    op: str
    kinds: tuple[Any, ...]
    numbers: tuple[int, ...]
    """Places that nothing is known of."""
    integers: frozenset[int]
    expressions: tuple[tuple[int, Expression], ...]
    """What open floats are, by their places."""

    pinned = frozenset[int]()

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether it accepts them, given a value for each atom."""
        kinds = list(self.kinds)
        for place, expression in self.expressions:
            try:
                kinds[place] = _kind(float(evaluated(expression, values)))
            except (ArithmeticError, TypeError, ValueError):
                return False
        return _refused(OPS.named(self.op), tuple(kinds), self.numbers, self.integers) is None


@lru_cache(maxsize=4096)
def _refused(
    op: Op, kinds: tuple[Any, ...], numbers: tuple[int, ...], integers: frozenset[int] = frozenset()
) -> Exception | None:
    """What an op says against arguments of some kinds, whatever their elements; against one of NUMBERS, if it does, or
    of INTEGERS where a number is one."""
    small = _sizes(kinds)
    for given in product(*[INTEGERS if i in integers else NUMBERS for i in numbers[:2]]):
        rest = [3 if i in integers else 0.5 for i in numbers[2:]]
        chosen = dict(zip(numbers, (*given, *rest), strict=True))
        error = _answer(op, kinds, chosen, small)
        if error is not None and small and (_elements(kinds) > MOST or _answer(op, kinds, chosen, {}) is None):
            # Sizes and numbers of the arguments belong together.
            error = None
        if error is not None:
            return error
    return None


def _answer(op: Op, kinds: Sequence[Any], chosen: Mapping[int, float], sizes: Mapping[int, int]) -> Exception | None:
    error: Exception | None = None
    for fill in FILLS:
        values = [chosen[i] if i in chosen else _value(kind, fill, sizes) for i, kind in enumerate(kinds)]
        try:
            with np.errstate(all="ignore"):
                op.evaluate(*values)
        except Exception as refusal:
            error = refusal
        else:
            return None
    return error


def _value(kind: Any, fill: Callable[..., Any], sizes: Mapping[int, int]) -> Any:
    type_of, given = kind
    if type_of in (list, tuple):
        return type_of([_sized(item, fill, sizes) for item in given])
    return _item(kind, fill, sizes)


def _sized(kind: Any, fill: Callable[..., Any], sizes: Mapping[int, int]) -> Any:
    """An item of a list, where an int that is a size of the tensors is meant as one."""
    type_of, given = kind
    return sizes.get(given, given) if type_of is int else _item(kind, fill, sizes)


def _item(kind: Any, fill: Callable[..., Any], sizes: Mapping[int, int]) -> Any:
    type_of, given = kind
    if type_of is Meta:
        shape = tuple([sizes.get(size, size) for size in given.shape])
        return fill(shape).astype(numpy_dtype(given.dtype))
    return float(given) if type_of is float else given


def _identities(shape: tuple[int, ...]) -> Any:
    """Matrices that have an inverse."""
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape) if len(shape) > 1 else np.ones(shape)


def _sizes(kinds: Sequence[Any]) -> dict[int, int]:
    """Small sizes for large ones, in the same order."""
    flat = [item for kind in kinds if kind is not UNKNOWN for item in _items(kind)]
    large = sorted({size for type_of, given in flat if type_of is Meta for size in given.shape if size > LARGEST})
    return {size: small for small, size in enumerate(large, LARGEST + 1) if small != size}


def _elements(kinds: Sequence[Any]) -> int:
    """Elements of all tensors together."""
    flat = [item for kind in kinds if kind is not UNKNOWN for item in _items(kind)]
    return sum(prod(given.shape) for type_of, given in flat if type_of is Meta)


def _items(kind: Any) -> tuple[Any, ...]:
    type_of, given = kind
    return given if type_of in (list, tuple) else (kind,)
