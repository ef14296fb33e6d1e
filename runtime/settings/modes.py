"""Settings of the executor and the tape: optimisation, profiling, autodiff subgraphs, the checking of captures.

Each is a context manager that also works as a plain call:

    gs.set_optimize(False)              # from here on, in this thread or task
    with gs.set_optimize(False): …      # in the block only

A setting belongs to the thread or asynchronous task that made it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Lock
from types import TracebackType

OPTIMIZE: ContextVar[bool] = ContextVar("optimize", default=True)
PROFILING: ContextVar[bool] = ContextVar("profiling", default=False)
SLICE_EVERYTHING: ContextVar[bool] = ContextVar("slice_everything", default=False)
CHECK_CAPTURES: ContextVar[bool] = ContextVar("check_captures", default=False)
AUTOTUNE: ContextVar[bool] = ContextVar("autotune", default=False)
DEFAULTS: dict[ContextVar[bool], bool] = {
    OPTIMIZE: True,
    PROFILING: False,
    SLICE_EVERYTHING: False,
    CHECK_CAPTURES: False,
    AUTOTUNE: False,
}


class _Touched:
    """Whether a setting other than its default may be in force anywhere: where not, a call need not look at them."""

    __slots__ = ("_count", "_lock", "any")

    def __init__(self) -> None:
        self.any = False
        self._count = 0
        self._lock = Lock()

    def add(self, change: int) -> None:
        """So many more are in force. One that no `with` ends is for ever."""
        with self._lock:
            self._count += change
            self.any = self._count > 0


TOUCHED = _Touched()


class Setting:
    """A setting that holds from now on; used in `with`, until the end of the block."""

    def __init__(self, variable: ContextVar[bool], value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"{variable.name} is True or False, not {value!r}")
        self._weight = int(value is not DEFAULTS[variable])
        TOUCHED.add(self._weight)
        self._is_over = False
        self._variable = variable
        self._token: Token[bool] = variable.set(value)

    def __enter__(self) -> None:
        if self._is_over:
            raise RuntimeError("a setting holds for one `with` block: make another for the next")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over = True
        self._variable.reset(self._token)
        TOUCHED.add(-self._weight)


def set_optimize(enabled: bool) -> Setting:
    """Whether calls are optimised. Without, they run a fallback plan: the required passes only, no specialisation."""
    return Setting(OPTIMIZE, enabled)


def set_profiling(enabled: bool) -> Setting:
    """Whether plans record the sizes and numbers of their first runs and specialise on them, behind a guard."""
    return Setting(PROFILING, enabled)


def set_autodiff_debugging(enabled: bool) -> Setting:
    """Whether every node that can be differentiated is sliced out, in groups of one too, and none is put back."""
    return Setting(SLICE_EVERYTHING, enabled)


def set_capture_checking(enabled: bool) -> Setting:
    """Whether the tape finds writes into what it has captured.

    An array does not say when it is written into. In this mode a node hashes the bytes of what it captures, and again
    before it uses them: a backward then raises RuntimeError for one that has changed, with the name and the op. It
    reads every captured byte twice.
    """
    return Setting(CHECK_CAPTURES, enabled)


def set_autotuning(enabled: bool) -> Setting:
    """Whether kernels that are built from here on are tuned: a few block sizes are timed, and the quickest is kept.

    The first launch on a device takes as long as building and running each candidate some times. What was found is
    stored in the cache directory, per kernel and kind of device, and used again without timing.
    """
    return Setting(AUTOTUNE, enabled)
