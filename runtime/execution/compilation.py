"""From a graph and an ArgumentSpec to an optimised plan: the stages of the pipeline, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compiler.autodiff.subgraphs import (
    CREATE_THRESHOLD,
    INLINE_THRESHOLD,
    create_autodiff_subgraphs,
    inline_autodiff_subgraphs,
)
from ...compiler.ir.graph import Callee, Graph
from ...compiler.pipeline import EXECUTOR, respecialize, run_stage, stages, stages_of_gradients
from ...lang.collection import collection_paused
from .argument_spec import ArgumentSpec

MAX_INLINED = 20_000
"""A graph that inlining would make larger keeps its calls."""
_INLINING = ("inline", "inline_keeping_pairs", "decompose")


def compile_graph(
    graph: Graph,
    spec: ArgumentSpec | None,
    *,
    slice_everything: bool = False,
    settle: Callable[[Graph], None] | None = None,
    exact: bool = False,
) -> Graph:
    """An optimised copy. `settle` may write into it what else is known, once the types are in place.

    `exact` says that sums are computed in their order, which is the same under every policy.
    """
    copied = graph.plain_copy()
    if spec is not None:
        for value, type in zip(copied.inputs, spec.types([v.type for v in copied.inputs]), strict=True):
            value.type = type
    if settle is not None:
        settle(copied)
    differentiable = spec is not None and spec.grad_mode
    inlines = not _is_too_large(copied)
    with collection_paused():
        for name in stages(differentiable=differentiable):
            if name == "autodiff":
                _slice(copied, slice_everything)
            if inlines or name not in _INLINING:
                run_stage(copied, name, exact=exact)
    return copied


def specialize_graph(general: Graph, settle: Callable[[Graph], None], *, exact: bool = False) -> Graph:
    """A copy of an optimised graph into which `settle` writes what is known of one kind of runs, optimised again."""
    copied = general.copy()
    settle(copied)
    with collection_paused():
        respecialize(copied, exact=exact)
    return copied


def prepare_gradient(graph: Graph) -> Graph:
    """A copy of a function that is to be differentiated whole, after the stages that come before slicing.

    There is nothing to slice: all of it is one group.
    """
    prepared = graph.copy()
    inlines = not _is_too_large(prepared)
    with collection_paused():
        for name in stages_of_gradients():
            if inlines or name not in _INLINING:
                run_stage(prepared, name)
    return prepared


def prepare_on_device(graph: Graph) -> None:
    """The same for another device, in place: users' passes alone, for kernels are planned from what is written."""
    for name in sorted(set(stages_of_gradients()).difference(stages(differentiable=False)), key=[*EXECUTOR].index):
        run_stage(graph, name, on_device=True)


def device_graph(graph: Graph) -> Graph:
    """A copy for what runs graphs on another device, whose planner decomposes and batches ops by itself."""
    with collection_paused():
        copied = graph.plain_copy()
        for name in stages(differentiable=False):
            run_stage(copied, name, on_device=True)
    return copied


def fallback_graph(graph: Graph) -> Graph:
    """A copy on which only what must run has run."""
    copied = graph.plain_copy()
    run_stage(copied, "required")
    return copied


def _slice(graph: Graph, everything: bool) -> None:
    """Gather what can be differentiated; small groups are not worth their own plan."""
    create_autodiff_subgraphs(graph, 1 if everything else CREATE_THRESHOLD)
    inline_autodiff_subgraphs(graph, 1 if everything else INLINE_THRESHOLD)


def _is_too_large(graph: Graph) -> bool:
    """Whether inlining all calls would make too many nodes; sizes are added up callees first, without recursion."""
    sizes: dict[Graph, int] = {}
    stack: list[tuple[Graph, bool]] = [(graph, False)]
    open_graphs: set[Graph] = set()
    while stack:
        current, entered = stack.pop()
        called = _called(current)
        if entered:
            open_graphs.discard(current)
            count = sum(1 for _ in current.all_nodes())
            sizes[current] = min(count + sum(sizes.get(c.graph, MAX_INLINED) for c in called), 2 * MAX_INLINED)
        elif current not in sizes and current not in open_graphs:
            open_graphs.add(current)
            stack.append((current, True))
            stack += [(c.graph, False) for c in called]
    return bool(_called(graph)) and sizes[graph] > MAX_INLINED


def _called(graph: Graph) -> Sequence[Callee]:
    names = [node.attr("callee") for node in graph.all_nodes() if node.kind == "prim::CallFunction"]
    return [graph.functions[name] for name in names if name in graph.functions]
