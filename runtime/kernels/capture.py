"""First calls while a CUDA graph is captured: what the graph cannot hold is done beside it.

While a stream is captured, the driver refuses calls that might wait for it, such as those that load a kernel, and the
capture fails; by default it does so for every thread. A thread can say that what it does is none of the capture's
business, as torch's allocator does (cuThreadExchangeStreamCaptureMode in NVIDIA's driver API).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED, which is hipStreamCaptureModeRelaxed too."""
_NVIDIA = ("libcuda.so.1", "cuThreadExchangeStreamCaptureMode")
_AMD = ("libamdhip64.so", "hipThreadExchangeStreamCaptureMode")


@contextlib.contextmanager
def unrestricted() -> Iterator[None]:
    """Have the driver let this thread load kernels and wait for streams that are not captured."""
    exchange = _exchange()
    mode = ctypes.c_int(_RELAXED)
    exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))


@contextlib.contextmanager
def outside_of_capture(device: torch.device) -> Iterator[None]:
    """Where the device's current stream is captured, another one for what the host waits for, as for a copy from it.

    Memory that is allocated meanwhile is none of the graph's.
    """
    if not is_captured(device):
        yield
        return
    with unrestricted(), torch.cuda.stream(torch.cuda.Stream(device)):
        yield


def is_captured(device: torch.device) -> bool:
    """Whether what is put on the device's current stream becomes part of a graph."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return bool(torch.cuda.is_current_stream_capturing())


@cache
def _exchange() -> Callable[[Any], int]:
    """What sets this thread's mode, and gives the one that it had; nothing where the driver has no such function."""
    library, name = _NVIDIA if torch.version.hip is None else _AMD
    try:
        found: Callable[[Any], int] = getattr(ctypes.CDLL(library), name)
    except (OSError, AttributeError):
        return lambda mode: 0
    return found
