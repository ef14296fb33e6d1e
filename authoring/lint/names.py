"""Names and statements that do nothing: read from the syntax tree."""

from __future__ import annotations

from collections.abc import Iterator

from ...lang import ast
from .findings import Finding

_EFFECTS = (ast.Call,)


def unused_names(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Names that a function binds by a plain assignment and never reads, it or a closure in it."""
    read = {node.id for node in _reads(definition)}
    for statement in _statements(definition):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id not in read and not target.id.startswith("_"):
            message = f"'{target.id}' is assigned and never read"
            yield Finding("L101", message, target.span, "remove the assignment, or begin the name with '_'")


def unused_parameters(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Tensors that a function takes and never uses. Closures take what they are given; options may be ignored."""
    read = {node.id for node in _reads(definition)}
    for parameter in definition.parameters:
        is_tensor = parameter.default is None and parameter.annotation is None
        if is_tensor and parameter.name not in read and not parameter.name.startswith("_"):
            message = f"parameter '{parameter.name}' is never used"
            yield Finding("L102", message, parameter.span, "remove it, or begin its name with '_'")


def ignored_gradients(definition: ast.FunctionDef) -> Iterator[Finding]:
    """Gradients that a closure is given and never uses."""
    for closure in definition.body:
        if not isinstance(closure, ast.FunctionDef):
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
        if not isinstance(statement, ast.ExprStmt) or isinstance(statement.value, _EFFECTS):
            continue
        if isinstance(statement.value, ast.Constant) and (i == 0 or isinstance(statement.value.value, str)):
            continue
        yield Finding("L103", "the value of this goes nowhere", statement.span, "assign it, return it, or remove it")


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
