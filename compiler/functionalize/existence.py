"""Objects that only one side of a branch made: the condition under which there is something in them.

After the branch they are known to everybody, so that a name may stand for one of them; elsewhere they hold nothing, of
which no view can be taken.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.node import Value, enclosing_blocks
from .places import Place, Root


def where_made(builder: Builder, place: Place) -> Value | None:
    """The condition under which there is an object; None where there is, by where the builder stands."""
    if not isinstance(place, Root) or not place.cell.exists:
        return None
    sides = [b for b in enclosing_blocks(builder.block) if b.node is not None and b.node.kind == "prim::If"]
    held = {(b.node.inputs[0], b is b.node.blocks[0]) for b in sides if b.node is not None}
    found: Value | None = None
    for condition, wanted in place.cell.exists:
        if (condition, wanted) in held:
            continue
        holds = condition if wanted else builder.op("aten::__not__.bool", condition)
        found = holds if found is None else builder.op("aten::__and__.bool", found, holds)
    return found
