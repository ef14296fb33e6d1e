"""What lists and tuples hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

MAX_DEPTH = 30
"""Of lists and tuples in each other: as many levels as a type may have."""


def alike(value: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """The items as a list or a tuple, whichever the value is; a named tuple makes a plain one."""
    return items if isinstance(value, list) else tuple(items)


def is_too_deep(value: Any) -> bool:
    """Whether lists and tuples lie in each other more than MAX_DEPTH levels deep, or in themselves."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = {id(item): item for item in level if isinstance(item, list | tuple)}
        if not containers:
            return False
        level = [item for container in containers.values() for item in container]
    return True


def parts(values: Iterable[Any]) -> Iterator[Any]:
    """The values in order, and for lists and tuples what lies in them, to any depth; each once, even in itself."""
    walked: set[int] = set()
    pending = [iter(values)]
    while pending:
        for value in pending[-1]:
            if not isinstance(value, list | tuple):
                yield value
            elif id(value) not in walked:
                walked.add(id(value))
                pending.append(iter(value))
                break
        else:
            pending.pop()
