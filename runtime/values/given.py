"""What a user gives for a flag, and for several things at once: told by name where it is neither."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def flag(given: object, name: str) -> bool:
    """The bool that a keyword is given."""
    if not isinstance(given, bool | np.bool_):
        raise TypeError(f"{name} is True or False, not {type(given).__name__}")
    return bool(given)


def items(given: Any, wanted: str) -> list[Any]:
    """What an iterable holds; TypeError that says what is wanted, for what is none, and for what fails on the way."""
    try:
        if isinstance(given, Iterable) and not isinstance(given, str | bytes):
            return list(given)
    except Exception as error:
        raise TypeError(f"{wanted}, not {type(given).__name__}: {error}") from error
    raise TypeError(f"{wanted}, not {type(given).__name__}")
