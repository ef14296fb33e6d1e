"""Calls: which of its arguments a function may return, or views or elements of them.

Most return what is new, or an argument itself. Where more is to tell, the function is walked as if it stood in the
place of its call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...lang.light_dataclasses import dataclass
from ...lang.trampoline import Walk
from ..ir.graph import Callee, Graph
from ..ir.node import Node, Value, walk
from ..types.types import CLOSURE
from .memory import Memory
from .places import Cell, Items, Place, Plain, Root, View, is_mutable
from .scopes import UndecidedWrite
from .views import ViewOpStep, ViewStep
from .walker import Walker

MAX_INLINED = 20_000
"""Nodes of other functions that are walked in one function."""


@dataclass(frozen=True, slots=True)
class Returned:
    """One result: the parameter and the steps that it surely is, and the parameters that it may share memory with.

    `is_own` tells that it shares memory neither with a parameter, nor with another result, nor with itself.
    """

    parameter: int | None
    steps: tuple[ViewStep, ...]
    shares: tuple[int, ...]
    is_own: bool


def walk_call(f: Walker, node: Node) -> Walk:
    if not may_enter(f, node):
        callee = f.functions[node.attrs["callee"]]
        places = [f.places[value] for value in node.inputs]
        made = f.copy(node, places)
        f.places.update(zip(node.outputs, _results(f, node, callee, places, made), strict=True))
        return
    functions = f.functions
    graph = enter_call(f, node)
    yield f.block(graph.body)
    leave_call(f, node, graph, functions)


def may_enter(f: Walker, node: Node) -> bool:
    """Whether a function is walked in the place of its call: it returns what is neither new nor an argument."""
    callee = f.functions[node.attrs["callee"]]
    told = all(returned.is_own or returned.parameter is not None for returned in summarize(f, callee))
    return not told and callee.pair is None and _may_inline(f, callee)


def enter_call(f: Walker, node: Node) -> Graph:
    """The function that is called, its parameters being the arguments."""
    graph = _source(f.functions[node.attrs["callee"]])
    places = [f.places[value] for value in node.inputs]
    f.functions, f.memory.path = graph.functions, (*f.memory.path, node)
    f.places.update(zip(graph.inputs, places, strict=True))
    f.memory.calls += 1
    return graph


def leave_call(f: Walker, node: Node, graph: Graph, functions: Mapping[str, Callee]) -> None:
    """Back among the `functions` of the caller, with what the call gives."""
    f.memory.calls -= 1
    f.functions, f.memory.path = functions, f.memory.path[:-1]
    f.places.update(zip(node.outputs, [f.places[value] for value in graph.outputs], strict=True))


def _source(callee: Callee) -> Graph:
    return callee.source if callee.source is not None else callee.graph


def _may_inline(f: Walker, callee: Callee) -> bool:
    f.inlined += sum(1 for _ in walk(_source(callee).nodes))
    return f.inlined <= MAX_INLINED


def _results(f: Walker, node: Node, callee: Callee, places: Sequence[Place], made: Node) -> list[Place]:
    """The places of what a call gives."""
    found: list[Place] = []
    summary = summarize(f, callee)
    for value, new, returned in zip(node.outputs, made.outputs, summary, strict=True):
        # What has a backward of its own is more than its argument.
        place = _as_argument(f.memory, returned, places) if callee.pair is None else None
        if place is None:
            place = f.result(value, new)
            for index in returned.shares:
                share(f.memory, place, places[index])
            if not returned.is_own:
                _share_with_others(f.memory, place, found)
        elif isinstance(place, View):
            f.memory.keep(place, new)
        found.append(place)
    return found


def _share_with_others(memory: Memory, place: Place, others: Sequence[Place]) -> None:
    if isinstance(place, Root) and place.cell.elements is not None:
        memory.repeat(place.cell.elements)
    for other in others:
        share(memory, place, other)


def _as_argument(memory: Memory, returned: Returned, places: Sequence[Place]) -> Place | None:
    if returned.parameter is None:
        return None
    place = places[returned.parameter]
    if isinstance(place, Plain | Items):
        return None if returned.steps else place
    for step in returned.steps:
        assert isinstance(step, ViewOpStep)
        place = memory.view(place, step, step.op.schema.returns[0].type)
    return place


def share(memory: Memory, place: Place, argument: Place) -> None:
    """What an op or a call gave may be the argument, a view of it, or what it holds."""
    if not isinstance(place, Root):
        return
    memory.join(place.cell, memory.parts(argument))
    for cell in memory.elements_of(argument):
        memory.link(place.cell, cell)
    if place.cell.elements is not None:
        memory.hold(place.cell.elements, memory.reach(argument))


def summarize(f: Walker, callee: Callee) -> tuple[Returned, ...]:
    """Found when the function is first called by one that writes."""
    if callee.returned is None:
        graph, diagnostics = _source(callee), f.memory.diagnostics
        reported = len(diagnostics.found)
        try:
            callee.returned = returned_by(f.walked(graph), graph)
        except UndecidedWrite:
            # It was walked by numbers (`numbered/`): what it returns is told where it is called, if at all.
            del diagnostics.found[reported:]
            callee.returned = tuple(_anything(graph, value) for value in graph.outputs if value.type != CLOSURE)
    found: tuple[Returned, ...] = callee.returned
    return found


def returned_by(walker: Walker, graph: Graph) -> tuple[Returned, ...]:
    """What the results of a function are, from the walk over it; closures are none."""
    if walker.returned:
        return tuple(map(_any_of, zip(*walker.returned, strict=True)))
    return returned_now(walker, graph)


def returned_now(walker: Walker, graph: Graph) -> tuple[Returned, ...]:
    """The same on the way that is being walked, at its end."""
    parameters: dict[Cell, int] = {}
    for i, value in enumerate(graph.inputs):
        parameters.update((cell, i) for cell in walker.memory.reach(walker.places[value]))
    results = [value for value in graph.outputs if value.type != CLOSURE]
    reached = [walker.memory.reach(walker.places[value]) for value in results]
    return tuple(_returned(walker, value, parameters, reached, k) for k, value in enumerate(results))


def _returned(walker: Walker, value: Value, parameters: dict[Cell, int], reached: list[list[Cell]], k: int) -> Returned:
    if not is_mutable(value.type):
        return Returned(None, (), (), True)
    place = walker.places[value]
    near = {*reached[k], *(other for cell in reached[k] for other in cell.others)}
    shares = tuple(sorted({parameters[cell] for cell in near if cell in parameters}))
    others = any(cell in near for i, cells in enumerate(reached) if i != k for cell in cells)
    repeats = any(cell.repeats for cell in near) or walker.memory.repeats(place)
    steps: list[ViewStep] = []
    while isinstance(place, View) and _is_portable(place.step):
        steps.insert(0, place.step)
        place = place.parent
    exact = isinstance(place, Root) and not place.cell.key[1] and place.cell in parameters
    parameter = parameters[place.cell] if exact and isinstance(place, Root) else None
    return Returned(parameter, tuple(steps), shares, not (shares or others or repeats))


def _anything(graph: Graph, value: Value) -> Returned:
    """A result of which nothing is known."""
    is_own = not is_mutable(value.type)
    return Returned(None, (), () if is_own else tuple(range(len(graph.inputs))), is_own)


def _any_of(ways: Sequence[Returned]) -> Returned:
    """What a result is that several ways lead to."""
    first = ways[0]
    is_one = all((way.parameter, way.steps) == (first.parameter, first.steps) for way in ways)
    shares = tuple(sorted({index for way in ways for index in way.shares}))
    return Returned(
        first.parameter if is_one else None,
        first.steps if is_one else (),
        shares,
        all(way.is_own for way in ways),
    )


def _is_portable(step: ViewStep) -> bool:
    """Whether a step means the same in another function: its arguments are constants."""
    return isinstance(step, ViewOpStep) and not any(isinstance(argument, Value) for argument in step.arguments)
