"""Whether two lists may be one object, as far as emission can tell: two displays never are."""

from __future__ import annotations

from ..ir.kinds import KindTrait, has, sources
from ..ir.node import Value

_UNKNOWN = (
    "aten::__getitem__.t",
    "aten::pop.t",
    "prim::CallFunction",
    "prim::TupleIndex",
    "prim::TupleUnpack",
    "prim::ListUnpack",
)


def may_be_one(left: Value, right: Value) -> bool:
    """Whether a write into one may be seen in the other."""
    first, second = _origins(left), _origins(right)
    return bool(first & second) or any(value.node.kind in _UNKNOWN for value in first | second)


def _origins(value: Value) -> set[Value]:
    """What a value may be the same object as: through branches, loops and casts."""
    found: set[Value] = set()
    seen: set[Value] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        sources = _sources(value)
        pending += sources
        if not sources:
            found.add(value)
    return found


def _sources(value: Value) -> list[Value]:
    return value.node.inputs if has(value.node, KindTrait.SAME_VALUE) else sources(value)
