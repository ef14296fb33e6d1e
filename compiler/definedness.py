"""Which gradients are there: a forward analysis over the lattice zero / nonzero / unknown.

"Zero" is an undefined gradient, one that nobody computes; "nonzero" is one that is there, whatever its elements.
A graph's input is zero if its type is Undefined, and nonzero if its dtype is known, which is how the executor
describes a tensor that it has seen; otherwise it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from .ir import PARAM, RETURN, Graph, Node, Value
from .types import UNDEFINED, ListType, OptionalType, TensorType, VariableType


class State(Enum):
    ZERO = "zero"
    NONZERO = "nonzero"
    UNKNOWN = "unknown"


def join(states: Iterable[State]) -> State:
    """The state of a value that is one of several; unknown for one of none."""
    found = set(states)
    return found.pop() if len(found) == 1 else State.UNKNOWN


class Definedness:
    """States of values, filled in as nodes are visited in program order (a node after what is inside it)."""

    def __init__(self, graph: Graph) -> None:
        self._states: dict[Value, State] = {value: _input_state(value) for value in graph.inputs}

    def __getitem__(self, value: Value) -> State:
        while value.node.kind == "prim::unchecked_cast":
            value = value.node.inputs[0]
        if value.type == UNDEFINED:
            return State.ZERO
        return self._states.get(value, State.UNKNOWN)

    def of(self, values: Iterable[Value]) -> State:
        return join(self[value] for value in values)

    def visit(self, node: Node) -> None:
        """Note the states of a node's outputs."""
        for index, value in enumerate(node.outputs):
            self._states[value] = self._output_state(node, index)

    def _output_state(self, node: Node, index: int) -> State:
        if node.kind == "prim::If":
            return self.of(block.outputs[index] for block in node.blocks)
        if node.kind == "prim::Loop":
            return join((self[node.inputs[index + 2]], self[node.blocks[0].outputs[index + 1]]))
        if node.kind == "prim::GradOf":
            return self._grad_of(node, index)
        if node.kind == "prim::AutogradAdd":
            states = {self[value] for value in node.inputs}
            return State.NONZERO if State.NONZERO in states else join(states)
        if node.kind == "prim::grad_item":
            return State.ZERO if self[node.inputs[0]] is State.ZERO else State.UNKNOWN
        return _made_state(node, index)

    def _grad_of(self, node: Node, index: int) -> State:
        """Zero gradients give zeros, others what the block makes of them; a mixture may go either way."""
        given = self.of(node.inputs)
        result = self[node.blocks[0].outputs[index]]
        if given is State.NONZERO:
            return result
        return State.ZERO if State.ZERO in (given, result) else State.UNKNOWN


def _input_state(value: Value) -> State:
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
