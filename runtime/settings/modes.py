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
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from threading import Lock
from types import TracebackType
from typing import Any

OPTIMIZE: ContextVar[bool] = ContextVar("optimize", default=True)
PROFILING: ContextVar[bool] = ContextVar("profiling", default=False)
SLICE_EVERYTHING: ContextVar[bool] = ContextVar("autodiff_debugging", default=False)
CHECK_CAPTURES: ContextVar[bool] = ContextVar("capture_checking", default=False)
AUTOTUNE: ContextVar[bool] = ContextVar("autotuning", default=False)
BACKENDS = ("auto", "numpy", "c")
BEGINS = "auto"
"""The backend where nobody has chosen one."""
BACKEND: ContextVar[str | None] = ContextVar("backend", default=None)
NUM_THREADS: ContextVar[int | None] = ContextVar("num_threads", default=None)
DEFAULTS: dict[ContextVar[Any], object] = {
    OPTIMIZE: True,
    PROFILING: False,
    SLICE_EVERYTHING: False,
    CHECK_CAPTURES: False,
    AUTOTUNE: False,
}
"""Of those that a call has to look at before anything else; what the backend begins with is in BEGUN."""


class _Begun:
    """The backend that a process begins with: what is `chosen`, and what it comes to, `name`, "" until that is asked.

    `by_ops` says that calls are known to run op by op.
    """

    __slots__ = ("_finds_compiler", "by_ops", "chosen", "name")

    def __init__(self) -> None:
        self._finds_compiler: Callable[[], bool] | None = None
        self.choose(os.environ.get("GRADSCRIPT_BACKEND") or BEGINS)

    def choose(self, backend: str) -> None:
        """Begin with this one."""
        self.chosen = backend
        self.name = ""
        self.by_ops = backend == "numpy"

    def register(self, finds_compiler: Callable[[], bool]) -> None:
        """Have `finds_compiler` say whether there is a compiler of C, and tell of it where there is none."""
        self._finds_compiler = finds_compiler

    def named(self) -> str:
        """The name, found out."""
        found = self.name or self.comes_to(self.chosen)
        self.name, self.by_ops = found, found == "numpy"
        return found

    def comes_to(self, backend: str) -> str:
        """What a backend comes to here, "numpy" or "c". ValueError for one that there is none of."""
        if backend not in BACKENDS:
            raise ValueError(f"GRADSCRIPT_BACKEND is {' or '.join(BACKENDS)}, not {backend!r}")
        if backend != "auto":
            return backend
        return "c" if self._finds_compiler is not None and self._finds_compiler() else "numpy"


BEGUN = _Begun()


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


def runs_c() -> bool:
    """Whether what runs on a processor runs as kernels in C. ValueError where $GRADSCRIPT_BACKEND names no backend."""
    if not TOUCHED.any:
        return (BEGUN.name or BEGUN.named()) == "c"
    return _backend_here() == "c" and OPTIMIZE.get() and not PROFILING.get()


def usual_backend() -> str | None:
    """The backend, where calls are optimised and nothing else is in force that they depend on; else None."""
    if not TOUCHED.any:
        return BEGUN.name or BEGUN.named()
    is_usual = OPTIMIZE.get() and not PROFILING.get() and not SLICE_EVERYTHING.get()
    return _backend_here() if is_usual else None


def _backend_here() -> str:
    chosen = BACKEND.get()
    return BEGUN.named() if chosen is None else BEGUN.comes_to(chosen)


class Setting:
    """A setting that holds from now on; used in `with`, until the end of the block."""

    def __init__(self, variable: ContextVar[Any], value: bool | str | int | None) -> None:
        usual = BEGUN.chosen if variable is BACKEND else DEFAULTS.get(variable, value)
        self._weight = int(value != usual)
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

    def __init__(
        self, variable: ContextVar[str | None], names: tuple[str, ...], begun: Callable[[], str], doc: str
    ) -> None:
        self._variable = variable
        self._names = names
        self._begun = begun
        self.__doc__ = doc

    def __call__(self, name: str) -> Setting:
        if not isinstance(name, str):
            raise TypeError(f"{self._variable.name} is one of {', '.join(self._names)}, not {name!r}")
        if name not in self._names:
            raise ValueError(f"{self._variable.name} is one of {', '.join(self._names)}, not {name!r}")
        return Setting(self._variable, name)

    def __eq__(self, other: object) -> bool:
        return str(self) == other

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self._variable.get() or self._begun()

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
        lambda: BEGUN.chosen,
        """What runs calls on arrays, and on torch tensors on the CPU: "auto", "numpy", op by op, or "c", fused kernels.

        "auto" is what holds from the start: "c" where there is a compiler of C, else "numpy", of which one notice
        tells. "c" also tells of what runs op by op all the same, and why.
        Kernels are built when a function is first called on arguments of some shapes, and kept in the cache directory,
        as is what was planned. What has no kernels runs op by op. $GRADSCRIPT_BACKEND says with which one a process
        begins.
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


def by_ops_unless_asked() -> AbstractContextManager[object]:
    """Op by op in a `with`, where nobody has chosen a backend: for what runs a few times, which kernels take longer to
    be built for."""
    return settings.backend("numpy") if settings.backend == "auto" else nullcontext()
