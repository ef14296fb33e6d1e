"""Use what the types of the inputs say: which optionals are absent, and which gradients are undefined.

Before:
    graph f(%x : Tensor[float32], %bias : None, %g : Undefined):
      %1 : None = prim::Constant[value=None]()
      %2 : bool = aten::__is__(%bias, %1)
      %3 : Tensor = prim::AutogradAdd(%g, %x)
      return (%2, %3)
After:
    graph f(%x : Tensor[float32], %bias : None, %g : Undefined):
      %1 : None = prim::Constant[value=None]()
      %2 : Undefined = prim::AutogradZero()
      %3 : None = prim::Constant[value=None]()
      %4 : bool = aten::__is__(%1, %3)
      %5 : Tensor = prim::AutogradAdd(%2, %x)
      return (%4, %5)

The executor writes into the types what an ArgumentSpec knows; this pass makes values of what the types decide, and
leaves the inputs where they are, unused. What follows from them is for the passes behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value
from ..types.types import NONE, UNDEFINED, Type


def specialize_types(graph: Graph) -> bool:
    """Replace inputs of the types None and Undefined by the only value of their type."""
    builder = Builder(graph, before=graph.body.param.next, span=graph.span)
    changed = False
    for value in graph.inputs:
        make = _VALUES.get(value.type)
        if make is not None and value.use_count:
            uses = value.uses
            known = make(builder)
            for use in uses:
                use.user.set_input(use.index, known)
            changed = True
    return changed


_VALUES: dict[Type, Callable[[Builder], Value]] = {
    NONE: lambda builder: builder.constant(None),
    UNDEFINED: lambda builder: builder.undefined(),
}
