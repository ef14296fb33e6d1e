"""Whose memory results of steps have: what is new each time needs no look at whose it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lists.slots import SlotOf
from .steps import CalledOp, LaunchedKernel

_NEW = ("aten::mm", "aten::bmm", "aten::matmul", "aten::addmm")
"""Ops of torch whose results are in memory of their own, though maybe as a view of what was allocated."""


def memory_of_slots(steps: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Of each output the slot that was allocated, and whether it may be a view of that; True where that is not known,
    None of what is in no slot. Outputs that are lists have lists."""
    own: dict[int, tuple[int, bool]] = {}
    for step in steps:
        if isinstance(step, LaunchedKernel):
            own.update({number: (number, False) for number, *_ in step.made})
            own.update({number: (own[source][0], True) for number, source, _ in step.moved if source in own})
        elif isinstance(step, CalledOp) and step.node.kind in _NEW:
            own.update({number: (number, True) for number in step.results})
    return _memory_of(outputs, own)


def _memory_of(outputs: Sequence[Any], own: Mapping[int, tuple[int, bool]]) -> list[Any]:
    """Lists nest as deep as types in source, so this recurses."""
    found: list[Any] = []
    for output in outputs:
        if isinstance(output, list):
            found.append(_memory_of(output, own))
        elif type(output) is SlotOf:
            found.append(own.get(output, True))
        else:
            found.append(True if isinstance(output, tuple) else None)
    return found
