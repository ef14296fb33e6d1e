"""Sums of ints in loops put together anew, so that each round computes as little of them as can be.

Before:
    graph f(%x : Tensor, %n : int, %m : int):
      %always : bool = prim::Constant[value=True]()
      %one : int = prim::Constant[value=1]()
      %y : Tensor = prim::Loop(%n, %always, %x)
        block(%i : int, %h : Tensor):
          %1 : int = aten::add.int(%i, %m)
          %2 : int = aten::add.int(%1, %one)
          %3 : int = aten::sub.int(%n, %2)
          %4 : Tensor = aten::mul.Scalar(%h, %3)
          return (%always, %4)
      return (%y)
After, dead nodes aside:
    graph f(%x : Tensor, %n : int, %m : int):
      %always : bool = prim::Constant[value=True]()
      %1 : int = aten::sub.int(%n, %m)
      %2 : int = prim::Constant[value=1]()
      %3 : int = aten::sub.int(%1, %2)
      %y : Tensor = prim::Loop(%n, %always, %x)
        block(%i : int, %h : Tensor):
          %4 : int = aten::sub.int(%3, %i)
          %5 : Tensor = aten::mul.Scalar(%h, %4)
          return (%always, %5)
      return (%y)

Ints have no limits, so a sum is the same in any order. What sums have in common but for a constant is computed once,
and the constants are added last; of a sum that stands alone, what all rounds share is computed in front of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....lang.light_dataclasses import dataclass
from ...analysis.definedness import may_be_uninitialized
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Block, Node, Value
from ...ir.rewrite import constant_of

_ADD, _SUB = "aten::add.int", "aten::sub.int"
MAX_TERMS = 8
"""Terms of a sum that is looked through; a longer one is a term of others."""

Terms = tuple[tuple[Value, int], ...]
"""Values, each with the sign that it has in a sum."""


@dataclass(frozen=True, slots=True)
class IntSum:
    """The terms of an int, and the constant beside them."""

    terms: Terms
    constant: int


def reassociate_ints(graph: Graph) -> bool:
    """Write the sums of ints in every loop's body in the way that takes the fewest ops of a round."""
    changed = False
    for loop in [node for node in graph.all_nodes() if node.kind == "prim::Loop"]:
        changed |= _reassociate(loop)
    return changed


def _reassociate(loop: Node) -> bool:
    (body,) = loop.blocks
    sums = _sums(body)
    roots = [node for node in sums if any(use.user not in sums for use in node.output.uses)]
    groups: dict[frozenset[tuple[Value, int]], list[Node]] = {}
    for root in roots:
        groups.setdefault(frozenset(sums[root].terms), []).append(root)
    if sum(_cost([sums[root] for root in group], body) for group in groups.values()) >= len(sums):
        return False
    for group in groups.values():
        _write(group, sums, loop)
    for node in reversed(sums):
        if not node.output.use_count:
            node.destroy()
    return True


def _sums(body: Block) -> dict[Node, IntSum]:
    """The sums and differences of ints in a block, in order, as far as they are looked through."""
    found: dict[Node, IntSum] = {}
    for node in body.nodes:
        if node.kind in (_ADD, _SUB):
            left, right = (found.get(value.node) or _term(value) for value in node.inputs)
            total = _total(left, right, 1 if node.kind == _ADD else -1)
            if total is not None:
                found[node] = total
    return found


def _term(value: Value) -> IntSum:
    constant = constant_of(value)
    return IntSum((), constant) if type(constant) is int else IntSum(((value, 1),), 0)


def _total(left: IntSum, right: IntSum, sign: int) -> IntSum | None:
    """The sum of two, where no term stands in it twice and there are not too many."""
    counts = dict(left.terms)
    for value, own in right.terms:
        counts[value] = counts.get(value, 0) + sign * own
    terms = tuple([(value, count) for value, count in counts.items() if count])
    if not 0 < len(terms) <= MAX_TERMS or any(abs(count) != 1 for _, count in terms):
        return None
    return IntSum(terms, left.constant + sign * right.constant)


def _is_inside(value: Value, body: Block) -> bool:
    """Whether a value is to be read in a round only: it is the round's, or there where the loop has one."""
    return value.node.owner is body or may_be_uninitialized(value)


def _cost(group: list[IntSum], body: Block) -> int:
    """Ops of a round for sums that differ by constants."""
    if len(group) > 1:
        return len(group[0].terms) - _has_positive(group[0].terms) + sum(1 for each in group if each.constant)
    (alone,) = group
    inside = sum(1 for value, _ in alone.terms if _is_inside(value, body))
    if inside < len(alone.terms):
        return inside
    return len(alone.terms) if not _has_positive(alone.terms) else len(alone.terms) - 1 + bool(alone.constant)


def _has_positive(terms: Terms) -> bool:
    return any(sign > 0 for _, sign in terms)


def _write(group: list[Node], sums: dict[Node, IntSum], loop: Node) -> None:
    (body,) = loop.blocks
    first = group[0]
    here = Builder(body, first, first.span)
    if len(group) > 1:
        shared = _added(here, None, sums[first].terms, 0)
        for node in group:
            total = _added(Builder(body, node, node.span), shared, (), sums[node].constant)
            node.output.replace_uses_with(total)
        return
    start, constant = None, sums[first].constant
    outside = [(value, sign) for value, sign in sums[first].terms if not _is_inside(value, body)]
    if outside and loop.owner is not None:
        start, constant = _added(Builder.in_front_of(loop), None, outside, constant), 0
    inside = [term for term in sums[first].terms if term not in outside]
    first.output.replace_uses_with(_added(here, start, inside, constant))


def _added(builder: Builder, start: Value | None, terms: Iterable[tuple[Value, int]], constant: int) -> Value:
    """A value and terms and a constant, added up; what is added comes before what is taken away."""
    for value, sign in sorted(terms, key=lambda term: -term[1]):
        if sign > 0:
            start = value if start is None else builder.op(_ADD, start, value)
        elif start is None:
            start, constant = builder.op(_SUB, constant, value), 0
        else:
            start = builder.op(_SUB, start, value)
    assert start is not None
    if constant:
        return builder.op(_ADD if constant > 0 else _SUB, start, abs(constant))
    return start
