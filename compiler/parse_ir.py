"""Textual IR → a graph that runs: read, verified, and joined to the functions that it calls, which stand behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..lang.diagnostics import Abort, CompileError, Diagnostics, did_you_mean
from ..lang.source import Source
from .ir.graph import Callee, Graph
from .ir.node import Node
from .ir.parser import parse_graphs
from .ir.verify import InvalidIR, verify
from .lift import callee_of


def parse_ir(text: str, filename: str = "<ir>") -> Graph:
    """Read a graph, and behind it those of the functions that it calls; CompileError for text that is none, that breaks
    a rule of the IR, or that calls what is not in it."""
    if not isinstance(text, str):
        raise TypeError(f"textual IR is a str, not {type(text).__name__}")
    diagnostics = Diagnostics()
    functions: dict[str, Callee] = {}
    try:
        return _linked(parse_graphs(Source(text, filename), functions, diagnostics), functions, diagnostics)
    except Abort:
        found = diagnostics.found
    raise CompileError(found)


def _linked(graphs: Sequence[Graph], functions: dict[str, Callee], diagnostics: Diagnostics) -> Graph:
    """The first graph; the others become the `functions` that it calls."""
    _check_calls({graph.name: graph for graph in graphs}, diagnostics)
    first, *others = graphs
    for graph in graphs:
        _verify(graph, diagnostics)
    functions |= {graph.name: callee_of(graph) for graph in others}
    for graph in graphs:
        # Once more, now that what they call is known.
        _verify(graph, diagnostics)
    return first


def _verify(graph: Graph, diagnostics: Diagnostics) -> None:
    try:
        verify(graph)
    except InvalidIR as invalid:
        span = invalid.node.span if invalid.node is not None else graph.span
        raise diagnostics.fail("E504", invalid.rule, span) from None


def _check_calls(graphs: Mapping[str, Graph], diagnostics: Diagnostics) -> None:
    """Every callee is one of the graphs, and none calls itself, by whatever detour."""
    calls = {name: dict(_calls(graph)) for name, graph in graphs.items()}
    for called in calls.values():
        for name, node in called.items():
            if name not in graphs:
                note = f"the graphs of what is called stand behind it: `graph {name}(…): …`"
                hints = did_you_mean(name, graphs)
                raise diagnostics.fail("E503", f"unknown function '{name}'", node.span, *hints, note)
    _check_recursion(calls, diagnostics)


def _check_recursion(calls: Mapping[str, Mapping[str, Node]], diagnostics: Diagnostics) -> None:
    callers: dict[str, list[str]] = {name: [] for name in calls}
    for name, called in calls.items():
        for callee in called:
            callers[callee].append(name)
    left = {name: len(called) for name, called in calls.items()}
    ready = [name for name, count in left.items() if not count]
    while ready:
        done = ready.pop()
        del left[done]
        for name in callers[done]:
            left[name] -= 1
            if not left[name]:
                ready.append(name)
    for name in left:
        node = next(node for callee, node in calls[name].items() if callee in left)
        raise diagnostics.fail("E407", f"recursion: '{name}' calls '{node.attr('callee')}'", node.span)


def _calls(graph: Graph) -> Iterator[tuple[str, Node]]:
    """The functions that a graph calls, each with a call of it."""
    for node in graph.all_nodes():
        name = node.attrs.get("callee")
        if node.kind == "prim::CallFunction" and isinstance(name, str):
            yield name, node
