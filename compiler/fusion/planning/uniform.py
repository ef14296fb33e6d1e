"""Along which dimensions all elements of a tensor are one: what was broadcast, and what is computed from such alone.

    %1 : float32[64, 2000] = aten::expand(%g, …)         uniform along 0 and 1
    %2 : float32[64, 2000] = aten::mul(%1, %column)      %column is [64, 1]: along 1
    %3 : float32[64] = aten::sum(%2, [1])                2000 times an element of %2: there is nothing to reduce

So are the gradients of sums, before anything that varies has been multiplied in.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....lang.light_dataclasses import replace
from ...ir.node import Node, Value
from ...kernel_ir.layout import StridedView, contiguous_strides
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ..elements.pointwise import add_gradients, cast_element, materialized, pointwise_element, same_element
from ..elements.reads import filled_element
from ..elements.rule import ElementReader
from .placement import MemoryPlacement
from .reductions import Reduction

DimSet = frozenset[int]
_ELEMENT_BY_ELEMENT: frozenset[ElementReader] = frozenset(
    (add_gradients, cast_element, same_element, materialized, pointwise_element)
)


class UniformDims:
    """What is known of the values that nodes gave so far, in the order of the graph."""

    def __init__(self, memory: MemoryPlacement) -> None:
        self._memory = memory
        self._found: dict[Value, DimSet] = {}

    def learn(self, node: Node, rule: ElementReader) -> None:
        """Take in a node that kernels compute element by element."""
        if len(node.outputs) != 1 or not isinstance(self._memory.known.get(node.output), Meta):
            return
        dims = self._of_rule(node, rule)
        if dims:
            self._found[node.output] = dims

    def reduced(self, value: Value, reduction: Reduction) -> Reduction:
        """The reduction over what varies of its dimensions."""
        shape, same = self._memory.known[reduction.operand].shape, self._found.get(reduction.operand, frozenset())
        self._found[value] = frozenset(d for d, dim in enumerate(reduction.kept) if dim in same)
        left = tuple(d for d in reduction.dims if d not in same)
        times = prod(shape[d] for d in reduction.dims if d in same)
        if times == 1 or reduction.combine == "prod":
            return reduction
        if reduction.combine != "sum":
            return replace(reduction, dims=left)
        if reduction.divisor is not None:
            return replace(reduction, dims=left, divisor=reduction.divisor // times)
        return replace(reduction, dims=left, times=times)

    def _of_rule(self, node: Node, rule: ElementReader) -> DimSet:
        shape = self._memory.known[node.output].shape
        if rule is filled_element:
            return _several(shape, range(len(shape)))
        if rule in _ELEMENT_BY_ELEMENT:
            return self._of_elements(node, shape)
        op = OPS.of(node.schema)
        if op is None or not op.has(Trait.VIEW) or node.inputs[0] not in self._memory.known:
            return frozenset()
        views = self._memory.views(node)
        return self._of_view(node.inputs[0], views[0]) if views and len(views) == 1 else frozenset()

    def _of_elements(self, node: Node, shape: Sequence[int]) -> DimSet:
        dims = _several(shape, range(len(shape)))
        for value in node.inputs:
            given = self._memory.known.get(value)
            if isinstance(given, Meta):
                same, ahead = self._found.get(value, frozenset()), len(shape) - given.rank
                dims = frozenset(d for d in dims if d < ahead or given.shape[d - ahead] == 1 or d - ahead in same)
        return dims

    def _of_view(self, source: Value, view: StridedView) -> DimSet:
        shape, same = self._memory.known[source].shape, self._found.get(source, frozenset())
        if same == _several(shape, range(len(shape))):
            return _several(view.shape, range(len(view.shape)))
        strides = contiguous_strides(shape)
        whole = {(shape[d], strides[d]) for d in same} if not view.offset else set()
        dims = [
            d for d, along in enumerate(zip(view.shape, view.strides, strict=True)) if not along[1] or along in whole
        ]
        return _several(view.shape, dims)


def _several(shape: Sequence[int], dims: Sequence[int]) -> DimSet:
    """The dimensions that have more than one element."""
    return frozenset(d for d in dims if shape[d] > 1)
