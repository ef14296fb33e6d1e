"""How gradients are put together: what several that meet in a value become, which are zeros, what a second use gets.

    %3 = prim::AutogradAdd(%1, %2)        two gradients of %x          `sum`
    %4 = aten::zeros_like(%x)             a gradient of no effect      `zeros`
    return (%5, %6)                       %6 = aten::clone(%5)         `copy`

After MXNet's gradient pass, which takes an aggregation function, zero ops and a copy op as attributes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...lang.light_dataclasses import dataclass
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ops.registry import OPS
from ..types.types import UNDEFINED, Type, is_tensor

SumRule: TypeAlias = Callable[[Builder, Sequence[Value]], Value]
"""Makes one gradient of several, in the order in which they came, last use first. A run may leave any of them
undefined: prim::AutogradAdd adds what is there."""

_AS_IT_IS = ("aten::sum_to_size", "aten::_grad_sum_to_size")
"""What brings a gradient to the shape of its value: zeros stay zeros."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What `differentiate` does where gradients meet.

    `sum` is called once for each value in which two or more meet; None adds each as soon as it is there, by
    prim::AutogradAdd. `zeros` are ops that give zeros of the shape of their first operand: where gradients by them
    meet others, they are left out; an op without a gradient that gets no other ones hands zeros on, by the first of
    them, in place of an error. `copy` is an op that copies: where one gradient is that of two inputs, the second gets
    a copy (None: whoever runs the backward sees to that). ValueError for what is no op of one operand.
    """

    sum: SumRule | None = None
    zeros: tuple[str, ...] = ()
    copy: str | None = None

    def __post_init__(self) -> None:
        if self.sum is not None and not callable(self.sum):
            raise TypeError(f"a sum is a function of a builder and gradients, not {type(self.sum).__name__}")
        for name in (*self.zeros, *([self.copy] if self.copy is not None else [])):
            if not isinstance(name, str) or not _takes_one(name):
                raise ValueError(f"'{name}' is no op of one operand")

    def is_zero(self, gradient: Value) -> bool:
        """Whether a gradient is zeros by one of the zero ops, in a prim::GradOf or outside."""
        node = gradient.node
        if node.kind == "prim::GradOf":
            node = node.blocks[0].outputs[gradient.index].node
        while node.kind in _AS_IT_IS:
            node = node.inputs[0].node
        return node.kind in self.zeros

    def add(self, builder: Builder, gradients: Sequence[Value], type: Type) -> Value:
        """One gradient, of this type, of those that meet in a value."""
        counting = [gradient for gradient in gradients if not self.is_zero(gradient)] or list(gradients[:1])
        if len(counting) == 1:
            return counting[0]
        return chained_sum(builder, counting, type) if self.sum is None else self.sum(builder, counting)


def chained_sum(builder: Builder, gradients: Sequence[Value], type: Type) -> Value:
    """The sum of what is there of gradients, one after the other."""
    total, *others = gradients
    for gradient in others:
        total = builder.node("prim::AutogradAdd", [total, gradient], [type]).output
    return total


def _takes_one(name: str) -> bool:
    try:
        arguments = OPS.named(name).schema.arguments
    except KeyError:
        return False
    return bool(arguments) and not any(argument.required for argument in arguments[1:])


PLAIN = Aggregation()
_chosen: list[Aggregation] = [PLAIN]


def aggregation() -> Aggregation:
    """The one in force, where `differentiate` is given none."""
    return _chosen[0]


def use_aggregation(chosen: Aggregation) -> None:
    """Put one in force. What was compiled before does not know of it."""
    _chosen[0] = chosen


def copy_repeated(df: Graph, copy: str) -> None:
    """Make each gradient that a backward returns a second time a copy.

    Before:
        graph df(%g : Tensor):
          return (%g, %g)
    After:
        graph df(%g : Tensor):
          %g.1 : Tensor = prim::GradOf[name="aten::clone"](%g)
            block():
              %1 : None = prim::Constant[value=None]()
              %2 : Tensor = aten::clone(%g, %1)
              return (%2)
          return (%g, %g.1)
    """
    returned: set[Value] = set()
    for index, gradient in enumerate(df.outputs):
        if gradient in returned and is_tensor(gradient.type) and gradient.type != UNDEFINED:
            df.body.ret.set_input(index, _copied(df, gradient, copy))
        returned.add(gradient)


def _copied(df: Graph, gradient: Value, copy: str) -> Value:
    """A copy of a gradient, undefined where that is."""
    builder = Builder(df, span=df.span)
    node: Node = builder.node("prim::GradOf", [gradient], attrs={"name": copy}, blocks=1)
    inner = Builder(node.blocks[0], span=df.span)
    inner.returns(inner.op(copy, gradient))
    return node.add_output(node.blocks[0].outputs[0].type, gradient.name_hint)
