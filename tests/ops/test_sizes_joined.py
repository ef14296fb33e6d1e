"""Sizes joined with tuples, and lists of ints of every length beside torch."""

from __future__ import annotations

from contextlib import suppress

import gradscript as gs
import numpy as np
import pytest
import torch
from enumeration import DIFFERENT, REFUSED, outcomes
from samples.torch_database import database, name_of

X = np.arange(120.0).reshape(5, 4, 6)


@pytest.mark.parametrize(
    "body",
    [
        "x.view(x.shape[:-1] + (2, 3))",
        "x.view(tuple(x.shape[:-1]) + (2, 3))",
        "x.view((x.shape[:-1].numel(), tuple(x.shape)[-1]))",
        "x.view(x.size()[:-1] + (2, 3))",
        "x.reshape(x.shape[:-1] + (2,) + (3,))",
        "x.reshape((5,) + x.shape[1:])",
        "x.expand((2,) + x.shape).reshape(x.shape[:1] + (8, -1))",
        "x.new_zeros(x.shape[:-1] + (x.shape[-1] // 2, 2))",
        "torch.zeros(x.shape + (1,), dtype=x.dtype) + x.unsqueeze(-1)",
        "x * (1 if x.shape[1:] == (4, 6) else 2)",
    ],
)
def test_sizes_take_tuples(body: str) -> None:
    text = f"def f(x):\n    return {body}\n"
    scope = {"torch": torch}
    exec(text, scope)
    found = gs.CompilationUnit(text).f(X)
    np.testing.assert_array_equal(found, scope["f"](torch.tensor(X)).numpy())


@pytest.mark.parametrize("body", ["l + (x,)", "(x,) + l", "[1.5] + (2.5,)", "[(1, 2)] + (3, 4)"])
def test_lists_take_no_tuples(body: str) -> None:
    text = f"def f(x):\n    l = [x]\n    return {body}\n"
    scope = {"torch": torch}
    exec(text, scope)
    with pytest.raises(TypeError, match="concatenate"):
        scope["f"](torch.tensor(X))
    with pytest.raises(gs.CompileError, match=r"operator '\+' does not take"):
        gs.CompilationUnit(text)


@pytest.mark.parametrize(
    "body",
    [
        "x.shape == [5, 4, 6]",
        "[5, 4] != x.shape[:2]",
        "x.shape in [[5, 4, 6], [2]]",
        "x.shape == [5] * 3",
        "list(x.shape) == (5, 4, 6)",
        "[5, 4] == (5, 4)",
        "x.view([1] + x.shape)",
        "x.view(x.shape[1:] + [5])",
        "x.shape.append(1)",
    ],
)
def test_sizes_are_no_lists(body: str) -> None:
    """Python compares them to False, and refuses the rest: it is refused here, and says what to write."""
    text = f"def f(x):\n    return {body}\n"
    scope = {"torch": torch}
    exec(text, scope)
    with suppress(TypeError, AttributeError):
        assert scope["f"](torch.tensor(X)) is ("!=" in body)
    with pytest.raises(gs.CompileError, match=r"a list|sizes"):
        gs.CompilationUnit(text)


@pytest.mark.parametrize(
    "body",
    [
        "x.view((1,) + x.shape)",
        "x.view(list(x.shape) + [1])",
        "x * 2 if x.shape == (5, 4, 6) else x",
        "x * 2 if list(x.shape) == [5, 4, 6] else x",
        "x * 2 if tuple(x.shape) == x.size() else x",
        "x * 2 if (5, 4, 6) == tuple(x.shape) else x",
    ],
)
def test_what_is_printed_of_sizes_compiles(body: str) -> None:
    text = f"def f(x):\n    return {body}\n"
    scope = {"torch": torch}
    exec(text, scope)
    function = gs.CompilationUnit(text).f
    wanted = scope["f"](torch.tensor(X)).numpy()
    for found in (function, gs.CompilationUnit(function.code).f):
        np.testing.assert_array_equal(found(X), wanted)
        assert found.code == function.code


@pytest.mark.parametrize("name", ["logsumexp", "sum", "amax", "flip", "roll", "nn.functional.adaptive_max_pool2d"])
def test_lists_of_other_lengths_give_what_torch_gives(name: str) -> None:
    ops = [op for op in database() if name_of(op) == name]
    told = [found for op in ops for _, found in outcomes(op, "float32", "lengths", 8)]
    assert told
    assert not [found.text for found in told if found.kind in (DIFFERENT, REFUSED)]


@pytest.mark.parametrize("body", ["F.lp_pool2d(x, 2, [2])", "F.lp_pool3d(x, 2, [2, 2])", "torch.logsumexp(x, [])"])
def test_what_torch_refuses_is_refused(body: str) -> None:
    text = f"def f(x):\n    return {body}\n"
    scope = {"torch": torch, "F": torch.nn.functional}
    exec(text, scope)
    with pytest.raises((ValueError, RuntimeError)):
        scope["f"](torch.tensor(X))
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure):
            gs.CompilationUnit(text).f(X)
