"""Programs that are Python and source at once: run by eager torch, and by us on every road, with one outcome."""

from __future__ import annotations

import math
import typing
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import gradscript as gs
import numpy as np
import torch
import torch.nn.functional

POLICIES = ("min_cut", "recompute_all", "save_all")


def eager(source: str) -> dict[str, Any]:
    """The functions of a source as Python has them."""
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "math": math, "warnings": warnings}
    names |= {name: getattr(typing, name) for name in ("List", "Optional", "Tuple")}
    names["Tensor"] = torch.Tensor
    exec(compile(source, "<program>", "exec"), names)
    return names


@dataclass(frozen=True)
class Outcome:
    """What a program printed, its value, the gradients of the value's sum, and those of their squares' sum."""

    printed: str
    value: Any
    gradients: tuple[Any, ...] = ()
    second: tuple[Any, ...] = ()


def outcome(function: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]]) -> Outcome:
    """Run on torch tensors that require a gradient, twice differentiated."""
    tensors = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    wanted = [t for t in tensors if t.requires_grad]
    with redirect_stdout(StringIO()) as printed:
        value = function(*tensors)
    if not value.requires_grad:
        nothing = tuple(np.zeros(t.shape) for t in wanted)
        return Outcome(printed.getvalue(), value.numpy(), nothing, nothing)
    gradients = torch.autograd.grad(value.sum(), wanted, create_graph=True, allow_unused=True)
    squares = [(g * g).sum() for g in gradients if g is not None and g.requires_grad]
    second: Sequence[Any] = [None] * len(wanted)
    if squares:
        second = torch.autograd.grad(torch.stack(squares).sum(), wanted, allow_unused=True)
    return Outcome(printed.getvalue(), value.detach().numpy(), _dense(gradients, wanted), _dense(second, wanted))


def _dense(gradients: Sequence[Any], like: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        np.zeros(t.shape) if g is None else np.asarray(g.detach() if isinstance(g, torch.Tensor) else g)
        for g, t in zip(gradients, like, strict=True)
    )


def check(source: str, name: str, *arrays: np.ndarray[Any, Any]) -> None:
    """Hold a function of a source to what Python makes of the same text, on arrays, tensors and Variables."""
    expected = outcome(eager(source)[name], arrays)
    unit = gs.CompilationUnit(source)
    function = unit[name]
    assert gs.CompilationUnit(unit.code).code == unit.code
    for stage in ("source", "ast", "ir", "gradient"):
        assert function.show(stage)
    for _ in range(2):
        _same(_plain(function, arrays), Outcome(expected.printed, expected.value), "called")
    with gs.settings.optimize(False):
        _same(_plain(function, arrays), Outcome(expected.printed, expected.value), "not optimised")
    with gs.settings.profiling(True):
        for _ in range(4):
            _same(_plain(function, arrays), Outcome(expected.printed, expected.value), "profiled")
    _same(outcome(function, arrays), expected, "torch")
    _same(outcome(gs.CompilationUnit(unit.code)[name], arrays), expected, "printed source")
    first = Outcome(expected.printed, expected.value, expected.gradients)
    _same(_pulled_back(function, arrays, None), first, "gs.vjp")
    for policy in POLICIES:
        _same(_pulled_back(function, arrays, policy), first, policy)
    _same(_on_tape(function, arrays), first, "tape")


def _plain(function: Any, arrays: Sequence[Any]) -> Outcome:
    with redirect_stdout(StringIO()) as printed:
        value = function(*[array.copy() for array in arrays])
    return Outcome(printed.getvalue(), value)


def _pulled_back(function: Any, arrays: Sequence[Any], policy: str | None) -> Outcome:
    with redirect_stdout(StringIO()) as printed:
        value, pullback = gs.vjp(function, *arrays, policy=policy)
        found = pullback(np.ones_like(value))
    gradients = [g for g, a in zip(found, arrays, strict=True) if a.dtype.kind == "f"]
    floating = [a for a in arrays if a.dtype.kind == "f"]
    return Outcome(printed.getvalue(), value, _dense(gradients, floating))


def _on_tape(function: Any, arrays: Sequence[Any]) -> Outcome:
    variables = [gs.tape.Variable(array) for array in arrays]
    with redirect_stdout(StringIO()) as printed:
        value = function(*variables)
        if value.requires_grad:
            value.sum().backward()
    floating = [v for v in variables if v.requires_grad]
    gradients = [None if v.grad is None else v.grad.data for v in floating]
    return Outcome(printed.getvalue(), value.data, _dense(gradients, [v.data for v in floating]))


def _same(found: Outcome, expected: Outcome, road: str) -> None:
    assert found.printed == expected.printed, road
    for part in ("value", "gradients", "second"):
        ours, theirs = getattr(found, part), getattr(expected, part)
        np.testing.assert_equal(np.shape(ours), np.shape(theirs), f"{road}: {part}")
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=f"{road}: {part}")
