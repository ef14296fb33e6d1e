"""What a captured step draws: seeds in memory, filled before each replay by what the step itself would draw."""

from __future__ import annotations

import torch

from ...settings.random import Generator, next_seed
from ...settings.seeds_in_memory import SeedInMemory

_APART = 2
"""Seeds are 16 bytes from each other, so that kernels are built for one alignment of them."""
_SEEDS = "it seeds the generator, which a replay does not"
_COUNT = "it draws {} random numbers than in the calls before, and a replay does the same each time"


class NoReplay(RuntimeError):
    """What a step does with random numbers is none of what a graph does again."""


class TriedSeeds:
    """Seeds of the calls that warm a step up: each has memory of its own, which holds a number from the start.

    They are none of the generator's in force.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._numbers = Generator()
        self.count = 0

    @property
    def state(self) -> object:
        """How many were drawn."""
        return self.count

    def restart(self, seed: int) -> None:
        """NoReplay: this is not done again."""
        raise NoReplay(_SEEDS)

    def draw(self) -> SeedInMemory:
        """The next one."""
        self.count += 1
        return SeedInMemory(torch.full((_APART,), self._numbers.draw(), dtype=torch.int64, device=self._device)[0])


class GraphSeeds:
    """The seeds of one graph. A capture draws the `count` of them from here, once, in their order."""

    def __init__(self, count: int, device: torch.device) -> None:
        self._memory = torch.zeros((count, _APART), dtype=torch.int64, device=device)
        self._drawn = 0

    @property
    def state(self) -> object:
        """How many were drawn."""
        return self._drawn

    def restart(self, seed: int) -> None:
        """NoReplay: this is not done again."""
        raise NoReplay(_SEEDS)

    def draw(self) -> SeedInMemory:
        """The next one."""
        if self._drawn == len(self._memory):
            raise NoReplay(_COUNT.format("more"))
        self._drawn += 1
        return SeedInMemory(self._memory[self._drawn - 1, 0])

    def check_all_drawn(self) -> None:
        """After the capture. Raises: NoReplay."""
        if self._drawn < len(self._memory):
            raise NoReplay(_COUNT.format("fewer"))

    def refill(self) -> None:
        """Have the next replay read seeds that were not drawn yet. The host waits for nothing."""
        count = len(self._memory)
        if count:
            rows = [[next_seed()] * _APART for _ in range(count)]
            # Memory of the host that is read later is not given to anybody before: torch sees to that of its own.
            host = torch.tensor(rows, dtype=torch.int64, pin_memory=self._memory.is_cuda)
            self._memory.copy_(host, non_blocking=True)
