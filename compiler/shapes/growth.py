"""Lists that a loop carries and only adds to: a round's are like the last one's, with one element more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.node import RETURN, Block, Node, Value

_PICKS = frozenset({"aten::__getitem__.t", "prim::grad_item"})
_VERSIONS = frozenset({"aten::append.t", "aten::slice.t", "prim::unchecked_cast"})
"""Ops that make another of a list, shorter or longer."""
_GUARD = "prim::GradOf"


def growing_lists(block: Block, lists: Iterable[Value]) -> set[Value]:
    """The carried lists that are appended to, cut and picked from, and nothing else, so that their lengths have no say
    but for when they run out."""
    return {start for start in lists if _only_grows(block, start)}


def _only_grows(block: Block, start: Value) -> bool:
    """Whether a round does no more to a list. It goes by who uses the list: loops that are differentiated often carry
    as many lists as a round has nodes."""
    pending, versions = [start], {start}
    while pending:
        for use in pending.pop().uses:
            made = _made_of(block, *use)
            if made is None:
                return False
            pending += [value for value in made if value not in versions]
            versions.update(made)
    return True


def _made_of(block: Block, user: Node, index: int) -> Sequence[Value] | None:
    """What a user makes of a list by making it longer or shorter, if that is all it does; None where it does more."""
    guard = user.owner.node if user.owner is not block and user.owner is not None else None
    if guard is not None and (guard.kind != _GUARD or guard.owner is not block):
        return None
    if user.kind == RETURN:
        return (guard.outputs[index],) if guard is not None else ()
    if user.blocks:
        return () if user.kind == _GUARD and guard is None else None
    if index == 0 and user.kind in _VERSIONS:
        return user.outputs
    return () if index == 0 and user.kind in _PICKS else None
