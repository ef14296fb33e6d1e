"""Ops on tensors without elements: what comes out has the shapes and dtypes of what would.

torch's own ops tell that, with sizes that are symbols too. What torch has no op for tells it by its rule of shapes;
and where what is in a tensor decides, the ways that are left are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from ....compiler.ir.graph import Graph
from ....compiler.ir.node import Node
from ....compiler.ops.meta import UNKNOWN, Meta
from ....compiler.ops.registry import OPS, Trait
from ....compiler.passes.inline_functions import inline_functions
from ....compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from ....compiler.shapes.infer import infer
from ...kernels.by_torch.ops import is_of_torch, without_autocast
from ...kernels.device_plan import DevicePlanner, is_walked
from ...plans.build import PlanCache
from ...plans.interpreter import run_plan
from ...plans.operations import NodeFunction
from ...plans.plan import ExecutionPlan
from ...values.torch_dtypes import dtypes_of_torch, torch_dtypes
from ..symbolic import Untraceable, in_ops_of_torch, tells_element
from .open_shapes import results_of

_SOME_SEED = 0
_DATA_DECIDES = "what is in a tensor decides of the shape of a result, and there is nothing in it here"
_ELSEWHERE = "call it outside of what is compiled; torch.compile, without `fullgraph`, ends its graph there"


class ShapeRun:
    """A graph on tensors without elements."""

    def __init__(self, graph: Graph) -> None:
        self._given = graph
        self._plans: dict[torch.device, ExecutionPlan] = {}

    @cached_property
    def _graph(self) -> Graph:
        """With what is called in it: no op of it is to stay unseen."""
        copied = self._given.plain_copy()
        inline_functions(copied)
        # Products for gradients that nobody asked for would be counted.
        eliminate_dead_code(copied)
        return in_ops_of_torch(copied, draws=False)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """New, contiguous tensors of the results' shapes. Untraceable where elements decide of these."""
        if self._decides_by_data:
            return self._joined(values, _device_of(values))
        return [_contiguous(result) for result in self.by_ops(values)]

    @cached_property
    def _decides_by_data(self) -> bool:
        """Whether a number that is in a tensor is told: asked for, it would be one that nobody knows."""
        return any(tells_element(node) for node in self._graph.all_nodes())

    def as_told(self, values: Sequence[Any], results: list[Any]) -> list[Any]:
        """Results of a run, with zeros where a branch on data left out what tensors without elements were told of."""
        if not any(result is None for result in results) or not self._decides_by_data:
            return results
        told = results_of(self._graph, values, leave_open=False)
        device = _device_of(values)
        pairs = zip(results, told, strict=True)
        return [self._empty(t, device).zero_() if r is None and isinstance(t, Meta) else r for r, t in pairs]

    def by_ops(self, values: Sequence[Any]) -> list[Any]:
        """The results as torch's own ops give them."""
        device = _device_of(values)
        with torch.no_grad(), without_autocast(torch.device("cpu") if device.type == "meta" else device):
            return run_plan(self._plan(device), values)

    def _plan(self, device: torch.device) -> ExecutionPlan:
        def planned(called: Graph, callees: PlanCache) -> ExecutionPlan:
            return _ShapePlanner(called.without_closure(), callees, device, _no_groups).build()

        found = self._plans.get(device)
        return found if found is not None else self._plans.setdefault(device, planned(self._graph, PlanCache(planned)))

    def _joined(self, values: Sequence[Any], device: torch.device) -> list[Any]:
        found = results_of(self._graph, values)
        if not all(map(_is_told, found)):
            found = results_of(self._graph, values, leave_open=False)
        return [self._empty(result, device) for result in found]

    def _empty(self, value: Any, device: torch.device) -> Any:
        if isinstance(value, Meta):
            return torch.empty(value.shape, dtype=torch_dtypes()[value.dtype], device=device)
        if isinstance(value, list):
            return [self._empty(item, device) for item in value]
        raise Untraceable("R003", self._graph.title, _DATA_DECIDES, span=self._graph.span, notes=[_ELSEWHERE])


class _ShapePlanner(DevicePlanner):
    """By torch's ops, and by rules of shapes where it has none, or where one would draw."""

    def _evaluate(self, node: Node) -> NodeFunction:
        op = OPS.of(node.schema)
        if is_walked(node.kind) or op is None or (is_of_torch(op) and not op.has(Trait.RANDOM)):
            return super()._evaluate(node)
        types = [value.type for value in node.inputs]

        def by_rule(*values: Any) -> Any:
            if op.has(Trait.RANDOM):
                return _SOME_SEED
            results = [self._made(result) for result in infer(op, [abstract(v, exact=False) for v in values], types)]
            return results[0] if len(results) == 1 else results

        return by_rule

    def _made(self, result: Any) -> Any:
        if isinstance(result, Meta):
            return torch.empty(result.shape, dtype=torch_dtypes()[result.dtype], device=self._device)
        if isinstance(result, list | tuple):
            return [self._made(item) for item in result]
        if result is UNKNOWN:
            raise Untraceable("R003", "", _DATA_DECIDES, notes=[_ELSEWHERE])
        return result


def _is_told(value: Any) -> bool:
    """Whether a result is a tensor, or a list of such, whose shapes are known."""
    return isinstance(value, Meta) or (isinstance(value, list) and all(map(_is_told, value)))


def abstract(value: Any, *, exact: bool = True) -> Any:
    """What is known of a value; `exact` has sizes that are symbols become numbers."""
    if isinstance(value, torch.Tensor):
        shape = tuple([int(size) for size in value.shape]) if exact else tuple(value.shape)
        return Meta(shape, dtypes_of_torch()[value.dtype])
    if isinstance(value, list | tuple):
        return type(value)([abstract(item, exact=exact) for item in value])
    return int(value) if exact and isinstance(value, torch.SymInt) else value


def _contiguous(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device=value.device)
    return [_contiguous(item) for item in value] if isinstance(value, list) else value


def _device_of(values: Sequence[Any]) -> torch.device:
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        if isinstance(value, torch.Tensor):
            return value.device
        if isinstance(value, list | tuple):
            pending += reversed(value)
    return torch.device("cpu")


def _no_groups(graph: Graph) -> Any:
    raise AssertionError("a graph that is to run op by op has no groups")
