"""Specialise a graph on which of its optional inputs are given."""

from __future__ import annotations

from collections.abc import Collection

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..pipeline import run_recipe
from ..types.types import OptionalType


def specialize_optionals(graph: Graph, absent: Collection[int]) -> Graph:
    """A copy in which optional inputs are unwrapped, or None where their numbers are in `absent`.

    The inputs stay, with their types; tests of them against None are decided, in called functions without a pair
    too.

    Before, where none is absent:
        graph f(%x : Tensor, %bias : Optional[Tensor]):
          %none : None = prim::Constant[value=None]()
          %given : bool = aten::__isnot__(%bias, %none)
          %y : Tensor = prim::If(%given)
            block():
              %b : Tensor = prim::unchecked_unwrap_optional(%bias)
              %1 : Tensor = aten::mul.Tensor(%x, %b)
              return (%1)
            block():
              return (%x)
          return (%y)
    After:
        graph f(%x : Tensor, %bias : Optional[Tensor]):
          %bias.1 : Tensor = prim::unchecked_unwrap_optional(%bias)
          %y : Tensor = aten::mul.Tensor(%x, %bias.1)
          return (%y)
    """
    specialized = graph.plain_copy()
    builder = Builder(specialized, before=specialized.body.param.next, span=graph.span)
    changed = False
    for index, value in enumerate(specialized.inputs):
        if not isinstance(value.type, OptionalType) or not value.use_count:
            continue
        uses = value.uses
        known = builder.constant(None) if index in absent else builder.unwrap(value, value.name_hint)
        for use in uses:
            use.user.set_input(use.index, known)
        changed = True
    if changed:
        run_recipe(specialized, "specialize_optionals")
    return specialized
