"""Types in comments, as TorchScript and PEP 484 write them. They mean what annotations mean.

    def f(x, n):
        # type: (Tensor, int) -> Tensor        the signature, in the body; best as its first line
    def f(x,  # type: Tensor                   one parameter, behind it
          n,  # type: int
          ):
        # type: (...) -> Tensor
    y = []  # type: List[int]                  what an assignment assigns

The scanner passes comments over, so they are looked for in the text between the tokens. `# type: ignore` is for other
tools. A type comment that stands elsewhere is reported: its author meant a type.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from .. import ast
from ..diagnostics import MAX_DIAGNOSTICS, Diagnostics
from ..light_dataclasses import dataclass, replace
from ..source import Source, Span
from .scanner import scan
from .tokens import END, LAYOUT, Token

_COMMENT = re.compile(r"\#[ \t]*+type[ \t]*+:[ \t]*+(?!ignore\b)(?P<text>[^\r\n]*)")

Parse = Callable[[list[Token]], ast.Expr | None]
"""The expression, or the expressions with commas between them, that tokens are; None where they are none."""


@dataclass(frozen=True, eq=False)
class TypeComment:
    """One type comment. A signature has a result; `parameters` is None where it leaves them out: `(...) -> Tensor`."""

    span: Span
    follows: int
    """Where the token before it ends; -1 for a comment on a line of its own."""
    type: ast.Expr | None = None
    parameters: tuple[ast.Expr, ...] | None = None
    returns: ast.Expr | None = None


class TypeComments:
    """The type comments of a source that no syntax has taken yet."""

    def __init__(self, diagnostics: Diagnostics, comments: Sequence[TypeComment] = ()) -> None:
        self._diagnostics = diagnostics
        self._left = list(comments)
        self._behind = {comment.follows: comment for comment in comments if comment.type is not None}

    def of_assignment(self, end: int) -> ast.Expr | None:
        """The type behind an assignment that ends at the offset."""
        comment = self._behind.get(end)
        if comment is None:
            return None
        self._left.remove(comment)
        return comment.type

    def of_function(
        self, header: Span, end: int, parameters: Sequence[ast.Parameter], returns: ast.Expr | None
    ) -> tuple[tuple[ast.Parameter, ...], ast.Expr | None]:
        """Parameters and result of a function whose body ends at `end`, with what comments say of them."""
        given = tuple(parameters)
        first, last = (bisect_left(self._left, at, key=lambda c: c.span.start) for at in (header.start, end))
        if first == last or header.start == header.end:
            # Nothing is said of it, or its header did not parse.
            return given, returns
        found = self._left[first:last]
        inside = [c for c in found if c.span.start < header.end and c.type is not None]
        signatures = [c for c in found if c.span.start >= header.end and c.returns is not None]
        taken = {*inside, *signatures}
        self._left[first:last] = [c for c in found if c not in taken]
        types = self._behind_parameters(given, inside)
        for other in signatures[1:]:
            self._report(other.span, "a second signature in a type comment", "a function has one")
        if signatures:
            returns = self._once(returns, signatures[0].returns, "the result")
            types |= self._of_signature(given, signatures[0], bool(types))
        typed = (replace(p, annotation=self._once(p.annotation, types.get(p.name), f"'{p.name}'")) for p in given)
        return tuple(typed), returns

    def _behind_parameters(
        self, parameters: Sequence[ast.Parameter], comments: Sequence[TypeComment]
    ) -> dict[str, ast.Expr]:
        types: dict[str, ast.Expr] = {}
        ends = [parameter.span.end for parameter in parameters]
        for comment in comments:
            index = bisect_right(ends, comment.span.start) - 1
            if index < 0 or parameters[index].name in types:
                self._report(comment.span, "a type comment behind no parameter", "write one behind each parameter")
            elif comment.type is not None:
                types[parameters[index].name] = comment.type
        return types

    def _of_signature(
        self, parameters: Sequence[ast.Parameter], signature: TypeComment, typed: bool
    ) -> dict[str, ast.Expr]:
        types = signature.parameters
        if types is None:
            return {}
        if typed:
            note = "write `(...)` in the signature where each parameter has a type comment of its own"
            self._report(signature.span, "type comments give the parameters their types twice", note)
        elif len(types) != len(parameters):
            message = (
                f"the type comment has {_counted(len(types), 'type')} for {_counted(len(parameters), 'parameter')}"
            )
            note = "write one type for each parameter, in order: # type: (Tensor, int) -> Tensor"
            self._report(signature.span, message, note)
        else:
            return {p.name: type for p, type in zip(parameters, types, strict=True)}
        return {}

    def _once(self, annotation: ast.Expr | None, comment: ast.Expr | None, what: str) -> ast.Expr | None:
        if annotation is not None and comment is not None:
            self._report(comment.span, f"{what} has a type comment and an annotation", "keep one of the two")
        return annotation or comment

    def drop(self, is_left_out: Callable[[int], bool]) -> None:
        """Forget the comments at such offsets."""
        self._left = [comment for comment in self._left if not is_left_out(comment.span.start)]
        self._behind = {comment.follows: comment for comment in self._left if comment.type is not None}

    def report_left(self) -> None:
        """Report what stands where it says the type of nothing."""
        for comment in self._left[:MAX_DIAGNOSTICS]:
            self._report(
                comment.span,
                "this type comment says the type of nothing",
                "it stands in the function's body for a signature, else behind a parameter or an assignment",
                "a comment that means something else begins with another word",
            )

    def _report(self, span: Span, message: str, note: str, *notes: str) -> None:
        self._diagnostics.report("E101", message, span, note, *notes)


def read_type_comments(source: Source, tokens: list[Token], diagnostics: Diagnostics, parse: Parse) -> TypeComments:
    """The type comments of a source, whose tokens these are."""
    comments: list[TypeComment] = []
    starts: list[int] = []
    for match in _COMMENT.finditer(source.text):
        starts = starts or [token.start for token in tokens]
        index = bisect_right(starts, match.start()) - 1
        before = tokens[index] if index >= 0 else Token("NEWLINE", "", 0, 0)
        line_start = source.text.rfind("\n", 0, match.start()) + 1
        inside_comment = "#" in source.text[max(line_start, before.end) : match.start()]
        if match.start() < before.end or inside_comment:
            continue
        span = Span(source, *match.span())
        follows = -1 if before.kind in LAYOUT else before.end
        comment = _read(span, follows, _tokens(match["text"], match.start("text")), parse)
        if comment is None:
            note = "write # type: int, # type: (Tensor, int) -> Tensor, or begin the comment with another word"
            diagnostics.report("E101", "this type comment has no type", span, note)
        else:
            comments.append(comment)
    return TypeComments(diagnostics, comments)


def _tokens(text: str, offset: int) -> list[Token]:
    """The tokens of a comment's text, at their places in the source; none where some are no tokens."""
    problems = Diagnostics()
    tokens = scan(Source(text), problems)
    if problems.found:
        return []
    return [
        Token(t.kind, t.text, t.start + offset, t.end + offset)
        for t in tokens
        if t.kind not in LAYOUT and t.kind != END
    ]


def _read(span: Span, follows: int, tokens: list[Token], parse: Parse) -> TypeComment | None:
    arrow = next((i for i, token in enumerate(tokens) if token.kind == "->"), None)
    if arrow is None:
        type = _one_type(tokens, parse)
        return None if type is None else TypeComment(span, follows, type)
    left, right = tokens[:arrow], tokens[arrow + 1 :]
    returns = _one_type(right, parse)
    if returns is None or len(left) < 2 or left[0].kind != "(" or left[-1].kind != ")":
        return None
    inner = left[1:-1]
    if [token.kind for token in inner] == ["..."]:
        return TypeComment(span, follows, None, None, returns)
    if not inner:
        return TypeComment(span, follows, None, (), returns)
    types = parse(inner)
    if types is None:
        return None
    return TypeComment(span, follows, None, types.elements if isinstance(types, ast.TupleExpr) else (types,), returns)


def _one_type(tokens: list[Token], parse: Parse) -> ast.Expr | None:
    """A type; several with commas between them are those of a tuple."""
    type = parse(tokens) if tokens else None
    if not isinstance(type, ast.TupleExpr):
        return type
    return ast.Subscript(type.span, ast.Name(type.span, "Tuple"), type)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
