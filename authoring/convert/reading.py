"""A file of Python as far as it matters here: its imports, functions, classes that are Functions, and constants."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from ...lang.light_dataclasses import dataclass, field

FUNCTION = "torch.autograd.Function"
SCRIPT = ("torch.jit.script", "torch.jit.script_if_tracing")
_HOMES = {"torch.autograd.function.Function": FUNCTION}
_SHORT = (
    (re.compile(r"^torch\.nn\.functional\b"), "F"),
    (re.compile(r"^(typing|collections\.abc|torch)\.(?=(Optional|Union|List|Tuple|Tensor)$)"), ""),
)
"""What the language calls what Python has longer names for."""

_SCRIPTED_CLASS = "a class has no counterpart: write functions of what it holds, or `class P(NamedTuple):` with fields"
_SCRIPTED_ELSE = "torch.jit.script is called on what is no function of this file"
_INSIDE = "it stands inside a function or a class: move it to the top level, and pass what it takes from there"

Method = ast.FunctionDef


class Unconvertible(Exception):
    """What has no counterpart, and in which line."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(slots=True)
class PythonFile:
    """The top level of a file. Names are what Python binds there; `aliases` are those that imports bind."""

    aliases: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    """Those that are Functions."""
    parents: dict[str, ast.ClassDef] = field(default_factory=dict)
    """All of them, those too from which others only inherit."""
    functions: dict[str, Method] = field(default_factory=dict)
    scripted: list[str] = field(default_factory=list)
    constants: dict[str, ast.Assign] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)
    """Names for the `apply` of a class."""
    left: list[tuple[str, int, str]] = field(default_factory=list)
    """What was asked for and is no function: its name, its line, and why."""

    def dotted(self, node: ast.expr) -> str:
        """The full name that a chain of attributes stands for; nothing for any other expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        name = ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])
        return _HOMES.get(name, name)

    def short(self, name: str) -> str:
        """A full name as the language has it."""
        for pattern, replacement in _SHORT:
            name = pattern.sub(replacement, name)
        return name

    def is_scripted(self, definition: Method | ast.ClassDef) -> bool:
        return any(self.dotted(_called(d)) in SCRIPT for d in definition.decorator_list)


def read_python(text: str) -> PythonFile:
    """What stands at the top level. SyntaxError and ValueError as `ast.parse`; RecursionError for what is too deep."""
    found = PythonFile()
    tree = _parsed(text)
    at_top = list(_top_level(tree))
    for node in at_top:
        match node:
            case ast.Import() | ast.ImportFrom():
                _enter_import(found, node)
            case ast.ClassDef() if any(_is_function(found, base) for base in node.bases) or _has_passes(node):
                _enter_class(found, node)
            case ast.ClassDef() if found.is_scripted(node):
                found.left.append((node.name, node.lineno, _SCRIPTED_CLASS))
            case ast.FunctionDef():
                found.functions[node.name] = node
                if found.is_scripted(node):
                    found.scripted.append(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                _enter_assignment(found, name, node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                plain = ast.copy_location(ast.Assign([node.target], value), node)
                _enter_assignment(found, name, plain)
    inside = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node not in at_top)
    found.left += [
        (node.name, node.lineno, _INSIDE) for node in inside if any(_is_function(found, b) for b in node.bases)
    ]
    return found


def _parsed(text: str) -> ast.Module:
    """The tree, with types that comments say where all such comments read."""
    try:
        return ast.parse(text, type_comments=True)
    except SyntaxError:
        return ast.parse(text)


def _is_function(found: PythonFile, base: ast.expr) -> bool:
    return found.dotted(base) == FUNCTION or (isinstance(base, ast.Name) and base.id in found.parents)


def _has_passes(node: ast.ClassDef) -> bool:
    """Whether a class has both passes of a Function, whatever it calls its parent: that may come from another file."""
    static = {
        part.name
        for part in node.body
        if isinstance(part, ast.FunctionDef) and any(ast.unparse(d) in _OF_CLASSES for d in part.decorator_list)
    }
    return bool(node.bases) and {"forward", "backward"} <= static


def _enter_class(found: PythonFile, node: ast.ClassDef) -> None:
    """Enter a Function, with what it has from others of the file; one that lacks a pass may be a parent alone."""
    own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    parents = [found.parents[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in found.parents]
    whole = copy.copy(node)
    whole.body = list(node.body)
    for part in (part for parent in parents for part in parent.body):
        if isinstance(part, ast.FunctionDef) and part.name not in own:
            own.add(part.name)
            whole.body.append(part)
        elif isinstance(part, ast.Assign):
            whole.body.insert(0, part)
    for parent in parents:
        if not {"forward", "backward"} <= {part.name for part in parent.body if isinstance(part, ast.FunctionDef)}:
            found.classes.pop(parent.name, None)
    whole.body = [_static(part, node.name) if isinstance(part, ast.FunctionDef) else part for part in whole.body]
    found.parents[node.name] = found.classes[node.name] = whole


_OF_CLASSES = ("staticmethod", "classmethod")


def _static(method: Method, owner: str) -> Method:
    """A classmethod as a staticmethod, which names its class; any other as it is."""
    if "classmethod" not in map(ast.unparse, method.decorator_list) or not method.args.args:
        return method
    made = copy.deepcopy(method)
    first = made.args.args.pop(0).arg
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id == first:
            node.id = owner
    return made


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of the file, and those that it holds behind an `if` or a `try`, in their order."""
    pending: list[ast.stmt] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If | ast.Try):
            pending += reversed([*node.body, *(s for h in getattr(node, "handlers", []) for s in h.body), *node.orelse])
        else:
            yield node


def _enter_import(found: PythonFile, node: ast.Import | ast.ImportFrom) -> None:
    module = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module and not node.level else ""
    for alias in node.names:
        if alias.asname:
            found.aliases[alias.asname] = module + alias.name
        elif module:
            found.aliases[alias.name] = module + alias.name


def _enter_assignment(found: PythonFile, name: str, node: ast.Assign) -> None:
    value = node.value
    if isinstance(value, ast.Attribute) and value.attr == "apply" and isinstance(value.value, ast.Name):
        found.applied[name] = value.value.id
    elif isinstance(value, ast.Call) and found.dotted(value.func) in SCRIPT:
        if value.args and isinstance(value.args[0], ast.Name) and value.args[0].id in found.functions:
            found.scripted.append(value.args[0].id)
        else:
            found.left.append((name, node.lineno, _SCRIPTED_ELSE))
    else:
        found.constants[name] = node


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def names_bound(nodes: list[ast.stmt]) -> list[str]:
    """Every name that statements bind, as often as they do."""
    walked = (inner for node in nodes for inner in ast.walk(node))
    return [node.id for node in walked if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]


def read_names(nodes: list[ast.stmt]) -> set[str]:
    """Every name that statements read."""
    walked = (inner for node in nodes for inner in ast.walk(node))
    return {node.id for node in walked if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
