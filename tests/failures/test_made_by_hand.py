"""Errors that are made, copied and sent by hand, and what is no argument of the public face: told by a message."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

WRONG: dict[str, Callable[[], Any]] = {
    "compile": lambda: gs.CompilationUnit("def f(x):\n    return y\n\n\ndef g(x):\n    return z\n"),
    "run": lambda: gs.CompilationUnit("def f(x):\n    raise ValueError('no')\n").f(1.0),
    "call": lambda: gs.CompilationUnit("def f(x):\n    return x\n").f("no"),
}
WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "sent": lambda error: pickle.loads(pickle.dumps(error))}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WRONG)
def test_a_copy_says_the_same(name: str, way: str) -> None:
    with pytest.raises((gs.CompileError, gs.RuntimeFailure)) as caught:
        WRONG[name]()
    error = caught.value
    made = WAYS[way](error)
    assert type(made) is type(error)
    assert str(made) == str(error)
    said = ("code", "message", "op", "argument", "notes")
    assert [getattr(made, part, None) for part in said] == [getattr(error, part, None) for part in said]
    assert (made.span.line, made.span.text) == (error.span.line, error.span.text)
    assert len(getattr(made, "diagnostics", ())) == len(getattr(error, "diagnostics", ()))


UNIT = gs.CompilationUnit("def f(x, n: int = 2):\n    return x * n\n")
MISUSED: dict[str, Callable[[], Any]] = {
    "CompileError of a text": lambda: gs.CompileError("no"),
    "CompileError of nothing": lambda: gs.CompileError([]),
    "CompileError of None": lambda: gs.CompileError(None),
    "RuntimeFailure of an array": lambda: gs.RuntimeFailure("R101", np.ones(2), "no"),
    "RuntimeFailure without a span": lambda: gs.RuntimeFailure("R101", "f", "no", span=None),
    "RuntimeFailure with a note for notes": lambda: gs.RuntimeFailure("R101", "f", "no", notes="no"),
    "Function of nothing": lambda: gs.Function(None),
    "choose_aggregation zeros": lambda: gs.compiler_debug.choose_aggregation(zeros=3),
    "choose_aggregation one op": lambda: gs.compiler_debug.choose_aggregation(zeros="aten::zeros_like"),
    "trace check": lambda: gs.trace(lambda x: x, np.ones(2), check=np.ones(2)),
    "derive order": lambda: gs.derive(UNIT.f, 10**30),
    "convert": lambda: gs.convert("x = 1\n\ud800"),
}


@pytest.mark.parametrize("name", MISUSED)
def test_what_is_no_argument_is_told(name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        MISUSED[name]()
    assert str(caught.value)
    assert caught.traceback[-1].statement.lines[0].strip().startswith("raise ")


@pytest.mark.parametrize("given", [[], "x", None, (1, 2)])
def test_what_cannot_be_exported_is_told_as_by_a_call(given: Any) -> None:
    with pytest.raises(gs.RuntimeFailure, match="argument 'x': a Tensor is needed"):
        gs.export(UNIT.f, given)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_around_a_source_is_told() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for take in (
        lambda: gs.CompilationUnit("def f(x):\n    return x * A\n", scope={"A": nested}),
        lambda: gs.export(UNIT.f, nested),
        lambda: gs.graphed(UNIT.f)(nested),
    ):
        with pytest.raises((gs.CompileError, gs.RuntimeFailure)):
            take()


def test_a_label_beyond_the_classes_is_told_in_words_of_the_loss() -> None:
    unit = gs.CompilationUnit("def f(x, y, a, b):\n    return F.ctc_loss(x, y, a, b)\n")
    lengths = torch.tensor([5, 5]), torch.tensor([2, 2])
    for label in (4, -1):
        with pytest.raises(gs.RuntimeFailure, match="ctc_loss: each label must be one of the classes"):
            unit.f(torch.zeros(5, 2, 4), torch.tensor([[1, label], [2, 1]]), *lengths)
