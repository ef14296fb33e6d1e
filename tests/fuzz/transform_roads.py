"""torch's transforms of a function, forward mode and batches, each beside what it makes of Python over torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gradscript as gs
import torch
from fuzzed_program import Call, leaves
from subject import Mismatch, Subject, check_gradient
from torch.func import jacfwd, jvp, vmap

Flat = Callable[..., tuple[Any, ...]]
MOST_ELEMENTS = 8
"""Of an argument of which a Jacobian is taken."""


def _flat(call: Call, function: Any) -> Flat:
    """A function of the call's tensors, with one result for each floating tensor among its results."""

    def run(*tensors: Any) -> tuple[Any, ...]:
        args, kwargs = call.filled(list(tensors))
        found = leaves(function(*args, **kwargs))
        return tuple(r for r in found if isinstance(r, torch.Tensor) and r.is_floating_point())

    return run


@contextmanager
def _told() -> Iterator[None]:
    """torch wraps what goes wrong inside a transform; what ours raised there is what counts."""
    try:
        yield
    except (gs.RuntimeFailure, gs.CompileError):
        raise
    except Exception as error:
        if isinstance(error.__cause__, gs.RuntimeFailure | gs.CompileError):
            raise error.__cause__ from None
        raise


def forward_mode(subject: Subject) -> None:
    """`jvp` along random directions, and the Jacobian of the first small argument by forward mode."""
    call = subject.calls[0]
    tensors = [torch.from_numpy(array) for array in call.arrays()]
    generator = torch.Generator().manual_seed(len(subject.program.source))
    tangents = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in tensors]
    eager, ours = _flat(call, subject.eager.f), _flat(call, subject.f)
    if not tensors or not eager(*tensors):
        return
    try:
        _, expected = jvp(eager, tuple(tensors), tuple(tangents))
    except Exception:
        return  # Torch has no forward mode of it.
    with _told():
        values, found = jvp(ours, tuple(tensors), tuple(tangents))
    for i, (mine, wanted, value) in enumerate(zip(found, expected, values, strict=True)):
        check_gradient(_there(mine, value), _there(wanted, value), f"jvp, result {i}")
    _jacobian(eager, ours, tensors)


def _there(tangent: Any, value: Any) -> Any:
    return torch.zeros_like(value) if tangent is None else tangent


def _jacobian(eager: Flat, ours: Flat, tensors: list[Any]) -> None:
    """By torch's own reverse mode: its forward mode of many directions at once lacks what decides by data."""
    place = next((i for i, t in enumerate(tensors) if 0 < t.numel() <= MOST_ELEMENTS), None)
    if place is None:
        return

    def alone(function: Flat) -> Flat:
        return lambda x: function(*tensors[:place], x, *tensors[place + 1 :])

    try:
        expected = torch.autograd.functional.jacobian(alone(eager), tensors[place])
    except Exception:
        return
    with _told():
        found = jacfwd(alone(ours))(tensors[place])
    for i, (mine, wanted) in enumerate(zip(found, expected, strict=True)):
        check_gradient(mine, wanted, f"jacfwd, result {i}")


def batched(subject: Subject) -> None:
    """`vmap` over two samples, each beside a call of its own."""
    call = subject.calls[0]
    tensors = [torch.from_numpy(array) for array in call.arrays()]
    eager, ours = _flat(call, subject.eager.f), _flat(call, subject.f)
    if not tensors:
        return
    samples = [[t * factor for t in tensors] for factor in (1.0, 1.0625)]
    try:
        apart = [eager(*(t.clone() for t in sample)) for sample in samples]
    except Exception:
        return
    if not apart[0] or [r.shape for r in apart[0]] != [r.shape for r in apart[1]]:
        return
    try:
        with _told():
            found = vmap(ours)(*(torch.stack(pair) for pair in zip(*samples, strict=True)))
    except gs.RuntimeFailure as error:
        if "take different paths" in str(error):
            return
        raise
    if len(found) != len(apart[0]):
        raise Mismatch(f"vmap: {len(found)} results for {len(apart[0])}")
    for i, (mine, *wanted) in enumerate(zip(found, *apart, strict=True)):
        check_gradient(mine, torch.stack(wanted), f"vmap, result {i}")
