"""`torch.finfo`, `torch.iinfo`, and what a device is asked: as in torch, in texts that print and compile again."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LIMITS = """
def f(x):
    info = torch.finfo(x.dtype)
    return info.eps, info.max, info.min, info.tiny, info.smallest_normal, torch.finfo(x.dtype).resolution
"""
MASKED = """
def f(scores, mask):
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return F.softmax(scores, -1) / torch.finfo(torch.float32).tiny ** 0.0
"""
OF_DEVICES = """
def f(x):
    if x.device.type == "cpu" and x.device.index is None:
        x = x * 2
    return x, torch.device("cuda:1").type, torch.device("cuda:1").index
"""


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_have_the_limits_of_torch(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    wanted = (info.eps, info.max, info.min, info.tiny, info.smallest_normal, info.resolution)
    assert gs.CompilationUnit(LIMITS).f(torch.zeros(2, dtype=dtype)) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_have_the_limits_of_torch(dtype: torch.dtype) -> None:
    text = "def f(x):\n    info = torch.iinfo(x.dtype)\n    return info.bits, info.max, info.min\n"
    info = torch.iinfo(dtype)
    assert gs.CompilationUnit(text).f(torch.zeros(2, dtype=dtype)) == (info.bits, info.max, info.min)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_masks_by_the_least_number(dtype: torch.dtype, backend: str) -> None:
    scores = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], dtype=dtype)
    mask = torch.tensor([[True, False, False], [False, False, True]])
    wanted = torch.softmax(scores.masked_fill(mask, torch.finfo(dtype).min), -1)
    with gs.settings.backend(backend):
        torch.testing.assert_close(gs.CompilationUnit(MASKED).f(scores, mask), wanted)


@pytest.mark.parametrize("text", [LIMITS, MASKED, OF_DEVICES])
def test_what_is_printed_compiles_to_itself(text: str) -> None:
    printed = gs.CompilationUnit(text).f.code
    assert "gs." not in printed
    assert gs.CompilationUnit(printed).f.code == printed


def test_a_gradient_has_the_limit_that_the_forward_has() -> None:
    function = gs.CompilationUnit("def f(x):\n    return (x * torch.finfo(x.dtype).eps).sum()\n").f
    for dtype in FLOATS:
        x = torch.ones(3, dtype=dtype, requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, torch.full_like(x, torch.finfo(dtype).eps))


def test_dtypes_are_promoted_as_torch_promotes_them() -> None:
    dtypes = (torch.bool, *INTEGERS, *FLOATS)
    function = gs.CompilationUnit("def f(x, y):\n    return x.to(torch.promote_types(x.dtype, y.dtype))\n").f
    for one in dtypes:
        for other in dtypes:
            found = function(torch.ones(2, dtype=one), torch.ones(2, dtype=other))
            assert found.dtype == torch.promote_types(one, other)


def test_devices() -> None:
    x, kind, index = gs.CompilationUnit(OF_DEVICES).f(torch.ones(2))
    torch.testing.assert_close(x, torch.full((2,), 2.0))
    assert (kind, index) == ("cuda", 1)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("torch.finfo().eps", "torch.finfo() takes a dtype"),
        ("torch.finfo(x.dtype, 1).eps", "torch.finfo() takes a dtype"),
        ("torch.finfo(x.dtype).epsilon", "its elements are eps, max"),
        ("torch.finfo(torch.int32).eps", "`torch.iinfo` is of integers"),
        ("torch.iinfo(x.dtype).max", "torch.iinfo() is of integer dtypes, not of float32"),
        ("torch.finfo", "unknown name 'torch.finfo'"),
        ("x.device.name", "a Device has no attribute 'name'"),
        ("x.type", "a Tensor has no attribute 'type'"),
    ],
)
def test_what_is_none_is_told(body: str, told: str) -> None:
    with pytest.raises((gs.CompileError, gs.RuntimeFailure)) as caught:
        function: Any = gs.CompilationUnit(f"def f(x):\n    return x * {body}\n").f
        function(torch.ones(2))
    assert told in str(caught.value)
