"""Seeds that the host does not know: each lies in memory of a device, and kernels read it when they run.

What a graph holds is addresses. So where a step is captured, what it draws is such a seed, whose memory is filled
before each replay, as torch does with the state of its own generator.
"""

from __future__ import annotations

from typing import Any

_HALF, _WORD = 1 << 63, (1 << 64) - 1


class SeedInMemory:
    """An int64 in a device's memory, in the place of an int of compiled code.

    Of it, other seeds are made by sums, differences and products, modulo 2^64 as seeds are. It is no int: nothing else
    of the host takes it, TypeError, rather than take a number that is another one at the next replay.
    """

    __slots__ = ("memory",)

    __hash__ = None  # type: ignore[assignment] # no plan is kept by it

    def __init__(self, memory: Any) -> None:
        """`memory` is a tensor of one int64."""
        self.memory = memory

    def __add__(self, other: object) -> SeedInMemory:
        given = _operand(other)
        return NotImplemented if given is None else SeedInMemory(self.memory + given)

    def __sub__(self, other: object) -> SeedInMemory:
        given = _operand(other)
        return NotImplemented if given is None else SeedInMemory(self.memory - given)

    def __rsub__(self, other: object) -> SeedInMemory:
        given = _operand(other)
        return NotImplemented if given is None else SeedInMemory(given - self.memory)

    def __mul__(self, other: object) -> SeedInMemory:
        given = _operand(other)
        return NotImplemented if given is None else SeedInMemory(self.memory * given)

    def __neg__(self) -> SeedInMemory:
        return SeedInMemory(-self.memory)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"what is in a {type(self).__name__} is not compared")

    def __bool__(self) -> bool:
        raise TypeError(f"a {type(self).__name__} is no condition")


def _operand(value: object) -> Any:
    """What stands for an operand of int64 arithmetic; None for what is none."""
    if isinstance(value, SeedInMemory):
        return value.memory
    return ((value + _HALF) & _WORD) - _HALF if isinstance(value, int) else None
