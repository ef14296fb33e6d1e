"""Numbers from seeds by torch's ops: on a device, where no kernel of ours draws them, or of a seed that lies there.

As `compiler/ops/families/random.py` has them, to the bit: words of 32 bits stand in int64, of whose products and shifts
the low halves are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from ....compiler.ops.families.random import (
    PHILOX_MULTIPLIERS,
    PHILOX_STEPS,
    ROUNDS,
    SEEDED,
    UNIT_OF_UNIFORM,
)
from ....compiler.ops.registry import Op
from ....compiler.types.dtypes import BY_CODE
from ...settings.seeds_in_memory import SeedInMemory
from ...values.torch_dtypes import torch_dtypes

__all__ = ["SEEDED", "drawn"]

_LOW, _HALF = 0xFFFFFFFF, 32


def drawn(op: Op, device: torch.device, otherwise: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """What gives the numbers of `gs::uniform` or `gs::random_bits` on a device; `otherwise` draws of seeds that the
    host knows where that is the CPU."""
    is_uniform = op.schema.name == "gs::uniform"

    def draw(seed: Any, size: Sequence[int], *how: Any) -> torch.Tensor:
        is_held = isinstance(seed, SeedInMemory)
        if device.type == "cpu" and not is_held:
            result: torch.Tensor = otherwise(seed, size, *how)
            return result
        # The definition says what is wrong, of no elements too.
        op.evaluate(0, [min(extent, 0) for extent in size] or [0], *how)
        dtype, subsequence = how if is_uniform else (None, *how)
        words = _words(seed.memory if is_held else seed, prod(size), subsequence, device)
        wanted = torch_dtypes()[BY_CODE[dtype]] if dtype is not None else torch.float32
        return (_unit_interval(words).to(wanted) if is_uniform else words).reshape(size)

    return draw


def _words(seed: Any, count: int, subsequence: int, device: torch.device) -> torch.Tensor:
    """Words of Philox-4x32-10, 0 to 2^32 - 1, of the places up to `count`. Source: Salmon et al. 2011."""
    blocks = torch.arange(-(-count // 4), device=device)
    key = [seed & _LOW, seed >> _HALF & _LOW]
    words: list[Any] = [blocks & _LOW, blocks >> _HALF, torch.full_like(blocks, subsequence), torch.zeros_like(blocks)]
    for _ in range(ROUNDS):
        left, right = words[0] * PHILOX_MULTIPLIERS[0], words[2] * PHILOX_MULTIPLIERS[1]
        words = [
            right >> _HALF & _LOW ^ words[1] ^ key[0],
            right & _LOW,
            left >> _HALF & _LOW ^ words[3] ^ key[1],
            left & _LOW,
        ]
        key = [part + step & _LOW for part, step in zip(key, PHILOX_STEPS, strict=True)]
    return torch.stack(words, -1).reshape(-1)[:count]


def _unit_interval(words: torch.Tensor) -> torch.Tensor:
    """A word's magnitude as a signed number, in units of 2^-31; a negative one means its complement, as in Triton."""
    signed = torch.where(words > _LOW >> 1, _LOW - words, words)
    return signed.to(torch.float32) * UNIT_OF_UNIFORM
