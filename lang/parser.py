"""Source text → syntax tree."""

from __future__ import annotations

from ..lang import ast
from .diagnostics import Diagnostics
from .source import Source


def parse(source: Source, diagnostics: Diagnostics) -> ast.Module:
    """Parse a file. What is wrong is reported; the module has the functions in which nothing was."""
    # The tables and the builder are loaded at the first parse, so that importing the package stays cheap.
    from .grammar.machine import Machine

    return Machine(source, diagnostics).run()
