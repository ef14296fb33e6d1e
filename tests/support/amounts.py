"""How much of what is drawn at random the tests take, and how long what they make is: a third, or all of it in CI."""

from __future__ import annotations

import os

PART = 1 if os.environ.get("GRADSCRIPT_TESTS") == "whole" else 3


def some(count: int) -> int:
    """So many of `count` samples: all where GRADSCRIPT_TESTS=whole."""
    return -(-count // PART)
