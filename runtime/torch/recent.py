"""Calls on a device that were made of late, found without a look by Python at each of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from typing import Any

import torch

from ..kernels.c.library import extension
from .prepared import PreparedCall, torch_state

MAX_RECENT = 8
"""Of one function; beyond, the one added first is found the longer way."""


class RecentCalls:
    """What was prepared for calls, by their values, as `c/text/signatures.c` tells them apart."""

    def __init__(self) -> None:
        self._calls: tuple[tuple[Hashable, Callable[[tuple[Any, ...]], bool], PreparedCall], ...] = ()

    def find(self, args: tuple[Any, ...]) -> PreparedCall | None:
        """What was prepared for such values; None where nothing was, or where torch is in another state."""
        calls = self._calls
        if not calls:
            return None
        state = torch_state()
        if state is not None:
            for known, takes, prepared in calls:
                if known == state and takes(args):
                    return prepared
        return None

    def add(self, args: tuple[Any, ...], prepared: PreparedCall) -> None:
        """Have such calls found from now on, where their values can be told apart."""
        made, state = _signature_type(), torch_state()
        if made is not None and state is not None:
            with suppress(TypeError, ValueError, RuntimeError, BufferError):
                self._calls = ((state, made(args), prepared), *self._calls[: MAX_RECENT - 1])


@cache
def _signature_type() -> Callable[[tuple[Any, ...]], Callable[[tuple[Any, ...]], bool]] | None:
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None:
        return None
    found: Any = extension("signatures.c", "gs_signature_type", exchange, torch.Tensor, torch.nn.Parameter)
    return found
