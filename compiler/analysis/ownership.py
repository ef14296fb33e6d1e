"""What a plan may write into, because nobody else can see it: a sum or a list that grows from round to round.

    %ys : List[Tensor] = prim::Loop(%n, %always, %empty)
      block(%i : int, %list : List[Tensor]):
        …
        %more : List[Tensor] = aten::append.t(%list, %y)       writes into %list
        return (%always, %more)

Values are immutable, and an op gives a new one. Where its operand is used by it alone, and is what the same kind of op
made in the round before, the old one may become the new one. What the first round starts with is copied, once. A branch
hands on what each of its sides has written into, or left as it was.
"""

from __future__ import annotations

from typing import NamedTuple

from ...lang.light_dataclasses import dataclass, field
from ..ir.graph import Graph
from ..ir.kinds import Carried, carried
from ..ir.node import Block, Node, Value

_LOOP, _IF = "prim::Loop", "prim::If"
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
    branches: dict[Value, _Joined] = {}
    # Loops and branches stand before those inside them.
    for node in reversed([node for node in graph.all_nodes() if node.kind in (_LOOP, _IF)]):
        for output in node.outputs if node.kind == _IF else ():
            joined = _joined(output, inner, branches)
            if joined is not None:
                branches[output] = joined
        for place in carried(node) if node.kind == _LOOP else ():
            chain = _chain(place, inner, branches)
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


class _Joined(NamedTuple):
    """What all sides of a branch make one result of, what they make on the way, and how often they use it."""

    source: Value
    chain: list[Value]
    uses: int


def _joined(output: Value, inner: dict[Value, Carried], branches: dict[Value, _Joined]) -> _Joined | None:
    """The one value that each side of a branch makes a result of, by writing into it or as it is."""
    index, found = output.index, list[_Joined]()
    for block in output.node.blocks:
        side = _back(block.outputs[index], block, inner, branches)
        if side.source.node.owner is block or (found and side.source is not found[0].source):
            return None
        found.append(side)
    chain = [value for side in found for value in side.chain]
    return _Joined(found[0].source, chain, sum(side.uses for side in found)) if chain else None


def _chain(place: Carried, inner: dict[Value, Carried], branches: dict[Value, _Joined]) -> list[Value]:
    """The values from a round's result back to its parameter, each made of the next alone; else nothing."""
    block = place.parameter.node.owner
    assert block is not None
    found = _back(place.result, block, inner, branches)
    is_own = found.source is place.parameter and found.source.use_count == found.uses
    return found.chain if is_own else []


def _back(value: Value, block: Block, inner: dict[Value, Carried], branches: dict[Value, _Joined]) -> _Joined:
    """What a value of a block is made of, as far back as each is made of the next, which nothing else uses."""
    chain: list[Value] = []
    uses = 1
    while value.node.owner is block and value.use_count == uses:
        if value.node.kind in IN_PLACE:
            step = _Joined(value.node.inputs[0], [], 1)
        elif value in inner:
            step = _Joined(inner[value].initial, [], 1)
        elif value in branches:
            step = branches[value]
        else:
            break
        chain += [value, *step.chain]
        value, uses = step.source, step.uses
    return _Joined(value, chain, uses)


def _own(chain: list[Value], place: Carried, inner: dict[Value, Carried], found: Ownership) -> None:
    found.copied.add(place.parameter)
    found.owned.update((place.parameter, *chain))
    for value in chain:
        if value.node.kind in IN_PLACE:
            found.writes.add(value.node)
        elif value in inner:
            # What a loop inside starts with is this one's own.
            found.copied.discard(inner[value].parameter)
