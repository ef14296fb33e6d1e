"""Order by what a function gives: `sorted(l, key=f)`, `max(l, key=f)`, `min(a, b, key=f)`, `l.sort(key=f)`.

sorted(l, key=f)      ─▶      keys = [f(item) for item in l]
                              [l[i] for i in the order of keys]
"""

from __future__ import annotations

from typing import cast

from ....lang import ast
from ....lang.light_dataclasses import replace
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...types.types import BOOL, NONE, ListType
from ..emitter import Emitter, Evaluated, described
from .generators import with_lists

KEYED = frozenset(("sorted", "max", "min"))
"""Python's functions that compare by a key."""


def without_key(node: ast.Call) -> tuple[ast.Expr | None, ast.Call]:
    """The key of a call, where one is given that is not None, and the call without it."""
    key = next((keyword.value for keyword in node.keywords if keyword.name == "key"), None)
    if key is None:
        return None, node
    left = replace(node, keywords=tuple(keyword for keyword in node.keywords if keyword.name != "key"))
    return (None if isinstance(key, ast.Constant) and key.value is None else key), left


def emit_keyed(e: Emitter, node: ast.Call, name: str, key: ast.Expr) -> Walk:
    """A call of one of KEYED, from which the key has been taken."""
    node = with_lists(e, node)
    options = {keyword.name: keyword for keyword in node.keywords}
    takes = ("reverse",) if name == "sorted" else ()
    for option in options.values():
        if option.name not in takes:
            note = f"write `{name}(values, key=f{', reverse=True' if takes else ''})`"
            raise e.fail("E204", f"{name}() has no argument '{option.name}' here", option.value.span, note)
    if not node.args or (name == "sorted" and len(node.args) > 1):
        raise e.fail("E204", f"{name}() takes a list and a key", node.span, f"write `{name}(values, key=f)`")
    given = node.args[0] if len(node.args) == 1 else ast.ListExpr(node.span, node.args)
    listed: Value = yield e.expression(given)
    if not isinstance(listed.type, ListType):
        given = ast.Call(given.span, ast.Name(given.span, "list"), (_evaluated(given, listed),), ())
        listed = yield e.expression(given)
    reverse = (yield e.expression(options["reverse"].value)) if "reverse" in options else e.at(node).constant(False)
    if reverse.type != BOOL:
        raise e.fail("E204", f"'reverse' is a bool, not {described(reverse.type)}", options["reverse"].value.span)
    item = ast.Name(key.span, "$item")
    keys = yield _gone_through(e, ast.Call(key.span, key, (item,), ()), item, _evaluated(node, listed))
    if keys.type == ListType(NONE):
        raise e.fail("E204", "the key gives nothing to compare by", key.span, "end it with a `return`")
    if name != "sorted":
        place = e.value("aten::_extreme_place", node, keys, name == "max")
        return e.value("aten::__getitem__.t", node, listed, place)
    order = e.value("aten::_sorted_order", node, keys, reverse)
    at = ast.Name(node.span, "$place")
    element = ast.Subscript(node.span, _evaluated(node, listed), at)
    return (yield _gone_through(e, element, at, _evaluated(node, order)))


def _evaluated(node: ast.Expr, value: Value) -> ast.Expr:
    return cast(ast.Expr, Evaluated(node.span, value))


def _gone_through(e: Emitter, element: ast.Expr, name: ast.Name, values: ast.Expr) -> Walk:
    return (yield e.expression(ast.ListComp(element.span, element, (ast.Clause(element.span, name, values, ()),))))
