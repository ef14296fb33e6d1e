"""What the executors have done so far, counted: `gs.compiler_debug.counters()`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import Lock


class Counter:
    """A number that threads count up without a lock: `add` is one step of an iterator, and returns what it was."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reads = 0
        self._start = 0
        steps = count()
        self.add: Callable[[], int] = steps.__next__

    @property
    def value(self) -> int:
        """Steps since the last reset. Reading is a step too, which is taken off again."""
        with self._lock:
            return self._read() - self._start

    def reset(self) -> None:
        with self._lock:
            self._start = self._read()

    def now(self) -> int:
        """A number between those of the steps before and after, without counting."""
        with self._lock:
            self._reads += 1
            return self.add()

    def _read(self) -> int:
        taken = self.add() - self._reads
        self._reads += 1
        return taken


CONSTRUCTED = Counter()
HITS = Counter()
"""Calls that found their plan, fallback plans included. What `add` returns grows from call to call."""
MISSES = Counter()
"""Calls that compiled their plan."""
FALLBACKS = Counter()
"""Calls without optimisation, which ask for no plan of the cache."""


def counters() -> dict[str, int]:
    """How many executors there have been, how often they ran, and how often that needed a new plan.

        graph_executors_constructed     one per graph that has run: functions, and f and df of each gradient
        graph_executor_invocations      their runs
        plan_cache_hits                 runs that found a plan for their ArgumentSpec
        plan_cache_misses               runs that compiled one

    Runs with `optimize=False` are invocations only.
    """
    hits, misses = HITS.value, MISSES.value
    return {
        "graph_executors_constructed": CONSTRUCTED.value,
        "graph_executor_invocations": hits + misses + FALLBACKS.value,
        "plan_cache_hits": hits,
        "plan_cache_misses": misses,
    }


def reset_counters() -> None:
    """Begin again at zero."""
    for counter in (CONSTRUCTED, HITS, MISSES, FALLBACKS):
        counter.reset()
