"""A Function's forward and backward as one function that returns a closure.

class Swish(torch.autograd.Function):          def swish(x):
    @staticmethod                                  s = torch.sigmoid(x)
    def forward(ctx, x):
        s = torch.sigmoid(x)            ─▶         def backward(grad_output):
        ctx.save_for_backward(x, s)                    return grad_output * s * (1 + x * (1 - s))
        return x * s
    …                                              return x * s, backward
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from ...lang.light_dataclasses import dataclass, field
from .context import Kept, Replaced, is_kept, keep, kept_name, renamed, untaken_name, without_context
from .reading import Method, Unconvertible, names_bound, read_names

BACKWARD = "backward"
_KNOWN = ("forward", "backward", "setup_context", "vmap", "jvp", "symbolic", "vjp")
_LEFT_OUT = {
    "vmap": "vmap is left out: batches of the function are derived",
    "jvp": "jvp is left out: forward mode is derived",
    "symbolic": "symbolic is left out: it is of ONNX",
    "vjp": "vjp is left out: backward is what is converted",
}
_RETURNS = "forward returns in {} places: bind the result to a name on every way, and return it once, at the end"


@dataclass(slots=True)
class Converted:
    """A function in the language, as Python's tree, and what there is to say of it."""

    definition: Method
    kept: Kept = field(default_factory=Kept)
    saved: set[str] = field(default_factory=set)
    """Parameters that are saved as tensors."""
    without_gradient: set[str] = field(default_factory=set)
    """Parameters for which the backward returns None."""
    notes: list[tuple[int, str]] = field(default_factory=list)


def helpers_of(node: ast.ClassDef) -> Iterator[Method]:
    """The methods of a Function that are functions beside its own."""
    yield from (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name not in _KNOWN)


def convert_class(node: ast.ClassDef, name: str) -> Converted:
    """A Function as a function of this name. Unconvertible for what has no counterpart."""
    methods = {part.name: copy.deepcopy(part) for part in node.body if isinstance(part, ast.FunctionDef)}
    for needed in ("forward", "backward"):
        if needed not in methods:
            raise Unconvertible(f"it has no {needed} in its class", node.lineno)
    notes = [(methods[part].lineno, said) for part, said in _LEFT_OUT.items() if part in methods]
    forward, backward = methods["forward"], methods["backward"]
    setup = methods.get("setup_context")
    _refuse_stars(forward)
    docstring = _take_docstring(forward) or _take_docstring(node)
    mark_as_written(forward.body)
    mark_as_written(backward.body)
    ctx = _pop_first(forward) if setup is None else _argument(setup, 0)
    parameters = [a.arg for a in (*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs)]
    body, result = _with_result(forward)
    if setup is not None:
        body, result = _with_setup(forward, setup, body, result, parameters)
    taken = {*parameters, *names_bound(body), *read_names(body)}
    body, result, kept = keep(body, result, ctx, taken)
    required = len(parameters) - len(forward.args.defaults) - len(forward.args.kwonlyargs)
    closure = _closure(backward, kept, taken, _elements(result), (required, len(parameters)))
    result = _constants(result, kept)
    returned = ast.copy_location(ast.Return(_tuple([*_elements(result), ast.Name(BACKWARD, ast.Load())])), result)
    forward.name, forward.decorator_list, forward.returns = name, [], None
    forward.body = [*docstring, *body, closure, returned]
    found = Converted(forward, kept, {v.id for v in kept.saved if isinstance(v, ast.Name)} & set(parameters))
    found.without_gradient = {p for i, p in enumerate(parameters) if _is_never_given(closure, i)}
    found.notes = [*notes, *kept.notes]
    return found


# --- the forward ---


def mark_as_written(statements: list[ast.stmt]) -> None:
    """Remember what each statement says, so that what stays so is printed as it stands."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt):
                node.as_written = ast.dump(node)  # type: ignore[attr-defined]


def _refuse_stars(method: Method) -> None:
    for star in (method.args.vararg, method.args.kwarg):
        if star is not None:
            raise Unconvertible(
                f"'{star.arg}' takes any number of arguments: name each, or take a List[Tensor]", star.lineno
            )


def _take_docstring(node: Method | ast.ClassDef) -> list[ast.stmt]:
    match node.body:
        case [ast.Expr(ast.Constant(str())) as first, *rest]:
            node.body = rest
            return [first]
    return []


def _argument(method: Method, index: int) -> str:
    arguments = [*method.args.posonlyargs, *method.args.args]
    if index >= len(arguments):
        raise Unconvertible(f"'{method.name}' takes too few arguments", method.lineno)
    return arguments[index].arg


def _pop_first(method: Method) -> str:
    name = _argument(method, 0)
    (method.args.posonlyargs or method.args.args).pop(0)
    return name


def _with_result(forward: Method) -> tuple[list[ast.stmt], ast.expr]:
    """The statements before the one `return`, and what it returns."""
    body = _without_modes(forward.body)
    returns = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Return)]
    last = body[-1] if body else None
    if len(returns) > 1:
        raise Unconvertible(_RETURNS.format(len(returns)), returns[0].lineno)
    if not isinstance(last, ast.Return) or last.value is None:
        raise Unconvertible("forward does not end in a `return` of its result", forward.lineno)
    ast.copy_location(last.value, last)
    return body[:-1], last.value


def _without_modes(statements: list[ast.stmt]) -> list[ast.stmt]:
    """What stands in `with torch.no_grad():`, in which a forward runs anyway."""
    made: list[ast.stmt] = []
    for statement in statements:
        match statement:
            case ast.With(items=[ast.withitem(context_expr=ast.Call(func=func), optional_vars=None)], body=body) if (
                ast.unparse(func).rpartition(".")[2] in ("no_grad", "inference_mode", "set_grad_enabled")
            ):
                made += _without_modes(body)
            case _:
                made.append(statement)
    return made


def _with_setup(
    forward: Method, setup: Method, body: list[ast.stmt], result: ast.expr, parameters: list[str]
) -> tuple[list[ast.stmt], ast.expr]:
    """The forward with what setup_context keeps behind it: its `inputs` and `output` are there by name."""
    mark_as_written(setup.body)
    _take_docstring(setup)
    inputs, output = _argument(setup, 1), _argument(setup, 2)
    inside = [*body]
    taken = {*parameters, *names_bound(body), *read_names(body)}
    again = set(names_bound(body))
    given: list[ast.expr] = []
    first: list[ast.stmt] = []
    for parameter in parameters:
        name = parameter
        if parameter in again:
            # The forward binds the name anew; setup_context gets what was passed.
            name = untaken_name(f"{parameter}_given", taken)
            taken.add(name)
            first.append(
                ast.Assign([ast.Name(name, ast.Store())], ast.Name(parameter, ast.Load()), lineno=forward.lineno)
            )
        given.append(kept_name(name))
    results: list[ast.expr] = []
    for element in _elements(result):
        if isinstance(element, ast.Name):
            results.append(kept_name(element.id))
            continue
        name = untaken_name(output if len(_elements(result)) == 1 else "result", taken)
        taken.add(name)
        inside.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], element), result))
        results.append(kept_name(name))
    known: dict[str, ast.expr] = {inputs: _tuple(given, alone=True), output: _tuple(results)}
    added = without_context([Replaced(known).visit(s) for s in setup.body], "", Kept())
    added = _settled(added, taken)
    return [*first, *inside, *added], ast.copy_location(_tuple(results), result)


# --- the backward ---


def _closure(backward: Method, kept: Kept, taken: set[str], results: list[ast.expr], counts: tuple[int, int]) -> Method:
    ctx = _pop_first(backward)
    given = backward.args.vararg
    if given is not None:
        names = ["grad_output"] if len(results) == 1 else [f"grad_output{i}" for i in range(len(results))]
        backward.args.vararg = None
        backward.args.args += [ast.arg(name) for name in names]
        known = {given.arg: _tuple([ast.Name(name, ast.Load()) for name in names], alone=True)}
        backward.body = [Replaced(known).visit(statement) for statement in backward.body]
    if len(backward.args.args) != len(results):
        message = f"backward takes {len(backward.args.args)} gradients for {len(results)} outputs"
        raise Unconvertible(message, backward.lineno)
    _refuse_stars(backward)
    docstring = _take_docstring(backward)
    body = without_context(backward.body, ctx, kept)
    captured = {v.id for v in kept.saved if isinstance(v, ast.Name)} | set(kept.attributes.values())
    clashes = {a.arg: untaken_name(f"grad_{a.arg}", taken) for a in backward.args.args if a.arg in captured}
    body = renamed(body, clashes)
    for argument in backward.args.args:
        argument.arg, argument.annotation = clashes.get(argument.arg, argument.arg), None
    body = _settled(body, captured)
    body = [_Returns(*counts).visit(statement) for statement in body]
    backward.name, backward.decorator_list, backward.returns = BACKWARD, [], None
    backward.body = [*docstring, *_without_idle_none(body)]
    return backward


def _settled(statements: list[ast.stmt], captured: set[str]) -> list[ast.stmt]:
    """Names that are bound to what is kept are what is kept; others that are called alike get other names."""
    bound = names_bound(statements)
    same: dict[str, str] = {}
    made: list[ast.stmt] = []
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=local)], value=ast.Name(id=name) as value) if is_kept(value):
                free = local == name or (local not in captured and name not in bound)
                if bound.count(local) == 1 and free:
                    same[local] = name
                    continue
        made.append(statement)
    left = set(names_bound(made))
    clashes = {name: untaken_name(f"{name}_", {*captured, *left, *read_names(made)}) for name in left & captured}
    return renamed(made, {**clashes, **same})


class _Returns(ast.NodeTransformer):
    """Gradients in a tuple, as many as there are inputs; torch takes a list, and more that are None.

    It takes fewer where `apply` is given fewer: the others have defaults.
    """

    def __init__(self, needed: int, count: int) -> None:
        self._needed, self._count = needed, count

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if isinstance(node.value, ast.List | ast.Tuple):
            elements = list(node.value.elts)
        elif node.value is not None and self._needed == 1 < self._count and not _may_be_several(node.value):
            elements = [node.value]
        else:
            return node
        if self._needed <= len(elements) < self._count:
            elements += [ast.Constant(None) for _ in range(self._count - len(elements))]
        while len(elements) > self._count and isinstance(elements[-1], ast.Constant) and elements[-1].value is None:
            elements.pop()
        return ast.copy_location(ast.Return(_tuple(elements)), node)


def _may_be_several(value: ast.expr) -> bool:
    """Whether an expression may be all gradients in one: a name, or what a function returns."""
    return isinstance(value, ast.Name) or (isinstance(value, ast.Call) and isinstance(value.func, ast.Name))


def _without_idle_none(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Without `grad = None` where the next thing that happens to the name is an assignment."""
    made: list[ast.stmt] = []
    for i, statement in enumerate(statements):
        match statement:
            case ast.Assign(value=ast.Constant(value=None), targets=targets):
                named = [t for t in targets if isinstance(t, ast.Name)]
                left = [t for t in named if not _is_bound_next(t.id, statements[i + 1 :])]
                if len(named) == len(targets) and len(left) < len(targets):
                    if left:
                        made.append(ast.copy_location(ast.Assign(list(left), statement.value), statement))
                    continue
        made.append(statement)
    return made


def _is_bound_next(name: str, statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if name not in {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}:
            continue
        if not isinstance(statement, ast.Assign):
            return False
        return name in names_bound([statement]) and name not in read_names([statement])
    return False


# --- results ---


def _elements(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _tuple(elements: list[ast.expr], alone: bool = False) -> ast.expr:
    return ast.Tuple(elements, ast.Load()) if len(elements) != 1 or alone else elements[0]


def _constants(result: ast.expr, kept: Kept) -> ast.expr:
    """The result, with what has no gradient detached."""
    made: list[ast.expr] = []
    for element in _elements(result):
        if isinstance(element, ast.Name) and element.id in kept.constants:
            element = ast.Call(ast.Attribute(element, "detach", ast.Load()), [], [])
        made.append(element)
    return ast.copy_location(_tuple(made), result)


def _is_never_given(closure: Method, index: int) -> bool:
    """Whether every `return` of a backward has None in a place."""
    returns = [node for node in ast.walk(closure) if isinstance(node, ast.Return) and node.value is not None]
    found = [_elements(node.value) for node in returns if node.value is not None]
    named = [e for elements in found for e in elements[index : index + 1]]
    return bool(named) and all(isinstance(e, ast.Constant) and e.value is None for e in named)
