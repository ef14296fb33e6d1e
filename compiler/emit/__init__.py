"""AST → SSA. `emit_unit` emits a file.

unit          the file's functions, emitted on demand
table         what emits what
statements/   assignments, branches, loops, functions, parameters, results, gradient modes
expressions/  operators, calls, conditions, subscripts, strings, comprehensions, targets
resolve       arguments → a node, by the overload that fits them
spellings     torch's ways to pass an argument
stars         `*value` in displays and among arguments
truth         truth values, and what they tell about optionals
expected      displays that take their type from where they stand
records       named tuples
stores        prim::Write
objects       which lists may be one
bindings      which names statements bind
exits         early return, break and continue made structured, tree to tree
last_rounds   names that only the body of a loop assigns, read after it
constants     what source computes before anything runs: defaults, names of the outermost level
outside       what names from outside of the source mean
emitter       what all of it shares
scopes        which value a name means
annotations   types in source
"""

from .unit import emit_unit

__all__ = ["emit_unit"]
