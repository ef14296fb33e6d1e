"""Every road on which a call can fail."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from failure_cases import BACKWARD, FORWARD, SECOND, Failing

POLICIES = ("save_all", "mirror", "min_cut", "recompute_all", "budget=24")


class Called:
    """A failing program, compiled: `f`, and `loss`, its sum."""

    def __init__(self, failing: Failing) -> None:
        self.failing = failing
        self.source = _with_loss(failing.source)
        self.unit = gs.CompilationUnit(self.source, "model.grad")
        self.f, self.loss = self.unit.f, self.unit.loss
        self.args = failing.args

    @property
    def wrt(self) -> list[int]:
        return [i for i, value in enumerate(self.args) if _floats(value)]

    def of(self, wrap: Callable[[Any], Any]) -> list[Any]:
        return [_wrapped(value, wrap) for value in self.args]


def _with_loss(source: str) -> str:
    head = next(line for line in source.splitlines() if line.startswith("def f("))
    names = [
        part.split(":")[0].split("=")[0].strip() for part in head[6:-2].split(", ") if ":" in part or "=" not in part
    ]
    return f"{source}\ndef loss({head[6:-2]}):\n    return f({', '.join(names)}).sum()\n"


def _floats(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_floats, value))
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _wrapped(value: Any, wrap: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_wrapped(item, wrap) for item in value]
    return wrap(value) if isinstance(value, np.ndarray) else value


def _variable(array: Any) -> Any:
    return gs.tape.Variable(array, requires_grad=array.dtype.kind == "f")


def _tensor(array: Any) -> Any:
    return torch.tensor(array, requires_grad=array.dtype.kind == "f")


def _ones(value: Any) -> Any:
    return np.ones_like(value)


# --- roads of the forward ---


def _profiled(c: Called) -> None:
    with gs.settings.profiling(True):
        for _ in range(3):
            try:
                c.f(*c.args)
            except gs.RuntimeFailure:
                continue
        c.f(*c.args)


def _not_optimized(c: Called) -> None:
    with gs.settings.optimize(False):
        c.f(*c.args)


def _by_name(c: Called) -> None:
    c.f(**dict(zip([a.name for a in c.f.schema.arguments], c.args, strict=False)))


def _forward_half(c: Called) -> None:
    if c.f.pair is None:
        raise pytest.skip.Exception
    c.f.forward(*c.args)


def _traced(c: Called) -> None:
    if any(isinstance(value, str) for value in c.args):
        raise pytest.skip.Exception
    gs.trace(lambda *given: c.loss(*given), *c.args, check=False)


def _torch_plain(c: Called) -> None:
    c.f(*c.of(torch.tensor))


def _torch_call(c: Called) -> None:
    for _ in range(2):
        c.f(*c.of(_tensor))


def _without_gradient(c: Called) -> None:
    with torch.no_grad():
        c.f(*c.of(_tensor))


def _tape_call(c: Called) -> None:
    c.f(*c.of(_variable))


FORWARD_ROADS: dict[str, Callable[[Called], None]] = {
    "call": lambda c: c.f(*c.args),
    "by name": _by_name,
    "through a helper": lambda c: c.loss(*c.args),
    "profiled": _profiled,
    "not optimized": _not_optimized,
    "forward half": _forward_half,
    "vjp": lambda c: gs.vjp(c.f, *c.args),
    "trace": _traced,
    "tensors": _torch_plain,
    "tensors with gradients": _torch_call,
    "tensors, no_grad": _without_gradient,
    "variables": _tape_call,
}

# --- roads of the backward ---


def _pulled_back(policy: str | None) -> Callable[[Called], None]:
    def road(c: Called) -> None:
        out, pullback = gs.vjp(c.f, *c.args, policy=policy)
        pullback(_ones(out))

    return road


def _grad(policy: str | None, which: Any = gs.grad) -> Callable[[Called], None]:
    return lambda c: which(c.loss, c.wrt, policy=policy, allow_unused=True)(*c.args)


def _backward_half(c: Called) -> None:
    if c.f.pair is None or c.failing.name in NOT_BY_HAND:
        raise pytest.skip.Exception
    out, context = c.f.forward(*c.args)
    c.f.backward(context, _ones(out))


def _tape_backward(c: Called) -> None:
    c.loss(*c.of(_variable)).backward()


def _tape_backward_recorded(c: Called) -> None:
    c.loss(*c.of(_variable)).backward(create_graph=True)


def _tape_sliced(c: Called) -> None:
    with gs.settings.autodiff_debugging(True):
        c.loss(*c.of(_variable)).backward()


def _torch_backward(c: Called) -> None:
    for _ in range(2):
        c.loss(*c.of(_tensor)).backward()


def _torch_recorded(c: Called) -> None:
    tensors = c.of(_tensor)
    torch.autograd.grad(
        c.loss(*tensors), [tensors[i] for i in c.wrt if not isinstance(tensors[i], list)], create_graph=True
    )


def _torch_func(c: Called) -> None:
    if any(isinstance(value, list) for value in c.args):
        raise pytest.skip.Exception
    torch.func.grad(c.loss, tuple(c.wrt))(*c.of(torch.tensor))


def _trace_pulled_back(c: Called) -> None:
    if any(isinstance(value, str) for value in c.args):
        raise pytest.skip.Exception
    traced = gs.trace(lambda *given: c.loss(*given), *c.args, check=False)
    _, pullback = gs.vjp(traced, *c.args)
    pullback(1.0)


NOT_BY_HAND = frozenset(
    {
        "row",
        "column",
        "number",
        "transposed",
        "not summed",
        "longer list",
        "shorter list",
        "element's shape",
        "empty list",
    }
)
"""Halves by hand give what the source returns, whatever its shape."""
BACKWARD_ROADS: dict[str, Callable[[Called], None]] = {
    "pullback": _pulled_back(None),
    **{f"pullback, {policy}": _pulled_back(policy) for policy in POLICIES},
    "grad": _grad(None),
    **{f"grad, {policy}": _grad(policy) for policy in POLICIES},
    "value_and_grad": _grad(None, gs.value_and_grad),
    "backward half": _backward_half,
    "tape": _tape_backward,
    "tape, recorded": _tape_backward_recorded,
    "tape, sliced": _tape_sliced,
    "autograd": _torch_backward,
    "autograd, recorded": _torch_recorded,
    "torch.func": _torch_func,
    "pullback of a trace": _trace_pulled_back,
}

# --- roads of the second order ---


def _grad_of_grad(policy: str | None) -> Callable[[Called], None]:
    def road(c: Called) -> None:
        derived = gs.grad(c.loss, c.wrt, allow_unused=True)
        found, pullback = gs.vjp(derived, *c.args, policy=policy)
        pullback(tuple(_ones(g) for g in found))

    return road


def _tape_twice(c: Called) -> None:
    variables = c.of(_variable)
    wanted = [variables[i] for i in c.wrt]
    first = gs.tape.grad(c.loss(*variables), wanted, create_graph=True)
    total = sum((g * g).sum() for g in first)
    total.backward()


def _torch_twice(c: Called) -> None:
    tensors = c.of(_tensor)
    wanted = [tensors[i] for i in c.wrt]
    first = torch.autograd.grad(c.loss(*tensors), wanted, create_graph=True)
    sum((g * g).sum() for g in first).backward()


SECOND_ROADS: dict[str, Callable[[Called], None]] = {
    "vjp of grad": _grad_of_grad(None),
    **{f"vjp of grad, {policy}": _grad_of_grad(policy) for policy in POLICIES},
    "tape twice": _tape_twice,
    "autograd twice": _torch_twice,
}


def _listed(c: Called) -> None:
    if c.failing.by_elements:
        raise pytest.skip.Exception
    c.f.kernels(*c.args)


KERNELS = {"kernels": _listed}
ROADS = {
    FORWARD: {**FORWARD_ROADS, **BACKWARD_ROADS, **KERNELS},
    BACKWARD: {**BACKWARD_ROADS, **KERNELS},
    SECOND: SECOND_ROADS,
}


NO_ROAD = RuntimeError("the program has no such road")


def failure_of(failing: Failing, road: str) -> BaseException | None:
    """What a road ends in: None where it ends well, NO_ROAD where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ROADS[failing.when][road](Called(failing))
        except pytest.skip.Exception:
            return NO_ROAD
        except Exception as error:
            return error
    return None
