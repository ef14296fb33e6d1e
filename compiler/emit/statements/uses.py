"""Backwards that nothing returns, as their text tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ....lang import ast
from ..bindings import bound_names, returned_names, statements_in
from ..emitter import Emitter


def check_uses(e: Emitter, node: ast.FunctionDef) -> None:
    """Report what is named a backward and not used, and closures whose name is another value's too.

    What else is wrong with a use is told where it stands.
    """
    statements = list(statements_in(node.body))
    closures = [s for s in statements if isinstance(s, ast.FunctionDef)]
    if not closures:
        return
    used = set(_used_names(node.body))
    returned = returned_names(node.body)
    bindings = Counter(bound_names(node.body))
    defined = Counter(closure.name for closure in closures)
    for closure in reversed(closures):
        if closure.name not in used:
            if "backward" not in closure.name.lower():
                # A helper that nothing calls, as Python has it.
                continue
            note = f"return it last, `return y, {closure.name}`, or call it"
        elif closure.name in returned and bindings[closure.name] > defined[closure.name]:
            note = f"'{closure.name}' is assigned too, and that value is what is returned: rename one of the two"
        else:
            continue
        e.diagnostics.report("E402", f"closure '{closure.name}' is not returned", closure.name_span, note)


def _used_names(body: tuple[ast.Stmt, ...]) -> Iterator[str]:
    """The names in expressions of statements, and in functions inside them those that are not their own."""
    pending: list[tuple[ast.Syntax, frozenset[str]]] = [(statement, frozenset()) for statement in statements_in(body)]
    while pending:
        part, own = pending.pop()
        if isinstance(part, ast.Name) and part.id not in own:
            yield part.id
        elif isinstance(part, ast.FunctionDef):
            pending += [(p.default, own) for p in part.parameters if p.default is not None]
            own |= {p.name for p in part.parameters} | {*bound_names(part.body)}
            pending += [(statement, own) for statement in statements_in(part.body)]
            continue
        inside = ast.expressions_of(part) if isinstance(part, ast.Stmt) else ast.children(part)
        pending += [(child, own) for child in inside]
