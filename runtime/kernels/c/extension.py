"""Types of Python written in C, of a text each: built where there are a compiler and Python's headers."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..failure import KernelFailure
from .library import load_module


def extension(text: str, function: str, *given: Any) -> Any:
    """What a function of a text gives, for a tuple of what is given if there is any; None where it cannot be built."""
    include = (sysconfig.get_path("include"), sysconfig.get_path("platinclude"))
    if not Path(include[0], "Python.h").is_file():
        return None
    lines = files(__package__).joinpath("text", text).read_text(encoding="utf-8")
    # What the text compiles to depends on these as well, and a module is kept by its text.
    versions = f"/* {sys.version}, {sysconfig.get_config_var('SOABI')} */\n"
    try:
        built = load_module(versions + lines, [function], include)
    except KernelFailure:
        return None
    make = getattr(ctypes.PyDLL(None, handle=built._handle), function)
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object,) if given else ()
    return make(given) if given else make()
