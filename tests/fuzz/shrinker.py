"""Making a program that fails small: parts of its text are left out for as long as it fails the same way."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from fuzzed_program import MARK

Fails = Callable[[str], bool]
BODIES = ("body", "orelse")


def shrink(source: str, fails: Fails, most: int = 2000) -> str:
    """The smallest text found that still fails; `most` is how many are tried."""
    head, tree = _parts(source)
    tried = 0
    progress = True
    while progress and tried < most:
        progress = False
        for smaller in _smaller(tree):
            tried += 1
            text = _text(head, smaller)
            if len(text) < len(_text(head, tree)) and fails(text):
                tree, progress = smaller, True
                break
            if tried >= most:
                break
        else:
            for fewer in _fewer_calls(head):
                tried += 1
                if fails(_text(fewer, tree)):
                    head, progress = fewer, True
                    break
    return _text(head, tree)


def _parts(source: str) -> tuple[list[str], ast.Module]:
    head = [line for line in source.splitlines() if line.startswith(MARK)]
    return head, ast.parse(source)


def _text(head: list[str], tree: ast.Module) -> str:
    return "\n".join([*head, ast.unparse(ast.fix_missing_locations(tree)), ""])


def _fewer_calls(head: list[str]) -> Iterator[list[str]]:
    for i in range(len(head)):
        if len(head) > 1:
            yield head[:i] + head[i + 1 :]


def _smaller(tree: ast.Module) -> Iterator[ast.Module]:
    """Every tree with one part left out or put in the place of what it is a part of, large parts first."""
    places = [
        *_places(tree, _without_statements),
        *_places(tree, _statement_unwrapped),
        *_places(tree, _expression_replaced),
    ]
    places.sort(key=lambda place: -place[0])
    for _, index, number, edit in places:
        made = copy.deepcopy(tree)
        node = _nth(made, index)
        choices = list(edit(node))
        choices[number]()
        yield made


Edit = Callable[[ast.AST], Iterator[Callable[[], None]]]


def _places(tree: ast.Module, edit: Edit) -> Iterator[tuple[int, int, int, Edit]]:
    """Of each edit: how much it takes away, the node's number, its own number at that node."""
    for index, node in enumerate(ast.walk(tree)):
        for number, _ in enumerate(edit(node)):
            yield _weight(node), index, number, edit


def _weight(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def _nth(tree: ast.AST, index: int) -> ast.AST:
    return next(node for i, node in enumerate(ast.walk(tree)) if i == index)


def _without_statements(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Each statement of each block left out."""
    for name in BODIES:
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for i in range(len(block)):

            def drop(block: list[ast.stmt] = block, i: int = i, is_body: bool = name == "body") -> None:
                del block[i]
                if not block and is_body and not isinstance(node, ast.Module):
                    block.append(ast.Pass())

            yield drop


def _statement_unwrapped(node: ast.AST) -> Iterator[Callable[[], None]]:
    """What stands in a branch or loop, in its place."""
    for name in BODIES:
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for i, statement in enumerate(block):
            for inner in BODIES:
                if isinstance(statement, ast.If | ast.For | ast.While) and getattr(statement, inner):

                    def unwrap(block: list[ast.stmt] = block, i: int = i, inner: str = inner) -> None:
                        block[i : i + 1] = getattr(block[i], inner)

                    yield unwrap


def _expression_replaced(node: ast.AST) -> Iterator[Callable[[], None]]:
    """An operand in the place of its expression, an element less. What parameters are is left to them."""
    if isinstance(node, ast.arguments | ast.arg):
        return
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr) and not isinstance(value, ast.Name | ast.Constant):
            for k, _ in enumerate(_operands(value)):

                def put(name: str = name, k: int = k) -> None:
                    setattr(node, name, _operands(getattr(node, name))[k])

                yield put
        if isinstance(value, list) and value and isinstance(value[0], ast.expr):
            for i, item in enumerate(value):
                for k, _ in enumerate(_operands(item)):

                    def put_item(value: list[ast.expr] = value, i: int = i, k: int = k) -> None:
                        value[i] = _operands(value[i])[k]

                    yield put_item
                if name == "elts" and len(value) > 1:

                    def drop(value: list[ast.expr] = value, i: int = i) -> None:
                        del value[i]

                    yield drop


def _operands(value: ast.expr) -> list[ast.expr]:
    """The expressions right inside one, but for names of functions."""
    found = [child for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr)]
    if isinstance(value, ast.Call):
        found = [*value.args, *(keyword.value for keyword in value.keywords)]
        if isinstance(value.func, ast.Attribute):
            found.insert(0, value.func.value)
    return [child for child in found if not isinstance(child, ast.Slice) and not _is_module(child)]


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "math", "gs")
