"""Loops whose rounds all have the same shapes: the last round follows from the first few.

    for i in range(1000):            after round 1    i = 1    x : [8]    kept = [[8]]
        kept.append(x)               after round 2    i = 2    x : [8]    kept = [[8], [8]]
        x = x * w[i]                 …
                                     after round 999  i = 999  x : [8]    kept = [[8], …]

What differs from round to round, the index, numbers and lists that are carried, may not have a say in shapes: it may go
into arithmetic of numbers, pick an element of a list all of whose elements are alike, pick a row, scale a tensor, and
be appended to. Where it goes anywhere else, each round is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .ir import Block, Node, Value, walk
from .meta import Meta, UnknownType
from .ops.registry import OPS, Trait
from .types import ListType, is_tensor, strip_optional

Abstract: TypeAlias = Any
Progress: TypeAlias = tuple[Any, ...]
"""What one round does to a carried value: ("same",), ("number", difference) or ("element", what is appended)."""

_PICKS = frozenset({"aten::__getitem__.t", "prim::grad_item"})
_ROWS = frozenset({"aten::select.int"})
_HANDS_ON = frozenset({"aten::append.t", "prim::unchecked_cast"})


def has_steady_shapes(body: Block, known: Mapping[Value, Abstract]) -> bool:
    """Whether no shape in a loop's body depends on what differs from round to round; `known` is of one round."""
    changing = {body.inputs[0], *(v for v in body.inputs[1:] if not is_tensor(strip_optional(v.type)))}
    while True:
        before = len(changing)
        for node in walk(body.nodes):
            if not _may_take(node, changing, known):
                return False
        if len(changing) == before:
            return True


def _may_take(node: Node, changing: set[Value], known: Mapping[Value, Abstract]) -> bool:
    """Whether a node takes what changes only in ways that leave shapes alone; notes which results change then."""
    taken = [v for v in node.inputs if v in changing]
    if node.blocks:
        # What decides a branch or a loop may not change, nor what leaves it.
        return not taken and not any(v in changing for block in node.blocks for v in block.outputs)
    if not taken:
        return True
    if node.kind in _PICKS:
        return node.inputs[0] in changing or _is_uniform(known.get(node.inputs[0]))
    if node.kind in _HANDS_ON:
        changing.update(node.outputs)
        return True
    if any(isinstance(v.type, ListType) for v in taken):
        return False
    op = OPS.of(node.schema)
    if op is None:
        return False
    if not any(is_tensor(strip_optional(v.type)) for v in (*node.inputs, *node.outputs)):
        changing.update(node.outputs)
        return True
    return op.has(Trait.POINTWISE) or node.kind in _ROWS


def _is_uniform(value: Abstract) -> bool:
    """Whether a list's elements are all alike, or there is no list."""
    if value is None:
        return True
    return isinstance(value, list) and all(item == value[0] for item in value)


def progress(before: Sequence[Abstract], after: Sequence[Abstract]) -> list[Progress] | None:
    """What a round did to each carried value; None if it did something else to one."""
    found = [_step(a, b) for a, b in zip(before, after, strict=True)]
    return None if any(step is None for step in found) else [step for step in found if step is not None]


def _step(before: Abstract, after: Abstract) -> Progress | None:
    if before is after:
        return ("same",)
    if isinstance(before, UnknownType) or isinstance(after, UnknownType) or type(before) is not type(after):
        return None
    if isinstance(before, list):
        if before == after:
            return ("same",)
        grown = len(after) == len(before) + 1 and after[:-1] == before
        alike = all(item == after[-1] for item in before[-1:])
        return ("element", after[-1]) if grown and alike else None
    if isinstance(before, Meta | str | bool) or before is None:
        return ("same",) if before == after else None
    return ("number", after - before) if isinstance(before, int) else None


def advanced(carried: Sequence[Abstract], steps: Sequence[Progress], rounds: int) -> list[Abstract]:
    """The carried values after so many more rounds."""
    return [_advance(value, step, rounds) for value, step in zip(carried, steps, strict=True)]


def _advance(value: Abstract, step: Progress, rounds: int) -> Abstract:
    if step[0] == "number":
        return value + rounds * step[1]
    return [*value, *[step[1]] * rounds] if step[0] == "element" else value
