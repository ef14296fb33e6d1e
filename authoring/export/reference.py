"""The formula in plain torch: the author's functions as Python takes them, closures as torch.autograd.Function.

The language is a subset of Python and its names are torch's, so most of a text stays as it is. What is ours alone
(`gs.constant`, a drawn mask, a backward inside a function) is written in terms of torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from ...compiler.ops.registry import OPS
from ...compiler.types.dtypes import BY_CODE
from ...lang.light_dataclasses import dataclass, field
from ...runtime.face.function import Function
from .plans import NoPlan
from .torch_words import HELPERS, NoWords, in_torch_words

_TYPES = {"List": "list", "Tuple": "tuple", "Dict": "dict"}
_DROPOUT = re.compile(r"^(dropout|rand_like)$")
_QUALIFIED = re.compile(r"\b(aten|gs|prim)::(\w+)(?:\.\w+)?")
_HINTS = {"save": 1, "recompute": 1, "surrogate": 1}
"""Ours that are their first argument."""


@dataclass
class ReferenceText:
    """The text of all functions, and what it needs: which helpers, how many drawn seeds."""

    text: str
    name: str
    seeds: int = 0
    helpers: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)


def reference_of(function: Function, name: str) -> ReferenceText:
    """The function as plain torch, under a name. NoPlan for what torch has no form of."""
    # A name behind two colons is torch's own op where a function of the unit has that name.
    text = _QUALIFIED.sub(lambda found: f"{_home(found[1])}.{found[2]}", _whole(function))
    tree = ast.parse(text)
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    drawn = _Draws(function.name)
    parts = []
    for definition in definitions:
        drawn.enter(definition)
        _Rewriting(function, drawn).visit(definition)
        parts.append(_written(definition, name if definition.name == function.name else f"_{definition.name}"))
    renamed = {d.name: name if d.name == function.name else f"_{d.name}" for d in definitions}
    whole = "\n\n\n".join(_Names(renamed).of(part) for part in parts)
    text = "\n".join([whole, *(HELPERS.get(helper, "") for helper in drawn.helpers)])
    modules = [module for module in ("math",) if re.search(rf"\b{module}\.", text)]
    return ReferenceText(whole, name, drawn.count, drawn.helpers, modules)


def _whole(function: Function) -> str:
    """The function's source and that of all that it calls, in one text."""
    from ...compiler.link import reachable
    from ...compiler.unparse import unparse_function

    if not function.calls_own_source:
        return function.code
    found = reachable(function.callee, function.name)
    names = [callee.schema.name for callee in found]
    return "\n\n\n".join(unparse_function(callee, names) for callee in found)


def _home(module: str) -> str:
    return "torch" if module == "aten" else module


# --- what is drawn ---


@dataclass
class _Draws:
    """Seeds, counted in the order of the text; only the exported function itself may draw."""

    top: str
    count: int = 0
    helpers: list[str] = field(default_factory=list)
    here: str = ""

    def enter(self, definition: ast.FunctionDef) -> None:
        self.here = definition.name

    def seed(self, helper: str) -> ast.expr:
        if self.here != self.top:
            raise NoPlan(f"'{self.here}', which is called, draws random numbers; draw them in '{self.top}'")
        for name in ("_drawn", helper):
            if name not in self.helpers:
                self.helpers.append(name)
        self.count += 1
        text = "seed" if self.count == 1 else f"seed + {self.count - 1}"
        return ast.parse(text, mode="eval").body


class _Rewriting(ast.NodeTransformer):
    """Calls and types in torch's words."""

    def __init__(self, function: Function, drawn: _Draws) -> None:
        self.function = function
        self.drawn = drawn

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id == "gs":
            return self._own(node, name)
        if _DROPOUT.match(name):
            return self._drawn(node, name, owner)
        if _is_random(name):
            raise NoPlan(f"'{name}' draws random numbers in a way that no module can; `F.dropout` and `rand_like` do")
        if name == "to":
            node.args = [self._dtypes(argument) for argument in node.args]
        try:
            made, helper = in_torch_words(node)
        except NoWords as problem:
            raise NoPlan(str(problem)) from None
        if helper and helper not in self.drawn.helpers:
            self.drawn.helpers.append(helper)
        return made

    def _own(self, node: ast.Call, name: str) -> ast.AST:
        if name == "constant":
            return ast.Call(ast.Attribute(node.args[0], "detach", ast.Load()), [], [])
        if name in _HINTS:
            return node.args[0]
        raise NoPlan(f"'gs.{name}' has no form in torch")

    def _drawn(self, node: ast.Call, name: str, owner: ast.expr | None) -> ast.AST:
        """`_dropout(x, p, seed)`, or x itself where nothing is dropped."""
        given = list(node.args)
        if not (isinstance(owner, ast.Name) and owner.id in ("F", "torch")) and owner is not None:
            given.insert(0, owner)
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if name == "rand_like":
            return ast.Call(ast.Name("_drawn"), [self.drawn.seed("_drawn"), given[0]], [])
        chance = given[1] if len(given) > 1 else named.get("p", ast.Constant(0.5))
        training = given[2] if len(given) > 2 else named.get("training", named.get("train", ast.Constant(True)))
        dropped = ast.Call(ast.Name("_dropped"), [given[0], chance, self.drawn.seed("_dropped")], [])
        if isinstance(training, ast.Constant):
            return dropped if training.value else given[0]
        return ast.IfExp(training, dropped, given[0])

    def _dtypes(self, node: ast.expr) -> ast.expr:
        """Numbers that stand for dtypes, as torch's."""
        return _DtypeNumbers().visit(node) if not isinstance(node, ast.Call) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        # What the language knows to be there is as it is.
        return node.value if node.attr == "unchecked_unwrap_optional" else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "Optional":
            return ast.BinOp(node.slice, ast.BitOr(), ast.Constant(None))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(_TYPES.get(node.id, node.id), node.ctx)


class _DtypeNumbers(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and node.value in BY_CODE:
            return ast.Attribute(ast.Name("torch"), str(BY_CODE[node.value]), ast.Load())
        return node


def _is_random(name: str) -> bool:
    from ...compiler.ops.registry import Trait

    return any(OPS.of(op.schema) is not None and op.has(Trait.RANDOM) for op in OPS.overloads(name)) if name else False


# --- functions ---


@dataclass
class _Names:
    """Functions under the names that they have in the module."""

    names: dict[str, str]

    def of(self, text: str) -> str:
        for old, new in self.names.items():
            text = re.sub(rf"(?<![\w.]){re.escape(old)}(?=\()", new, text)
        return text


def _written(definition: ast.FunctionDef, name: str) -> str:
    closure = next((s for s in definition.body if isinstance(s, ast.FunctionDef)), None)
    _annotate(definition)
    if closure is None:
        return ast.unparse(ast.fix_missing_locations(definition))
    return _as_autograd(definition, closure, name)


def _annotate(definition: ast.FunctionDef) -> None:
    arguments = definition.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = argument.annotation or ast.Name("Tensor")


def _as_autograd(definition: ast.FunctionDef, closure: ast.FunctionDef, name: str) -> str:
    """A function with its own backward: torch.autograd.Function computes the forward again for its context."""
    if any(isinstance(node, ast.FunctionDef) for inner in closure.body for node in ast.walk(inner)):
        raise NoPlan(f"the backward of '{definition.name}' has a backward of its own, which no module has")
    parameters = [a.arg for a in (*definition.args.args, *definition.args.kwonlyargs)]
    class_name = "_" + "".join(part.capitalize() for part in definition.name.split("_") if part)
    signature = ast.unparse(ast.fix_missing_locations(definition.args))
    forward, backward = _halves(definition, closure)
    taken = ", ".join(parameters)
    gradients = [a.arg for a in closure.args.args]
    return "\n".join(
        [
            f"def {name}({signature}):",
            f"    return {class_name}.apply({taken})",
            "",
            "",
            f"class {class_name}(torch.autograd.Function):",
            '    """With the backward that its author wrote. What that needs is computed again."""',
            "",
            "    @staticmethod",
            f"    def forward({signature}):",
            *(f"        {line}" for line in forward),
            "",
            "    @staticmethod",
            "    def setup_context(ctx, inputs, output):",
            "        ctx.given = tuple(None if isinstance(each, Tensor) else each for each in inputs)",
            "        ctx.save_for_backward(*(each if isinstance(each, Tensor) else None for each in inputs))",
            "",
            "    @staticmethod",
            f"    def backward(ctx, {', '.join(gradients)}):",
            "        kept = zip(ctx.saved_tensors, ctx.given, strict=True)",
            "        known = (given if saved is None else saved for saved, given in kept)",
            f"        {taken}{',' if len(parameters) == 1 else ''} = known",
            *(f"        {line}" for line in backward),
        ]
    )


def _halves(definition: ast.FunctionDef, closure: ast.FunctionDef) -> tuple[list[str], list[str]]:
    """The lines of the forward, and those of a backward that begins with what it needs of the forward."""
    returned = definition.body[-1]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
    outputs = returned.value.elts[:-1]
    plain = [s for s in definition.body if s is not closure and s is not returned]
    result = outputs[0] if len(outputs) == 1 else ast.Tuple(list(outputs), ast.Load())
    returned = ast.Return(result)
    forward = [*_needed(plain, [returned], acts=True), returned]
    # Where the closure is defined its names have the values that it sees.
    before = definition.body[: definition.body.index(closure)]
    backward = [*_needed(before, closure.body), *closure.body]
    return _lines(forward), _lines(backward)


def _needed(before: Sequence[ast.stmt], after: Sequence[ast.stmt], *, acts: bool = False) -> list[ast.stmt]:
    """The statements in front of others that something in these depends on, and where asked for those that act."""
    wanted = _reads(after)
    kept: list[ast.stmt] = []
    for statement in reversed(before):
        if _writes(statement) & wanted or (acts and not _only_binds(statement)):
            kept.append(statement)
            wanted |= _reads([statement])
    return kept[::-1]


def _only_binds(statement: ast.stmt) -> bool:
    """Whether a statement does nothing but give names to values."""
    simple = isinstance(statement, ast.Assign | ast.AnnAssign)
    return simple and not any(isinstance(node, ast.Subscript) for node in _targets(statement))


def _targets(statement: ast.stmt) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []


def _reads(statements: Sequence[ast.stmt]) -> set[str]:
    names = (n for s in statements for n in ast.walk(s) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Load)}


def _writes(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _lines(statements: Sequence[ast.stmt]) -> list[str]:
    return [line for s in statements for line in ast.unparse(ast.fix_missing_locations(s)).splitlines()]
