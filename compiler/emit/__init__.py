"""AST → SSA. `emit_unit` emits a file.

unit          the file's functions, emitted on demand
functions     parameters, results, closures
exits         early return, break and continue made structured, tree to tree
statements, loops, conditions
expressions, calls, subscripts, mutation
overloads     which schema a call means
scopes        which value a name means
forms         calls that are no op: torch.jit.annotate, divmod
type_tests    isinstance and what else is decided when compiling
annotations   types in source
expected      displays that take their type from where they stand
"""

# Register what they emit.
from . import forms as forms
from . import loops as loops
from . import strings as strings
from . import type_tests as type_tests
from .unit import emit_unit

__all__ = ["emit_unit"]
