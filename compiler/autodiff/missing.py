"""Which lists may not be there when a graph runs: None, or what a path leaves unbound that another one reads.

for row in x:                 %result : Tensor[] = prim::Uninitialized()
    return [row]       ─▶     %3 : Tensor[], %4 : bool = prim::Loop(%rounds, %true, %result, …)
return [x]
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.kinds import entering, leaving, parameters
from ..ir.node import PARAM, Value
from ..types.types import OptionalType


def may_be_missing(value: Value) -> bool:
    """Whether a value may be None, or one that was never bound, as far as branches and loops tell."""
    pending = [value]
    for current in pending:
        if isinstance(current.type, OptionalType) or current.node.kind == "prim::Uninitialized":
            return True
        pending += [source for source in _sources(current) if source not in pending]
    return False


def _sources(value: Value) -> Iterator[Value]:
    """What a branch, or a loop of which it is a result or a parameter, makes a value of."""
    node = value.node
    if node.kind == "prim::If":
        yield from (block.outputs[value.index] for block in node.blocks)
        return
    loop = node if node.kind == "prim::Loop" else node.holder if node.kind == PARAM else None
    if loop is None or loop.kind != "prim::Loop":
        return
    (block,) = loop.blocks
    given = loop.outputs if node is loop else parameters(block)
    if value not in given:
        return
    # What is carried besides is being put in: places further back may be there at one end only.
    place = given.index(value)
    for values in (entering(loop), leaving(block)):
        yield from values[place : place + 1]
