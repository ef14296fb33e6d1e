"""Calls told apart without Python are told apart as by Python: all pairs of many values, each beside each other."""

from __future__ import annotations

import gc
import sys
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.torch import calls
from gradscript.runtime.torch.prepared import recent
from gradscript.runtime.torch.prepared.recent import signature
from graph_recording import graph_device


class Subclass(torch.Tensor):
    pass


@pytest.fixture(autouse=True)
def built() -> None:
    if recent._signature_type() is None:
        pytest.skip("needs a compiler of C, Python's headers, and torch's functions for DLPack")


def values() -> list[tuple[Any, ...]]:
    x = torch.zeros(4, 6)
    with torch.inference_mode():
        inference = torch.zeros(4, 6)
    tensors = [
        *(x, x.clone(), x[:2], x.t(), x.t().contiguous(), x[:, ::2], x[:, 1:], x.expand(2, 4, 6), x.reshape(24)),
        *(torch.zeros(1, 6), torch.zeros(1, 1, 6), torch.zeros(4, 1), torch.zeros(4, 6, 1), torch.zeros(0, 6)),
        *(
            torch.zeros(6, 0),
            torch.zeros(()),
            torch.zeros(1),
            torch.zeros(1, 6).expand(4, 6),
            torch.zeros(4, 6).diagonal(),
        ),
        *(
            x.to(dtype)
            for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool)
        ),
        *(x.to(torch.uint8), x.to(torch.int8), x.to(torch.complex64), x.to(torch.complex64).conj()),
        *(x.to(torch.complex64).conj().imag, torch.zeros(4, 6, requires_grad=True), torch.nn.Parameter(x.clone())),
        *(torch.nn.Parameter(x.clone(), requires_grad=False), torch.zeros(4, 6).as_subclass(Subclass), inference),
        *(x.to_sparse(), torch.zeros(4, 6, device="meta"), torch._efficientzerotensor((4, 6)), x.to_mkldnn()),
    ]
    numbers = [0, 1, True, False, 0.0, 1.0, float("nan"), "", "a", None, 1 << 70, (1,), 1j]
    lists = [[], [x], [x, x], [x, x.t()], [[x], x], [[x, x]], [[], x], [1], [1.0], [None], [x, 1], [True]]
    return [(), *[(value,) for value in (*tensors, *numbers, *lists)], (x, x), (x, 1.0), (x, [x]), (x, []), ([x], x)]


def test_as_python_tells_them_apart() -> None:
    made, alike, told = recent._signature_type(), 0, 0
    assert made is not None
    row, again = values(), values()
    keys = [signature(value, lists=True) for value in again]
    for value in row:
        try:
            takes = made(value)
        except (TypeError, ValueError, RuntimeError, BufferError):
            continue
        key = signature(value, lists=True)
        told += 1
        for other, others_key in zip(again, keys, strict=True):
            if takes(other):
                assert key == others_key and key is not None, (value, other)
                alike += 1
            else:
                assert key != others_key or key is None, (value, other)
    assert told >= 40 and alike >= told


def test_nothing_is_kept_alive() -> None:
    made = recent._signature_type()
    assert made is not None
    x, text = torch.zeros(4, 6), "".join(["some ", "text"])
    before = [sys.getrefcount(one) for one in (x, text)]
    for _ in range(200):
        takes = made((x, [x, text, [x]], text, 1.0))
        assert takes((x, [x, text, [x]], text, 2.0)) and not takes((x, [x, text], text, 2.0)) and not takes((x,))
        with pytest.raises(TypeError):
            made((x, text, object()))
    del takes
    gc.collect()
    assert [sys.getrefcount(one) for one in (x, text)] == before


UNIT = gs.CompilationUnit("""
def net(x, ws: List[Tensor], rate: float):
    y = torch.tanh(x)
    for i in range(len(ws)):
        y = torch.tanh(y @ ws[i]) * rate + y
    return y.exp()
""")


def net(x: Any, ws: list[Any], rate: float) -> Any:
    y = torch.tanh(x)
    for w in ws:
        y = torch.tanh(y @ w) * rate + y
    return y.exp()


def test_calls_are_found_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of call by turns, beside eager torch; and Python is asked no more."""
    kinds = [(3, torch.float64, True), (3, torch.float64, False), (5, torch.float64, True), (3, torch.float32, True)]
    asked: list[int] = []
    asks = calls.signature

    def ask(*given: Any, **named: Any) -> Any:
        asked.append(1)
        return asks(*given, **named)

    with graph_device(monkeypatch):
        for turn in range(8):
            for rows, dtype, grad in kinds:
                x = torch.randn(rows, 4, dtype=dtype, requires_grad=grad)
                ws = [torch.randn(4, 4, dtype=dtype, requires_grad=grad) for _ in range(3)]
                with torch.set_grad_enabled(turn % 2 == 0):
                    found, want = UNIT.net(x, ws, 0.1 * turn), net(x, ws, 0.1 * turn)
                torch.testing.assert_close(found, want)
                assert found.requires_grad == want.requires_grad
                if found.requires_grad:
                    both = [torch.autograd.grad(one.sum(), [x, *ws]) for one in (found, want)]
                    for have, wanted in zip(*both, strict=True):
                        torch.testing.assert_close(have, wanted)
            if turn == 4:
                # Of either mode there were enough.
                monkeypatch.setattr(calls, "signature", ask)
    assert not asked
