"""A derived function as its author laid it out: what the backward needs stands among the author's lines.

def f(x, n: int):                      def f(x, n: int):
    # n times                              kept_x: List[Tensor] = []
    for i in range(n):        ─▶           # n times
        # a step                           for i in range(n):
        x = x * x                              kept_x.append(x)
    return x                                   # a step
                                               x = x * x
                                           …

Each printed line is of one statement of the author's: the one of which it says a part, or which assigns the same name.
A statement that prints the same with the backward and without it stays as it is written; comments stay anyway.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from ...compiler.ir.node import RETURN
from ...compiler.unparse import SourceLine
from ...lang import ast
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Source
from .authored import INDENT, Authored, AuthoredStatement

_ASSIGNED = re.compile(r"(\w+)(?:: [^=]*)? = ")
_WITHOUT_LINES = (ast.Assign, ast.AugAssign, ast.Assert, ast.ExprStmt, ast.Pass)
"""Statements that stay where nothing is printed of them: constants, other names for what there is."""


def merged(
    layout: Authored,
    source: Source,
    plain: Sequence[SourceLine],
    derived: Sequence[SourceLine],
    closures: int,
    *,
    verbatim: bool,
) -> list[str]:
    """The lines of the derived function in the author's layout.

    `plain` are the printed lines of the function as it was, with `closures` in it. `verbatim` says to leave as it is
    written what prints the same; else only comments stay.
    """
    owners = _Owners(layout, source)
    merge = _Merge(layout, owners.of(plain, closures), owners.of(derived, closures), verbatim)
    return merge.made()


@dataclass(frozen=True, slots=True)
class _Owned:
    """A printed line with the statement that it is of; without one where it says nothing that the author wrote."""

    line: SourceLine
    place: int = -1
    """Which statement it is of, in their order."""
    is_new: bool = False
    """Whether it is in a closure that there was not."""


class _Owners:
    """What printed lines are of."""

    def __init__(self, layout: Authored, source: Source) -> None:
        self._statements = layout.statements
        self._starts = [statement.start for statement in layout.statements]
        self._source = source

    def of(self, lines: Sequence[SourceLine], closures: int) -> list[_Owned]:
        """The lines behind the header; those of a closure more than there were are new."""
        found: list[_Owned] = []
        met, depth = 0, -1
        for line in lines[1:]:
            if depth < 0 or line.depth <= depth:
                is_closure = line.node is not None and line.node.kind == "prim::Function"
                met += is_closure
                depth = line.depth if is_closure and met > closures else -1
            found.append(_Owned(line, -1 if depth >= 0 else self._place(line), depth >= 0))
        return self._assigned(found)

    def _place(self, line: SourceLine) -> int:
        node = line.node
        if node is None:
            return -1
        if node.kind == RETURN:
            returns = [i for i, s in enumerate(self._statements) if isinstance(s.syntax, ast.Return)]
            return next((i for i in reversed(returns) if self._statements[i].depth == line.depth), -1)
        place = bisect_right(self._starts, node.span.start) - 1
        inside = node.span.source is self._source and place >= 0 and node.span.end <= self._statements[place].end
        return place if inside else -1

    def _assigned(self, lines: Sequence[_Owned]) -> list[_Owned]:
        """Lines without a statement, given to one between those around them that assigns the same, or is `else`."""
        found: list[_Owned] = []
        following = len(self._statements)
        ahead: list[int] = []
        for owned in reversed(lines):
            ahead.append(following)
            following = owned.place if owned.place >= 0 else following
        last = -1
        for owned, until in zip(lines, reversed(ahead), strict=True):
            if owned.place < 0 and not owned.is_new:
                between = range(last + 1, until)
                owned = _Owned(owned.line, next((i for i in between if self._fits(i, owned.line.text)), -1))
            last = max(last, owned.place)
            found.append(owned)
        return found

    def _fits(self, place: int, text: str) -> bool:
        statement = self._statements[place]
        if text == "else:":
            return statement.syntax is None
        match = _ASSIGNED.match(text)
        return match is not None and match[1] in statement.names


@dataclass(slots=True)
class _Merge:
    """The author's lines and the derived ones, put together from the first to the last."""

    layout: Authored
    plain: Sequence[_Owned]
    derived: Sequence[_Owned]
    verbatim: bool
    lines: list[str] = field(default_factory=list)
    _before: dict[int, list[str]] = field(default_factory=dict)
    """By statement, what is printed of it without the new closure."""
    _after: dict[int, list[str]] = field(default_factory=dict)
    _left: list[tuple[int, list[str]]] = field(default_factory=list)
    """Comments that close blocks, and how deep."""
    _next: int = 0
    _withs: list[int] = field(default_factory=list)
    """The author's statements of which nothing is printed but what stands in them."""

    def made(self) -> list[str]:
        self._withs += [i for i, s in enumerate(self.layout.statements) if isinstance(s.syntax, ast.With)]
        for found, lines in ((self._before, self.plain), (self._after, self.derived)):
            for owned in lines:
                found.setdefault(owned.place, []).append(owned.line.text)
        for owned in self._ordered():
            if owned.place >= self._next:
                self._pass(owned.place, owned.line.depth)
            self._enter(owned)
        self._pass(len(self.layout.statements), 1)
        return [*self.layout.head, *self.lines]

    def _ordered(self) -> list[_Owned]:
        """The derived lines, without those that only move values from name to name with the backward and without."""
        moves = set(self._before.get(-1, ())) if self.verbatim else set()
        return [owned for owned in self.derived if owned.is_new or owned.place >= 0 or owned.line.text not in moves]

    def _pass(self, place: int, depth: int) -> None:
        """Everything of the author's before a statement of which a line is printed, and what stands above that."""
        statements = self.layout.statements
        for i in range(self._next, place):
            statement = statements[i]
            self._close()
            self._comments(statement.above, statement.depth)
            if self._stays_without_lines(i):
                self._add(statement.text(), statement.depth)
            elif statement.behind:
                self._add([statement.behind], statement.depth)
            self._left.append((statement.depth, statement.below))
        if place < len(statements):
            self._close()
            deep = depth + self._around(place)
            self._comments(statements[place].above, deep)
            self._left.append((deep, statements[place].below))
        else:
            self._close()
        self._next = place + 1

    def _close(self) -> None:
        for deep, comments in self._left:
            self._comments(comments, deep)
        self._left.clear()

    def _stays_without_lines(self, place: int) -> bool:
        if not self.verbatim or place in self._before or place in self._after:
            return False
        syntax = self.layout.statements[place].syntax
        if isinstance(syntax, ast.With):
            return all(self._stays(i) for i, s in enumerate(self.layout.statements) if s in self._block(place))
        return isinstance(syntax, _WITHOUT_LINES)

    def _block(self, place: int) -> list[AuthoredStatement]:
        return self.layout.statements[place].block

    def _stays(self, place: int) -> bool:
        """Whether what is printed of a statement is still there."""
        before = self._before.get(place, [])
        return self.verbatim and set(before) <= set(self._after.get(place, ()))

    def _enter(self, owned: _Owned) -> None:
        line, place = owned.line, owned.place
        if place < 0:
            self._add([line.text], line.depth)
            return
        statement = self.layout.statements[place]
        before, after = self._before.get(place, []), self._after[place]
        if self._stays(place) and line.text in before:
            if line.text == before[-1]:
                self._add(statement.text(), line.depth + self._around(place))
            return
        returned = self._returned(statement, before, after)
        if returned is not None and (line.text in before or line.text == after[-1]):
            self._add(returned if line.text == after[-1] else [], line.depth)
            return
        behind = f"  {statement.behind}" if statement.behind and line.text == after[-1] else ""
        self._add([line.text + behind], line.depth)

    def _around(self, place: int) -> int:
        """How many `with` stand around a statement in the text and in nothing that is printed."""
        statement = self.layout.statements[place]
        return sum(statement in self._block(i) and self._stays_without_lines(i) for i in self._withs)

    def _returned(self, statement: AuthoredStatement, before: Sequence[str], after: Sequence[str]) -> list[str] | None:
        """A `return` as it is written, and the closure; None where it returns anything else than it did."""
        value = statement.syntax.value if isinstance(statement.syntax, ast.Return) else None
        if not self.verbatim or value is None or not before or not after[-1].startswith(f"{before[-1]}, "):
            return None
        is_tuple = isinstance(value, ast.TupleExpr) and value.span.text.startswith("(")
        if is_tuple or not set(before[:-1]) <= set(after):
            return None
        *lines, last = statement.lines
        behind = f"  {statement.behind}" if statement.behind else ""
        return [*lines, f"{last}{after[-1].removeprefix(before[-1])}{behind}"]

    def _comments(self, comments: Sequence[str], depth: int) -> None:
        for comment in comments:
            if comment:
                self._add([comment], depth)
            elif self.lines and self.lines[-1]:
                self.lines.append("")

    def _add(self, lines: Sequence[str], depth: int) -> None:
        self.lines += [INDENT * depth + line if line else "" for line in lines]
