"""Gradients of slices that lie side by side and fill a tensor are put together, not added up.

A kernel then computes each part where it belongs, for `x[:, :n] * x[:, n:]` as for `a, b = x.chunk(2, 1)`. Parts of
unlike sizes are left alone, since no one iteration space has them all, and so are those of which few elements stand in
a row: a kernel writes such a tensor in one go.
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
from ...ops.dims import slice_bounds, wrap_dim
from ...ops.meta import UNKNOWN, Meta, is_known

MIN_RUN = 16
"""Elements of a part that stand side by side in memory."""
_SUMS = ("prim::AutogradAdd", "aten::add.Tensor")
_SLICES = ("aten::slice_scatter", "aten::select_scatter")
_ZEROS = ("aten::zeros", "aten::zeros_like", "aten::new_zeros")


@dataclass(frozen=True, slots=True)
class _Part:
    """What is scattered into positions `start` to `end` of a dimension; `source` may lack that dimension."""

    dim: int
    start: int
    end: int
    source: Value


def join_slices(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Replace such sums. `known` is what `settle_shapes` gives for the graph.

    Before:
        graph f(%x : Tensor, %a : Tensor, %b : Tensor):
          %none : None = prim::Constant[value=None]()
          %zeros : Tensor = aten::zeros_like(%x, %none, %none, %none, %none, %none)
          %dim : int = prim::Constant[value=1]()
          %start : int = prim::Constant[value=0]()
          %half : int = prim::Constant[value=16]()
          %end : int = prim::Constant[value=32]()
          %1 : Tensor = aten::slice_scatter(%zeros, %a, %dim, %start, %half, %dim)
          %2 : Tensor = aten::slice_scatter(%zeros, %b, %dim, %half, %end, %dim)
          %3 : Tensor = aten::add.Tensor(%1, %2, %dim)
          return (%3)
    After:
        graph f(%x : Tensor, %a : Tensor, %b : Tensor):
          %1 : List[Tensor] = prim::ListConstruct(%a, %b)
          %2 : int = prim::Constant[value=1]()
          %3 : Tensor = aten::cat(%1, %2)
          return (%3)
    """
    changed, sums = False, _sums_of_slices(graph)
    for node in reversed(list(graph.nodes)):
        if node.owner is None or node not in sums or not _is_sum(node, known) or _is_term(node, known):
            continue
        parts = _parts(node, known)
        if parts is not None:
            _join(node, parts, known)
            changed = True
    return changed


def _is_sum(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether it adds two tensors of the shape and dtype of the result."""
    if node.kind not in _SUMS or (node.kind == "aten::add.Tensor" and known.get(node.inputs[2]) != 1):
        return False
    found = known.get(node.output)
    return isinstance(found, Meta) and all(known.get(value) == found for value in node.inputs[:2])


def _sums_of_slices(graph: Graph) -> set[Node]:
    """Sums of which all terms may be slices: that they are of one shape is asked, and so noted, of these alone."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.kind in _SUMS and all(v.node.kind in _SLICES or v.node in found for v in node.inputs[:2]):
            found.add(node)
    return found


def _is_term(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether it is a part of a larger sum, and of nothing else."""
    (use, *others) = node.output.uses or [None]
    return use is not None and not others and use.user is not None and _is_sum(use.user, known)


def _parts(root: Node, known: Mapping[Value, Any]) -> list[_Part] | None:
    """The slices that a sum is of, in order, where they fill the tensor and are of one size."""
    found: list[_Part] = []
    pending = [root]
    while pending:
        for value in pending.pop().inputs[:2]:
            if value.use_count == 1 and _is_sum(value.node, known):
                pending.append(value.node)
                continue
            part = _part(value, known)
            if part is None:
                return None
            found.append(part)
    found.sort(key=lambda part: part.start)
    shape = known[root.output].shape
    return found if _fills(found, shape) else None


def _part(value: Value, known: Mapping[Value, Any]) -> _Part | None:
    node = value.node
    if node.kind not in _SLICES or node.inputs[0].node.kind not in _ZEROS:
        return None
    base, source, *numbers = node.inputs
    meta, given = known.get(base), known.get(source)
    if not isinstance(meta, Meta) or not isinstance(given, Meta) or meta.dtype != given.dtype:
        return None
    arguments: list[Any] = [known.get(number, UNKNOWN) for number in numbers]
    if not is_known(arguments):
        # Where it belongs is told at each call.
        return None
    if node.kind == "aten::select_scatter":
        dim, index = wrap_dim(arguments[0], meta.rank), arguments[1]
        start = index % meta.shape[dim]
        return _Part(dim, start, start + 1, source)
    dim = wrap_dim(arguments[0], meta.rank)
    start, end = slice_bounds(arguments[1], arguments[2], meta.shape[dim])
    return _Part(dim, start, end, source) if arguments[3] == 1 else None


def _fills(parts: Sequence[_Part], shape: tuple[int, ...]) -> bool:
    first = parts[0]
    width = first.end - first.start
    side_by_side = all(
        part.dim == first.dim and part.start == i * width and part.end == (i + 1) * width
        for i, part in enumerate(parts)
    )
    is_long = width * prod(shape[first.dim + 1 :]) >= MIN_RUN
    return side_by_side and width > 0 and len(parts) * width == shape[first.dim] and is_long


def _join(node: Node, parts: Sequence[_Part], known: Mapping[Value, Any]) -> None:
    builder = Builder.in_front_of(node)
    dim, rank = parts[0].dim, known[node.output].rank
    sources = [
        part.source
        if known[part.source].rank == rank
        else builder.op("aten::unsqueeze", part.source, dim, name=part.source.name_hint)
        for part in parts
    ]
    joined = builder.op("aten::cat", builder.list(sources), dim, name=node.output.name_hint)
    joined.type = node.output.type
    replace_node(node, [joined])
