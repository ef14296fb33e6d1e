"""Which gradients are there: a forward analysis over the lattice zero / nonzero / unknown.

"Zero" is an undefined gradient, one that nobody computes; "nonzero" is one that is there, whatever its elements.
A graph's input is zero if its type is Undefined, and nonzero if its dtype is known, which is how the executor
describes a tensor that it has seen; otherwise it is unknown. What a loop carries is what all of its rounds say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import chain

from ..ir.graph import Graph
from ..ir.kinds import carried, is_loop, open_flow_of, own_parameters, sources
from ..ir.node import PARAM, RETURN, Node, Value
from ..ir.rewrite import program_order
from ..types.dtypes import DEFAULT_FLOAT
from ..types.types import UNDEFINED, ListType, OptionalType, TensorType, Type, VariableType, is_tensor
from .dataflow import Dataflow


class State(Enum):
    ZERO = "zero"
    NONZERO = "nonzero"
    UNKNOWN = "unknown"


def joined_state(states: Iterable[State]) -> State:
    """The state of a value that is one of several; unknown for one of none."""
    found: State | None = None
    for state in states:
        if found is not None and state is not found:
            return State.UNKNOWN
        found = state
    return State.UNKNOWN if found is None else found


def type_when_there(type: Type) -> Type:
    """The type of gradients that are there, alone or in a list: that a dtype is known says so, whichever it is."""
    if isinstance(type, ListType):
        return ListType(type_when_there(type.element))
    return TensorType(DEFAULT_FLOAT) if is_tensor(type) else type


class Definedness:
    """States of values, filled in as nodes are visited in program order (a node after what is inside it)."""

    def __init__(self, graph: Graph) -> None:
        self._states: dict[Value, State] = {value: _input_state(value) for value in graph.inputs}
        loops = [node for node in graph.all_nodes() if is_loop(node)]
        settled = _Settled(graph).solve() if loops else {}
        self._carried = {place.parameter: settled.get(place.parameter) for loop in loops for place in carried(loop)}

    def __getitem__(self, value: Value) -> State:
        while value.node.kind == "prim::unchecked_cast":
            value = value.node.inputs[0]
        if value.type == UNDEFINED:
            return State.ZERO
        return self._states.get(value) or self._carried.get(value) or State.UNKNOWN

    def of(self, values: Iterable[Value]) -> State:
        return joined_state(self[value] for value in values)

    def visit(self, node: Node) -> None:
        """Note the states of a node's outputs."""
        hands_on = bool(node.blocks) and _hands_on(node)
        for index, value in enumerate(node.outputs):
            if hands_on:
                self._states[value] = self.of(given for given in sources(value, index) if _is_read(given, value))
            else:
                self._states[value] = _output_state(node, index, self.__getitem__)


class _Settled(Dataflow[State]):
    """The states of a whole graph, where loops carry what all of their rounds say."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        used: dict[Value, None] = {}
        made: set[Value] = set()
        for node in program_order(graph):
            used.update(dict.fromkeys(node.inputs))
            made.update(node.outputs)
        # A graph in the making uses values of the one that it becomes a part of: of them nothing is known.
        self.states.update({v: self.joined(v, None, State.UNKNOWN) for v in used if v not in made})
        self.states.update({value: _input_state(value) for value in graph.inputs})

    def hands_on(self, node: Node) -> bool:
        return _hands_on(node)

    def asks(self, node: Node) -> bool:
        return node.kind in _BY_INPUTS

    def hand(self, source: Value, into: Value) -> None:
        if _is_read(source, into):
            super().hand(source, into)

    def made(self, node: Node) -> Iterable[tuple[Value, State]]:
        if self.hands_on(node):
            return [(value, State.UNKNOWN) for block in node.blocks for value in own_parameters(block)]
        given = [(value, State.UNKNOWN) for block in node.blocks for value in block.inputs]
        inner = [block.outputs for block in node.blocks]
        if self.asks(node) and any(value not in self.states for value in chain(node.inputs, *inner)):
            return given
        return given + [(v, _output_state(node, i, self.states.__getitem__)) for i, v in enumerate(node.outputs)]

    def joined(self, value: Value, before: State | None, found: State) -> State:
        if value.type == UNDEFINED:
            return State.ZERO
        return found if before in (None, found) else State.UNKNOWN


def _hands_on(node: Node) -> bool:
    """A prim::GradOf makes zeros as well, so what it gives is not what its block gives."""
    return node.kind != "prim::GradOf" and open_flow_of(node) is not None


def _is_read(given: Value, value: Value) -> bool:
    """Nothing reads a branch's result that is uninitialized."""
    return given.node.kind != "prim::Uninitialized" or value.node.kind != "prim::If"


_BY_INPUTS = frozenset(
    {"prim::GradOf", "prim::AutogradAdd", "prim::ListConstruct", "prim::grad_item", "prim::unchecked_cast"}
)
"""What these make is there or not as their inputs are."""


def _output_state(node: Node, index: int, state_of: Callable[[Value], State]) -> State:
    """What a node makes itself, by the states of what it is given."""
    if node.kind == "prim::GradOf":
        return _grad_of(given_to(node, state_of), state_of(node.blocks[0].outputs[index]))
    if node.kind == "prim::AutogradAdd":
        return given_to(node, state_of)
    if node.kind == "prim::ListConstruct":
        # A list of gradients is there where one of them is.
        return State.NONZERO if State.NONZERO in map(state_of, node.inputs) else State.UNKNOWN
    if node.kind == "prim::grad_item":
        return State.ZERO if state_of(node.inputs[0]) is State.ZERO else State.UNKNOWN
    if node.kind == "prim::unchecked_cast":
        return state_of(node.inputs[0])
    return _made_state(node, index)


def given_to(node: Node, state_of: Callable[[Value], State]) -> State:
    """Whether one of the gradients that a node takes is there, which is what it asks."""
    states = [state_of(value) for value in node.inputs]
    return State.NONZERO if State.NONZERO in states else joined_state(states)


def _grad_of(given: State, result: State) -> State:
    """Zero gradients give zeros, others what the block makes of them; of some nothing may be known."""
    if given is State.NONZERO:
        return result
    return State.ZERO if State.ZERO in (given, result) else State.UNKNOWN


def is_sure(value: Value) -> bool:
    """Whether a value is there by what makes it alone: a plain op, or the caller with a tensor that was seen."""
    node = value.node
    if node.kind == PARAM:
        return node.owner is not None and node.owner.node is None and _input_state(value) is State.NONZERO
    return _made_state(node, value.index) is State.NONZERO


def may_be_uninitialized(value: Value) -> bool:
    """Whether nothing is there on some way that branches go, on which nobody reads it."""
    seen, pending = {value}, [value]
    while pending:
        current = pending.pop()
        if current.node.kind == "prim::Uninitialized" or is_unsure_input(current):
            return True
        given = [current.node.inputs[0]] if current.node.kind == "prim::unchecked_cast" else sources(current)
        pending += [v for v in given if v not in seen]
        seen.update(given)
    return False


def is_unsure_input(value: Value) -> bool:
    """Whether a cast tells that a graph's input may not be there: it says what dtype the input has where it is, or
    nothing that is new."""
    if value.node.kind != "prim::unchecked_cast":
        return False
    (given,) = value.node.inputs
    is_input = given.node.kind == PARAM and given.node.owner is not None and given.node.owner.node is None
    had, told = (type.dtype if isinstance(type, TensorType) else None for type in (given.type, value.type))
    return is_input and (given.type == value.type or (had is None and told is not None))


def _input_state(value: Value) -> State:
    if value.type == UNDEFINED:
        return State.ZERO
    seen = isinstance(value.type, TensorType) and value.type.dtype is not None
    return State.NONZERO if seen else State.UNKNOWN


def _made_state(node: Node, index: int) -> State:
    """What a plain op makes is there, unless it only hands on an element of a list."""
    type = node.outputs[index].type
    if node.kind == "prim::MaterializeGrad":
        return State.NONZERO
    if node.kind == PARAM or node.schema is None or not isinstance(type, TensorType):
        return State.UNKNOWN
    declared = node.schema.returns[index].type
    return State.UNKNOWN if isinstance(declared, VariableType | ListType | OptionalType) else State.NONZERO


def post_order(graph: Graph) -> Iterable[Node]:
    """Every node in program order, each after those inside it."""
    stack: list[tuple[Node | None, bool]] = [(graph.body.param.next, False)]
    while stack:
        node, entered = stack.pop()
        if node is None or node.kind == RETURN:
            continue
        if entered:
            following = node.next
            yield node
            stack.append((following, False))
        else:
            stack.append((node, True))
            stack += [(block.param.next, False) for block in reversed(node.blocks)]
