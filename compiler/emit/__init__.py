"""AST → SSA. `emit_unit` emits a file.

unit          the file's functions, emitted on demand
table         what emits what
functions     closures, and parameters and results with parameters.py and results.py
exits         early return, break and continue made structured, tree to tree
statements, branches, loops, iteration, comprehensions
expressions, conditions, operators, calls, subscripts, mutation
resolve       arguments → a node, by the overload that fits them
stores        prim::Write
scopes        which value a name means
bindings      which names statements bind
forms         calls that are no op: torch.jit.annotate, divmod
type_tests    isinstance and what else is decided when compiling
annotations   types in source
expected      displays that take their type from where they stand
"""

from .unit import emit_unit

__all__ = ["emit_unit"]
