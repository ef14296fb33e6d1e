"""gs.settings: optimisation, profiling, autodiff subgraphs, the checking of captures, tuning, the backend.

Each is an attribute that is called, assigned to or asked:

    gs.settings.optimize(False)              # from here on, in this thread or task
    gs.settings.optimize = False             # the same
    with gs.settings.optimize(False): …      # in the block only
    if gs.settings.optimize: …               # what holds here
    gs.settings.backend = "c"                # one of several
    gs.settings.num_threads = 4              # a number
    if gs.settings.backend == "c": …

A setting belongs to the thread or asynchronous task that made it.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from threading import Lock
from types import TracebackType
from typing import Any

OPTIMIZE: ContextVar[bool] = ContextVar("optimize", default=True)
PROFILING: ContextVar[bool] = ContextVar("profiling", default=False)
SLICE_EVERYTHING: ContextVar[bool] = ContextVar("autodiff_debugging", default=False)
CHECK_CAPTURES: ContextVar[bool] = ContextVar("capture_checking", default=False)
AUTOTUNE: ContextVar[bool] = ContextVar("autotuning", default=False)
BACKENDS = ("numpy", "c")
_CHOSEN = os.environ.get("GRADSCRIPT_BACKEND") or "numpy"
BACKEND: ContextVar[str] = ContextVar("backend", default=_CHOSEN)
NUM_THREADS: ContextVar[int | None] = ContextVar("num_threads", default=None)
DEFAULTS: dict[ContextVar[Any], object] = {
    OPTIMIZE: True,
    PROFILING: False,
    SLICE_EVERYTHING: False,
    CHECK_CAPTURES: False,
    AUTOTUNE: False,
    BACKEND: "numpy",
}
"""Of those that a call has to look at before anything else."""


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
TOUCHED.add(int(DEFAULTS[BACKEND] != _CHOSEN))


def runs_c() -> bool:
    """Whether what runs on a processor runs as kernels in C. ValueError where $GRADSCRIPT_BACKEND names no backend."""
    if not TOUCHED.any:
        return False
    chosen = BACKEND.get()
    if chosen not in BACKENDS:
        raise ValueError(f"GRADSCRIPT_BACKEND is {' or '.join(BACKENDS)}, not {chosen!r}")
    return chosen == "c" and OPTIMIZE.get() and not PROFILING.get()


def usual_backend() -> str | None:
    """The backend, where calls are optimised and nothing else is in force that they depend on; else None."""
    if not TOUCHED.any:
        return BACKENDS[0]
    is_usual = OPTIMIZE.get() and not PROFILING.get() and not SLICE_EVERYTHING.get()
    return BACKEND.get() if is_usual else None


class Setting:
    """A setting that holds from now on; used in `with`, until the end of the block."""

    def __init__(self, variable: ContextVar[Any], value: bool | str | int | None) -> None:
        self._weight = int(value != DEFAULTS.get(variable, value))
        TOUCHED.add(self._weight)
        self._is_over = False
        self._variable = variable
        self._token: Token[Any] = variable.set(value)

    def __enter__(self) -> None:
        if self._is_over:
            raise RuntimeError("a setting holds for one `with` block: make another for the next")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over = True
        self._variable.reset(self._token)
        TOUCHED.add(-self._weight)


class Choice:
    """One of the settings: True where it is chosen. Calling it chooses."""

    def __init__(self, variable: ContextVar[bool], doc: str) -> None:
        self._variable = variable
        self.__doc__ = doc

    def __call__(self, enabled: bool) -> Setting:
        if not isinstance(enabled, bool):
            raise TypeError(f"{self._variable.name} is True or False, not {enabled!r}")
        return Setting(self._variable, enabled)

    def __bool__(self) -> bool:
        return self._variable.get()

    def __repr__(self) -> str:
        return f"gs.settings.{self._variable.name}: {bool(self)}"


class OneOf:
    """One of the settings: one of several names, to which it is equal. Calling it chooses."""

    def __init__(self, variable: ContextVar[str], names: tuple[str, ...], doc: str) -> None:
        self._variable = variable
        self._names = names
        self.__doc__ = doc

    def __call__(self, name: str) -> Setting:
        if not isinstance(name, str):
            raise TypeError(f"{self._variable.name} is one of {', '.join(self._names)}, not {name!r}")
        if name not in self._names:
            raise ValueError(f"{self._variable.name} is one of {', '.join(self._names)}, not {name!r}")
        return Setting(self._variable, name)

    def __eq__(self, other: object) -> bool:
        return self._variable.get() == other

    def __hash__(self) -> int:
        return hash(self._variable.get())

    def __str__(self) -> str:
        return self._variable.get()

    def __repr__(self) -> str:
        return f"gs.settings.{self._variable.name}: {self}"


class Count:
    """One of the settings: a number, or None for what holds without it. Calling it chooses."""

    def __init__(self, variable: ContextVar[int | None], doc: str) -> None:
        self._variable = variable
        self.__doc__ = doc

    def __call__(self, number: int | None) -> Setting:
        name = self._variable.name
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise TypeError(f"{name} is a number from 1, or None, not {number!r}")
        if number is not None and number < 1:
            raise ValueError(f"{name} is a number from 1, or None, not {number}")
        return Setting(self._variable, number)

    @property
    def value(self) -> int | None:
        return self._variable.get()

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Count) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"gs.settings.{self._variable.name}: {self.value}"


class Settings:
    """What a thread or task has chosen.

    Raises AttributeError for an unknown setting, TypeError or ValueError for what is none of its values.
    """

    __slots__ = ("_choices",)
    _choices: dict[str, Choice | OneOf | Count]

    def __init__(self, **choices: Choice | OneOf | Count) -> None:
        object.__setattr__(self, "_choices", choices)

    def __getattr__(self, name: str) -> Any:
        return self._named(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._named(name)(value)

    def __dir__(self) -> list[str]:
        return sorted(self._choices)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._choices.values()))

    def _named(self, name: str) -> Any:
        choice = object.__getattribute__(self, "_choices").get(name)
        if choice is None:
            raise AttributeError(f"no setting is called {name!r}: there are {', '.join(dir(self))}")
        return choice


settings = Settings(
    optimize=Choice(
        OPTIMIZE,
        "Whether calls are optimised. Without, they run a fallback plan: the required passes only, no specialisation.",
    ),
    profiling=Choice(
        PROFILING,
        "Whether plans record the sizes and numbers of their first runs and specialise on them, behind a guard.",
    ),
    autodiff_debugging=Choice(
        SLICE_EVERYTHING,
        "Whether every node that can be differentiated is sliced out, in groups of one too, and none is put back.",
    ),
    capture_checking=Choice(
        CHECK_CAPTURES,
        """Whether the tape finds writes into what it has captured.

        An array does not say when it is written into. In this mode a node hashes the bytes of what it captures, and
        again before it uses them: a backward then raises RuntimeError for one that has changed, with the name and the
        op. It reads every captured byte twice.
        """,
    ),
    autotuning=Choice(
        AUTOTUNE,
        """Whether kernels that are built from here on are tuned: a few block sizes are timed, and the quickest is kept.

        The first launch on a device takes as long as building and running each candidate some times. What was found
        is stored in the cache directory, per kernel and kind of device, and used again without timing.
        """,
    ),
    backend=OneOf(
        BACKEND,
        BACKENDS,
        """What runs calls on arrays, and on torch tensors on the CPU: "numpy", op by op, or "c", fused kernels.

        Kernels are built by the system's compiler of C when a function is first called on arguments of some shapes,
        and kept in the cache directory. What has no kernels, and everything where there is no compiler, runs op by
        op. $GRADSCRIPT_BACKEND says with which one a process begins.
        """,
    ),
    num_threads=Count(
        NUM_THREADS,
        """How many threads kernels in C share, the calling one among them. Results are the same for any number.

        None, from the start: as many as torch has, where it is imported, else as $OMP_NUM_THREADS says, else one for
        each processor that the process may use.
        """,
    ),
)
"""`gs.settings`."""
