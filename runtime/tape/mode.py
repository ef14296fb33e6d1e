"""Whether operations on Variables are recorded, per thread."""

from __future__ import annotations

from contextlib import ContextDecorator
from threading import local
from types import TracebackType


class _GradMode(local):
    enabled = True


_STATE = _GradMode()


def is_grad_enabled() -> bool:
    """Whether this thread records operations on Variables. True at first."""
    return _STATE.enabled


class grad_mode:  # noqa: N801 - used as a function is
    """Record, or do not, meanwhile."""

    __slots__ = ("_before", "_enabled")

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before, _STATE.enabled = _STATE.enabled, self._enabled

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _STATE.enabled = self._before


class _Switch(ContextDecorator):
    """A context manager and decorator that sets the mode; it may be entered again while it is entered."""

    _enabled: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def _recreate_cm(self) -> _Switch:
        """Each call of a decorated function, in whatever thread, has a switch of its own."""
        return type(self)()

    def __enter__(self) -> None:
        self._before.append(_STATE.enabled)
        _STATE.enabled = self._enabled

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _STATE.enabled = self._before.pop()


class no_grad(_Switch):  # noqa: N801 - spelled as torch spells it
    """Record nothing meanwhile: `with gs.tape.no_grad():`, or `@gs.tape.no_grad()` on a function. Per thread."""

    _enabled = False


class enable_grad(_Switch):  # noqa: N801 - spelled as torch spells it
    """Record again inside a `no_grad`: a context manager and a decorator. Per thread."""

    _enabled = True
