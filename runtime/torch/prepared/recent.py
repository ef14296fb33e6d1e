"""What tells calls on tensors apart, and those on a device that were made of late, found without a look by Python at
each of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch.autograd import forward_ad

from ...kernels.c.library import extension
from ...settings.modes import TOUCHED, usual_backend
from ..kinds import PLAIN, dispatch_keys
from ..recorded.node import is_transformed
from .calls import CONSTANTS, PreparedCall, TorchValues

MAX_RECENT = 8
"""Of one function; beyond, the one added first is found the longer way."""


_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
_finds_anomalies: Callable[[], bool] = torch.is_anomaly_enabled
_default_dtype: Callable[[], Hashable] = torch.get_default_dtype
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_trace: Callable[[], Any] = torch._C._get_tracing_state


def signature(values: TorchValues, *, lists: bool = False) -> Hashable:
    """What decides how a call runs, apart from elements and floats; None where more does: torch's modes and transforms
    say so, or a value is none that is told of here, as a list is unless `lists` are."""
    state = torch_state()
    if state is None:
        return None
    key: list[Hashable] = [*state]
    try:
        return tuple(key) if _add_kinds(values, key, lists) else None
    except RuntimeError:
        # Nested tensors have no shape.
        return None


def torch_state() -> tuple[Hashable, ...] | None:
    """What decides how a call runs besides its values: whether torch records, the backend, torch's default dtype. None
    where more does."""
    if is_transformed() or _modes() or _trace() is not None or forward_ad._current_level >= 0:
        return None
    records = _grad_enabled()
    backend = usual_backend() if TOUCHED.any else ""
    if backend is None or (records and _finds_anomalies()):
        return None
    return (records, backend, _default_dtype())


def _add_kinds(values: TorchValues, key: list[Hashable], lists: bool) -> bool:
    """Whether all values are told of. Lists nest as deep as types in source, so this recurses."""
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            key += (
                dispatch_keys(value).raw_repr(),
                value.device,
                value.dtype,
                value.shape,
                value.stride(),
                value.requires_grad,
            )
        elif kind is float:
            key.append(float)
        elif kind in CONSTANTS:
            key.append((kind, value))
        elif lists and kind is list:
            key += (list, len(value))
            if not _add_kinds(value, key, lists):
                return False
        else:
            return False
    return True


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
    functions = None if exchange is None else extension(("dlpack.c", "signatures.c"), "gs_signature_type")
    return None if functions is None else functions[0]((exchange, torch.Tensor, torch.nn.Parameter))
