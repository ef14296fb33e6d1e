"""Whether the pairs of a program are right, asked of torch alone: their backwards run as Python, beside autograd."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from eager import REFUSALS, detached, gradient_of, in_torch, slope
from fuzzed_program import Call, leaves


class WrongPair(Exception):
    """A backward gives another gradient than autograd does."""


def pairs_hold(source: str, calls: Sequence[Call]) -> bool:
    """Run the calls with each pair's backward held to the derivative of its forward, wherever it is called.

    The calls are those that torch takes.
    """
    names = in_torch(source)
    for name in pair_names(source):
        names[name] = _checked(names[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            _, args, kwargs = call.wrap(torch.tensor)
            try:
                names["f"](*args, **kwargs)
            except (WrongPair, *REFUSALS, AttributeError):
                return False
    return True


def pair_names(source: str) -> list[str]:
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [f.name for f in functions if any(isinstance(node, ast.FunctionDef) for node in f.body)]


def _checked(pair: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(pair)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad():
            fresh = [_requiring(arg) for arg in args]
            tensors = [t for t in leaves(fresh) if isinstance(t, torch.Tensor)]
            *results, backward = pair(*fresh, **kwargs)
            starts = [slope(r.detach()) for r in results]
            total = sum(((r * s).sum() for r, s in zip(results, starts, strict=True)), torch.zeros(()))
            expected = gradient_of(total, tensors, False) or [None] * len(tensors)
        with torch.no_grad():
            found = _first_level(backward(*starts))
        _compare(_of_tensors(found, fresh), expected)
        plain = [detached(r) for r in results]
        return plain[0] if len(plain) == 1 else tuple(plain)

    return call


def _requiring(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_requiring(item) for item in value])
    return value.detach().clone().requires_grad_() if isinstance(value, torch.Tensor) else value


def _first_level(gradients: Any) -> list[Any]:
    """Without the backward of the backward."""
    found = list(gradients) if isinstance(gradients, tuple) else [gradients]
    return [g for g in found if not callable(g) or isinstance(g, torch.Tensor)]


def _of_tensors(found: list[Any], args: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for gradient, arg in zip(found, args, strict=False):
        count = sum(isinstance(t, torch.Tensor) for t in leaves(arg))
        kept += (leaves(gradient) if gradient is not None else [None] * count) if count else []
    return kept


def _compare(found: Sequence[Any], expected: Sequence[Any]) -> None:
    if len(found) != len(expected):
        raise WrongPair(f"{len(found)} gradients for {len(expected)} tensors")
    for ours, theirs in zip(found, expected, strict=True):
        one, two = (torch.zeros(()) if g is None else g for g in (ours, theirs))
        if ours is not None and theirs is not None and one.shape != two.shape:
            raise WrongPair(f"a gradient of shape {tuple(one.shape)} for {tuple(two.shape)}")
        if not torch.allclose(one.double(), two.double(), rtol=1e-9, atol=1e-9, equal_nan=True):
            raise WrongPair(f"{one} where autograd has {two}")
