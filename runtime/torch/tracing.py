"""Keeping torch.compile out: what is inside a call is compiled already, and NumPy.

Where a compiled function calls one of ours, its graph ends before the call, and another one begins after it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

_FRAMES: dict[Callable[..., Any], None] = {}
"""What runs before a call gets here."""


def leave_to_python(*functions: Callable[..., Any]) -> None:
    """Have torch.compile not look into these: what users call, and what that runs until a call gets here."""
    _FRAMES.update(dict.fromkeys(functions))


def hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run outside of torch.compile where that is loaded at all."""
    disabled: Callable[..., Any] | None = None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if disabled is None:
            disabled = torch.compiler.disable(function, reason="a Gradscript function is compiled")
            _skip_frames((*_FRAMES, call))
        return disabled(*args, **kwargs)

    return call


def _skip_frames(functions: tuple[Callable[..., Any], ...]) -> None:
    """Have torch.compile not try to compile these frames by themselves, which it would break up and give up."""
    skip: Callable[[Any], None] | None = getattr(sys.modules["torch._dynamo"].eval_frame, "skip_code", None)
    if skip is not None:
        for function in functions:
            skip(function.__code__)
