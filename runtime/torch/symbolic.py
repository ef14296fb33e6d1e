"""Tensors that stand for others, or that torch records: no memory is read, the graph runs by torch's own ops.

Fake tensors have shapes alone, functional ones and proxies are traced, meta tensors are on no device, a DTensor is in
parts on several: each takes an op of torch and does with it what it is for. So a graph runs there op by op, as
`runtime.kernels.device_plan` walks it, and what torch sees are ops that it knows, below a node whose backward is the
author's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ...compiler.fusion.decompose import decompose_for_kernels
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ...compiler.ops.registry import OPS, Trait
from ..failures.failure import RuntimeFailure
from ..kernels.by_torch.ops import holds_tensor, is_of_torch, without_autocast
from ..kernels.device_plan import is_walked, run_graph
from .devices import register_runner
from .kinds import SYMBOLIC, is_batch_of_gradients

_OF_DATA = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
"""What tensors without elements raise where these are asked for."""


class Untraceable(RuntimeFailure, NotImplementedError):
    """A function that torch cannot see as its own ops. Where torch.compile meets it, its graph ends before the call."""


class OpsRun:
    """A graph by torch's ops, one by one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = in_ops_of_torch(graph)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The results. Untraceable where an op is none of torch's, or elements would have to be looked at."""
        if self._obstacle is not None:
            raise self._untraceable(self._obstacle)
        device = _device_of(values)
        try:
            if device.type == "meta":
                return run_graph(self._graph, values, device)
            with without_autocast(device):
                return run_graph(self._graph, values, device)
        except RuntimeFailure as failure:
            if not isinstance(failure.__cause__, _OF_DATA):
                raise
            message = "what is in a tensor decides how this goes on, and there is nothing in it here"
            raise Untraceable("R003", failure.op, message, span=failure.span, notes=_INSTEAD) from None

    def fixed(self, values: Sequence[Any]) -> None:
        """What there is to know of such values is asked each time."""

    @cached_property
    def _obstacle(self) -> Node | None:
        return next((node for node in self._graph.all_nodes() if not _is_traceable(node)), None)

    def _untraceable(self, node: Node) -> Untraceable:
        op = OPS.of(node.schema)
        message = "torch has no such op that it could trace"
        if op is not None and op.has(Trait.RANDOM):
            message = "a random number would be drawn once and for all, when torch traces the call"
        return Untraceable("R003", node.kind, message, span=node.span, notes=_INSTEAD)


_INSTEAD = ["call the function on tensors with data; torch.compile, without `fullgraph`, leaves such a call to Python"]


def in_ops_of_torch(graph: Graph, *, draws: bool = True) -> Graph:
    """The graph, or a copy where it has ops that torch does not have: what the library says they are stands there.

    Of ops that draw random numbers too, down to the seeds of these, unless `draws`.
    """
    if all(map(_is_traceable, graph.all_nodes())):
        return graph
    copied = graph.plain_copy()
    decompose_for_kernels(copied, _is_left if draws else _is_traceable)
    return copied


def _is_left(node: Node) -> bool:
    op = OPS.of(node.schema)
    return _is_traceable(node) or (op is not None and op.has(Trait.RANDOM))


def is_batchable(graph: Graph) -> bool:
    """Whether torch's ops make up a graph, of which none is to be run once per sample: no random number, no text
    printed, and none tells a number that is in a tensor, which is another one for each."""
    return all(_is_traceable(node) and not _is_of_a_sample(node) for node in in_ops_of_torch(graph).all_nodes())


def draws_numbers(graph: Graph) -> bool:
    """Whether an op of a graph is random."""
    return any(op is not None and op.has(Trait.RANDOM) for op in (OPS.of(node.schema) for node in graph.all_nodes()))


def _is_of_a_sample(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is not None and (op.has(Trait.SIDE_EFFECT) or tells_element(node))


def tells_element(node: Node) -> bool:
    """Whether a node gives a number that is in a tensor."""
    op = OPS.of(node.schema)
    if op is None or op.has(Trait.SHAPE_ONLY):
        return False
    takes = any(holds_tensor(argument.type) for argument in op.schema.arguments)
    return takes and not all(holds_tensor(result.type) for result in op.schema.returns)


def _is_traceable(node: Node) -> bool:
    if is_walked(node.kind):
        return True
    op = OPS.of(node.schema)
    return op is not None and not op.has(Trait.RANDOM) and is_of_torch(op)


class SymbolicMemory:
    """Whose memory results are views of, as far as that can be said of tensors without any."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._given = {id(value) for value in _tensors(values)}

    def owned(self, value: Any) -> Any:
        """A tensor that is none of the arguments, nor a view."""
        if not isinstance(value, torch.Tensor):
            return value
        is_new = id(value) not in self._given and not value._is_view()
        self._given.add(id(value))
        return value if is_new else value.clone()

    def shared(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # `is_grads_batched` knows of no views.
        return value.clone() if is_batch_of_gradients(value) else value.detach()


def _device_of(values: Sequence[Any]) -> torch.device:
    return next((tensor.device for tensor in _tensors(values)), torch.device("cpu"))


def _tensors(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += reversed(value)
        elif isinstance(value, torch.Tensor):
            found.append(value)
    return found


for _kind in (SYMBOLIC, "meta"):
    register_runner(_kind, OpsRun)
