"""How much of what is drawn at random the tests take, and how long what they make is: a quarter, or all of it in CI."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")
PART = 1 if os.environ.get("GRADSCRIPT_TESTS") == "whole" else 4


def some(count: int) -> int:
    """So many of `count` samples: all where GRADSCRIPT_TESTS=whole."""
    return -(-count // PART)


def some_of(cases: Iterable[Case]) -> list[Case]:
    """So many of the cases, from the first to the last."""
    return [*cases][::PART]


whole_only = pytest.mark.skipif(PART > 1, reason="takes long, and others find most of it: GRADSCRIPT_TESTS=whole")
"""Of a test whose mechanism smaller ones hold."""
