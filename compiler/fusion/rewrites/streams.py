"""Streams that a matrix mixes for each token are taken apart: no kernel goes over all pairs of them.

    %g : float32[n, 4, d], %x : float32[n, 4, d]               for each stream k of %x
    %1 = %g[:, :, None] * %x[:, None]                     →      %2 = %g * %x[:, k : k + 1]
    %a : float32[n, 4, 4] = sum of %1 over d                     %a[:, :, k] = sum of %2 over d

So the gradient of a mixing matrix is few sums over each stream, beside all else that is found of the streams, where it
had a kernel of its own, over sixteen times as many points as a stream has. Sums over the streams themselves are written
out as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.arguments import Shape
from ...ops.meta import Meta
from ...types.open_sizes import next_power
from ..planning.reductions import reduction_of
from ..planning.tiles import most_points
from .drawn import Supported, waits_for_reductions
from .short_products import MOST_SHORT

_PRODUCT, _EXPAND = "aten::mul.Tensor", "aten::expand"


@dataclass(frozen=True, slots=True)
class _Pairs:
    """A sum over `dims` of products of two tensors: over all that lies in a stream, where each tensor lacks the streams
    of the other, or over the streams. `lacking` is for each tensor the dimension of few that it alone lacks."""

    node: Node
    factors: tuple[Value, Value]
    lacking: tuple[int | None, int | None]
    dims: tuple[int, ...]
    shape: Shape

    @property
    def is_over_streams(self) -> bool:
        return len(self.dims) == 1 and _is_short(self.shape[self.dims[0]])


def take_streams_apart(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Replace sums over what pairs of a few streams give, and the sums over streams beside them. `known` is what
    `settle_shapes` gives for the graph.

    Before:
        graph f(%g : Tensor, %x : Tensor):
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=2]()
          %3 : Tensor = aten::unsqueeze(%g, %2)
          %4 : Tensor = aten::unsqueeze(%x, %1)
          %5 : Tensor = aten::mul.Tensor(%3, %4)
          %6 : List[int] = prim::Constant[value=[3]]()
          %7 : bool = prim::Constant[value=False]()
          %8 : None = prim::Constant[value=None]()
          %9 : Tensor = aten::sum.dim_IntList(%5, %6, %7, %8)
          return (%9)
    After:
        graph f(%g : Tensor, %x : Tensor):
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=2]()
          %3 : Tensor = aten::unsqueeze(%g, %2)
          %4 : Tensor = aten::unsqueeze(%x, %1)
          %5 : int = prim::Constant[value=2]()
          %6 : Tensor = aten::squeeze.dim(%3, %5)
          %7 : int = prim::Constant[value=2]()
          %8 : int = prim::Constant[value=0]()
          %9 : Tensor = aten::select.int(%4, %7, %8)
          %10 : Tensor = aten::mul.Tensor(%6, %9)
          %11 : List[int] = prim::Constant[value=[2]]()
          %12 : bool = prim::Constant[value=True]()
          %13 : None = prim::Constant[value=None]()
          %14 : Tensor = aten::sum.dim_IntList(%10, %11, %12, %13)
          %15 : int = prim::Constant[value=2]()
          %16 : Tensor = aten::unsqueeze(%14, %15)
          %17 : int = prim::Constant[value=2]()
          %18 : int = prim::Constant[value=1]()
          %19 : Tensor = aten::select.int(%4, %17, %18)
          %20 : Tensor = aten::mul.Tensor(%6, %19)
          %21 : List[int] = prim::Constant[value=[2]]()
          %22 : bool = prim::Constant[value=True]()
          %23 : None = prim::Constant[value=None]()
          %24 : Tensor = aten::sum.dim_IntList(%20, %21, %22, %23)
          %25 : int = prim::Constant[value=2]()
          %26 : Tensor = aten::unsqueeze(%24, %25)
          %27 : List[Tensor] = prim::ListConstruct(%16, %26)
          %28 : int = prim::Constant[value=2]()
          %29 : Tensor = aten::cat(%27, %28)
          %30 : List[int] = prim::Constant[value=[64, 2, 2]]()
          %31 : Tensor = aten::reshape(%29, %30)
          return (%31)
    """
    taken, others = _taken(graph, known, supports)
    waiting = {found.node: _waits(found, known, supports) for found in taken}
    for found in taken:
        builder = Builder.in_front_of(found.node)
        result = _apart(builder, found, known, others, waiting[found.node])
        result = builder.op("aten::reshape", result, [*known[found.node.output].shape])
        result.type, result.name_hint = found.node.output.type, found.node.output.name_hint
        replace_node(found.node, [result])
    return bool(taken)


def has_streams(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether there are such sums."""
    return bool(_taken(graph, known, supports)[0])


def _taken(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> tuple[list[_Pairs], list[list[int]]]:
    """The sums that are replaced, where all that goes over pairs of some streams is, and no program would have to hold
    more than one can; and the sizes of what others reduce."""
    if not any(node.kind == _PRODUCT and _is_of_pairs(node, known) for node in graph.nodes):
        return [], []
    pairs = {node: made for node in graph.nodes if (made := _pairs(node, known))}
    inner = {found.shape: found.dims for found in pairs.values() if not found.is_over_streams}
    if not inner:
        return [], []
    reductions = {node: found for node in graph.nodes if (found := reduction_of(node, known)) and found.dims}
    beside = {known[found.operand].shape for node, found in reductions.items() if node not in pairs}
    whole = {
        shape
        for shape, dims in inner.items()
        if shape not in beside
        and all(_is_held(pair, dims, known, supports) for pair in pairs.values() if pair.shape == shape)
    }
    others = [_real(known[found.operand].shape) for node, found in reductions.items() if node not in pairs]
    return [found for found in pairs.values() if found.shape in whole], others


def _is_held(pair: _Pairs, inner: Sequence[int], known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether programs have streams to sum over, where these follow from what was reduced of them."""
    if not pair.is_over_streams or not any(_waits(pair, known, supports)):
        return True
    points = prod(next_power(pair.shape[d]) for d in (*pair.dims, *inner))
    return points <= most_points(known[pair.node.output].dtype)


def _waits(pair: _Pairs, known: Mapping[Value, Any], supports: Supported) -> list[bool]:
    """Whether each of the factors that are streams follows from what was reduced."""
    streams = zip(pair.factors, pair.lacking, strict=True)
    return [own is not None and waits_for_reductions(value, known, supports) for value, own in streams]


def _apart(
    builder: Builder, found: _Pairs, known: Mapping[Value, Any], others: Sequence[list[int]], waits: Sequence[bool]
) -> Value:
    """A sum in terms of streams. Those of whose shape more is reduced stay whole, or those that a program has only when
    it has reduced others, which it would compute for each term again."""
    if found.is_over_streams and not any(waits):
        return _added(builder, found)
    asked = [others.count(_real(known[value].shape)) for value in found.factors]
    whole = waits.index(True) if found.is_over_streams else asked.index(max(asked))
    along = found.lacking[whole]
    assert along is not None
    return _summed(builder, found, whole, along)


def _pairs(node: Node, known: Mapping[Value, Any]) -> _Pairs | None:
    product = node.inputs[0].node if node.inputs else node
    reduction = reduction_of(node, known) if product.kind == _PRODUCT and _is_known(product, known) else None
    if reduction is None or reduction.combine != "sum" or reduction.divisor is not None or not reduction.dims:
        return None
    shape, dims = known[reduction.operand].shape, reduction.dims
    first, second = (_narrow(value, known) for value in product.inputs)
    if any(known[v].rank != len(shape) or known[v].dtype != known[node.output].dtype for v in (first, second)):
        return None
    lacking = [[d for d, size in enumerate(shape) if known[v].shape[d] != size] for v in (first, second)]
    if any(d in missing for d in dims for missing in lacking):
        return None
    few = [missing[0] if len(missing) == 1 and _is_short(shape[missing[0]]) else None for missing in lacking]
    found = _Pairs(node, (first, second), (few[0], few[1]), dims, shape)
    is_all_of_each = dims == tuple(range(len(shape)))[-len(dims) :] and None not in few and few[0] != few[1]
    return found if found.is_over_streams or is_all_of_each else None


def _is_of_pairs(product: Node, known: Mapping[Value, Any]) -> bool:
    """Whether neither factor has all dimensions of a product: few products are so, and the others are told at once."""
    if not _is_known(product, known):
        return False
    return all(known[_narrow(v, known)].shape != known[product.output].shape for v in product.inputs)


def _is_known(product: Node, known: Mapping[Value, Any]) -> bool:
    """Whether shapes are told: that of what an op of the library picks hangs on elements."""
    values = (product.output, *product.inputs, *[v.node.inputs[0] for v in product.inputs if v.node.kind == _EXPAND])
    return all(isinstance(known.get(value), Meta) for value in values)


def _narrow(value: Value, known: Mapping[Value, Any]) -> Value:
    """What was expanded, before it was."""
    source = value.node.inputs[0] if value.node.kind == _EXPAND else value
    return source if known[source].rank == known[value].rank else value


def _is_short(size: int) -> bool:
    return type(size) is int and 1 < size <= MOST_SHORT


def _real(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]


def _summed(builder: Builder, found: _Pairs, whole: int, along: int) -> Value:
    """The sum, for each stream that one of the factors lacks, beside what it has."""
    kept, cut = found.factors[whole], found.factors[1 - whole]
    streams, dims = builder.op("aten::squeeze.dim", kept, along), [d - (d > along) for d in found.dims]
    parts = []
    for number in range(found.shape[along]):
        product = builder.op(_PRODUCT, streams, builder.op("aten::select.int", cut, along, number))
        total = builder.op("aten::sum.dim_IntList", product, dims, True, None)
        parts.append(builder.op("aten::unsqueeze", total, along))
    return builder.op("aten::cat", builder.list(parts), along)


def _added(builder: Builder, found: _Pairs) -> Value:
    """The sum over streams, term by term."""
    (dim,) = found.dims
    total: Value | None = None
    for number in range(found.shape[dim]):
        product = builder.op(_PRODUCT, *(builder.op("aten::select.int", v, dim, number) for v in found.factors))
        total = product if total is None else builder.op("aten::add.Tensor", total, product, 1)
    assert total is not None
    return total
