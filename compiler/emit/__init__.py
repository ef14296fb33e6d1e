"""AST → SSA. `emit_unit` emits a file.

unit          the file's functions, emitted on demand
table         what emits what
statements    assignments, branches, loops, functions, parameters, results, gradient modes
expressions   operators, calls, conditions, subscripts, strings, comprehensions, targets
resolve       arguments → a node, by the overload that fits them
spellings     torch's ways to pass an argument
truth         truth values, and what they tell about optionals
expected      displays that take their type from where they stand
stores        prim::Write
objects       which lists may be one
bindings      which names statements bind
exits         early return, break and continue made structured, tree to tree
emitter       what all of it shares
scopes        which value a name means
annotations   types in source
"""

from .unit import emit_unit

__all__ = ["emit_unit"]
