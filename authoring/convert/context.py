"""What a Function keeps on its `ctx`, as names that a closure captures."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from ...lang.light_dataclasses import dataclass, field
from .reading import Unconvertible, names_bound

_IDLE = {
    "set_materialize_grads": "set_materialize_grads is left out: where nobody used an output, its gradient is zeros",
    "save_for_forward": "save_for_forward is left out: forward mode is derived",
}
_SAVED = ("saved_tensors", "saved_variables")
_DIRTY = "mark_dirty: a function here gives a new value, and writes into no argument; drop it and write into a copy"
_SOMETIMES = "tensors are saved on some ways only: save the same ones on every way, None where there is none"
_PASSED = "'{}' is used as a value; only what it keeps has a counterpart: saved tensors and attributes"


@dataclass(slots=True)
class Kept:
    """What a forward keeps: the tensors that it saves, in order, and the names that stand for attributes of ctx."""

    saved: list[ast.expr] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)
    """Outputs that are said to have no gradient."""
    notes: list[tuple[int, str]] = field(default_factory=list)


class Replaced(ast.NodeTransformer):
    """Names in the place of names, or expressions in the place of names that are read."""

    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._names.get(node.id)
        if found is None or is_kept(node):
            return node
        if isinstance(found, ast.Name):
            return ast.copy_location(ast.Name(found.id, node.ctx), node)
        return ast.copy_location(found, node) if isinstance(node.ctx, ast.Load) else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        found = self._names.get(node.arg)
        return ast.copy_location(ast.arg(found.id, node.annotation), node) if isinstance(found, ast.Name) else node


def kept_name(name: str) -> ast.Name:
    """A name of what the forward keeps, which names bound in the backward do not change."""
    node = ast.Name(name, ast.Load())
    node.is_kept = True  # type: ignore[attr-defined]
    return node


def is_kept(node: ast.expr) -> bool:
    return getattr(node, "is_kept", False)


def renamed(statements: Sequence[ast.stmt], names: Mapping[str, str]) -> list[ast.stmt]:
    """The statements with other names, wherever these stand."""
    replaced = Replaced({old: ast.Name(new, ast.Load()) for old, new in names.items()})
    return [replaced.visit(statement) for statement in statements]


def untaken_name(name: str, taken: Collection[str]) -> str:
    """The name, or one like it that nothing has."""
    while name in taken:
        name += "_"
    return name


def call_on(node: ast.stmt, ctx: str) -> tuple[str, ast.Call] | None:
    """The method of ctx that a statement calls."""
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), method)) as call) if name == ctx:
            return method, call
    return None


def context_attribute(node: ast.AST, ctx: str) -> str:
    """The attribute of ctx that an expression is."""
    match node:
        case ast.Attribute(ast.Name(id=name), attribute) if name == ctx:
            return attribute
    return ""


def keep(
    statements: list[ast.stmt], result: ast.expr, ctx: str, taken: set[str]
) -> tuple[list[ast.stmt], ast.expr, Kept]:
    """A forward's statements and its result without ctx, and what they kept on it."""
    kept = Kept()
    made: list[ast.stmt] = []
    plain = [part for statement in statements for part in _taken_apart(statement, ctx)]
    for i, statement in enumerate(plain):
        later = set(names_bound(plain[i + 1 :]))
        called = call_on(statement, ctx)
        if called is not None:
            made += _call(kept, *called, later, taken)
            continue
        made += _attribute(kept, statement, ctx, later, taken, plain)
    within = _Context(ctx, kept)
    return [within.visit(statement) for statement in made], within.visit(result), kept


def _taken_apart(statement: ast.stmt, ctx: str) -> list[ast.stmt]:
    """`ctx.a, ctx.b = a, b` as two statements."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
            values
        ) and all(context_attribute(target, ctx) for target in targets):
            pairs = zip(targets, values, strict=True)
            return [ast.copy_location(ast.Assign([t], v), statement) for t, v in pairs]
    return [statement]


def _call(kept: Kept, method: str, call: ast.Call, later: set[str], taken: set[str]) -> list[ast.stmt]:
    if method == "save_for_backward":
        made: list[ast.stmt] = []
        for value in call.args:
            if isinstance(value, ast.Starred):
                raise Unconvertible("save_for_backward(*…): name what is saved, one by one", call.lineno)
            if isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id not in later):
                kept.saved.append(value)
                continue
            name = untaken_name(f"saved_{value.id}" if isinstance(value, ast.Name) else "saved", taken)
            taken.add(name)
            made.append(_assigned(name, value, call))
            kept.saved.append(ast.Name(name, ast.Load()))
        return made
    if method == "mark_non_differentiable":
        kept.constants |= {value.id for value in call.args if isinstance(value, ast.Name)}
        return []
    if method == "mark_dirty":
        raise Unconvertible(_DIRTY, call.lineno)
    if method in _IDLE:
        kept.notes.append((call.lineno, _IDLE[method]))
        return []
    raise Unconvertible(f"ctx.{method}(…) has no counterpart", call.lineno)


def _attribute(
    kept: Kept, statement: ast.stmt, ctx: str, later: set[str], taken: set[str], whole: Sequence[ast.stmt]
) -> list[ast.stmt]:
    """Names for the attributes that a statement sets; nothing is left of one that only gives a name another name."""
    stored = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and context_attribute(node, ctx) and isinstance(node.ctx, ast.Store)
    ]
    for node in stored:
        if node.attr in kept.attributes:
            continue
        match statement:
            case ast.Assign(targets=[target], value=ast.Name(id=name)) if target is node and name not in later:
                if _times_set(node.attr, ctx, whole) == 1:
                    kept.attributes[node.attr] = name
                    return []
        kept.attributes[node.attr] = untaken_name(node.attr, taken)
        taken.add(kept.attributes[node.attr])
    return [statement]


def _times_set(attribute: str, ctx: str, statements: Sequence[ast.stmt]) -> int:
    walked = (node for statement in statements for node in ast.walk(statement))
    return sum(
        context_attribute(n, ctx) == attribute and isinstance(getattr(n, "ctx", None), ast.Store) for n in walked
    )


def _assigned(name: str, value: ast.expr, at: ast.expr | ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at)


class _Context(ast.NodeTransformer):
    """Attributes of ctx as names; what else is done with ctx has no counterpart."""

    def __init__(self, ctx: str, kept: Kept) -> None:
        self._ctx = ctx
        self._kept = kept

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        attribute = context_attribute(node, self._ctx)
        if not attribute:
            self.generic_visit(node)
            return node
        name = self._kept.attributes.get(attribute)
        if name is None:
            raise Unconvertible(f"ctx.{attribute} is read, and the forward never sets it", node.lineno)
        return ast.copy_location(ast.Name(name, node.ctx), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        called = call_on(node, self._ctx)
        if called is not None and called[0] == "save_for_backward":
            raise Unconvertible(_SOMETIMES, node.lineno)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if context_attribute(node.value, self._ctx) == "needs_input_grad" and not isinstance(node.slice, ast.Slice):
            return ast.copy_location(ast.Constant(True), node)
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Tuple(elts=elements), slice=ast.Constant(value=int(i))) if (
                -len(elements) <= i < len(elements)
            ):
                return elements[i]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in ("any", "all") and len(node.args) == 1:
            value = node.args[0]
            value = value.value if isinstance(value, ast.Subscript) else value
            if context_attribute(value, self._ctx) == "needs_input_grad":
                return ast.copy_location(ast.Constant(True), node)
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self._ctx:
            raise Unconvertible(_PASSED.format(self._ctx), node.lineno)
        return node


class _Backward(_Context):
    """What a backward does with ctx: it reads."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        attribute = context_attribute(node, self._ctx)
        if attribute in _SAVED:
            saved = [kept_name(v.id) if isinstance(v, ast.Name) else v for v in self._kept.saved]
            return ast.copy_location(ast.Tuple(saved, ast.Load()), node)
        if attribute and isinstance(node.ctx, ast.Store):
            raise Unconvertible(f"ctx.{attribute} is set in the backward, which may only read", node.lineno)
        visited = super().visit_Attribute(node)
        return (
            ast.copy_location(kept_name(visited.id), node) if attribute and isinstance(visited, ast.Name) else visited
        )


class _Folded(ast.NodeTransformer):
    """What a test that always holds leaves of branches."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        known = _constant(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        known = _constant(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        if any(_constant(value) is decisive for value in node.values):
            return ast.copy_location(ast.Constant(decisive), node)
        values = [value for value in node.values if _constant(value) is None]
        if not values:
            return ast.copy_location(ast.Constant(not decisive), node)
        return values[0] if len(values) == 1 else ast.copy_location(ast.BoolOp(node.op, values), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        known = _constant(node.operand) if isinstance(node.op, ast.Not) else None
        return node if known is None else ast.copy_location(ast.Constant(not known), node)


def _constant(node: ast.expr) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def without_context(statements: list[ast.stmt], ctx: str, kept: Kept) -> list[ast.stmt]:
    """A backward's statements, with names for what ctx held."""
    statements = _all_needed(statements, ctx)
    made: list[ast.stmt] = []
    for statement in statements:
        visited = _Folded().visit(_Backward(ctx, kept).visit(statement))
        made += visited if isinstance(visited, list) else [visited]
    return [part for statement in made for part in _unpacked(statement)]


def _all_needed(statements: list[ast.stmt], ctx: str) -> list[ast.stmt]:
    """Without names for all saved tensors, and for ctx.needs_input_grad, all of which is asked for."""
    needed: dict[str, ast.expr] = {}
    bound = names_bound(statements)
    made: list[ast.stmt] = []
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                context_attribute(value, ctx) in _SAVED and bound.count(name) == 1
            ):
                needed[name] = value
                continue
            case ast.Assign(targets=[target], value=value):
                whole = (
                    value.value if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) else value
                )
                if context_attribute(whole, ctx) == "needs_input_grad":
                    if not isinstance(target, ast.Tuple):
                        raise Unconvertible("ctx.needs_input_grad as a value: ask for its elements", statement.lineno)
                    needed |= {e.id: ast.Constant(True) for e in target.elts if isinstance(e, ast.Name)}
                    continue
        made.append(statement)
    replaced = Replaced(needed)
    return [replaced.visit(statement) for statement in made]


def _unpacked(statement: ast.stmt) -> list[ast.stmt]:
    """`a, b = (x, y)` as two statements, none for a name that is bound to itself."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            star = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
            if star is not None:
                end = len(values) - (len(targets) - star - 1)
                rest = ast.Tuple(values[star:end], ast.Load())
                values = [*values[:star], rest, *values[end:]]
                targets = [t.value if isinstance(t, ast.Starred) else t for t in targets]
            if len(targets) != len(values):
                message = f"{len(targets)} names for {len(values)} saved tensors"
                raise Unconvertible(message, statement.lineno)
            if not all(isinstance(target, ast.Name) for target in targets):
                return [statement]
            pairs = zip(targets, values, strict=True)
            return [ast.copy_location(ast.Assign([t], v), statement) for t, v in pairs]
    return [statement]
