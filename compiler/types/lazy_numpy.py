"""NumPy and ml_dtypes, each loaded when something of it is first used: compiling a unit uses nothing of them.

    from ...types.lazy_numpy import np

A module that is loaded with the first unit uses them inside functions alone; its types are names in quotes.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ml_dtypes
    import numpy as np
else:

    class _Lazy(ModuleType):
        """A module's names, each looked up once."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self.__name__), name)
            setattr(self, name, value)
            return value

    ml_dtypes, np = _Lazy("ml_dtypes"), _Lazy("numpy")

__all__ = ["ml_dtypes", "np"]
