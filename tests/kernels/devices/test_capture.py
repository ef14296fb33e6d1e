"""What is done beside a CUDA graph: the thread's mode is exchanged and given back."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from gradscript.runtime.kernels import capture

GLOBAL, RELAXED = 0, 2


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The mode of this thread, and those that it had."""
    modes = [GLOBAL]

    def exchange(mode: Any) -> int:
        held = ctypes.cast(mode, ctypes.POINTER(ctypes.c_int)).contents
        modes.append(held.value)
        held.value = modes[-2]
        return 0

    monkeypatch.setattr(capture, "_exchange", lambda: exchange)
    return modes


def test_the_mode_is_given_back(thread: list[int]) -> None:
    with capture.unrestricted():
        assert thread == [GLOBAL, RELAXED]
        with capture.unrestricted():
            assert thread[-1] == RELAXED
        assert thread[-1] == RELAXED
    assert thread[-1] == GLOBAL


def test_the_mode_is_given_back_where_loading_fails(thread: list[int]) -> None:
    with pytest.raises(OSError), capture.unrestricted():
        raise OSError
    assert thread == [GLOBAL, RELAXED, GLOBAL]


def test_where_nothing_is_captured_nothing_is_asked(thread: list[int]) -> None:
    with capture.outside_of_capture(torch.device("cpu")):
        pass
    assert thread == [GLOBAL] and not capture.is_captured(torch.device("cpu"))


def test_a_driver_without_modes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "_NVIDIA", ("libnosuchdriver.so.1", "cuThreadExchangeStreamCaptureMode"))
    monkeypatch.setattr(capture, "_AMD", ("libnosuchdriver.so", "hipThreadExchangeStreamCaptureMode"))
    capture._exchange.cache_clear()
    try:
        with capture.unrestricted():
            mode = capture._exchange()(None)
    finally:
        capture._exchange.cache_clear()
    assert mode == 0
