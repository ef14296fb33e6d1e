"""How much the tests take: a twelfth of what is drawn at random, an eighth of long lists of cases; all of it in CI."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")
WHOLE = os.environ.get("GRADSCRIPT_TESTS") == "whole"
DRAWN_PART, LISTED_PART = (1, 1) if WHOLE else (12, 8)


def some(count: int) -> int:
    """So many of `count` samples that are drawn: all where GRADSCRIPT_TESTS=whole."""
    return -(-count // DRAWN_PART)


def some_of(cases: Iterable[Case]) -> list[Case]:
    """So many of the cases, from the first to the last."""
    return [*cases][::LISTED_PART]


whole_only = pytest.mark.skipif(not WHOLE, reason="takes long, and others find most of it: GRADSCRIPT_TESTS=whole")
"""Of a test whose mechanism smaller ones hold."""
