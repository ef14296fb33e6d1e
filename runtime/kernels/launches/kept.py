"""The launch lists that plans have: each is recorded when its plan runs for the second time, for it may never again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any, Protocol

import torch

from ...plans.interpreter import run_plan
from ...plans.plan import ExecutionPlan
from ...settings.random import draws_in_memory
from ..failure import KernelFailure
from .launch_list import LaunchList
from .recording import GradientSum, Recording

MAX_LISTS = 256
"""Of the process; beyond, plans go without the oldest."""
_DEVICE = (torch.OutOfMemoryError, torch.AcceleratorError, KernelFailure)
_LOCK = Lock()


class OnStream(Protocol):
    """What runs something where a device is the current one, and tells its stream."""

    def __call__(self, run: Any) -> list[Any]:
        """What `run` gives for the stream."""


class KeptList:
    """The list of one plan, for arguments of one kind. `own` are the places of arguments that are seeds."""

    def __init__(self, plan: ExecutionPlan, own: Sequence[int], added: GradientSum, there: OnStream) -> None:
        self._plan = plan
        self._own = own
        self._added = added
        self._there = there
        self._has_run = False
        self.found: LaunchList | None = None
        self._is_tried = False

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results. RuntimeFailure for what is wrong with the data."""
        return self.run_listed(values)[0]

    def run_listed(self, values: Sequence[Any]) -> tuple[list[Any], LaunchList | None]:
        """The results, and the list that gave them, where one did."""
        found = self.found
        if found is not None:
            try:
                return self._there(lambda stream: found.run(values, stream)), found
            except _DEVICE:
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
        results, made = Recording(self._plan, self._added).run(values, self._own)
        if made is not None:
            self._keep(made)
        return results

    def _keep(self, made: LaunchList) -> None:
        with _LOCK:
            if len(_KEPT) >= MAX_LISTS:
                oldest = _KEPT.popleft()
                oldest.found, oldest._has_run, oldest._is_tried = None, False, False
            _KEPT.append(self)
            self.found = made


_KEPT: deque[KeptList] = deque()
