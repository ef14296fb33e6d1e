"""How many points of a short loop a compiler is told to compute side by side.

Left alone it takes as many as a register of the machine holds, and goes through what is left of a row one by one:
of 61 points three times 16, and then 13. Loops that add up are left alone: a sum in other parts has other last bits,
and would not be that of a row whose length is known when it runs.
"""

from __future__ import annotations

from ...scheduling.nest import Accumulate, AxisLoop, Evaluate, Item

COSTS = ((64, 2.0), (32, 1.2), (16, 0.9))
"""Bytes side by side, and what an operation on so many takes beside one on a single number."""
SINGLE = 0.9


def lanes_of(loop: AxisLoop, extent: int) -> int:
    """Points to compute side by side in a loop of so many; 0 where the compiler is to decide."""
    size = max(map(_bytes, loop.body), default=0)
    if size not in (4, 8) or any(isinstance(item, Accumulate) for item in loop.body):
        return 0
    costs = {bytes // size: cost for bytes, cost in COSTS}
    most, *_ = costs
    if extent < most // 2:
        return 0
    best = min(costs, key=lambda lanes: extent // lanes * costs[lanes] + extent % lanes * SINGLE)
    return 0 if best == most else best


def _bytes(item: Item) -> int:
    """Of a number that an item computes: halves are computed in float32, and bools are what numbers are chosen by."""
    if not isinstance(item, Evaluate):
        return 0
    dtype = item.statement.dtype
    return 4 if dtype.is_half else dtype.itemsize
