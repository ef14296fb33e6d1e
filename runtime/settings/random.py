"""The generator of seeds, of the process or of a block of one thread or task.

gs.random.manual_seed(0)                  # from here on, the calls of all threads together draw the same seeds again
with gs.random.local_seed(0): …           # the calls in the block draw from a generator of their own
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
from typing import Any, ParamSpec, Protocol, TypeVar

from ...compiler.ops.draw import Draw

P = ParamSpec("P")
R = TypeVar("R")

_WORD = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio, made odd."""


class Generator:
    """A sequence of seeds, each in [0, 2^63). Any number of threads may draw; no two are given the same place in it.

    Place n holds SplitMix64 of state + n · gamma. Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom
    number generators", figure 13.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = Lock()
        self._state = int.from_bytes(os.urandom(8)) if seed is None else seed & _WORD

    @property
    def state(self) -> int:
        """What its next seed follows from."""
        return self._state

    def restart(self, seed: int) -> None:
        """Go on as a generator that was made with this seed."""
        with self._lock:
            self._state = seed & _WORD

    def draw(self) -> int:
        """The next seed."""
        with self._lock:
            self._state = state = (self._state + _GAMMA) & _WORD
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _WORD
        return (state ^ (state >> 31)) >> 1


class SeedSource(Protocol):
    """What seeds come from."""

    @property
    def state(self) -> object:
        """What its next seed follows from."""

    def restart(self, seed: int) -> None:
        """Go on as a generator that was made with this seed."""

    def draw(self) -> Any:
        """The next seed: an int, or one in memory."""


PROCESS = Generator()
"""Seeded from the operating system until `manual_seed` is called."""
_seeded = False
"""Whether it was called: from then on the process draws from its own generator, whatever else there is."""
_LOCAL: ContextVar[SeedSource | None] = ContextVar("generator", default=None)


def manual_seed(seed: int) -> None:
    """Make what follows reproducible: the same calls in the same order give the same random numbers.

    Of the process, or of the innermost `local_seed` around. Any int will do, modulo 2^64. Calls that several threads
    make at the same time share one sequence, in the order in which they get there: seed each by `local_seed`. Where
    it was never called, and torch is loaded, seeds come from torch's generator: `torch.manual_seed` makes them
    reproducible too, and a checkpoint draws the same ones again.
    """
    global _seeded
    seed = _checked(seed, "gs.random.manual_seed")
    source = _LOCAL.get()
    if source is None:
        source, _seeded = PROCESS, True
    source.restart(seed)


@contextmanager
def local_seed(seed: int) -> Iterator[None]:
    """In a `with` block: a generator of its own for this thread or asynchronous task, and the tasks it starts."""
    token = _LOCAL.set(Generator(_checked(seed, "gs.random.local_seed")))
    try:
        yield
    finally:
        _LOCAL.reset(token)


@contextmanager
def drawing_from(source: SeedSource) -> Iterator[None]:
    """In a `with` block: seeds that compiled code draws in this thread come from there."""
    token = _LOCAL.set(source)
    try:
        yield
    finally:
        _LOCAL.reset(token)


def draws_in_memory() -> bool:
    """Whether seeds are drawn at present that the host does not know."""
    return not isinstance(_LOCAL.get(), Generator | None)


def reseeded(seed: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates what draws from a generator of its own, made anew for each call.

    What `@local_seed(seed)` does too, in a tenth of the time.
    """
    set_to, reset = _LOCAL.set, _LOCAL.reset

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def alike(*args: P.args, **kwargs: P.kwargs) -> R:
            token = set_to(Generator(seed))
            try:
                return function(*args, **kwargs)
            finally:
                reset(token)

        return alike

    return decorate


def _checked(seed: int, name: str) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"{name} takes an int, not {type(seed).__name__}")
    return seed


def next_seed() -> int:
    """What `gs.seed()` gives in compiled code."""
    generator = _LOCAL.get()
    if generator is not None:
        seed: int = generator.draw()
        return seed
    torch = None if _seeded else sys.modules.get("torch")
    if torch is None or not hasattr(torch, "default_generator"):
        return PROCESS.draw()
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_())


def drawn_so_far() -> object:
    """What is another one once a seed was drawn, or a number by torch's generator of the CPU."""
    generator, torch = _LOCAL.get(), sys.modules.get("torch")
    theirs = getattr(torch, "default_generator", None)
    own = b"" if theirs is None else bytes(theirs.get_state().numpy())
    return PROCESS.state, None if generator is None else generator.state, own


Draw.source = next_seed
