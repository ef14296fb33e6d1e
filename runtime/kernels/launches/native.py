"""Steps run without Python in between, by `c/text/launches.c`, where it can be built: a compiler and Python's headers.

Where it cannot, the steps' own Python runs them, to the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..c.library import extension
from ..lists.slots import FreedPlaces, KernelSlots
from . import steps as launch_steps


def native_steps(steps: Sequence[Any], freed: Sequence[FreedPlaces]) -> Callable[[KernelSlots, Any], None] | None:
    """What runs steps in order, each with the slots that are emptied after it; None where there is no such thing."""
    made = _steps_type()
    if made is None:
        return None
    described = [step.described(numbers) for step, numbers in zip(steps, freed, strict=True)]
    found: Callable[[KernelSlots, Any], None] = made(tuple(described), launch_steps._empty)
    return found


@cache
def _steps_type() -> Callable[..., Any] | None:
    functions = extension(("launches.c",), "gs_launch_types")
    return None if functions is None else functions[0]()
