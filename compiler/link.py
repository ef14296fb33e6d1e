"""Functions brought into one table, each under a name of its own, with all that they call.

A graph calls by name, and its table says whose name that is. Where functions of several units come together, a name
may mean two of them: then the later one goes by another name, in copies of the graphs that call it. The rest stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..lang.light_dataclasses import replace
from .ir.graph import Callee, GradPair, Graph

Rename = Callable[[str], str]
"""What a function may be called in the table, given what it is called by those that call it."""


class Linker:
    """Fills a table. `taken` are names that none may have; functions that are in the table already have theirs."""

    def __init__(self, table: dict[str, Callee], taken: Sequence[str] = (), rename: Rename = str) -> None:
        self._table = table
        self._taken = frozenset(taken)
        self._rename = rename
        self._names: dict[Callee, str] = {}

    def enter(self, callee: Callee, name: str = "") -> str:
        """The name of a function in the table, which holds it and all that it calls from now on."""
        if callee not in self._names:
            self._enter(callee, name or callee.schema.name)
        return self._names[callee]

    def _enter(self, callee: Callee, name: str) -> None:
        found = reachable(callee, name)
        new = [(each, called) for each, called in found.items() if each not in self._names]
        for each, called in new:
            self._names[each] = self._free(self._rename(called), each)
            self._table.setdefault(self._names[each], each)
        # A function is copied where it, or what it calls in turn, goes by another name.
        changed = {
            each for each, called in new if self._names[each] != called or any(map(self._differs, graphs_of(each)))
        }
        callers: dict[Callee, list[Callee]] = {}
        for each in found:
            for other in callees_of(each):
                callers.setdefault(other, []).append(each)
        pending = [*changed]
        while pending:
            more = [caller for caller in callers.get(pending.pop(), ()) if caller not in changed]
            changed.update(more)
            pending += more
        for each, _ in new:
            if each in changed:
                self._table[self._names[each]] = self._copied(each, self._names[each])

    def _free(self, name: str, callee: Callee) -> str:
        """A name that is nobody else's in the table."""
        candidate, number = name, 0
        while candidate in self._taken or self._table.get(candidate, callee) is not callee:
            number += 1
            candidate = f"{name}_{number}"
        return candidate

    def _differs(self, graph: Graph) -> bool:
        return any(self._names.get(callee, called) != called for called, callee in calls_of(graph))

    def _copied(self, callee: Callee, name: str) -> Callee:
        pair = self._linked_pair(callee.pair, callee.schema.name, name) if callee.pair is not None else None
        copied = Callee(replace(callee.schema, name=name), self._linked(callee.graph, name), pair)
        copied.has_effect, copied.returned = callee.has_effect, callee.returned
        copied.source = self._linked(callee.source, name) if callee.source is not None else None
        return copied

    def _linked_pair(self, pair: GradPair, old: str, name: str) -> GradPair:
        own = pair.schema.name
        return replace(
            pair,
            schema=replace(pair.schema, name=name + own.removeprefix(old)) if own.startswith(old) else pair.schema,
            forward=self._linked(pair.forward),
            backward=self._linked(pair.backward),
            second=self._linked_pair(pair.second, old, name) if pair.second is not None else None,
            body=self._linked(pair.body) if pair.body is not None else None,
            replay=self._linked(pair.replay) if pair.replay is not None else None,
        )

    def _linked(self, graph: Graph, name: str | None = None) -> Graph:
        """A copy on the table."""
        copied = graph.copy(name)
        copied.functions = self._table
        for node in copied.all_nodes():
            callee = graph.called(node)
            if callee is not None:
                node.attrs["callee"] = self._names[callee]
        return copied


def calls_of(graph: Graph) -> Iterator[tuple[str, Callee]]:
    """The functions that a graph calls, and what it calls them, as often as it does."""
    for node in graph.all_nodes():
        callee = graph.called(node)
        if callee is not None:
            yield node.attr("callee"), callee


def callees_of(callee: Callee) -> dict[Callee, str]:
    """The functions that one calls, forward or backward, and what it calls them."""
    return {other: called for graph in graphs_of(callee) for called, other in calls_of(graph)}


def reachable(callee: Callee, name: str) -> dict[Callee, str]:
    """A function and all that it calls, directly or not, in the order met, each with what it is called."""
    found = {callee: name}
    pending = [callee]
    for current in pending:
        for other, called in callees_of(current).items():
            if other not in found:
                found[other] = called
                pending.append(other)
    return found


def graphs_of(callee: Callee) -> list[Graph]:
    """The graphs of a function: its own, and those of its pairs."""
    graphs = [callee.graph, *([callee.source] if callee.source is not None else [])]
    pair = callee.pair
    while pair is not None:
        graphs += [g for g in (pair.forward, pair.backward, pair.body, pair.replay) if g is not None]
        pair = pair.second
    return graphs
