"""A backward that is wrong is told at its line, or gives what torch's engine makes of the same text: on every road."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from test_failure_messages import OURS
from wrong_gradients import WrongGradient, in_torch, wrong_gradient

SEEDS, AT_ONCE = 120, 20


def _dense(gradients: list[Any], like: list[Any]) -> list[Any]:
    return [np.zeros_like(x) if g is None else np.asarray(g) for g, x in zip(gradients, like, strict=True)]


def _leaves(args: tuple[Any, ...]) -> list[Any]:
    x, y, xs, _ = args
    return [x, y, *xs]


def _pulled_back(policy: str | None) -> Callable[[Any, tuple[Any, ...]], list[Any]]:
    def road(loss: Any, args: tuple[Any, ...]) -> list[Any]:
        _, pullback = gs.vjp(loss, *args, policy=policy)
        x, y, xs, _ = pullback(1.0)
        return _dense([x, y, *(xs or [None, None])], _leaves(args))

    return road


def _grad(loss: Any, args: tuple[Any, ...]) -> list[Any]:
    x, y, xs = gs.grad(loss, (0, 1, 2), allow_unused=True)(*args)
    return [x, y, *xs]


def _tape(loss: Any, args: tuple[Any, ...]) -> list[Any]:
    x, y, *xs = [gs.tape.Variable(leaf) for leaf in _leaves(args)]
    loss(x, y, xs, args[3]).backward()
    return _dense([None if v.grad is None else v.grad.data for v in (x, y, *xs)], _leaves(args))


def _autograd(loss: Any, args: tuple[Any, ...]) -> list[Any]:
    x, y, *xs = [torch.tensor(leaf, requires_grad=True) for leaf in _leaves(args)]
    value = loss(x, y, xs, args[3])
    if value.requires_grad:
        value.backward()
    return _dense([v.grad for v in (x, y, *xs)], _leaves(args))


def _second(loss: Any, args: tuple[Any, ...]) -> None:
    found, pullback = gs.vjp(gs.grad(loss, (0, 1), allow_unused=True), *args)
    pullback(tuple(np.ones_like(g) for g in found))


def _kernels(loss: Any, args: tuple[Any, ...]) -> None:
    loss.kernels(*args)


ROADS: dict[str, Callable[[Any, tuple[Any, ...]], list[Any] | None]] = {
    "pullback": _pulled_back(None),
    "recomputed": _pulled_back("recompute_all"),
    "grad": _grad,
    "tape": _tape,
    "autograd": _autograd,
    "second order": _second,
    "kernels": _kernels,
}


def complaints(program: WrongGradient) -> list[str]:
    """What is wrong with how a program is answered."""
    try:
        loss = gs.CompilationUnit(program.source).loss
    except gs.CompileError as error:
        return [f"compiling tells {name!r}: {error}" for name in OURS.findall(str(error))]
    if str(loss.schema.returns[0].type) == "int":
        return []
    expected = in_torch(program)
    found: list[str] = []
    failing: set[bool] = set()
    for name, road in ROADS.items():
        try:
            value = road(loss, program.args)
        except (gs.RuntimeFailure, gs.CompileError) as error:
            found += [f"{name} tells {ours!r}: {error}" for ours in OURS.findall(str(error))]
            found += [] if error.span.text else [f"{name} points nowhere: {error}"]
            failing |= {True} if name not in ("second order", "kernels") else set()
            continue
        if value is None:
            continue
        failing.add(False)
        if expected is None:
            found.append(f"{name} gives a value where torch refuses: {value}")
        elif not all(np.allclose(ours, torchs) for ours, torchs in zip(value, expected, strict=True)):
            found.append(f"{name}: {value}, torch: {expected}")
    return [*found, "some roads fail, and some do not"] if len(failing) == 2 else found


@pytest.mark.parametrize("start", range(0, SEEDS, AT_ONCE))
def test_a_wrong_backward_is_told_or_is_right_after_all(start: int) -> None:
    for seed in range(start, start + AT_ONCE):
        program = wrong_gradient(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = complaints(program)
        assert not wrong, "\n".join([f"seed {seed}", program.source, *wrong])
