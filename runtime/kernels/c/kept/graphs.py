"""Graphs as plain data: their text, where their nodes stand in source, and that source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....compiler.ir.graph import Graph
from .....compiler.ir.parser import parse_graphs
from .....compiler.types.types import Type
from .....lang.diagnostics import Diagnostics
from .....lang.source import Source, Span
from .plans import JsonValue, Unkept

MOST_TEXT = 1 << 20
"""Characters of a graph that is kept."""


def graph_data(graph: Graph) -> JsonValue:
    """A graph as plain data. Raises: Unkept, for one whose text does not say all, or that calls functions."""
    text = graph.text(alone=True)
    if len(text) > MOST_TEXT or any(node.kind == "prim::CallFunction" for node in graph.all_nodes()):
        raise Unkept
    sources: dict[Source, int] = {}
    spans = [_span_data(span, sources) for span in _spans(graph)]
    data = {
        "text": text,
        "title": graph.title,
        "spans": spans,
        "sources": [[source.text, source.filename, source.is_library] for source in sources],
    }
    if not _is_same(graph, graph_from_data(data)):
        raise Unkept
    return data


def graph_from_data(data: JsonValue) -> Graph:
    """The graph that was made data."""
    graph = _parsed(data["text"])
    graph.title = data["title"]
    sources = [Source(text, filename, is_library=is_library) for text, filename, is_library in data["sources"]]
    spans = iter([Span(sources[source], start, end) for source, start, end in data["spans"]])
    graph.span = next(spans)
    for node in graph.all_nodes():
        node.span = next(spans)
    return graph


def types_of(names: Sequence[str]) -> list[Type]:
    """The types that have these names."""
    inputs = ", ".join(f"%{i} : {name}" for i, name in enumerate(names))
    return [value.type for value in _parsed(f"graph types({inputs}):\n  return ()\n").inputs]


def _parsed(text: str) -> Graph:
    (graph,) = parse_graphs(Source(text, "<kept>"), {}, Diagnostics())
    return graph


def _spans(graph: Graph) -> list[Span]:
    return [graph.span, *[node.span for node in graph.all_nodes()]]


def _span_data(span: Span, sources: dict[Source, int]) -> tuple[int, int, int]:
    return sources.setdefault(span.source, len(sources)), span.start, span.end


def _is_same(graph: Graph, other: Graph) -> bool:
    """Whether nothing was lost on the way through text."""
    if graph.text(with_spans=True, alone=True) != other.text(with_spans=True, alone=True):
        return False
    pairs = zip(graph.all_nodes(), other.all_nodes(), strict=True)
    return all(_described(a) == _described(b) for a, b in pairs)


def _described(node: Any) -> tuple[Any, ...]:
    return node.kind, node.schema, node.attrs, [value.type for value in node.outputs]
