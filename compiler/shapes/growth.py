"""Lists that a loop carries and only adds to: a round's are like the last one's, with one element more."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.node import Block, Node, Value, walk

_PICKS = frozenset({"aten::__getitem__.t", "prim::grad_item"})
_VERSIONS = frozenset({"aten::append.t", "aten::slice.t", "prim::unchecked_cast"})
"""Ops that make another of a list, shorter or longer."""
_GUARD = "prim::GradOf"


def growing_lists(block: Block, lists: Iterable[Value]) -> set[Value]:
    """The carried lists that are appended to, cut and picked from, and nothing else, so that their lengths have no say
    but for when they run out."""
    found = set()
    for start in lists:
        versions = {start}
        if all(_only_grows(node, versions) for node in block.nodes):
            found.add(start)
    return found


def _only_grows(node: Node, versions: set[Value]) -> bool:
    """Whether a node does no more to a list; notes what it makes of it."""
    if node.kind == _GUARD:
        (inside,) = node.blocks
        if not all(_only_grows_plainly(inner, versions) for inner in inside.nodes):
            return False
        pairs = zip(node.outputs, inside.outputs, strict=True)
        versions.update([value for value, made in pairs if made in versions])
        return True
    return _only_grows_plainly(node, versions)


def _only_grows_plainly(node: Node, versions: set[Value]) -> bool:
    if node.blocks:
        returned = (value for inner in walk([node]) for block in inner.blocks for value in block.outputs)
        taken = (value for inner in walk([node]) for value in inner.inputs)
        return versions.isdisjoint(taken) and versions.isdisjoint(returned)
    if versions.isdisjoint(node.inputs):
        return True
    if not versions.isdisjoint(node.inputs[1:]):
        return False
    if node.kind in _VERSIONS:
        versions.update(node.outputs)
        return True
    return node.kind in _PICKS
