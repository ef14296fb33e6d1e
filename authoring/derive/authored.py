"""The text of a function as its author laid it out: statements in their order, each with its comments.

A comment behind a statement is its own; one on a line of its own belongs to what follows, or closes the block that it
is as deep as.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...lang import ast
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Source
from ...runtime.face.stages import source_text

INDENT = "    "


@dataclass(eq=False, slots=True)
class AuthoredStatement:
    """One statement, or what opens a block: `if`, `elif`, `else`, `for`, `while`, `with` and `def`."""

    syntax: ast.Syntax | None
    """None for `else`."""
    depth: int
    start: int
    end: int
    """What opens a block ends before it."""
    block: list[AuthoredStatement] = field(default_factory=list)
    """What is in the block that it opens, blocks in that included."""
    above: list[str] = field(default_factory=list)
    """Comments and blank lines before it, without their indentation."""
    behind: str = ""
    """The comment on its last line."""
    below: list[str] = field(default_factory=list)
    """Comments that close its block."""
    lines: list[str] = field(default_factory=list)
    """Its text, without its indentation and the comment behind it."""

    @property
    def names(self) -> set[str]:
        """What it assigns."""
        if not isinstance(self.syntax, ast.Assign | ast.AugAssign):
            return set()
        waiting = list(self.syntax.targets if isinstance(self.syntax, ast.Assign) else (self.syntax.target,))
        found = set()
        while waiting:
            target = waiting.pop()
            found |= {target.id} if isinstance(target, ast.Name) else set()
            waiting += ast.children(target) if isinstance(target, ast.TupleExpr | ast.Starred) else ()  # type: ignore[arg-type]
        return found

    def text(self) -> list[str]:
        """The statement with its own comment, one level in as far as it stands."""
        behind = f"  {self.behind}" if self.behind else ""
        return [*self.lines[:-1], self.lines[-1] + behind]


@dataclass(slots=True)
class Authored:
    """A function as it is written: what stands before its first statement, and its statements in order."""

    head: list[str]
    statements: list[AuthoredStatement]


def authored(definition: ast.FunctionDef) -> Authored | None:
    """The layout of a function's text; None where two statements share a line, or one shares the header's."""
    source = definition.span.source
    statements = _statements(definition.body, source.text)
    rows = [(source.position(s.start)[0], source.position(s.end)[0]) for s in statements]
    if any(first <= last for (_, last), (first, _) in pairwise(rows)):
        return None
    if source.position(statements[0].start)[1] - 1 > _column(source, rows[0][0]):
        return None
    top = definition.span.line
    comments = {top + row: text for row, text in _comments(source_text(definition)).items()}
    for statement, (first, last) in zip(statements, rows, strict=True):
        margin = _column(source, first)
        inner = source.text[statement.start : statement.end].split("\n")
        statement.lines = [inner[0], *(line[min(margin, _width(line)) :] for line in inner[1:])]
        statement.behind = comments.get(last, "")
    head = _head(source, top, rows[0][0], comments)
    _above_first(statements[0], range(top + len(head), rows[0][0]), comments)
    end = top + source_text(definition).count("\n")
    between = [range(last + 1, first) for (_, last), (first, _) in pairwise(rows)]
    for i, lines in enumerate([*between, range(rows[-1][1] + 1, end)]):
        _share(source, statements[i : i + 2], lines, comments)
    return Authored(head, statements)


def _statements(body: Sequence[ast.Syntax], text: str) -> list[AuthoredStatement]:
    """Statements in the order of the text; blocks stand open on a stack, not on Python's."""
    found: list[AuthoredStatement] = []
    stack: list[tuple[Iterator[_Opened], AuthoredStatement | None]] = [(_opened(body, 1, text), None)]
    while stack:
        following = next(stack[-1][0], None)
        if following is None:
            stack.pop()
            continue
        statement, inside = following
        for _, holder in stack:
            if holder is not None:
                holder.block.append(statement)
        found.append(statement)
        if inside:
            stack.append((_opened(inside, statement.depth + 1, text), statement))
    return found


_Opened = tuple[AuthoredStatement, Sequence[ast.Syntax]]


def _opened(body: Sequence[ast.Syntax], depth: int, text: str) -> Iterator[_Opened]:
    """The statements of one block, each with what is in the block that it opens."""
    for node in body:
        if isinstance(node, ast.If):
            for i, (test, inside) in enumerate(node.clauses):
                start = text.rfind("elif", 0, test.span.start) if i else node.span.start
                yield AuthoredStatement(test if i else node, depth, start, _colon(text, test.span.end)), inside
            if node.otherwise:
                start = text.rfind("else", 0, node.otherwise[0].span.start)
                yield AuthoredStatement(None, depth, start, _colon(text, start)), node.otherwise
        elif isinstance(node, ast.For | ast.While | ast.With | ast.FunctionDef):
            yield AuthoredStatement(node, depth, node.span.start, _colon(text, _header_end(node))), node.body
        else:
            yield AuthoredStatement(node, depth, node.span.start, node.span.end), ()


def _header_end(node: ast.For | ast.While | ast.With | ast.FunctionDef) -> int:
    match node:
        case ast.For():
            return node.iterable.span.end
        case ast.While():
            return node.test.span.end
        case ast.With():
            return node.contexts[-1].span.end
        case _:
            return node.span.end - 1


def _colon(text: str, position: int) -> int:
    """Behind the colon that opens a block."""
    return text.find(":", position) + 1


def _comments(text: str) -> dict[int, str]:
    """By row, the comment that is on it."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0] - 1: token.string for token in tokens if token.type == tokenize.COMMENT}


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())


def _column(source: Source, line: int) -> int:
    return _width(source.line(line))


def _head(source: Source, top: int, first: int, comments: dict[int, str]) -> list[str]:
    """The lines down to the header's or the docstring's last, as far in as the statements will be."""
    last = max(row for row in range(top, first) if source.line(row).strip() and not _is_comment(source, row, comments))
    margin = _column(source, first)
    rest = [source.line(row) for row in range(top + 1, last + 1)]
    return [source.line(top), *(INDENT + line[margin:] if not line[:margin].strip() else line for line in rest)]


def _is_comment(source: Source, row: int, comments: dict[int, str]) -> bool:
    return row in comments and source.line(row).lstrip().startswith("#")


def _above_first(statement: AuthoredStatement, lines: range, comments: dict[int, str]) -> None:
    statement.above = [comments.get(row, "") for row in lines]


def _share(source: Source, around: Sequence[AuthoredStatement], lines: range, comments: dict[int, str]) -> None:
    """Give the lines between two statements to the one before or the one behind them."""
    before, *after = around
    for row in lines:
        if not after:
            before.below += [comments[row]] if row in comments else []
            continue
        (following,) = after
        column = source.position(following.start)[1] - 1
        closes = row in comments and following.depth < before.depth and _column(source, row) > column
        (before.below if closes else following.above).append(comments.get(row, ""))
