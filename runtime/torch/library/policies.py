"""What autocast does with the arguments of an op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....lang.light_dataclasses import dataclass
from ..places import each

LOWER, WIDEST = "lower_precision_fp", "promote"
"""torch's names of its policies: to the dtype of autocast, and to the widest among the arguments."""


@dataclass(frozen=True, slots=True)
class AutocastPolicy:
    """Into which dtype floating arguments are cast, float64 aside, where autocast is on."""

    to: Any

    @classmethod
    def of(cls, given: Any) -> AutocastPolicy | None:
        """That of `gs.torch_op(autocast=…)`; ValueError for what is none."""
        if given is None:
            return None
        if isinstance(given, str) and given in (LOWER, WIDEST):
            return cls(given)
        if isinstance(given, str) and given == "fp32":
            return cls(torch.float32)
        if isinstance(given, torch.dtype) and given.is_floating_point:
            return cls(given)
        raise ValueError(
            f"autocast={given!r} is no policy: None computes in the dtypes given, a floating torch.dtype or 'fp32' "
            f"casts to it, '{LOWER}' to that of autocast, '{WIDEST}' to the widest of the arguments"
        )

    def dtype_for(self, device: str, values: Sequence[Any]) -> Any:
        """The dtype that arguments are cast to."""
        if self.to == LOWER:
            return torch.get_autocast_dtype(device)
        if self.to != WIDEST:
            return self.to
        found: list[Any] = []
        each(values, lambda value: found.append(value.dtype) if _is_cast(value) else None)
        lowest = torch.get_autocast_dtype(device)
        return torch.float32 if torch.float32 in found else (found[0] if len(set(found)) == 1 else lowest)

    @staticmethod
    def cast(value: Any, dtype: Any) -> Any:
        return value.to(dtype) if _is_cast(value) else value


def _is_cast(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64
