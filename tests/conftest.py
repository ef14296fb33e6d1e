"""What every folder of tests may ask for."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

import pytest

# The suite is of the interpreter, and of kernels in C where a test says so; `make test-c` runs all of it on these.
os.environ.setdefault("GRADSCRIPT_BACKEND", "numpy")

with suppress(ImportError):
    from hypothesis import HealthCheck, settings

    # How long an example takes says nothing of the code where other work shares the machine.
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What is there before the first test is there after the last: the garbage collector need not look at it again.

    Graphs are many small objects that stay for a while, so that by default it would look at all there is again and
    again, which took a third of the time.
    """
    from gradscript.runtime.kernels.c.kept.plans import KeptPlans

    # What tests change of how it is planned is not for others.
    KeptPlans.stopped = True
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Of what is left, pytest has the collector look for failures five times: once is enough for all but the last."""
    gc.collect()
    gc.freeze()


def _traced(run: Callable[[], object]) -> int:
    taken = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal taken
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        taken += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return taken


def _monitored(run: Callable[[], object]) -> int:
    """The same where Python has `sys.monitoring`: there a trace misses instructions of code that it meets first."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)
    event = monitoring.events.INSTRUCTION
    taken = 0

    def count(code: CodeType, offset: int) -> None:
        nonlocal taken
        taken += 1

    monitoring.use_tool_id(tool, "steps")
    monitoring.register_callback(tool, event, count)
    monitoring.set_events(tool, event)
    try:
        run()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    return taken


@pytest.fixture
def steps() -> Callable[[Callable[[], object]], int]:
    """How many bytecode instructions a call takes: how work grows, whatever else the machine is doing."""
    return _monitored if hasattr(sys, "monitoring") else _traced


@pytest.fixture
def op_by_op() -> Iterator[None]:
    """For what is tested of the interpreter itself, whichever backend the suite runs on. It holds in every thread."""
    import gradscript as gs
    from gradscript.runtime.settings.modes import BEGUN

    begun = BEGUN.chosen
    BEGUN.choose("numpy")
    try:
        # What an earlier test of this thread may have chosen is no part of it.
        with gs.settings.backend("numpy"):
            yield
    finally:
        BEGUN.choose(begun)
