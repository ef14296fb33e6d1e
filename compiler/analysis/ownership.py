"""What a plan may write into, because nobody else can see it: a sum or a list that grows from round to round.

    %ys : List[Tensor] = prim::Loop(%n, %always, %empty)
      block(%i : int, %list : List[Tensor]):
        …
        %more : List[Tensor] = aten::append.t(%list, %y)       writes into %list
        return (%always, %more)

Values are immutable, and an op gives a new one. Where its operand is used by it alone, and is what the same kind of op
made in the round before, the old one may become the new one. What the first round starts with is copied, once. A branch
hands on what each of its sides has written into, or left as it was.

Of a tensor whose rows are written, rows may be read before each write:

    %out : Tensor = prim::Loop(%n, %always, %zeros)
      block(%i : int, %rows : Tensor):
        %row : Tensor = aten::select.int(%rows, %0, %j)        copied: nobody else has a view of %rows
        …
        %more : Tensor = aten::select_scatter(%rows, %new, %0, %i)         writes into %rows
        return (%always, %more)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...lang.light_dataclasses import dataclass, field
from ..ir.graph import Graph
from ..ir.kinds import Carried, carried, entering, leaving
from ..ir.node import RETURN, Block, Node, Use, Value
from ..ops.registry import OPS, Trait
from ..types.types import is_tensor

_LOOP, _IF = "prim::Loop", "prim::If"
SUMS = frozenset(("prim::grad_add_select", "prim::grad_add_slice", "prim::grad_add_item", "prim::grad_add_product"))
"""What adds a part of a gradient to the sum of the others."""
WRITTEN_PARTS = frozenset(("aten::select_scatter", "aten::slice_scatter"))
"""What has something else in one part of a tensor."""
IN_PLACE = SUMS | WRITTEN_PARTS | {"aten::append.t"}
"""Ops of which the first operand may become the result."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """`writes` are nodes that may write into their first operand; `copied` are parameters of loops of which what the
    first round starts with is to be copied; `owned` are the values that are written into; `views` are nodes that give a
    view of one of these, which is to be copied, for it is written into later."""

    writes: set[Node] = field(default_factory=set)
    copied: set[Value] = field(default_factory=set)
    owned: set[Value] = field(default_factory=set)
    views: set[Node] = field(default_factory=set)


def ownership(graph: Graph) -> Ownership:
    """What may be written into in a graph."""
    places = {node: place for place, node in enumerate(graph.all_nodes())}
    chains = _Chains(places)
    found = Ownership()
    # Loops and branches stand before those inside them.
    for node in reversed([node for node in places if node.kind in (_LOOP, _IF)]):
        for output in node.outputs if node.kind == _IF else ():
            joined = chains.joined(output)
            if joined is not None:
                chains.branches[output] = joined
        for number, place in enumerate(carried(node) if node.kind == _LOOP else ()):
            chain = chains.of(place, number)
            if chain:
                chains.inner[place.output] = place
                _own(chain, place, chains.inner, found)
    found.copied.difference_update([p.parameter for p in chains.inner.values() if _begins_own(p, chains.inner)])
    return found


def _begins_own(place: Carried, inner: dict[Value, Carried]) -> bool:
    """Whether a loop starts with what an earlier one beside it has made, or a new list, and nobody else has seen."""
    initial, loop = place.initial, place.output.node
    is_new = initial in inner or initial.node.kind == "prim::ListConstruct"
    return is_new and initial.use_count == 1 and initial.node.owner is loop.owner


class _Joined(NamedTuple):
    """What all sides of a branch make one result of, what they make on the way, and where they do it."""

    source: Value
    chain: list[Value]
    uses: list[Use]


class _Chains:
    """What is made of what by writing into it. `places` are those of nodes in program order, `inner` what loops are
    known to carry so, `branches` what branches hand on."""

    def __init__(self, places: Mapping[Node, int]) -> None:
        self._places = places
        self.inner: dict[Value, Carried] = {}
        self.branches: dict[Value, _Joined] = {}

    def joined(self, output: Value) -> _Joined | None:
        """The one value that each side of a branch makes a result of, by writing into it or as it is."""
        index, found = output.index, list[_Joined]()
        for block in output.node.blocks:
            side = self._back(block.outputs[index], index, block)
            if side.source.node.owner is block or (found and side.source is not found[0].source):
                return None
            found.append(side)
        chain = [value for side in found for value in side.chain]
        return _Joined(found[0].source, chain, [use for side in found for use in side.uses]) if chain else None

    def of(self, place: Carried, number: int) -> list[Value]:
        """The values from a round's result back to its parameter, each made of the next alone; else nothing. `number`
        is that of the place."""
        block = place.parameter.node.owner
        assert block is not None
        first = len(block.outputs) - len(leaving(block))
        found = self._back(place.result, first + number, block)
        is_own = found.source is place.parameter and self._is_unseen(found.source, found.uses)
        return found.chain if is_own else []

    def _back(self, value: Value, index: int, block: Block) -> _Joined:
        """What a result of a block is made of, as far back as each is made of the next, which nothing else uses."""
        chain: list[Value] = []
        uses = [Use(block.ret, index)]
        while value.node.owner is block and self._is_unseen(value, uses):
            if value.node.kind in IN_PLACE:
                step = _Joined(value.node.inputs[0], [], [Use(value.node, 0)])
            elif value in self.inner:
                loop = value.node
                first = len(loop.inputs) - len(entering(loop))
                step = _Joined(self.inner[value].initial, [], [Use(loop, first + value.index)])
            elif value in self.branches:
                step = self.branches[value]
            else:
                break
            chain += [value, *step.chain]
            value, uses = step.source, step.uses
        return _Joined(value, chain, uses)

    def _is_unseen(self, value: Value, uses: Sequence[Use]) -> bool:
        """Whether nothing but these uses of a value, of which all but Returns write into it, sees its memory: others
        look at its shape alone, or read views of it before."""
        if value.use_count == len(uses):
            return True
        if not is_tensor(value.type):
            return False
        last = min([self._places[use.user] for use in uses if use.user.kind != RETURN], default=len(self._places))
        return all(
            use in uses
            or OPS.has(use.user.schema, Trait.SHAPE_ONLY)
            or (use.index == 0 and _gives_view(use.user) and self._places[use.user] < last)
            for use in value.uses
        )


def _gives_view(node: Node) -> bool:
    """Whether a node gives one tensor, a view of its first operand."""
    return OPS.has(node.schema, Trait.VIEW) and len(node.outputs) == 1 and is_tensor(node.output.type)


def _own(chain: list[Value], place: Carried, inner: dict[Value, Carried], found: Ownership) -> None:
    found.copied.add(place.parameter)
    found.owned.update((place.parameter, *chain))
    for value in (place.parameter, *chain):
        found.views.update([use.user for use in value.uses if use.index == 0 and _gives_view(use.user)])
    for value in chain:
        if value.node.kind in IN_PLACE:
            found.writes.add(value.node)
        elif value in inner:
            # What a loop inside starts with is this one's own.
            found.copied.discard(inner[value].parameter)
