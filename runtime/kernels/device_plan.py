"""Plans on torch tensors: ops as torch has them by the ordinary loop, control flow and all, and groups by kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any

import torch

from ...compiler.analysis.draws import runs_any
from ...compiler.analysis.liveness import ALIASES, CONSTANTS
from ...compiler.fusion.decompose import open_draws
from ...compiler.fusion.groups import KIND
from ...compiler.ir.constants import TensorConstant
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.dtypes import BY_CODE
from ..plans.build import PlanCache
from ..plans.interpreter import run_plan
from ..plans.operations import STRUCTURAL, WRITES, NodeFunction, own_copy
from ..plans.plan import ExecutionPlan
from ..values.torch_dtypes import torch_dtypes
from .by_torch.forms import add_product_in_place, add_select_in_place, add_slice_in_place, add_tensor_in_place
from .by_torch.ops import constant_tensor, op_function
from .failure import KernelFailure
from .groups import FusionPlanner, GroupRunner

_CONTROL = ("prim::If", "prim::Loop", "prim::GradOf")


def _select_in_place(whole: torch.Tensor, part: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    """As `torch.select_scatter`, into the tensor itself; what does not fit, that tells."""
    if type(whole) is torch.Tensor and -whole.dim() <= dim < whole.dim():
        size = whole.shape[dim]
        if -size <= index < size and _is_put(whole.select(dim, index), part):
            return whole
    return torch.ops.aten.select_scatter(whole, part, dim, index)


def _slice_in_place(whole: torch.Tensor, part: torch.Tensor, dim: int = 0, *at: Any) -> torch.Tensor:
    """As `torch.slice_scatter`, into the tensor itself."""
    is_plain = type(whole) is torch.Tensor and -whole.dim() <= dim < whole.dim()
    if is_plain and _is_put(torch.ops.aten.slice.Tensor(whole, dim, *at), part):
        return whole
    return torch.ops.aten.slice_scatter(whole, part, dim, *at)


def _is_put(place: torch.Tensor, part: Any) -> bool:
    """Whether a part has been put where it belongs: it fits."""
    is_plain = type(part) is torch.Tensor and part.dtype == place.dtype and part.device == place.device
    if not is_plain or part.shape != place.shape:
        return False
    place.copy_(part)
    return True


_WRITES: dict[str, NodeFunction] = {
    "aten::select_scatter": _select_in_place,
    "aten::slice_scatter": _slice_in_place,
    "aten::append.t": WRITES["aten::append.t"],
    "prim::grad_add_item": add_tensor_in_place,
    "prim::grad_add_select": add_select_in_place,
    "prim::grad_add_slice": add_slice_in_place,
    "prim::grad_add_product": add_product_in_place,
}
"""What nodes come to that may write into their first operand; of others a new result is made."""


def run_graph(graph: Graph, values: Sequence[Any], device: torch.device) -> list[Any]:
    """The outputs of a graph, op by op, for one value per input.

    RuntimeFailure for what is wrong with the data; what is wrong with the device is torch's error.
    """
    return run_plan(device_plan(graph, device), values)


def device_plan(graph: Graph, device: torch.device, group: GroupRunner | None = None) -> ExecutionPlan:
    """The plan of a graph on tensors of a device; `group` makes what runs a fusion group."""

    def planned(called: Graph, callees: PlanCache) -> ExecutionPlan:
        graph = called.without_closure()
        if runs_any(graph, Trait.RANDOM):
            # Of what torch would draw by itself, a backward and `gs.random` know nothing.
            graph = graph.copy()
            open_draws(graph)
        return DevicePlanner(graph, callees, device, group or _no_groups).build()

    return planned(graph, PlanCache(planned))


def is_walked(kind: str) -> bool:
    """Whether nodes of a kind are what the loop itself evaluates."""
    return kind in _CONTROL or kind in STRUCTURAL or kind in CONSTANTS or kind in ALIASES


def _own_tensor(value: Any) -> Any:
    """A list or a tensor that nobody else has."""
    return value.clone() if isinstance(value, torch.Tensor) else own_copy(value)


class DevicePlanner(FusionPlanner):
    """Builds the plan of a graph on tensors of a device."""

    passing = (torch.OutOfMemoryError, torch.AcceleratorError, KernelFailure)
    """What is none of the data's: programs catch it by these types."""

    def __init__(self, graph: Graph, callees: PlanCache, device: torch.device, group: GroupRunner) -> None:
        super().__init__(graph, callees, group)
        self._device = device

    own_copy = staticmethod(_own_tensor)

    def _in_place(self, node: Node) -> tuple[NodeFunction, Sequence[int]] | None:
        write = _WRITES.get(node.kind) if node in self._own.writes else None
        return None if write is None else (write, range(len(node.inputs)))

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        if node.kind == KIND:
            return super()._evaluation(node)
        return self._evaluate(node), range(len(node.inputs))

    def _evaluate(self, node: Node) -> NodeFunction:
        if node.kind == "prim::AutogradAdd":
            return sum_of_gradients
        if node.kind == "prim::MaterializeGrad":
            return self._materialize
        op = OPS.of(node.schema)
        if op is None:
            return STRUCTURAL[node.kind](node)
        run = op_function(op, self._device)
        return run if node.outputs else (lambda *values: run(*values) or ())

    def _constant(self, value: Any) -> Any:
        return constant_tensor(value.array, self._device) if isinstance(value, TensorConstant) else value

    def _materialize(self, gradient: Any, size: Sequence[int], dtype: int) -> Any:
        if gradient is not None:
            return gradient
        return torch.zeros(size, dtype=torch_dtypes()[BY_CODE[dtype]], device=self._device)


def sum_of_gradients(left: Any, right: Any, plus: Callable[[Any, Any], Any] = add) -> Any:
    """The sum of two gradients, of which either may be undefined, as may be their elements if they are lists; `plus`
    adds two tensors."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, list):
        if len(left) != len(right):
            raise ValueError(f"a gradient of {len(left)} tensors is added to one of {len(right)}")
        return [sum_of_gradients(a, b, plus) for a, b in zip(left, right, strict=True)]
    return plus(left, right)


def _no_groups(graph: Graph) -> Callable[[Sequence[Any]], list[Any]]:
    raise AssertionError("a graph that is to run op by op has no groups")
