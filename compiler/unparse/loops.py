"""How a loop's header is written.

for i in range(n):            every round runs
for i in range(1, n, 2):      the index is derived from the count of the rounds
for x in items:               each round begins by taking an item, and uses the count for nothing else
for i in range(n): …          the body's last statement is `if stop: break`, or `if not go: break`
while test:                   the test before the loop and the one after a round are one expression
proceed = …                   they are not: a variable carries the test
while proceed: …
"""

from __future__ import annotations

from collections.abc import Mapping

from ...lang.light_dataclasses import dataclass, field
from ..ir.kinds import entering, leaving
from ..ir.node import PARAM, Block, Node, Value
from .uses import unchanged
from .written import Written

FOREVER = 2**63 - 1
"""The trip count of a loop that its condition alone ends."""


@dataclass(frozen=True, slots=True)
class Header:
    """`test` is written in the header of a `while`, or before the `break` that ends the body of a `for`.

    `slots` says for which carried value a result stands in the test, where it is the result of several.
    With `by_variable` the test is the value of a variable: one more that is set before the loop and in each round.
    """

    is_while: bool
    test: Value | None = None
    breaks_if: bool = False
    by_variable: bool = False
    slots: Mapping[Value, int] = field(default_factory=dict)


def header_of(written: Written, loop: Node, is_while: bool, held: Node | None, last: Node | None) -> Header:
    """Decide on the header. `held` and `last` are what waits for its use before the loop and at the body's end."""
    (block,) = loop.blocks
    proceed = block.outputs[0]
    if is_while:
        return _while(written, loop, held, last)
    if _is_true(proceed):
        return Header(False)
    if last is None or proceed.node is not last:
        return Header(False, proceed, False, True)
    stopped = last.inputs[0] if last.kind == "aten::__not__.bool" else None
    if stopped is not None and not _is_not(written, stopped):
        written.inlined.add(last)
        return _break(written, block, stopped, True)
    written.inlined.add(last)
    return _break(written, block, proceed, False)


def _break(written: Written, block: Block, test: Value, breaks_if: bool) -> Header:
    """A test at the end of the body, where the carried values are new already."""
    leaves = list(written.leaves(test))
    if test.node in written.inlined and not all(_survives(written, block, leaf) for leaf in leaves):
        written.inlined.discard(test.node)
        return Header(False, test, breaks_if, True)
    if test.node not in written.inlined:
        return Header(False, test, breaks_if, True)
    _keep(written, block, leaves)
    return Header(False, test, breaks_if)


def _keep(written: Written, block: Block, leaves: list[Value]) -> None:
    for leaf in leaves:
        if all(written.uses.root(v) is not written.uses.root(leaf) for v in leaving(block)):
            written.uses.note(leaf, written.uses.at[block.ret] + 1, block.ret)


def _survives(written: Written, block: Block, leaf: Value) -> bool:
    """Whether the leaf still has a name once the round's results are in place."""
    root = written.uses.root(leaf)
    is_result = any(written.uses.root(v) is root for v in leaving(block))
    return is_result or not (root.node.kind == PARAM and root.node.owner is block and root.index > 0)


def _is_not(written: Written, value: Value) -> bool:
    return value.node in written.inlined and value.node.kind == "aten::__not__.bool"


def item_node(written: Written, loop: Node, header: Header) -> Node | None:
    """The node that a header over a list or a derived range stands for; it begins the body."""
    trips, (block,) = loop.inputs[0].node, loop.blocks
    index = block.inputs[0]
    if trips not in written.inlined or index.use_count != 1:
        return None
    node = index.uses[0].user
    first = next((n for n in block.nodes if n.kind != "prim::Constant"), None)
    if node is not first or node in written.inlined:
        return None
    if trips.kind == "aten::__range_length" and node.kind == "aten::__derive_index":
        same = zip((trips.inputs[0], trips.inputs[2]), node.inputs[1:], strict=True)
        return node if all(_is_one(written, a, b) for a, b in same) else None
    if trips.kind == "aten::len.t" and node.kind == "aten::__getitem__.t" and header.test is None:
        return node if node.inputs[1] is index and _is_one(written, trips.inputs[0], node.inputs[0]) else None
    return None


def _is_one(written: Written, left: Value, right: Value) -> bool:
    left, right = written.uses.root(left), written.uses.root(right)
    return same_value(left, right) and left.node not in written.inlined


def _is_true(value: Value) -> bool:
    return value.node.kind == "prim::Constant" and value.node.attrs["value"] is True


def _while(written: Written, loop: Node, held: Node | None, last: Node | None) -> Header:
    entry, proceed = loop.inputs[1], loop.blocks[0].outputs[0]
    own = {v.node for v in (entry, proceed)} & {n for n in (held, last) if n is not None}
    written.inlined |= own
    slots = _same_test(written, loop, entry, proceed)
    if slots is not None:
        return Header(True, proceed, slots=slots)
    written.inlined -= own
    return Header(True, proceed, False, True)


def _same_test(written: Written, loop: Node, entry: Value, proceed: Value) -> dict[Value, int] | None:
    """Whether two tests are one, if the names of carried values stand for what they are before and after a round.

    If so, which carried value each result is in the test.
    """
    (block,) = loop.blocks
    uses = written.uses
    fixed = set(unchanged(loop))
    carried = [
        (k, uses.root(before), uses.root(after))
        for k, (before, after) in enumerate(zip(entering(loop), leaving(block), strict=True))
        if k not in fixed
    ]
    results = {after for _, _, after in carried}
    slots: dict[Value, int] = {}
    pairs = [(entry, proceed)]
    while pairs:
        first, then = (uses.root(v) for v in pairs.pop())
        found = [k for k, before, after in carried if same_value(first, before) and after is then]
        if found and slots.get(then, found[0]) in found:
            slots.setdefault(then, found[0])
            continue
        if found or written.is_variable(then) or written.is_variable(first):
            if first is not then or then in results:
                return None
            continue
        if not _same_operation(first.node, then.node):
            return None
        pairs += zip(first.node.inputs, then.node.inputs, strict=True)
        for mine, other in zip(first.node.blocks, then.node.blocks, strict=True):
            pairs += zip(mine.outputs, other.outputs, strict=True)
    return slots


def _same_operation(left: Node, right: Node) -> bool:
    if left.kind in ("aten::__is__", "aten::__isnot__") or len(left.inputs) != len(right.inputs):
        return False
    return left.kind == right.kind and repr(left.attrs) == repr(right.attrs)


def same_value(left: Value, right: Value) -> bool:
    """Whether both are one value, or constants with one text."""
    if left.node.kind == right.node.kind == "prim::Constant":
        return left.type == right.type and repr(left.node.attrs["value"]) == repr(right.node.attrs["value"])
    return left is right
