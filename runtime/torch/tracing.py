"""What torch's own tracers may see of a call: nothing, and they are told.

torch.compile leaves a call to Python: its graph ends before the call, and another one begins after it. A tracer that
records one run (`torch.jit.trace`, `make_fx` on real tensors) would record the result as a constant, right for the
example alone, so a call refuses to run there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._dynamo import eval_frame

from ...lang.source import Span
from ..failures.failure import RuntimeFailure
from ..values.tensor_memory import refuse_constants
from ..values.unsuitable import Unsuitable

_SKIP = eval_frame._FrameAction.SKIP
_LEFT_TO_PYTHON = eval_frame._FrameExecStrategy(_SKIP, _SKIP)


def leave_to_python(*functions: Callable[..., Any]) -> None:
    """Have torch.compile look neither into these nor into what they call. It costs their calls nothing."""
    for function in functions:
        eval_frame.set_code_exec_strategy(function.__code__, _LEFT_TO_PYTHON)


def refuse_tracers(name: str, span: Span) -> None:
    """RuntimeFailure (R003) where the run of a function is being recorded by torch."""
    if torch._C._get_tracing_state() is None:
        return
    try:
        refuse_constants()
    except Unsuitable as problem:
        raise RuntimeFailure("R003", name, problem.message, span=span, notes=[problem.note]) from None
