"""Recursion without the call stack.

A walk over a tree whose depth follows the input is written as a generator that yields the sub-walks it
needs and is sent their results:

    def total(node):
        if node.is_leaf:
            return node.value
        left = yield total(node.left)
        right = yield total(node.right)
        return left + right

    run(total(root))

It reads as recursion does and nests as deep as memory allows.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

Walk: TypeAlias = Generator["Walk", Any, Any]


def run(walk: Walk) -> Any:
    """Run a walk to its end and return its result. An exception passes through the walks that wait, as in calls."""
    stack: list[Walk] = []
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            if error is None:
                child = walk.send(result)
            else:
                pending, error = error, None
                child = walk.throw(pending)
        except StopIteration as stop:
            if not stack:
                return stop.value
            walk, result = stack.pop(), stop.value
        except BaseException as raised:
            if not stack:
                raise
            walk, error = stack.pop(), raised
        else:
            stack.append(walk)
            walk, result = child, None
