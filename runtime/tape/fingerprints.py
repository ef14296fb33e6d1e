"""Fingerprints: whether what a node captured is still what it was when it was captured.

An array of NumPy does not say when it is written into, so a mode has every capture's bytes hashed, at the forward
and again at the backward: `gs.settings.capture_checking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from ..settings.modes import CHECK_CAPTURES, TOUCHED
from .value import plain

Fingerprint = Any
"""A hash for an array, a list of fingerprints for a list, None for what cannot be written into."""


def is_checking() -> bool:
    """Whether captures are to be fingerprinted now."""
    return TOUCHED.any and CHECK_CAPTURES.get()


def fingerprints_of(values: Sequence[Any]) -> list[Fingerprint]:
    """One for each value: an array, a Variable, a list of them, or anything else."""
    return [_fingerprint(plain(value)) for value in values]


def check_fingerprints(name: str, names: Sequence[str], values: Sequence[Any], before: Sequence[Fingerprint]) -> None:
    """RuntimeError, which names the capture and the node, where a value has another fingerprint than before."""
    for capture, value, fingerprint in zip(names, values, before, strict=True):
        if _fingerprint(plain(value)) != fingerprint:
            raise RuntimeError(
                f"{capture}, which {name} captured for its backward, has been written into since: "
                "compute a new array instead of changing it in place, or pass a copy"
            )


def _fingerprint(value: Any) -> Fingerprint:
    if isinstance(value, list | tuple):
        return [_fingerprint(item) for item in value]
    if not isinstance(value, np.ndarray):
        return None
    return value.shape, blake2b(value.tobytes(), digest_size=16).digest()
