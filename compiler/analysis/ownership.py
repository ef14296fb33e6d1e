"""What a plan may write into, because nobody else can see it: a sum or a list that grows from round to round.

    %ys : List[Tensor] = prim::Loop(%n, %always, %empty)
      block(%i : int, %list : List[Tensor]):
        …
        %more : List[Tensor] = aten::append.t(%list, %y)       writes into %list
        return (%always, %more)

Values are immutable, and an op gives a new one. Where its operand is used by it alone, and is what the same kind of op
made in the round before, the old one may become the new one. What the first round starts with is copied, once.
"""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass, field
from ..ir.graph import Graph
from ..ir.kinds import Carried, carried
from ..ir.node import Node, Value

_LOOP = "prim::Loop"
SUMS = frozenset(("prim::grad_add_select", "prim::grad_add_slice", "prim::grad_add_item", "prim::grad_add_product"))
"""What adds a part of a gradient to the sum of the others."""
IN_PLACE = SUMS | {"aten::append.t"}
"""Ops of which the first operand may become the result."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """`writes` are nodes that may write into their first operand; `copied` are parameters of loops of which what the
    first round starts with is to be copied; `owned` are the values that are written into."""

    writes: set[Node] = field(default_factory=set)
    copied: set[Value] = field(default_factory=set)
    owned: set[Value] = field(default_factory=set)


def ownership(graph: Graph) -> Ownership:
    """What may be written into in a graph."""
    found = Ownership()
    inner: dict[Value, Carried] = {}
    # Loops stand before those inside them.
    for loop in reversed([node for node in graph.all_nodes() if node.kind == _LOOP]):
        for place in carried(loop):
            chain = _chain(place, inner)
            if chain:
                inner[place.output] = place
                _own(chain, place, inner, found)
    found.copied.difference_update([place.parameter for place in inner.values() if _begins_own(place, inner)])
    return found


def _begins_own(place: Carried, inner: dict[Value, Carried]) -> bool:
    """Whether a loop starts with what an earlier one beside it has made, or a new list, and nobody else has seen."""
    initial, loop = place.initial, place.output.node
    is_new = initial in inner or initial.node.kind == "prim::ListConstruct"
    return is_new and initial.use_count == 1 and initial.node.owner is loop.owner


def _chain(place: Carried, inner: dict[Value, Carried]) -> list[Value]:
    """The values from a round's result back to its parameter, each made of the next alone; else nothing."""
    chain: list[Value] = []
    value, block = place.result, place.parameter.node.owner
    while value is not place.parameter:
        if value.use_count != 1 or value.node.owner is not block:
            return []
        chain.append(value)
        if value.node.kind in IN_PLACE:
            value = value.node.inputs[0]
        elif value in inner:
            value = inner[value].initial
        else:
            return []
    return chain if value.use_count == 1 else []


def _own(chain: list[Value], place: Carried, inner: dict[Value, Carried], found: Ownership) -> None:
    found.copied.add(place.parameter)
    found.owned.update((place.parameter, *chain))
    for value in chain:
        if value.node.kind in IN_PLACE:
            found.writes.add(value.node)
        else:
            # What a loop inside starts with is this one's own.
            found.copied.discard(inner[value].parameter)
