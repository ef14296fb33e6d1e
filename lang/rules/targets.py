"""What may stand left of `=`, between `for` and `in`, and left of `+=`."""

from __future__ import annotations

from typing import Literal

from .. import ast
from ..diagnostics import Diagnostics

TargetKind = Literal["plain", "annotated", "augmented", "deleted"]


def check_target(target: ast.Expr, diagnostics: Diagnostics, kind: TargetKind = "plain") -> None:
    """Report what cannot be assigned to; the first such part of a tuple is enough."""
    pending = [target]
    while pending:
        part = pending.pop()
        match part:
            case ast.Name():
                pass
            case ast.TupleExpr() if kind == "plain":
                stars = [element for element in part.elements if isinstance(element, ast.Starred)]
                if len(stars) > 1:
                    note = "one of them takes what the other names leave"
                    diagnostics.report("E103", "a second '*' left of '='", stars[1].span, note)
                    return
                pending.extend(reversed(part.elements))
            case ast.Starred() if kind == "plain":
                pending.append(part.value)
            case ast.Subscript() if kind != "annotated":
                pass
            case ast.Attribute() if kind in ("plain", "augmented"):
                pass
            case _:
                _refuse(part, diagnostics, kind)
                return


def _refuse(part: ast.Expr, diagnostics: Diagnostics, kind: TargetKind) -> None:
    if kind == "annotated":
        note = "write the type where the value is made, or assign to a name first"
        diagnostics.report("E103", f"only a name can be annotated, not {_describe(part)}", part.span, note)
        return
    if kind == "deleted":
        note = "write `del a, b`, or `del l[0]` for an element of a list"
        diagnostics.report("E103", f"cannot delete {_describe(part)}", part.span, note)
        return
    if isinstance(part, ast.TupleExpr):
        note = "write one statement for each name"
        diagnostics.report("E103", "a tuple cannot be updated in place", part.span, note)
        return
    if isinstance(part, ast.ListExpr):
        note = "write it without brackets: a, b = …"
        diagnostics.report("E102", "a list as a target is not supported", part.span, note)
        return
    note = "assign to a name, an element such as x[0], or a tuple of them"
    if isinstance(part, ast.Compare | ast.BinaryOp | ast.BoolOp | ast.UnaryOp):
        note = "'==' compares; '=' assigns to what stands left of it"
    diagnostics.report("E103", f"cannot assign to {_describe(part)}", part.span, note)


_DESCRIPTIONS: dict[type[ast.Syntax], str] = {
    ast.Call: "the result of a call",
    ast.TupleExpr: "a tuple",
    ast.ListExpr: "a list",
    ast.ListComp: "a list comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.Attribute: "an attribute",
    ast.Subscript: "an element",
    ast.UnaryOp: "an expression",
    ast.BinaryOp: "an expression",
    ast.BoolOp: "an expression",
    ast.Compare: "a comparison",
    ast.Conditional: "a conditional expression",
    ast.Lambda: "a lambda",
}


def _describe(part: ast.Expr) -> str:
    if isinstance(part, ast.Constant):
        return f"the constant {part.value}" if isinstance(part.value, bool | None) else "a literal"
    return _DESCRIPTIONS.get(type(part), "this expression")
