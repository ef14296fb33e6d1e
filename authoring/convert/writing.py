"""Python's trees as text again: what has not been changed as it stands in the file, and the comments beside it."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Sequence
from copy import copy

from ...lang.light_dataclasses import dataclass, field
from .reading import Method

_INDENT = "    "


@dataclass(slots=True)
class Comments:
    """The comments of a file, by line: those that stand alone, and those behind code."""

    alone: dict[int, str] = field(default_factory=dict)
    behind: dict[int, str] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> Comments:
        found = Comments()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                is_alone = not token.line[: token.start[1]].strip()
                (found.alone if is_alone else found.behind)[token.start[0]] = token.string
        return found

    def again(self) -> Comments:
        """The same, of which none has been written."""
        return Comments(dict(self.alone), dict(self.behind))


class Writer:
    """Lines of text, each with the line of the file that it comes from."""

    def __init__(self, text: str, comments: Comments) -> None:
        self._source = text.splitlines()
        self._comments = comments
        self.lines: list[tuple[str, int]] = []
        self._told: set[int] = set()

    def write_function(self, definition: Method) -> str:
        """The text of a function, and of the comments inside it."""
        start = len(self.lines)
        self._write(definition, 0)
        return "\n".join(line for line, _ in self.lines[start:]) + "\n"

    def _write(self, statement: ast.stmt, depth: int) -> None:
        if isinstance(statement, ast.FunctionDef):
            returns = f" -> {ast.unparse(statement.returns)}" if statement.returns is not None else ""
            header = f"def {statement.name}({ast.unparse(self._as_written(statement.args))}){returns}:"
            self._block(statement, header, statement.body, depth)
        elif isinstance(statement, ast.If):
            self._if(statement, "if", depth)
        elif isinstance(statement, ast.For | ast.While | ast.With):
            self._block(statement, ast.unparse(_header(statement)).splitlines()[0], statement.body, depth)
            if isinstance(statement, ast.For | ast.While) and statement.orelse:
                self._add("else:", statement, depth)
                self._all(statement.orelse, depth + 1)
        else:
            self._simple(statement, depth)

    def _if(self, statement: ast.If, word: str, depth: int) -> None:
        self._block(statement, f"{word} {ast.unparse(statement.test)}:", statement.body, depth)
        match statement.orelse:
            case []:
                return
            case [ast.If() as inner]:
                self._if(inner, "elif", depth)
            case _:
                self._add("else:", None, depth)
                self._all(statement.orelse, depth + 1)

    def _block(self, statement: ast.stmt, header: str, body: Sequence[ast.stmt], depth: int) -> None:
        line = getattr(statement, "lineno", 0)
        self._leading(line, depth)
        self._add(header + self._behind(line), statement, depth)
        self._all(body, depth + 1)

    def _all(self, statements: Sequence[ast.stmt], depth: int) -> None:
        for statement in statements:
            self._write(statement, depth)
        if not statements:
            self._add("pass", None, depth)

    def _simple(self, statement: ast.stmt, depth: int) -> None:
        line, end = getattr(statement, "lineno", 0), getattr(statement, "end_lineno", 0) or 0
        self._leading(line, depth)
        for text in self._text(statement).splitlines():
            self._add(text, statement, depth)
        if self.lines and end:
            text, at = self.lines[-1]
            self.lines[-1] = text + self._behind(end), at

    def _text(self, statement: ast.stmt) -> str:
        match statement:
            case ast.Expr(ast.Constant(str(said))):
                return _docstring(said)
            case _ if getattr(statement, "as_written", "") == ast.dump(statement) and _is_one_line(statement):
                return (
                    self._source[statement.lineno - 1]
                    .encode()[statement.col_offset : statement.end_col_offset]
                    .decode()
                )
            case ast.Return(ast.Tuple(elts=elements)) if elements:
                return f"return {_listed(elements)}"
            case ast.Assign(targets=targets, value=ast.Tuple(elts=elements)) if elements:
                return f"{' = '.join([*map(_target, targets), _listed(elements)])}"
            case ast.Assign(targets=targets, value=value):
                return " = ".join([*map(_target, targets), ast.unparse(value)])
        return ast.unparse(statement)

    def _as_written(self, parameters: ast.arguments) -> ast.arguments:
        """Parameters whose defaults are spelled as in the source: `1e-6`, and not `1e-06`."""
        made = copy(parameters)
        made.defaults = [self._spelled(default) for default in parameters.defaults]
        made.kw_defaults = [default and self._spelled(default) for default in parameters.kw_defaults]
        return made

    def _spelled(self, default: ast.expr) -> ast.expr:
        line = getattr(default, "lineno", 0)
        if not isinstance(default, ast.Constant) or not 0 < line <= len(self._source) or default.end_lineno != line:
            return default
        text = self._source[line - 1].encode()[default.col_offset : default.end_col_offset].decode()
        try:
            is_same = repr(ast.literal_eval(text)) == repr(default.value)
        except (ValueError, SyntaxError):
            return default
        return ast.Name(text) if is_same else default

    def _leading(self, line: int, depth: int) -> None:
        """The comments that stand right above a line, with nothing but comments between."""
        above = line - 1
        while above in self._comments.alone and above not in self._told:
            above -= 1
        for number in range(above + 1, line):
            self._told.add(number)
            self.lines.append((_INDENT * depth + self._comments.alone[number], number))

    def _behind(self, line: int) -> str:
        found = self._comments.behind.get(line, "") if line not in self._told else ""
        self._told.add(line)
        return f"  {found}" if found else ""

    def _add(self, text: str, statement: ast.stmt | None, depth: int) -> None:
        self.lines.append((_INDENT * depth + text if text else "", getattr(statement, "lineno", 0)))


def _is_one_line(statement: ast.stmt) -> bool:
    return statement.lineno == statement.end_lineno


def _header(statement: ast.For | ast.While | ast.With) -> ast.stmt:
    """A statement with nothing inside."""
    empty: list[ast.stmt] = [ast.Pass()]
    if isinstance(statement, ast.For):
        return ast.copy_location(ast.For(statement.target, statement.iter, empty, []), statement)
    if isinstance(statement, ast.While):
        return ast.copy_location(ast.While(statement.test, empty, []), statement)
    return ast.copy_location(ast.With(statement.items, empty), statement)


def _target(target: ast.expr) -> str:
    return _listed(target.elts) if isinstance(target, ast.Tuple) and target.elts else ast.unparse(target)


def _listed(elements: Sequence[ast.expr]) -> str:
    return f"{ast.unparse(elements[0])}," if len(elements) == 1 else ", ".join(map(ast.unparse, elements))


def _docstring(text: str) -> str:
    cleaned = inspect.cleandoc(text).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{cleaned}{chr(10) if chr(10) in cleaned else ""}"""'
