"""Regular expressions that are compiled when they are first asked for: most of what reads rare words never is.

from .patterns import pattern

_PERCENT = pattern(r"%(\\w+)")      # what `re.compile` gives, to whoever uses it

A group that is repeated possessively ends in `| (?!)`, which matches nothing. Python before 3.11.5 goes on where the
group's last failure stopped reading instead of where it began (python/cpython#106052); an alternative begins there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - a function, to whoever uses it
        """Stands for a compiled expression; each of its methods is looked up once."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self.pattern, self.flags = text, flags

        def __getattr__(self, name: str) -> Any:
            value = getattr(re.compile(self.pattern, self.flags), name)
            setattr(self, name, value)
            return value


__all__ = ["pattern"]
