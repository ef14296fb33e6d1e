"""The lists that plans have: each is recorded when its plan runs for the second time, for it may never again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from ...plans.interpreter import run_plan
from ...plans.plan import ExecutionPlan
from ...settings.random import draws_in_memory
from .recording import Recording

MAX_LISTS = 256
"""Of the process; beyond, plans go without the oldest."""
_LOCK = Lock()


class RunsAgain(Protocol):
    """A list."""

    def run(self, values: Sequence[Any], stream: Any) -> list[Any]:
        """The results, for one value per argument."""


L = TypeVar("L", bound=RunsAgain)


class OnStream(Protocol):
    """What runs something where a device is the current one, and tells its stream."""

    def __call__(self, run: Any) -> list[Any]:
        """What `run` gives for the stream."""


class KeptList(Generic[L]):
    """The list of a plan, made by what `record` gives, for arguments of one kind. Those at places in `own` are seeds;
    errors that are `passing` are not the data's."""

    def __init__(
        self,
        plan: ExecutionPlan,
        record: Callable[[], Recording[L]],
        own: Sequence[int],
        there: OnStream,
        passing: tuple[type[Exception], ...] = (),
    ) -> None:
        self._plan = plan
        self._record = record
        self._own = own
        self._there = there
        self._passing = passing
        self._has_run = False
        self.found: L | None = None
        self._is_tried = False

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results. RuntimeFailure for what is wrong with the data."""
        return self.run_listed(values)[0]

    def run_listed(self, values: Sequence[Any]) -> tuple[list[Any], L | None]:
        """The results, and the list that gave them, where one did."""
        found = self.found
        if found is not None:
            try:
                return self._there(lambda stream: found.run(values, stream)), found
            except self._passing:
                raise
            except Exception:
                # A list does nothing that anybody would see, and the plan tells where in a program it went wrong.
                return run_plan(self._plan, values), None
        return self._unlisted(values), None

    def _unlisted(self, values: Sequence[Any]) -> list[Any]:
        if self._is_tried or not self._has_run or draws_in_memory():
            self._has_run = True
            return run_plan(self._plan, values)
        self._is_tried = True
        results, made = self._record().run(values, self._own)
        if made is not None:
            self._keep(made)
        return results

    def _keep(self, made: L) -> None:
        with _LOCK:
            if len(_KEPT) >= MAX_LISTS:
                oldest = _KEPT.popleft()
                oldest.found, oldest._has_run, oldest._is_tried = None, False, False
            _KEPT.append(self)
            self.found = made


_KEPT: deque[KeptList[Any]] = deque()
