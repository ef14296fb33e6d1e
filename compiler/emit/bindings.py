"""Which names statements bind, and which objects they write into, as their text tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...lang import ast
from .annotations import dotted_name
from .exits import Branch, Loop
from .stores import LIST_MUTATIONS


def statements_in(body: Iterable[ast.Stmt]) -> Iterator[ast.Stmt]:
    """The statements and those inside them; the bodies of nested functions left out."""
    stack: list[ast.Stmt] = list(body)
    while stack:
        node = stack.pop()
        yield node
        match node:
            case Branch():
                stack += (*node.then, *node.otherwise)
            case ast.If():
                stack += (s for _, body in node.clauses for s in body)
                stack += node.otherwise
            case Loop() | ast.For() | ast.While() | ast.With():
                stack += node.body
            case _:
                pass


def bound_names(body: Iterable[ast.Stmt]) -> Iterator[str]:
    """Every name that Python's rules make local: by assignment, `def` or a loop."""
    for node in statements_in(body):
        match node:
            case ast.Assign():
                yield from target_names(node.targets, through=False)
            case ast.AugAssign():
                yield from target_names((node.target,), through=False)
            case ast.FunctionDef():
                yield node.name
            case ast.Delete():
                yield from target_names(node.targets, through=False)
            case ast.For(target=target) | Loop(header=ast.For(target=target)):
                yield from target_names((target,), through=False)
            case _:
                pass


def returned_names(body: Iterable[ast.Stmt]) -> frozenset[str]:
    """The names that stand last behind a `return`, as that of a closure does."""
    found: set[str] = set()
    for node in statements_in(body):
        if isinstance(node, ast.Return):
            last = node.value.elements[-1:] if isinstance(node.value, ast.TupleExpr) else (node.value,)
            found |= {part.id for part in last if isinstance(part, ast.Name)}
    return frozenset(found)


def assigned_names(body: Iterable[ast.Stmt]) -> Iterator[str]:
    """Every name that the statements change: those bound, and those whose objects are written into."""
    body = tuple(body)
    yield from bound_names(body)
    for node in statements_in(body):
        for part in ast.expressions_of(node.header if isinstance(node, Loop) else node):
            yield from mutated_names(part)
        if isinstance(node, Loop) and node.until is not None:
            yield from mutated_names(node.until)
        match node:
            case ast.Assign():
                yield from target_names(node.targets, through=True)
            case ast.AugAssign():
                yield from target_names((node.target,), through=True)
            case ast.Delete():
                yield from target_names(node.targets, through=True)
            case _:
                pass


def target_names(targets: Iterable[ast.Expr], *, through: bool) -> Iterator[str]:
    """Names that targets bind; with `through`, also the x of `x[i]` and `x.a`."""
    stack: list[ast.Expr] = list(targets)
    while stack:
        target = stack.pop()
        match target:
            case ast.Name():
                yield target.id
            case ast.TupleExpr():
                stack += target.elements
            case ast.Starred():
                stack.append(target.value)
            case ast.Subscript() | ast.Attribute() if through:
                stack.append(target.value)
            case _:
                pass


def mutated_names(expression: ast.Expr) -> Iterator[str]:
    """Names whose objects an in-place method anywhere in the expression writes into."""
    stack: list[ast.Syntax] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute):
            method = node.function.name
            mutates = method in LIST_MUTATIONS or (method.endswith("_") and not method.endswith("__"))
            # `torch.append(l, v)` is an op: it gives a new list.
            if mutates and dotted_name(node.function.value) != "torch":
                yield from target_names([_receiver(node.function.value)], through=True)
        stack += ast.children(node)


def _receiver(node: ast.Expr) -> ast.Expr:
    """What a chain such as `x.add_(1).mul_(2)` starts from."""
    while isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute):
        node = node.function.value
    return node
