"""A function of Python with the names of the language: of modules, of Functions that are applied, of annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .reading import Method, PythonFile, names_bound


class Canonical(ast.NodeTransformer):
    """Names as the language has them: of modules, of Functions that are applied, of annotations."""

    def __init__(
        self, file: PythonFile, names: dict[str, str], definition: Method | None, owner: str = "", known: str = ""
    ) -> None:
        self._file = file
        self._names = names
        self._owner = owner
        self._known = known
        self.called: dict[str, None] = {}
        self.constants: dict[str, None] = {}
        self.helpers: dict[str, None] = {}
        self._local = set(_all_bound(definition)) if definition is not None else set()

    def visit_FunctionDef(self, node: Method) -> Method:
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = self._annotation(argument.annotation)
        node.returns = self._annotation(node.returns)
        node.args.args, node.args.posonlyargs = [*node.args.posonlyargs, *node.args.args], []
        self.generic_visit(node)
        return node

    def _annotation(self, node: ast.expr | None) -> ast.expr | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return None
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        match function:
            case ast.Attribute(value=ast.Name(id=name), attr="apply") if name in self._file.classes:
                node.func = self._function(self._names[name])
            case ast.Name(id=name) if name in self._file.applied and self._file.applied[name] in self._names:
                node.func = self._function(self._names[self._file.applied[name]])
            case ast.Name(id=name) if name in self._file.functions and name not in self._local:
                node.func = self._function(name)
            case ast.Attribute(value=ast.Name(id=name), attr=helper) if self._owner and name in (
                self._owner,
                "cls",
                "self",
            ):
                self.helpers[helper] = None
                node.func = self._function(f"{self._known}_{helper}")
        self.generic_visit(node)
        return node

    def _function(self, name: str) -> ast.Name:
        self.called[name] = None
        return ast.Name(name, ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=constant) if name == self._owner and name:
                self.constants[constant] = None
                return ast.copy_location(ast.Name(constant, node.ctx), node)
        return self._short(node) or self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._file.constants and node.id not in self._local:
            self.constants[node.id] = None
        return self._short(node) or node

    def _short(self, node: ast.expr) -> ast.expr | None:
        """An imported name as the language has it."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self._local:
            return None
        said = ast.unparse(node)
        name = self._file.short(self._file.dotted(node))
        if name == said:
            return None
        made = ast.parse(name, mode="eval").body
        return ast.copy_location(made, node)


def _all_bound(definition: Method) -> Iterable[str]:
    yield from names_bound(definition.body)
    for node in ast.walk(definition):
        if isinstance(node, ast.arg):
            yield node.arg
