"""Remove what nothing needs.

Before:
    graph f(%x : Tensor, %c : bool):
      %a : Tensor, %b : Tensor = prim::If(%c)
        block():
          %1 : Tensor = aten::neg(%x)
          return (%x, %1)
        block():
          return (%x, %x)
      return (%a)
After:
    graph f(%x : Tensor, %c : bool):
      %a : Tensor = prim::If(%c)
        block():
          return (%x)
        block():
          return (%x)
      return (%a)

Values are marked from the graph's results and from side effects, through the results of blocks one by one: an
unused output of a prim::If, prim::Loop or prim::GradOf goes, and so does a value that a loop carries in a circle.
"""

from __future__ import annotations

from itertools import compress

from ...ir.graph import Callee, Graph
from ...ir.kinds import (
    KindTrait,
    carried,
    entering,
    has,
    is_loop,
    leaving,
    open_flow_of,
    own_inputs,
    own_parameters,
    own_results,
    parameters,
    sources,
)
from ...ir.node import PARAM, Node, Value, walk, walk_blocks
from ...ops.registry import OPS, Trait


def eliminate_dead_code(graph: Graph) -> bool:
    """Remove nodes, outputs and loop-carried values without effect on results or side effects."""
    marks = _Marks(graph)
    dead = _unmarked(graph, marks.nodes)
    for node in dead:
        _release(node)
    kept = [n for n in graph.all_nodes() if n.blocks and n in marks.nodes and open_flow_of(n) is not None]
    needed = [(node, _needed_results(node, marks.values)) for node in kept]
    trimmed = [(node, keep) for node, keep in needed if not all(keep)]
    # Uses go before definitions: one node's unneeded output may be another's unneeded result.
    for node, keep in trimmed:
        _drop_uses(node, keep)
    for node, keep in trimmed:
        _drop_definitions(node, keep)
    for node in dead:
        node.unlink()
    return bool(dead) or bool(trimmed)


def _unmarked(graph: Graph, marked: set[Node]) -> list[Node]:
    """The outermost nodes that are not needed."""
    found: list[Node] = []
    blocks = [graph.body]
    while blocks:
        for node in blocks.pop().nodes:
            if node in marked:
                blocks += node.blocks
            else:
                found.append(node)
    return found


def _release(node: Node) -> None:
    """Make the node and all inside it use nothing."""
    for inner in walk([node]):
        inner.replace_inputs(())
    for block in walk_blocks([node]):
        block.ret.replace_inputs(())


def _needed_results(node: Node, marked: set[Value]) -> list[bool]:
    """For each output whether it, or what the loop carries to it, is needed."""
    keep = [value in marked for value in node.outputs]
    if is_loop(node):
        keep = [k or place.parameter in marked for k, place in zip(keep, carried(node), strict=True)]
    return keep


def _drop_uses(node: Node, keep: list[bool]) -> None:
    for block in node.blocks:
        block.ret.replace_inputs([*own_results(block), *compress(leaving(block), keep)])
    if is_loop(node):
        node.replace_inputs([*own_inputs(node), *compress(entering(node), keep)])


def _drop_definitions(node: Node, keep: list[bool]) -> None:
    node.outputs = [*compress(node.outputs, keep)]
    if is_loop(node):
        (block,) = node.blocks
        block.param.outputs = [*own_parameters(block), *compress(parameters(block), keep)]


_HAS_EFFECT = Trait.SIDE_EFFECT | Trait.RANDOM


class _Marks:
    """The nodes and values that are needed."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: set[Node] = set()
        self.values: set[Value] = set()
        self._pending: list[Value] = []
        self._positions: dict[Node, dict[Value, int]] = {}
        self._effects: dict[Node | None, list[Node]] = _effects_by_function(graph)
        self._need(graph.outputs)
        self._mark_effects(None)
        while self._pending:
            self._mark_definition(self._pending.pop())

    def _need(self, values: list[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self._pending.append(value)

    def _mark_effects(self, function: Node | None) -> None:
        """Effects inside a closure count once the closure itself is needed."""
        for node in self._effects.pop(function, ()):
            self._mark_node(node)

    def _mark_definition(self, value: Value) -> None:
        node = value.node
        if node.kind != PARAM:
            self._mark_node(node)
            if not node.blocks:
                return
        holder = node.holder if node.kind == PARAM else node
        if holder is not None and open_flow_of(holder) is not None:
            self._need(sources(value, self._position(value)))

    def _mark_node(self, node: Node | None) -> None:
        """Mark a node and those around it, with what they need to run at all."""
        while node is not None and node not in self.nodes:
            self.nodes.add(node)
            if node.blocks:
                self._enter(node)
            else:
                self._need(node.inputs)
            node = node.holder

    def _enter(self, node: Node) -> None:
        by_result = open_flow_of(node) is not None
        self._need(own_inputs(node) if by_result else node.inputs)
        for block in node.blocks:
            self._need(own_results(block) if by_result else block.outputs)
        self._mark_effects(node)

    def _position(self, value: Value) -> int:
        found = self._positions.get(value.node)
        if found is None:
            found = self._positions[value.node] = {v: i for i, v in enumerate(value.node.outputs)}
        return found[value]


def _effects_by_function(graph: Graph) -> dict[Node | None, list[Node]]:
    """The nodes with side effects, by the prim::Function around them (None: the graph itself)."""
    effectful = _Effects(graph)
    found: dict[Node | None, list[Node]] = {}
    for node in filter(effectful, graph.all_nodes()):
        around = node.holder
        while around is not None and around.kind != "prim::Function":
            around = around.holder
        found.setdefault(around, []).append(node)
    return found


class _Effects:
    """Whether a node has a side effect of its own; a call has those of its callee, and an unknown one may have any."""

    def __init__(self, graph: Graph) -> None:
        self._functions = graph.functions

    def __call__(self, node: Node) -> bool:
        if node.kind == "prim::CallFunction":
            return self._reaches_effect(self._functions.get(node.attr("callee")))
        op = OPS.of(node.schema)
        # What is drawn moves the generator on: without it, whatever is drawn later would be something else.
        if op is None:
            return node.schema is not None or has(node, KindTrait.EFFECT)
        return op.has(_HAS_EFFECT)

    def _reaches_effect(self, callee: Callee | None) -> bool:
        """Look through the callee and all that it calls; a callee remembers what was found."""
        if callee is None:
            return True
        if callee.has_effect is None:
            order = self._callees_first(callee)
            for found in order:
                found.has_effect = any(
                    self._call_has_effect(found, node) if node.kind == "prim::CallFunction" else self(node)
                    for node in found.graph.all_nodes()
                )
        assert callee.has_effect is not None
        return callee.has_effect

    def _call_has_effect(self, caller: Callee, node: Node) -> bool:
        called = caller.graph.called(node)
        return called is None or called.has_effect is not False

    def _callees_first(self, callee: Callee) -> list[Callee]:
        """Functions not looked at yet, each after those that it calls."""
        order: dict[Callee, None] = {}
        stack = [(callee, False)]
        while stack:
            current, entered = stack.pop()
            if entered:
                order[current] = None
                continue
            if current in order or current.has_effect is not None:
                continue
            stack.append((current, True))
            for node in current.graph.all_nodes():
                called = current.graph.called(node)
                if called is not None and called not in order:
                    stack.append((called, False))
        return list(order)
