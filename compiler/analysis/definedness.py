"""Which gradients are there: a forward analysis over the lattice zero / nonzero / unknown.

"Zero" is an undefined gradient, one that nobody computes; "nonzero" is one that is there, whatever its elements.
A graph's input is zero if its type is Undefined, and nonzero if its dtype is known, which is how the executor
describes a tensor that it has seen; otherwise it is unknown. What a loop carries is what all of its rounds say.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ..ir.graph import Graph
from ..ir.kinds import carried, is_loop, sources
from ..ir.node import PARAM, RETURN, Node, Value
from ..types.types import UNDEFINED, ListType, OptionalType, TensorType, VariableType

MAX_PASSES = 20
"""Over a graph whose loops are settled; nothing is known of what they carry where more would be needed."""


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
        self._carried: dict[Value, State] = {}
        if any(is_loop(node) for node in graph.all_nodes()):
            self._settle_loops(graph)

    def __getitem__(self, value: Value) -> State:
        while value.node.kind == "prim::unchecked_cast":
            value = value.node.inputs[0]
        if value.type == UNDEFINED:
            return State.ZERO
        return self._states.get(value) or self._carried.get(value, State.UNKNOWN)

    def of(self, values: Iterable[Value]) -> State:
        return join(self[value] for value in values)

    def visit(self, node: Node) -> None:
        """Note the states of a node's outputs."""
        for index, value in enumerate(node.outputs):
            self._states[value] = self._output_state(node, index)

    def _settle_loops(self, graph: Graph) -> None:
        """States of what loops carry: those they start with, made weaker until every round agrees."""
        inputs = dict(self._states)
        for _ in range(MAX_PASSES):
            changed = False
            for node, entered in visits(graph):
                if not entered:
                    changed |= is_loop(node) and self._enter(node)
                else:
                    self.visit(node)
            if not changed:
                break
        else:
            self._carried.clear()
        self._states = inputs

    def _enter(self, loop: Node) -> bool:
        """Note what a loop's parameters are, as far as its initial values and its rounds so far tell."""
        changed = False
        for initial, parameter, result, _ in carried(loop):
            found = (self._carried.get(parameter), self[initial], self._so_far(result))
            state = join(state for state in found if state is not None)
            changed |= self._carried.get(parameter) is not state
            self._carried[parameter] = state
        return changed

    def _so_far(self, value: Value) -> State | None:
        """The state of a value, None for one that no pass has come to."""
        if value.type == UNDEFINED:
            return State.ZERO
        return self._states.get(value) or self._carried.get(value)

    def _output_state(self, node: Node, index: int) -> State:
        if node.kind == "prim::If":
            results = [block.outputs[index] for block in node.blocks]
            # Nothing reads one that is uninitialized.
            return self.of([v for v in results if v.node.kind != "prim::Uninitialized"])
        if is_loop(node):
            return join(map(self.__getitem__, sources(node.outputs[index])))
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


def is_sure(value: Value) -> bool:
    """Whether a value is there by what makes it alone: a plain op, or the caller with a tensor that was seen."""
    node = value.node
    if node.kind == PARAM:
        return node.owner is not None and node.owner.node is None and _input_state(value) is State.NONZERO
    return _made_state(node, value.index) is State.NONZERO


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
    return (node for node, entered in visits(graph) if entered)


def visits(graph: Graph) -> Iterable[tuple[Node, bool]]:
    """Every node in program order twice: before (False) and after (True) what is inside it."""
    stack: list[tuple[Node | None, bool]] = [(graph.body.param.next, False)]
    while stack:
        node, entered = stack.pop()
        if node is None or node.kind == RETURN:
            continue
        if entered:
            following = node.next
            yield node, True
            stack.append((following, False))
        else:
            yield node, False
            stack.append((node, True))
            stack += [(block.param.next, False) for block in reversed(node.blocks)]
