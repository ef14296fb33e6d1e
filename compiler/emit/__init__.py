"""AST → SSA. `emit_unit` emits a file.

unit          the file's functions, emitted on demand
functions     parameters, results, closures
exits         early return, break and continue made structured, tree to tree
statements, loops, conditions
expressions, calls, subscripts, mutation
overloads     which schema a call means
scopes        which value a name means
annotations   types in source
"""

from . import loops as loops  # Registers list comprehensions.
from .unit import emit_unit

__all__ = ["emit_unit"]
