"""Steps run without Python in between, by `c/text/launches.c`, where it can be built: a compiler and Python's headers.

Where it cannot, the steps' own Python runs them, to the same results.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..c import library
from ..failure import KernelFailure
from . import steps as launch_steps
from .steps import FreedPlaces, KernelSlots


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
    include = (sysconfig.get_path("include"), sysconfig.get_path("platinclude"))
    if not Path(include[0], "Python.h").is_file():
        return None
    text = files(library.__package__).joinpath("text", "launches.c").read_text(encoding="utf-8")
    # What the text compiles to depends on these as well, and a module is kept by its text.
    versions = f"/* {sys.version}, {sysconfig.get_config_var('SOABI')} */\n"
    try:
        built = library.load_module(versions + text, ["gs_launch_types"], include)
    except KernelFailure:
        return None
    make = ctypes.PyDLL(None, handle=built._handle).gs_launch_types
    make.restype, make.argtypes = ctypes.py_object, ()
    found: Callable[..., Any] = make()
    return found
