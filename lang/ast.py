"""The syntax tree: frozen, with a span on every node.

Nodes compare by identity, so nothing here recurses. Parentheses leave no trace; annotations are
expressions until the emitter resolves them to types.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TypeAlias, get_args

from .light_dataclasses import dataclass, fields
from .source import Span


@dataclass(frozen=True, eq=False, slots=True)
class Syntax:
    """What every node has."""

    span: Span


# Expressions


@dataclass(frozen=True, eq=False, slots=True)
class Name(Syntax):
    id: str


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Syntax):
    """int, float, bool, str, None or Ellipsis (only inside a subscript)."""

    value: object


@dataclass(frozen=True, eq=False, slots=True)
class FormattedValue(Syntax):
    """`{value!r:format}` in an f-string; `conversion` is `r`, `s`, `a` or nothing."""

    value: Expr
    conversion: str
    format: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class JoinedStr(Syntax):
    """An f-string: str constants and FormattedValues in turn."""

    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class TupleExpr(Syntax):
    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ListExpr(Syntax):
    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Starred(Syntax):
    """`*value`, inside a tuple, a list or a target that is one, and among the arguments of a call."""

    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Clause(Syntax):
    """`for target in iterable if condition if …` of a comprehension."""

    target: Target
    iterable: Expr
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ListComp(Syntax):
    """`[element for … if … for …]`."""

    element: Expr
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, eq=False, slots=True)
class GeneratorExp(Syntax):
    """`(element for … if … for …)`, also as the one argument of a call."""

    element: Expr
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Attribute(Syntax):
    value: Expr
    name: str
    name_span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Subscript(Syntax):
    """`value[index]`; several comma-separated indices are a TupleExpr."""

    value: Expr
    index: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Slice(Syntax):
    """`lower:upper:step`, inside a Subscript's index only."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class Keyword(Syntax):
    name: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Call(Syntax):
    function: Expr
    args: tuple[Expr, ...]
    keywords: tuple[Keyword, ...]


@dataclass(frozen=True, eq=False, slots=True)
class UnaryOp(Syntax):
    """op is one of `-`, `+`, `~`, `not`."""

    op: str
    operand: Expr


@dataclass(frozen=True, eq=False, slots=True)
class BinaryOp(Syntax):
    """op is one of `+ - * / // % ** @ & | ^ << >>`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False, slots=True)
class BoolOp(Syntax):
    """`a and b and c` is one node with three values; op is `and` or `or`."""

    op: str
    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Compare(Syntax):
    """`a < b <= c` has first a, ops (`<`, `<=`), rest (b, c). Ops: `< <= > >= == != is`, `is not`, `in`, `not in`."""

    first: Expr
    ops: tuple[str, ...]
    rest: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Conditional(Syntax):
    """`then if test else otherwise`."""

    test: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Lambda(Syntax):
    """`lambda parameters: value`"""

    parameters: tuple[Parameter, ...]
    value: Expr


Expr: TypeAlias = (
    Name
    | Constant
    | FormattedValue
    | JoinedStr
    | TupleExpr
    | ListExpr
    | Starred
    | ListComp
    | GeneratorExp
    | Attribute
    | Subscript
    | Slice
    | Call
    | UnaryOp
    | BinaryOp
    | BoolOp
    | Compare
    | Conditional
    | Lambda
)

Target: TypeAlias = Name | Subscript | Attribute | TupleExpr | Starred
"""What may stand left of `=`. The parser lets only these through; a TupleExpr's elements are targets again."""


# Statements


@dataclass(frozen=True, eq=False, slots=True)
class Parameter(Syntax):
    name: str
    annotation: Expr | None
    default: Expr | None
    keyword_only: bool


@dataclass(frozen=True, eq=False, slots=True)
class FunctionDef(Syntax):
    """`span` covers the header, from `def` to the colon. The docstring is not in the body."""

    name: str
    name_span: Span
    parameters: tuple[Parameter, ...]
    returns: Expr | None
    body: tuple[Stmt, ...]
    docstring: str | None
    gradients: bool | None = None
    """Whether gradients flow from what it computes, where a decorator says so."""


@dataclass(frozen=True, eq=False, slots=True)
class Assign(Syntax):
    """`a = b = value` has two targets. `name: annotation = value` has one, and an annotation."""

    targets: tuple[Target, ...]
    value: Expr
    annotation: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class AugAssign(Syntax):
    """`target op= value`; op without the equals sign."""

    target: Target
    op: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class If(Syntax):
    """`elif` is not nested: one (test, body) for `if` and for each `elif`, in order. `span` is the header's."""

    clauses: tuple[tuple[Expr, tuple[Stmt, ...]], ...]
    otherwise: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class For(Syntax):
    target: Target
    iterable: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class While(Syntax):
    test: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class With(Syntax):
    """`with a, b: body`; `body_span` is where the body stands."""

    contexts: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    body_span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Break(Syntax):
    pass


@dataclass(frozen=True, eq=False, slots=True)
class Continue(Syntax):
    pass


@dataclass(frozen=True, eq=False, slots=True)
class Return(Syntax):
    value: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class Assert(Syntax):
    test: Expr
    message: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class Raise(Syntax):
    """`raise`, `raise Name` or `raise Name(message)`."""

    exception: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class Delete(Syntax):
    """`del a, b[i]`."""

    targets: tuple[Name | Subscript, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Pass(Syntax):
    pass


@dataclass(frozen=True, eq=False, slots=True)
class ExprStmt(Syntax):
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Declare(Syntax):
    """`x: T`: a field of a named tuple."""

    target: Expr
    annotation: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Record(Syntax):
    """A named tuple: its fields are the parameters of what makes one."""

    name: str
    name_span: Span
    parameters: tuple[Parameter, ...]


Stmt: TypeAlias = (
    FunctionDef
    | Assign
    | AugAssign
    | If
    | For
    | While
    | With
    | Break
    | Continue
    | Return
    | Assert
    | Raise
    | Delete
    | Pass
    | ExprStmt
    | Declare
    | Record
)


@dataclass(frozen=True, eq=False, slots=True)
class Module(Syntax):
    """`ignored` are functions that were passed over, each with the decorator that says so; `constants` give names to
    what is computed before anything runs."""

    functions: tuple[FunctionDef, ...]
    ignored: tuple[tuple[str, str], ...] = ()
    records: tuple[Record, ...] = ()
    constants: tuple[Assign, ...] = ()


@cache
def _field_names(kind: type[Syntax]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in ("span", "name_span", "body_span"))


def children(node: Syntax) -> Iterator[Syntax]:
    """The nodes directly inside a node, in source order."""
    for name in _field_names(type(node)):  # type: ignore[arg-type]  # a class is hashable
        stack = [getattr(node, name)]
        while stack:
            item = stack.pop()
            if isinstance(item, Syntax):
                yield item
            elif isinstance(item, tuple):
                stack += reversed(item)


_EXPRESSIONS = get_args(Expr)


def expressions_of(statement: Syntax) -> Iterator[Expr]:
    """The expressions directly inside a statement; not those of the statements inside it."""
    for child in children(statement):
        if isinstance(child, _EXPRESSIONS):
            yield child
