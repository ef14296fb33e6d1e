"""Which values of a call require a gradient, as programs are differentiated and answered by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch

from ..execution.differentiated import Flags, PatternKey

_requires_grad: Callable[[Any], bool] = attrgetter("requires_grad")
is_floating: Callable[[Any], bool] = torch.is_floating_point


def gradient_key(values: Sequence[Any]) -> PatternKey:
    """Which values require a gradient; None for one that is absent."""
    return key_of(values, _requires_grad)


def flags_of(values: Sequence[Any]) -> Flags:
    """The same of each tensor in lists too. They nest as deep as types in source, so this recurses."""
    return tuple([flags_of(v) if type(v) is list else getattr(v, "requires_grad", False) for v in values])


def key_of(values: Sequence[Any], wants: Callable[[Any], bool]) -> PatternKey:
    """Of which values a tensor is wanted; None for one that is absent."""
    return tuple([None if value is None else _any(value, wants) for value in values])


def _any(value: Any, wants: Callable[[Any], bool]) -> bool:
    if isinstance(value, torch.Tensor):
        return wants(value)
    return isinstance(value, list) and any(_any(item, wants) for item in value)
