"""What it costs to run a node of the forward again, in the currency of the bytes that this saves.

A byte kept costs SCALE. A node that is fused with what uses it moves nothing: it costs its arithmetic alone. Another
one reads its operands and writes its results; where it is pointwise, once for each primitive that it is made of: `tanh`
is one, the `gelu` that is approximated by it nine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isqrt

from ..ir.node import RETURN, Node, Value
from ..ops.elementwise import SYMBOLIC
from ..ops.meta import Meta
from ..ops.registry import OPS, Trait
from .problem import UNKNOWN, Problem
from .storage import is_alias, size_of

SCALE = 64
"""Of prices: a byte kept costs so much."""
ARITHMETIC = 1
"""Per byte of result: 1/64 of keeping it."""
TRAFFIC = 4
"""Per byte read or written: 1/16 of keeping it."""
MULTIPLY_ADDS = 1
"""Per multiply-add of a matrix product or a convolution."""
UNCOUNTED_TRIPS = 1000
"""Rounds of a loop that nobody has counted."""
_FUSIBLE = Trait.POINTWISE | Trait.REDUCTION


def price(problem: Problem, node: Node) -> int:
    """The price of one node, with what is inside it; 0 for one that moves values about only."""
    total, pending = 0, [(node, 1)]
    while pending:
        item, times = pending.pop()
        total += times * _own_price(problem, item)
        inner = times * _trips(problem, item)
        pending += [(n, inner) for block in item.blocks for n in block.nodes]
    return total


def writing(problem: Problem, value: Value) -> int:
    """What each byte of a value costs besides, where it is kept: its writing, where kernels hold it in registers and
    would not write it else. What a call of the library gives or takes is in memory anyway. A list without elements is
    made of nothing."""
    if not problem.in_registers:
        return 0
    while value.node.inputs and is_alias(value.node):
        value = value.node.inputs[0]
    if not _is_fusible(value.node):
        return 0
    pending, seen = [value], {value}
    while pending:
        for user, index in pending.pop().uses:
            passed_on = _passed_on(user, index)
            if not passed_on and user.kind != RETURN and not _is_fusible(user):
                return 0
            pending += [v for v in passed_on if v not in seen]
            seen.update(passed_on)
    return TRAFFIC


def _trips(problem: Problem, node: Node) -> int:
    if node.kind != "prim::Loop":
        return 1
    trips = (problem.known or {}).get(node.inputs[0], UNKNOWN)
    return trips if isinstance(trips, int) and trips <= 1_000_000 else UNCOUNTED_TRIPS


def _own_price(problem: Problem, node: Node) -> int:
    if node.blocks or is_alias(node) or node.kind == "prim::Constant":
        return 0
    known = problem.known or {}
    made = _bytes(known.get(v, UNKNOWN) for v in node.outputs)
    if not made:
        return 0
    if problem.is_held(node):
        return ARITHMETIC * made
    op = OPS.of(node.schema)
    steps = _primitives(problem, node)
    cost = ARITHMETIC * made * steps
    if op is not None and op.has(Trait.MATMUL):
        cost += MULTIPLY_ADDS * _multiply_adds(problem, node)
    if op is None or not op.has(Trait.POINTWISE) or not is_fused(problem, node):
        cost += TRAFFIC * (made * (2 * steps - 1) + _bytes(known.get(v, UNKNOWN) for v in node.inputs))
    return max(cost, 1)


def _primitives(problem: Problem, node: Node) -> int:
    """How many primitives a pointwise op is made of; 1 for any other op."""
    op = OPS.of(node.schema)
    if op is None or op.scalar is None:
        return 1
    values = [(problem.known or {}).get(value, UNKNOWN) for value in node.inputs]
    given = [SYMBOLIC if value is UNKNOWN or isinstance(value, Meta) else value for value in values]
    return max(1, sum(bool(step.operands) for step in op.scalar.specialize(given).steps))


def is_fused(problem: Problem, node: Node) -> bool:
    """Whether all that would use a mirrored pointwise node is fused with it: pointwise ops and reductions."""
    return all(_is_fusible(user) for value in node.outputs for user in _users(problem, value))


def _users(problem: Problem, value: Value) -> Iterator[Node]:
    """The nodes of f that may run again, and those of df, that use a value, through views and out of branches."""
    f, stands_for = problem.plain.f, problem.stands_for
    stack, seen = [value], {value}
    while stack:
        current = stack.pop()
        further = [stands_for[current]] if current in stands_for else []
        for user, index in current.uses:
            if user.owner is f.body and (user is f.body.ret or not problem.recomputable(user)):
                continue
            passed_on = _passed_on(user, index)
            further += passed_on
            if not passed_on:
                yield user
        stack += [v for v in further if v not in seen]
        seen.update(further)


def _passed_on(user: Node, index: int) -> list[Value]:
    """The values that are what a user was given, under another name."""
    if is_alias(user):
        return user.outputs
    around = user.holder
    if user.kind == RETURN and around is not None and around.kind in ("prim::If", "prim::GradOf"):
        return [around.outputs[index]]
    return []


def _is_fusible(node: Node) -> bool:
    return node.kind == "prim::AutogradAdd" or OPS.has(node.schema, _FUSIBLE | Trait.SHAPE_ONLY)


def _multiply_adds(problem: Problem, node: Node) -> int:
    """Of a product of two tensors into a third, by their sizes: exact for matrices."""
    known = problem.known or {}
    sizes = [m.numel for v in node.inputs if isinstance(m := known.get(v, UNKNOWN), Meta)]
    made = [m.numel for v in node.outputs if isinstance(m := known.get(v, UNKNOWN), Meta)]
    if len(sizes) < 2 or not made or not made[0]:
        return 0
    left, right = sorted(sizes)[-2:]
    return made[0] * isqrt(max(1, left * right // made[0]))


def _bytes(values: Iterable[object]) -> int:
    return sum(size_of(value) or 0 for value in values)
