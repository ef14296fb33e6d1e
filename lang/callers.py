"""The frame of a user's Python code that is running, for what is told of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

# As it is imported, and where that leads: a package may be reached by a link.
_ROOTS = dict.fromkeys((Path(__file__).parents[1], Path(__file__).resolve().parents[1]))
_OURS = tuple(f"{root / room}{os.sep}" for root in _ROOTS for room in ("authoring", "compiler", "lang", "runtime"))
_OTHERS = ("numpy", "torch")
"""Code of these, and of ours, calls on behalf of a user's."""


def calling_frame() -> tuple[FrameType, int]:
    """The innermost frame of a user's code, and how many frames out it is: 1 for the one that asks, as `stacklevel`."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _OTHERS]
    passed = (*_OURS, *(os.path.dirname(file) + os.sep for file in files if file))
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(passed):
        frame = frame.f_back
        level += 1
    return frame, level
