"""What every folder of tests may ask for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest


def _steps(run: Callable[[], object]) -> int:
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


@pytest.fixture
def steps() -> Callable[[Callable[[], object]], int]:
    """How many bytecode instructions a call takes: how work grows, whatever else the machine is doing."""
    return _steps
