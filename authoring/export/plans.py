"""The programs of a function for each sample of sizes: forward, and backward for the usual gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.autodiff.differentiable import differentiable_graph
from ...compiler.autodiff.gradient import Gradient
from ...compiler.fusion.fuse import Unfusable, fuse, fuse_pair, is_free_in_kernel, metas_of_arguments
from ...compiler.fusion.planning.assemble import Split
from ...compiler.fusion.planning.roles import Supports
from ...compiler.fusion.program import Program
from ...compiler.fusion.statistics import statistics_of
from ...compiler.ir.graph import Graph
from ...compiler.kernel_ir.kernel import Kernel
from ...compiler.kernel_ir.layout import Layout
from ...compiler.recompute import Policy
from ...compiler.scheduling.split import ChunkLimits, split_reductions
from ...compiler.shapes.propagate import ShapeError, propagate_shapes
from ...compiler.specialize.optionals import specialize_optionals
from ...lang.collection import collection_paused
from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass, replace
from ...runtime.face.function import Function
from .signature import ExportSignature
from .sizes import SAMPLES

CHUNK = 32
"""Rows whose part of a sum over rows one program finds: of whatever size, so that one text serves all."""
_CHUNKS = ChunkLimits(
    programs=1 << 30, side_by_side=1 << 40, walking=1 << 30, rows=CHUNK, column_rows=CHUNK, most=1 << 30
)


class NoPlan(Exception):
    """No kernels for arguments like these; `span` is the line, where there is one, and `note` what to do."""

    def __init__(self, message: str, span: Any = None, note: str = "") -> None:
        super().__init__(message)
        self.span = span
        self.note = note


@dataclass(frozen=True, slots=True)
class Passes:
    """What one sample runs. `gradient` is None where nothing has a gradient, and so is the backward."""

    forward: Program
    backward: Program | None
    gradient: Gradient | None
    statistics: frozenset[int] = frozenset()
    """Results that are statistics of rows and kept for the backward: that takes them as they were computed."""


def graph_of(function: Function, absent: Sequence[int]) -> Graph:
    """What is differentiated, without the arguments that are None."""
    return specialize_optionals(differentiable_graph(function.callee), tuple(absent))


def cut_in_chunks(kernel: Kernel) -> list[Kernel]:
    """A kernel cut up in chunks of a size that no sample decides."""
    return split_reductions(kernel, _CHUNKS)


def walked_in_chunks(kernel: Kernel) -> list[Kernel]:
    """The same for a processor, which holds rows of any length."""
    return split_reductions(kernel, _CHUNKS, lambda _, columns: True)


def kernel_policy(policy: Policy) -> Policy:
    """What users name, as kernels mean it: elements are free to compute again."""
    if policy.name != "min_cut":
        return replace(policy, in_registers=True)
    return replace(policy, predicate=is_free_in_kernel, in_registers=True)


def plans(
    graph: Graph, signature: ExportSignature, policy: Policy, supports: Supports, split: Split = cut_in_chunks
) -> list[Passes]:
    """The passes of each sample. NoPlan where there are none."""
    return [_passes(graph, signature.given(i), policy, supports, split) for i in range(SAMPLES)]


def _passes(graph: Graph, given: Sequence[Any], policy: Policy, supports: Supports, split: Split) -> Passes:
    requires_grad = [isinstance(item, Layout) and item.dtype.is_floating for item in given]
    try:
        with collection_paused():
            if not any(requires_grad):
                return Passes(fuse(graph, given, supports, split), None, None)
            pair = fuse_pair(graph, given, requires_grad, policy, supports, split)
            backward = pair.backward(pair.usual_seeds())
            return Passes(pair.forward, backward, pair.gradient, _kept_statistics(pair.gradient, given))
    except Unfusable as error:
        raise NoPlan(str(error), error.span) from error
    except ShapeError as error:
        raise NoPlan(str(error), error.node.span if hasattr(error, "node") else None) from error
    except CompileError as error:
        raise NoPlan(error.message, error.span) from error


def _kept_statistics(gradient: Gradient, given: Sequence[Any]) -> frozenset[int]:
    kept = [number for number in gradient.captured_outputs if number < gradient.num_real_outputs]
    if not kept:
        return frozenset()
    graph = gradient.f.copy()
    found = statistics_of(graph, propagate_shapes(graph, metas_of_arguments(given)))
    return frozenset(number for number in kept if graph.outputs[number] in found)
