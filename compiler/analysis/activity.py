"""Which values need a gradient whatever way branches and loops go, where the graph's inputs say whether they do.

A result that needs one on some ways only is no harm where on the others it is a value from outside itself, handed on:
who runs the graph sees that in what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.graph import Graph
from ..ir.kinds import carried, is_loop, leaving
from ..ir.node import RETURN, Node, Value
from ..ops.registry import OPS, Trait
from ..types.types import TensorType, is_differentiable


class Activity:
    """Of a graph. `sure` are the values that need a gradient on every way."""

    def __init__(self, graph: Graph) -> None:
        self._is_asked = any(node.kind == "prim::requires_grad" for node in graph.all_nodes())
        self.sure = {v for v in graph.inputs if isinstance(v.type, TensorType) and is_differentiable(v.type)}
        self._visit(graph.nodes)

    def is_clean(self, node: Node) -> bool:
        """Whether each tensor that a branch or loop gives needs a gradient, or is handed on, whatever way it goes.

        Of a program that asks which values require one, none is: a run answers by what happened on the way.
        """
        if self._is_asked:
            return False
        for block in node.blocks:
            for output, value in zip(node.outputs, leaving(block), strict=True):
                matters = is_differentiable(output.type) and value not in self.sure
                if matters and not self._is_handed_on(value, node):
                    return False
        return True

    def _is_handed_on(self, value: Value, around: Node) -> bool:
        """Whether a value comes from outside a node, or is what such a node inside it hands on."""
        made = value.node
        if made.schema is not None or made.kind == "prim::CallFunction":
            return not _is_inside(made, around)
        if made.blocks and _is_inside(made, around):
            return self.is_clean(made)
        return made.kind == "prim::Param" or not _is_inside(made, around)

    def _visit(self, nodes: Iterable[Node]) -> None:
        """Note what is sure, in program order; what a loop carries is so if it is at the beginning and stays so."""
        stack: list[tuple[Node | None, bool]] = [(next(iter(nodes), None), False)]
        while stack:
            node, entered = stack.pop()
            if node is None or node.kind == RETURN:
                continue
            if entered:
                self._leave(node)
                stack.append((node.next, False))
                continue
            if is_loop(node):
                self.sure.update(place.parameter for place in carried(node) if place.initial in self.sure)
            stack.append((node, True))
            stack += [(block.param.next, False) for block in reversed(node.blocks)]

    def _leave(self, node: Node) -> None:
        if is_loop(node):
            lost = [p for p in carried(node) if p.parameter in self.sure and p.result not in self.sure]
            if lost:
                # Not again: what follows from these is no more sure either.
                self._forget(node)
            kept = [p for p in carried(node) if p.initial in self.sure and p.result in self.sure]
            self.sure.update(place.output for place in kept)
        elif node.blocks:
            pairs = zip(node.outputs, *(leaving(block) for block in node.blocks), strict=True)
            self.sure.update(value for value, *results in pairs if all(r in self.sure for r in results))
        elif any(value in self.sure for value in node.inputs) and _passes(node):
            self.sure.update(value for value in node.outputs if is_differentiable(value.type))

    def _forget(self, loop: Node) -> None:
        """Of a loop that loses what it began with, only what comes from outside its rounds is sure."""
        (block,) = loop.blocks
        self.sure.difference_update(block.inputs)
        for node in block.nodes:
            self.sure.difference_update(node.outputs)
            if not node.blocks and any(value in self.sure for value in node.inputs) and _passes(node):
                self.sure.update(value for value in node.outputs if is_differentiable(value.type))


def _passes(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is None or not op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY)


def _is_inside(node: Node, around: Node) -> bool:
    while node.holder is not None:
        node = node.holder
        if node is around:
            return True
    return False
