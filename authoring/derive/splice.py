"""A derived backward set into the author's text, which stays as it is but for names of what the backward keeps.

def f(x):                              def f(x):
    # the mean is taken later     ─▶       # the mean is taken later
    return torch.exp(x) * 2                exp_x = torch.exp(x)

                                           def backward(grad_output):
                                               return grad_output * exp_x * 2

                                           return exp_x * 2, backward
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.analysis.captures import captures
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import PARAM, Block, Value
from ...compiler.types.types import is_tensor
from ...lang import ast
from ...lang.light_dataclasses import dataclass
from ...lang.source import Span
from ...runtime.face.function import Function
from ...runtime.face.stages import source_text
from .joined import closures_of
from .placing import stands_for
from .simplify import costs_nothing


@dataclass(frozen=True, slots=True)
class _Named:
    """A part of the text that gets a name."""

    name: str
    start: int
    end: int


def spliced(function: Function, graph: Graph, text: str) -> str | None:
    """The author's text with the closures that stand in `text`; None where the text cannot stay as it is."""
    whole = function.definition
    if whole is None or not function.calls_own_source:
        return None
    *outer, definition = _around(whole)
    last = definition.body[-1]
    if not isinstance(last, ast.Return) or last.value is None or _returns(definition) != 1:
        return None
    if isinstance(last.value, ast.TupleExpr) and last.value.span.text.startswith("("):
        return None
    depth = len(outer)
    closure = closures_of(graph)[depth]
    named = _named(closure, definition, _last_names(whole))
    if named is None:
        return None
    lines = [*_size_lines(closure, depth, text), *_closure_lines(depth, text)]
    inner = _DefinitionText(definition, named).with_closure(
        last, lines, str(closure.node.attr("name") if closure.node else "")
    )
    old = source_text(whole)
    start = definition.span.start - whole.span.start
    made = old[:start] + inner + old[start + len(source_text(definition)) :]
    return made if stands_for(made, function, text) else None


def _around(definition: ast.FunctionDef) -> list[ast.FunctionDef]:
    """A function, the closure that it returns, and so on."""
    found = [definition]
    while True:
        last = found[-1].body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        name = value.elements[-1] if isinstance(value, ast.TupleExpr) else None
        inside = [node for node in found[-1].body if isinstance(node, ast.FunctionDef)]
        if not isinstance(name, ast.Name) or name.id not in [node.name for node in inside]:
            return found
        found.append(next(node for node in inside if node.name == name.id))


def _returns(definition: ast.FunctionDef) -> int:
    pending: list[ast.Syntax] = [*definition.body]
    count = 0
    while pending:
        node = pending.pop()
        count += isinstance(node, ast.Return)
        pending += ast.children(node)
    return count


def _closure_lines(depth: int, text: str) -> list[str]:
    """The lines of a closure in the printed function, indented once."""
    margin = "    " * depth
    lines = [line.removeprefix(margin) for line in text.split("\n") if not line or line.startswith(margin)]
    first = next(i for i, line in enumerate(lines) if line.startswith("    def "))
    rest = lines[first + 1 :]
    count = next((i for i, line in enumerate(rest) if line and not line.startswith("        ")), len(rest))
    while not rest[count - 1]:
        count -= 1
    return lines[first : first + 1 + count]


def _size_lines(closure: Block, depth: int, text: str) -> list[str]:
    """The lines of the printed function that take the sizes which are kept."""
    margin = "    " * depth
    sizes = [value.name_hint for value in captures(closure) if _is_kept_size(value)]
    starts = tuple(f"{margin}    {name} = " for name in sizes)
    lines = [line.removeprefix(margin) for line in text.split("\n") if line.startswith(starts)]
    return [*lines, ""] if lines else []


def _is_kept_size(value: Value) -> bool:
    return value.node.kind != PARAM and not is_tensor(value.type) and costs_nothing(value.node)


def _named(closure: Block, definition: ast.FunctionDef, bound: set[str]) -> list[_Named] | None:
    """What the closure keeps that is not bound to a name; None where no part of the definition's text says it."""
    found: list[_Named] = []
    whole = Span(definition.span.source, definition.body[0].span.start, definition.body[-1].span.end)
    for value in captures(closure):
        if _is_kept_size(value):
            value = value.node.inputs[0] if value.node.inputs else value
            if not is_tensor(value.type):
                continue
        if value.node.kind == PARAM or value.name_hint in bound:
            continue
        span = value.node.span
        inside = span.source is whole.source and whole.start <= span.start < span.end <= whole.end
        if not inside or not _is_at_top(span, definition):
            return None
        found.append(_Named(value.name_hint, span.start, span.end))
    return found


def _last_names(definition: ast.FunctionDef) -> set[str]:
    """The names that statements of the function bind."""
    names: set[str] = set()
    pending: list[ast.Syntax] = [*definition.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Assign | ast.AugAssign | ast.For):
            inner: list[ast.Syntax] = [*ast.children(node)]
            while inner:
                part = inner.pop()
                if isinstance(part, ast.Name):
                    names.add(part.id)
                inner += ast.children(part)
        pending += ast.children(node)
    return names


def _is_at_top(span: Span, definition: ast.FunctionDef) -> bool:
    """Whether the span is in a simple statement of the function itself."""
    for statement in definition.body:
        if statement.span.start <= span.start and span.end <= statement.span.end:
            return isinstance(statement, ast.Assign | ast.Return)
    return False


class _DefinitionText:
    """The text of a definition in which some parts are named."""

    def __init__(self, definition: ast.FunctionDef, named: Sequence[_Named]) -> None:
        self._definition = definition
        self._text = definition.span.source.text
        self._named = sorted({n.start: n for n in named}.values(), key=lambda n: (n.end, -n.start))

    def with_closure(self, last: ast.Return, closure: Sequence[str], name: str) -> str:
        """The whole function: a line for each named part before the statement that it is in, then the closure."""
        assert last.value is not None
        start = self._definition.span.start
        made: list[str] = []
        position = start
        inside: list[_Named] = []
        for statement in self._definition.body:
            inside = [n for n in self._named if statement.span.start <= n.start and n.end <= statement.span.end]
            if not inside and statement is not last:
                continue
            made.append(self._text[position : statement.span.start])
            indent = self._indent(statement)
            made += [f"{n.name} = {self._render(n.start, n.end, n)}\n{indent}" for n in inside]
            if statement is last:
                break
            made.append(self._render(statement.span.start, statement.span.end))
            position = statement.span.end
        indent = self._indent(last)
        extra = [indent + line.removeprefix("    ") if line else line for line in closure]
        head = "".join(made)
        goes_on = bool(inside) and not closure[0].lstrip().startswith("def ")
        blank = "" if goes_on or head.rstrip(" \t").endswith((":\n", "\n\n")) else "\n"
        value = self._render(last.value.span.start, last.value.span.end)
        body = head.rstrip(" \t") + blank + "\n".join(extra) + f"\n\n{indent}return {value}, {name}"
        tail = source_text(self._definition)[last.span.end - start :]
        return body + tail

    def _indent(self, statement: ast.Syntax) -> str:
        line = self._text.rfind("\n", 0, statement.span.start) + 1
        return self._text[line : statement.span.start]

    def _render(self, start: int, end: int, but: _Named | None = None) -> str:
        """A part of the text with names in the place of what is named within it."""
        inner = [n for n in self._named if start <= n.start and n.end <= end and n is not but]
        outermost = [n for n in inner if not any(o is not n and o.start <= n.start and n.end <= o.end for o in inner)]
        made: list[str] = []
        for part in sorted(outermost, key=lambda n: n.start):
            first, last = self._with_parentheses(part, start, end)
            made += [self._text[start:first], part.name]
            start = last
        return "".join(made) + self._text[start:end]

    def _with_parentheses(self, part: _Named, start: int, end: int) -> tuple[int, int]:
        """The place of a part, with the parentheses that stand around it and call nothing."""
        first, last = part.start, part.end
        while first > start and last < end and self._text[first - 1] == "(" and self._text[last] == ")":
            before = self._text[first - 2 : first - 1]
            if before.isalnum() or before in ("_", "]", ")"):
                break
            first, last = first - 1, last + 1
        return first, last
