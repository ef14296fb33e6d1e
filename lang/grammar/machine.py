"""The parser's loop over the tables, and how it carries on after an error.

An error is reported once, for its logical line. The line is then replaced by the least that fits in its place:
`pass` for a simple statement, the bare header for a line with a block. So the blocks around it and below it are
parsed as they stand, and their errors are found in the same go.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from .. import ast
from ..diagnostics import MAX_DIAGNOSTICS, Diagnostics
from ..refusals.complaints import complain, missing_block, unexpected_indent
from ..refusals.refusal import Complaint, Refusal
from ..rules.placement import check_placement, names_a_constant
from ..rules.records import record_of_call
from ..scanning.decorators import Decorated, without_decorators
from ..scanning.scanner import scan
from ..scanning.tokens import END, LAYOUT, Token
from ..scanning.type_comments import read_type_comments
from ..source import Source, Span
from .builder import TreeBuilder
from .tables import Tables, tables

_HEADERS: dict[str, tuple[str, ...]] = {
    "if": ("if", "NAME", ":"),
    "elif": ("elif", "NAME", ":"),
    "else": ("else", ":"),
    "while": ("while", "NAME", ":"),
    "for": ("for", "NAME", "in", "NAME", ":"),
    "with": ("with", "NAME", ":"),
    "def": ("def", "NAME", "(", ")", ":"),
    "class": ("class", "NAME", ":"),
}
"""The least header of each kind: what stands in for one that did not parse."""


class Machine:
    """Parses one source."""

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.tables: Tables = tables()
        self.builder = TreeBuilder(source, diagnostics)
        self.states: list[int] = [self.tables.start]
        self.values: list[Any] = []
        self.starts: list[int] = []
        """Offset where each symbol on the stack starts."""
        self.end = 0
        """Offset where the token taken in last ends, and with it every symbol that is complete."""

    def run(self) -> ast.Module:
        before = len(self.diagnostics.found)
        scanned = scan(self.source, self.diagnostics)
        self.builder.comments = read_type_comments(self.source, scanned, self.diagnostics, self.expressions)
        decorated = without_decorators(scanned)
        self.pass_over(decorated, before)
        self.builder.modes = decorated.modes
        tokens = decorated.tokens
        position = self.feed(tokens, 0)
        while position < len(tokens):
            position = self.recover(tokens, position)
            if len(self.diagnostics.found) >= MAX_DIAGNOSTICS:
                return self.module([])
            position = self.feed(tokens, position)
        statements: list[ast.Stmt] = self.values[0]
        if len(self.diagnostics.found) == before:
            # Below a mistake, what a comment belongs to may not have been read.
            self.builder.comments.report_left()
        statements = [record_of_call(s, self.diagnostics) or s for s in statements]
        check_placement(statements, self.diagnostics)
        faults = sorted(found.span.start for found in self.diagnostics.found[before:])
        sound = [s for s in statements if isinstance(s, ast.FunctionDef) and self.is_sound(s, faults)]
        records = [s for s in statements if isinstance(s, ast.Record)]
        constants = [s for s in statements if names_a_constant(s)]
        return self.module(sound, tuple(decorated.ignored.items()), tuple(records), tuple(constants))

    def pass_over(self, decorated: Decorated, before: int) -> None:
        """Forget what was found in functions that are ignored."""
        if decorated.ranges:
            found = self.diagnostics.found
            found[before:] = [d for d in found[before:] if not decorated.leaves_out(d.span.start)]
            self.builder.comments.drop(decorated.leaves_out)

    def expressions(self, tokens: list[Token]) -> ast.Expr | None:
        """The expression that tokens from elsewhere are, or the tuple of several; None where they are none."""
        first, last = tokens[0].start, tokens[-1].end
        machine = Machine(self.source, self.diagnostics)
        before = [Token("NAME", "_", first, first), Token("=", "=", first, first)]
        after = [Token("NEWLINE", "", last, last), Token(END, "", last, last)]
        if machine.feed([*before, *tokens, *after], 0) < len(tokens) + 4:
            return None
        (statement,) = machine.values[0]
        return statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None

    def module(
        self,
        functions: list[ast.FunctionDef],
        ignored: tuple[tuple[str, str], ...] = (),
        records: tuple[ast.Record, ...] = (),
        constants: tuple[ast.Assign, ...] = (),
    ) -> ast.Module:
        span = Span(self.source, 0, len(self.source.text))
        return ast.Module(span, tuple(functions), ignored, records, constants)

    def is_sound(self, function: ast.FunctionDef, faults: list[int]) -> bool:
        """Whether nothing was reported between the start and the end of a function."""
        if function.span.start == function.span.end:
            return False
        first = bisect_left(faults, function.span.start)
        return first == len(faults) or faults[first] > self.builder.ends[function]

    def feed(self, tokens: list[Token], position: int) -> int:
        """Take in tokens from `position` on. Returns the index of the first that does not fit, or their number."""
        states, values, starts = self.states, self.values, self.starts
        actions, gotos, jumps = self.tables.actions, self.tables.gotos, self.tables.jumps
        builder = self.builder
        for index in range(position, len(tokens)):
            token = tokens[index]
            kind = token.kind
            while True:
                action = actions[states[-1]].get(kind)
                if isinstance(action, int):
                    states.append(action)
                    values.append(token)
                    starts.append(token.start)
                    self.end = token.end
                    break
                if action is None:
                    return index
                size = action.size
                if action.build is None:
                    jump = (states[-2], states[-1], kind)
                    states[-1] = jumps[jump] if jump in jumps else self.tables.jump(*jump)
                elif size:
                    start = starts[-size]
                    value = action.build(builder, values[-size:], start, self.end)
                    del states[-size:], values[-size:], starts[-size:]
                    states.append(gotos[states[-1]][action.symbol])
                    values.append(value)
                    starts.append(start)
                else:
                    states.append(gotos[states[-1]][action.symbol])
                    values.append(action.build(builder, [], token.start, token.start))
                    starts.append(token.start)
        return len(tokens)

    def accepts(self, kind: str) -> bool:
        """Whether a token of this kind would fit here. Looks ahead without changing the stack."""
        height = len(self.states)
        pushed: list[int] = []
        while True:
            top = pushed[-1] if pushed else self.states[height - 1]
            action = self.tables.actions[top].get(kind)
            if action is None or isinstance(action, int):
                return action is not None
            kept = max(len(pushed) - action.size, 0)
            height -= action.size - (len(pushed) - kept)
            del pushed[kept:]
            below = pushed[-1] if pushed else self.states[height - 1]
            pushed.append(self.tables.gotos[below][action.symbol])

    # Recovery

    def recover(self, tokens: list[Token], position: int) -> int:
        """Report the token that does not fit and put the parser in order. Returns where to go on."""
        token = tokens[position]
        if token.kind != "INDENT" and self.accepts("INDENT"):
            return self.supply_block(tokens, position)
        if token.kind == "INDENT":
            return self.allow_indent(tokens, position)
        if token.kind in (END, "DEDENT"):
            # The text was given up inside a block, which has been reported.
            self.stand_in(("pass", "NEWLINE"), token.start)
            return position
        first = line_start(tokens, position)
        newline = line_end(tokens, position)
        keyword = self.complain(tokens[first : newline + 1], position - first)
        self.drop_line(tokens[first])
        self.stand_in(self.replacement(keyword, tokens[newline + 1].kind == "INDENT"), tokens[first].start)
        return newline + 1

    def drop_line(self, first: Token) -> None:
        """Take off the stack what the line that starts with this token has put there."""
        height = bisect_left(self.starts, first.start)
        del self.states[height + 1 :], self.values[height:], self.starts[height:]

    def replacement(self, keyword: str, has_block: bool) -> tuple[str, ...]:
        """Kinds of the tokens that stand in for a line that starts with `keyword`."""
        if keyword in _HEADERS and self.accepts(keyword):
            header = _HEADERS[keyword]
        elif has_block:
            header = _HEADERS["if"]
        else:
            header = ()
        return (*header, "NEWLINE") if has_block else (*header, "pass", "NEWLINE")

    def stand_in(self, kinds: tuple[str, ...], offset: int) -> None:
        """Take in tokens that are not in the text. They are empty, and by that recognised later."""
        taken = self.feed([Token(kind, "_", offset, offset) for kind in kinds], 0)
        assert taken == len(kinds), kinds

    def allow_indent(self, tokens: list[Token], position: int) -> int:
        """A block that belongs to nothing is read as if a header stood above it."""
        first = tokens[position + 1]
        self.report(unexpected_indent(Span(self.source, first.start, first.end)), [first])
        self.stand_in((*_HEADERS["if"], "NEWLINE"), tokens[position].start)
        return position

    def supply_block(self, tokens: list[Token], position: int) -> int:
        """The block below a header is missing: report the header and carry on as if it held `pass`."""
        header = tokens[line_start(tokens, position - 1) : position - 1]
        span = Span(self.source, header[0].start, header[-1].end)
        self.report(missing_block(span, header[0]), [*header, tokens[position]])
        self.stand_in(("INDENT", "pass", "NEWLINE", "DEDENT"), tokens[position - 1].start)
        return position

    def complain(self, line: list[Token], at: int) -> str:
        """Report the token of the line that does not fit. Returns the keyword that the line is meant to start with."""
        expected = frozenset(kind for kind in self.tables.actions[self.states[-1]] if self.accepts(kind))
        kinds = [value.kind for value in self.values if isinstance(value, Token)]
        at_top = kinds.count("INDENT") == kinds.count("DEDENT")
        messages = frozenset(found.message for found in self.diagnostics.found)
        complaint = complain(Refusal(self.source, line, at, expected, at_top, messages))
        if complaint is None:
            return ""
        self.report(complaint, line)
        return complaint.keyword or line[0].kind

    def report(self, complaint: Complaint, line: list[Token]) -> None:
        """Report a complaint about a line, unless something on it has been reported: that is the cause."""
        start, end = self.source.line_starts[self.source.position(line[0].start)[0] - 1], line[-1].end
        for found in self.diagnostics.found:
            if found.span.source is self.source and start <= found.span.start <= end:
                return
        self.diagnostics.report(complaint.code, complaint.message, complaint.span, *complaint.notes)


def line_start(tokens: list[Token], position: int) -> int:
    """Index of the first token of the logical line that a token is in or ends."""
    while position and tokens[position - 1].kind not in LAYOUT:
        position -= 1
    return position


def line_end(tokens: list[Token], position: int) -> int:
    """Index of the token that ends a token's logical line."""
    while tokens[position].kind not in ("NEWLINE", END):
        position += 1
    return position
