"""Names and statements that do nothing: read from the syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...compiler.emit.bindings import returned_names
from ...compiler.ops.registry import OPS, Trait
from ...lang import ast
from .findings import Edit, Finding


def unused_names(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Names that a function binds by a plain assignment and never reads, it or a closure in it."""
    read = {node.id for node in _reads(definition)}
    for statement in _statements(definition):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id not in read and not target.id.startswith("_"):
            message = f"'{target.id}' is assigned and never read"
            edit = _removed(definition, statement) if not _calls(statement.value) else None
            yield Finding("L101", message, target.span, "remove the assignment, or begin the name with '_'", edit)
    yield from _overwritten(definition)


def _overwritten(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Assignments behind which the same block assigns the name again before anything can read it."""
    captured = {node.id for inner in _functions(definition) for node in _names_in(inner)}
    for block in (definition, *_statements(definition)):
        for first, then in (pair for body in _bodies(block) for pair in _pairs(body)):
            name = first.targets[0]
            assert isinstance(name, ast.Name)
            if name.id in captured or name.id.startswith("_"):
                continue
            edit = _removed(definition, first) if not _calls(first.value) else None
            message = f"'{name.id}' is assigned and not read before line {then.span.line} assigns it again"
            yield Finding("L101", message, name.span, "remove the assignment, or use what it gives", edit)


def _functions(definition: ast.FunctionDef) -> Iterator[ast.FunctionDef | ast.Lambda]:
    """The functions inside: what they read, they read when they are called."""
    pending: list[ast.Syntax] = [*definition.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield node
        else:
            pending += ast.children(node)


def _names_in(node: ast.Syntax) -> Iterator[ast.Name]:
    return (part for part in _inside(node) if isinstance(part, ast.Name))


def _pairs(body: Sequence[ast.Syntax]) -> Iterator[tuple[ast.Assign, ast.Assign]]:
    """Assignments of one name with nothing but other plain assignments, which do not read it, between them."""
    waiting: dict[str, ast.Assign] = {}
    for statement in body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            waiting.clear()
            continue
        for node in _inside(statement):
            if isinstance(node, ast.Name) and node not in statement.targets:
                waiting.pop(node.id, None)
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            if target.id in waiting:
                yield waiting[target.id], statement
            waiting[target.id] = statement


def unused_parameters(definition: ast.FunctionDef) -> Iterator[Finding]:
    """What a function has to be given and never uses. Closures take what they are given, formulas what their ops are;
    options and what may be None may be ignored."""
    if definition.span.source.is_library:
        return
    read = {node.id for node in _reads(definition)}
    for parameter in definition.parameters:
        may_be_none = parameter.annotation is not None and re.search(
            r"\bOptional\b|\bNone\b", parameter.annotation.span.text
        )
        if (
            parameter.default is None
            and not may_be_none
            and parameter.name not in read
            and not parameter.name.startswith("_")
        ):
            message = f"parameter '{parameter.name}' is never used"
            yield Finding("L102", message, parameter.span, "remove it, or begin its name with '_'")


def ignored_gradients(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Gradients that a closure is given and never uses."""
    returned = returned_names(definition.body)
    for closure in definition.body:
        if not isinstance(closure, ast.FunctionDef) or closure.name not in returned:
            continue
        read = {node.id for node in _reads(closure)}
        for parameter in closure.parameters:
            if parameter.name not in read and not parameter.name.startswith("_"):
                message = f"'{closure.name}' ignores '{parameter.name}', the gradient of an output"
                note = "use it, or begin its name with '_' if nothing depends on that output"
                yield Finding("L401", message, parameter.span, note)


def idle_statements(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Expressions whose value goes nowhere."""
    for i, statement in enumerate(_statements(definition)):
        if not isinstance(statement, ast.ExprStmt) or _may_act(statement.value):
            continue
        if isinstance(statement.value, ast.Constant) and (i == 0 or isinstance(statement.value.value, str)):
            continue
        edit = _removed(definition, statement) if not any(map(_may_act, _inside(statement.value))) else None
        note = "assign it, return it, or remove it"
        yield Finding("L103", "the value of this goes nowhere", statement.span, note, edit)


def missing_returns(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Functions that compute something, give nothing back and do nothing that is seen."""
    statements = list(_statements(definition))
    if any(isinstance(s, ast.Return | ast.Raise | ast.Assert | ast.ExprStmt) and _is_seen(s) for s in statements):
        return
    last = next((s for s in reversed(definition.body) if isinstance(s, ast.Assign)), None)
    if last is not None:
        message = f"'{definition.name}' computes and returns nothing"
        yield Finding("L104", message, last.span, f"end it with `return {last.targets[0].span.text}`")


def _is_seen(statement: ast.Syntax) -> bool:
    return not isinstance(statement, ast.ExprStmt) or _may_act(statement.value)


def _calls(expression: ast.Syntax) -> bool:
    """Whether an expression calls something, which may act or draw."""
    return any(isinstance(node, ast.Call) for node in _inside(expression))


def _inside(expression: ast.Syntax) -> Iterator[ast.Syntax]:
    pending = [expression]
    while pending:
        yield pending[-1]
        pending += ast.children(pending.pop())


_OF_LISTS = frozenset(("append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort"))


def _may_act(expression: ast.Syntax) -> bool:
    """Whether an expression may do something beside giving a value: all calls but those of ops that only compute."""
    if not isinstance(expression, ast.Call):
        return False
    function = expression.function
    if not isinstance(function, ast.Attribute) or any(keyword.name in _ACTING for keyword in expression.keywords):
        return True
    ops = OPS.overloads(function.name)
    acts = any(op.has(Trait.SIDE_EFFECT) or op.has(Trait.RANDOM) for op in ops)
    return not ops or acts or function.name in _OF_LISTS or function.name.endswith("_")


_ACTING = frozenset(("inplace", "out"))


def _removed(definition: ast.FunctionDef, statement: ast.Syntax) -> Edit | None:
    """The edit that takes a statement away with its lines, unless others stand on them or its block would be empty."""
    text, span = statement.span.source.text, statement.span
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end + 1
    behind = text[span.end : end].strip()
    alone = not text[start : span.start].strip() and (not behind or behind.startswith("#"))
    bodies = (body for node in (definition, *_statements(definition)) for body in _bodies(node))
    leaves_some = any(statement in body and len(body) > 1 for body in bodies)
    return Edit(start, end, "") if alone and leaves_some else None


def _bodies(node: ast.Syntax) -> Iterator[Sequence[ast.Syntax]]:
    """The blocks of statements that a statement holds."""
    if isinstance(node, ast.If):
        yield from (*(body for _, body in node.clauses), node.otherwise)
    elif isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.With):
        yield node.body


def _statements(definition: ast.FunctionDef) -> Iterator[ast.Syntax]:
    """Every statement inside, outer before inner."""
    pending: list[ast.Syntax] = list(reversed(definition.body))
    while pending:
        node = pending.pop()
        yield node
        inner = [child for child in ast.children(node) if not isinstance(child, _EXPRESSIONS)]
        pending += reversed(inner)


def _reads(definition: ast.FunctionDef) -> Iterator[ast.Name]:
    """Every name that is read inside; a plain target is none."""
    pending: list[ast.Syntax] = [*definition.body, *(p.default for p in definition.parameters if p.default)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            yield node
        targets = node.targets if isinstance(node, ast.Assign) else ()
        pending += [c for c in ast.children(node) if not (c in targets and isinstance(c, ast.Name))]


_EXPRESSIONS = (ast.Name, ast.Call, ast.BinaryOp, ast.Attribute, ast.Constant, ast.Parameter)
