"""Programs for tensors of several floating dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..execution.differentiated import CompiledGraph
from ..execution.mixed_dtypes import SeenDType, in_dtypes, makes_dtypes
from .places import leaves_of
from .tensors import DTYPE_OF


def for_dtypes(program: CompiledGraph, values: Sequence[Any]) -> CompiledGraph:
    """The program that is differentiated for such values: of their dtypes, where not all have one."""
    tensors = values if not program.takes_lists else leaves_of(values)
    dtypes = {value.dtype for value in tensors if isinstance(value, torch.Tensor) and value.is_floating_point()}
    if len(dtypes) < 2 and not makes_dtypes(program):
        return program
    return in_dtypes(program, [_seen(value) for value in values])


def _seen(value: Any) -> SeenDType:
    if isinstance(value, torch.Tensor):
        return DTYPE_OF[value.dtype], value.ndim
    if not isinstance(value, list):
        return None
    dtypes = {item.dtype for item in value if isinstance(item, torch.Tensor)}
    return DTYPE_OF[dtypes.pop()] if len(dtypes) == 1 else None
