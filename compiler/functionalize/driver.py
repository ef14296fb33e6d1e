"""The walk over a function: each node is made again in a new graph, on what its arguments are at that time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any

from ...lang.diagnostics import Abort, Diagnostic, Diagnostics
from ...lang.light_dataclasses import dataclass, field
from ...lang.trampoline import Walk, run
from ..ir.builder import Builder
from ..ir.evaluation import evaluate_constants
from ..ir.graph import Graph
from ..ir.node import Block, Node, Value
from ..ir.rewrite import NOT_CONSTANT
from ..ir.signature import result_types
from ..ops.registry import OPS, Trait
from ..types.types import CLOSURE, UNDEFINED, is_tensor
from .blocks import BLOCKS
from .branches_apart import TooManyWays, may_keep_apart, to_keep_apart, walk_apart
from .calls import returned_now
from .memory import Memory
from .places import Items, Place, Plain, is_mutable
from .rules import after, before
from .scopes import RoundFacts, UndecidedWrite
from .walker import Endless

MAX_STEPS = 60_000
STEPS_PER_NODE = 20
"""How many nodes are walked in one function, those in loops again and again."""
MAX_APART_STEPS = 12_000
APART_STEPS_PER_NODE = 4
"""The same where ways are walked apart, all of them together: so much longer than the function may what is made of it
be."""


def walk_function(graph: Graph, diagnostics: Diagnostics) -> Functionalizer:
    """The walk over a function, at its end.

    What can be told as it stands is tried first; then what a run is asked (`arguments.py`), and short loops are walked
    round by round. What is reported, and raised, is what the first walk found.
    """
    found = len(diagnostics.found)
    reported: list[Diagnostic] = []
    first: Abort | None = None
    for way in _ways(graph):
        try:
            return _walked(graph, diagnostics, way)
        except Abort as error:
            first = first or error
            reported = reported or diagnostics.found[found:]
            del diagnostics.found[found:]
        except TooManyWays:
            break
    assert first is not None
    diagnostics.found += reported
    raise first


MAX_TRIES = 5
"""How often branches are looked for that are to be kept apart."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How a function is walked: whether the run may be asked, whether the walk is thorough, and what is kept apart.
    What lost something is noted in `lost`."""

    asks: bool
    thorough: bool
    apart: frozenset[Node] = frozenset()
    lost: dict[tuple[Node, tuple[object, ...]], None] = field(default_factory=dict)


def _ways(graph: Graph) -> Iterator[_Way]:
    """In the order in which they are tried, each where those before it failed."""
    for asks, thorough in ((False, False), (True, False), (False, True), (True, True)):
        way = _Way(asks, thorough)
        yield way
    for _ in range(MAX_TRIES if may_keep_apart(graph.outputs) else 0):
        apart = way.apart | to_keep_apart(way.lost)
        if apart == way.apart:
            return
        way = _Way(True, True, apart)
        yield way


def _walked(graph: Graph, diagnostics: Diagnostics, way: _Way) -> Functionalizer:
    endless: set[Node] = set()
    while True:
        way.lost.clear()
        walker = Functionalizer(graph, diagnostics, way, endless)
        try:
            run(walker.function())
            return walker
        except Endless as error:
            endless.add(error.loop)


class _Places(dict[Value, Place]):
    """The places of values. A constant means the same wherever it stands, also in a block that is not around."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self._builder = builder

    def __missing__(self, value: Value) -> Place:
        if value.node.kind != "prim::Constant":
            raise KeyError(value)
        return Plain(self._builder.constant(value.node.attrs["value"], value.type))


class Functionalizer:
    """What is known on the way: the place of each value of the old graph, and the contents of all places."""

    def __init__(self, graph: Graph, diagnostics: Diagnostics, way: _Way, endless: Set[Node]) -> None:
        self.source = graph
        self.functions = graph.functions
        self.asks = way.asks
        self.thorough = way.thorough
        self.apart: Set[Node] = way.apart
        self.lost = way.lost
        self.endless = endless
        self.returned: list[tuple[Any, ...]] = []
        self.ways = 0
        self.rounds = 0
        self.walks = 0
        self.steps = 0
        most, each = (MAX_APART_STEPS, APART_STEPS_PER_NODE) if way.apart else (MAX_STEPS, STEPS_PER_NODE)
        self.limit = most + each * sum(1 for _ in graph.all_nodes())
        self.inlined = 0
        self.graph = Graph(graph.name, graph.functions, graph.span, graph.title)
        self.builder = Builder(self.graph)
        self.memory = Memory(self.builder, diagnostics)
        self.places: dict[Value, Place] = _Places(self.builder)
        self.facts: dict[tuple[Node, tuple[object, ...]], RoundFacts] = {}

    def function(self) -> Walk:
        self.parameters(self.source.body, self.graph.body)
        body = self.source.body
        results = yield walk_apart(self, list(body.nodes), self.end) if self.apart else self._all_of(body)
        self.builder.returns(*results)

    def _all_of(self, body: Block) -> Walk:
        yield self.block(body)
        return self._results()

    def end(self) -> Walk:
        """The end of one way through the function."""
        yield from ()
        self.returned.append(returned_now(self, self.source))
        return self._results()

    def _results(self) -> list[Value]:
        self.builder.current_span = self.graph.span
        return [self.read(value) for value in self.source.outputs]

    def parameters(self, block: Block, into: Block) -> None:
        """The inputs of a function or closure, which its caller owns."""
        for value in block.inputs:
            new = into.add_input(value.type, value.name_hint)
            self.places[value] = self.result(value, new, argument=value.name_hint)

    def block(self, block: Block) -> Walk:
        """Every node, in order."""
        return self.nodes(block.nodes)

    def lose(self, node: Node) -> None:
        """Note that where the ways of a branch or a loop met less is known than on either."""
        self.lost[node, self.memory.path] = None

    def nodes(self, nodes: Iterable[Node]) -> Walk:
        """The same of some nodes of a block."""
        for node in nodes:
            self.builder.current_span = node.span
            rule = BLOCKS.get(node.kind)
            if rule is not None:
                yield rule(self, node)
            else:
                self.node(node)

    def node(self, node: Node) -> None:
        """One node without blocks: made again, unless its places alone say what it gives."""
        self.steps += 1
        if self.steps > self.limit and self.apart:
            raise TooManyWays
        if self.steps > self.limit:
            note = "loops inside loops are walked many times: split the function, or write into fewer things"
            message = "the writes here take too long to follow"
            self.memory.diagnostics.report("E004", message, node.span, note)
            raise UndecidedWrite(message)
        places = [self.places[value] for value in node.inputs]
        if before(self, node, places):
            return
        made = self.copy(node, places)
        if self.thorough and self.folded(node, made):
            return
        for value, place in zip(node.outputs, after(self, node, places, made), strict=True):
            self.places[value] = place

    def folded(self, node: Node, made: Node) -> bool:
        """Whether the node gives a number that is known."""
        if len(node.outputs) != 1 or is_mutable(node.output.type):
            return False
        known = evaluate_constants(made)
        if known is NOT_CONSTANT:
            return False
        made.destroy()
        self.places[node.output] = Plain(self.builder.constant(known, node.output.type))
        return True

    def read(self, value: Value) -> Value:
        return self.memory.read(self.places[value])

    def copy(self, node: Node, places: list[Place]) -> Node:
        """The node on the present contents of its arguments."""
        op = OPS.of(node.schema)
        shape_only = op is not None and op.has(Trait.SHAPE_ONLY)
        made = Node(node.kind, node.schema, dict(node.attrs), node.span)
        for value, place in zip(node.inputs, places, strict=True):
            by_shape = shape_only and is_tensor(value.type) and not isinstance(place, Plain | Items)
            made.add_input(self.memory.read_shape(place) if by_shape else self.memory.read(place))
        types = [value.type for value in node.outputs]
        if op is not None and any(new.type != old.type for new, old in zip(made.inputs, node.inputs, strict=True)):
            given = [value.type for value in made.inputs]
            # A gradient that is not there says nothing of what a list of it would hold.
            types = types if op.schema.is_generic and UNDEFINED in given else list(result_types(op, given))
        for value, type in zip(node.outputs, types, strict=True):
            made.add_output(type, value.name_hint)
        return self.builder.insert(made)

    def walked(self, graph: Graph) -> Functionalizer:
        """The walk over another function, at its end."""
        return walk_function(graph, self.memory.diagnostics)

    def result(self, value: Value, new: Value, argument: str = "") -> Place:
        """A place of its own for what a node gives, if it is an object."""
        if not is_mutable(value.type) or value.type == CLOSURE:
            return Plain(new)
        return self.memory.allocate(new, None, origin=value, argument=argument)
