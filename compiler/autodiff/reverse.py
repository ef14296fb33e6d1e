"""The reverse sweep: accumulates gradients of values, last use first, and wraps each vjp in a prim::GradOf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span
from ..analysis.definedness import is_sure
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.node import Node, Value
from ..ir.rewrite import splice
from ..types.dtypes import DType
from ..types.types import TENSOR, UNDEFINED, ListType, TensorType, Type, is_tensor, strip_optional
from .aggregation import PLAIN, Aggregation, chained_sum


class ReverseRule(Protocol):
    """How to go back through one node of the forward graph."""

    node: Node

    def emit(self, reverse: Reverse) -> None:
        """Add to the gradients of the node's inputs, given those of its outputs."""


@dataclass(slots=True)
class Reverse:
    """Where the backward goes, and the gradients so far.

    `active` holds the values that need a gradient; `functions` is the table of what the graphs may call.
    """

    graph: Graph
    builder: Builder
    active: set[Value]
    functions: dict[str, Callee]
    gradients: dict[Value, Value] = field(default_factory=dict)
    """By value: the sum so far, or, until `settle`, the first of those that are summed at once."""
    aggregation: Aggregation = PLAIN
    met: dict[Value, list[Value]] = field(default_factory=dict)
    """What is summed at once, where it has not been."""
    is_certain: bool = True
    """Whether the gradients that it starts from are the outputs' alone, and not those of captured temporaries too."""
    mixes: bool = False
    """Whether values are known to be of several floating dtypes."""
    there: set[Value] = field(default_factory=set)
    """Gradients that are known to be there: what is made of them need not ask."""

    def run(self, rules: Sequence[ReverseRule]) -> None:
        """Apply every rule whose node's outputs have received a gradient, last node first."""
        for rule in reversed(rules):
            if any(value in self.gradients for value in rule.node.outputs):
                self.builder.current_span = rule.node.span
                self.settle(rule.node.outputs)
                rule.emit(self)

    def add(self, value: Value, gradient: Value) -> None:
        """Add to the gradient of a value; fan-in is prim::AutogradAdd."""
        if value not in self.active or gradient.type == UNDEFINED:
            return
        earlier = self.gradients.get(value)
        if self.aggregation is not PLAIN:
            self.met.setdefault(value, []).append(gradient)
            gradient = earlier or gradient
        elif earlier is not None:
            is_there = earlier in self.there or gradient in self.there
            gradient = chained_sum(self.builder, [earlier, gradient], gradient_type(value))
            if is_there:
                self.there.add(gradient)
        if not gradient.name_hint and value.name_hint:
            gradient.name_hint = f"grad_{value.name_hint}"
        self.gradients[value] = gradient

    def settle(self, values: Sequence[Value]) -> None:
        """Sum what is summed at once: nothing more comes for these values."""
        for value in values:
            met = self.met.pop(value, None)
            if met is not None:
                total = self.aggregation.add(self.builder, met, gradient_type(value))
                total.name_hint = total.name_hint or (f"grad_{value.name_hint}" if value.name_hint else "")
                self.gradients[value] = total

    def gradient_or_zero(self, value: Value) -> Value:
        """The gradient of a value, prim::AutogradZero where nobody asked for one."""
        return self.gradients.get(value) or self.builder.undefined()

    def grad_of(
        self, name: str, gradients: Sequence[Value], span: Span, body: Callable[[Builder], Sequence[Value]]
    ) -> list[Value]:
        """A prim::GradOf whose block `body` fills; its results. Of gradients that are there it is its block alone."""
        with self.builder.span(span):
            node = self.builder.node("prim::GradOf", gradients, attrs={"name": name}, blocks=1)
            inner = Builder(node.blocks[0], span=span)
            results = body(inner)
        if not self.there.isdisjoint(gradients):
            self.there.update(result for result in results if is_sure(result))
            splice(node, node.blocks[0])
            return list(results)
        inner.returns(*results)
        return [node.add_output(result.type) for result in results]


def known_floating(type: Type) -> DType | None:
    """The floating dtype of a tensor, where it is known to have one."""
    dtype = type.dtype if isinstance(type, TensorType) else None
    return dtype if dtype is not None and dtype.is_floating else None


def gradient_type(value: Value) -> Type:
    """The type of a value's gradient: Tensor, or a list of what its elements' gradients are."""
    depth, type = 0, strip_optional(value.type)
    while isinstance(type, ListType):
        depth, type = depth + 1, strip_optional(type.element)
    assert is_tensor(type), value.type
    gradient: Type = TENSOR
    for _ in range(depth):
        gradient = ListType(gradient)
    return gradient


def materialize(builder: Builder, gradient: Value, primal: Value) -> Value:
    """The gradient, or zeros in the primal's shape and dtype where it is undefined."""
    type = gradient_type(primal)
    if isinstance(type, ListType):
        if gradient.type == UNDEFINED:
            return builder.op("prim::grad_zeros", primal)
        return builder.op("prim::grad_list", gradient, primal)
    if primal.type != type:
        primal = builder.cast(primal, type)
    size = builder.op("prim::grad_size", primal)
    dtype = builder.op("prim::grad_dtype", primal)
    return builder.node("prim::MaterializeGrad", [gradient, size, dtype], [type]).output
