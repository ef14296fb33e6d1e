"""Functions and closures: parameters, results, schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from ...lang import ast
from ...lang.diagnostics import MAX_DIAGNOSTICS, Abort, Diagnostics
from ...lang.trampoline import Walk
from ..ir.builder import Builder, constant_type
from ..ir.graph import Graph
from ..ir.node import Block, Value
from ..types.schema import NO_DEFAULT, Argument, Default, FunctionSchema
from ..types.types import (
    CLOSURE,
    FLOAT,
    INT,
    NONE,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    is_subtype,
    strip_optional,
)
from .annotations import broadcast_size, dotted_name, resolve_type
from .emitter import Emitter, described
from .exits import RESULT, Exit, structure
from .expected import take_type
from .expressions import CONSTANTS
from .grad_modes import apply_grad_modes, regions_of
from .scopes import Frame
from .statements import bound_names, emit_statements, statements_in


def parameters_of(node: ast.FunctionDef, diagnostics: Diagnostics) -> tuple[Argument, ...]:
    """The parameters of a function as its schema has them. Raises Abort for a type or default that makes no sense."""
    return tuple(_parameter(p, diagnostics) for p in node.parameters)


def _parameter(node: ast.Parameter, diagnostics: Diagnostics) -> Argument:
    default: Default | Any = NO_DEFAULT
    type: Type = TENSOR
    fixed_size = None if node.annotation is None else broadcast_size(node.annotation)
    if node.default is not None:
        default = _default(node.default, diagnostics)
    if node.annotation is not None:
        type = resolve_type(node.annotation, diagnostics)
    elif node.default is not None:
        # An unannotated parameter is a Tensor, unless its default says otherwise.
        type = OptionalType(TENSOR) if default is None else _type_of_default(default)
    if fixed_size is not None and isinstance(default, int | float):
        default = (default,) * fixed_size
    if node.default is not None:
        default = _converted(default, strip_optional(type))
        if not _default_fits(default, type):
            raise diagnostics.fail(
                "E301", f"the default {node.default.span.text} is not {described(type)}", node.default.span
            )
    return Argument(node.name, type, default, node.keyword_only, fixed_size)


def _default(node: ast.Expr, diagnostics: Diagnostics) -> Any:
    match node:
        case ast.Constant() if node.value is not ...:
            return node.value
        case ast.UnaryOp(op="-" | "+", operand=operand) if _is_number(operand):
            value = _default(operand, diagnostics)
            return -value if node.op == "-" else value
        case ast.Attribute() if dotted_name(node) in CONSTANTS:
            return CONSTANTS[dotted_name(node)]
        case ast.Call(function=ast.Name(id="float"), args=(ast.Constant(value=value),), keywords=()):
            with suppress(ValueError, TypeError):
                return float(value)  # type: ignore[arg-type]  # what is no number is refused below
        case ast.TupleExpr() | ast.ListExpr():
            if not any(isinstance(item, ast.TupleExpr | ast.ListExpr) for item in node.elements):
                return tuple(_default(item, diagnostics) for item in node.elements)
    raise diagnostics.fail(
        "E102",
        "a default that is not a literal",
        node.span,
        "defaults are numbers, `float('inf')`, strings, bools, None and lists of them",
    )


def _is_number(node: ast.Expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return isinstance(node, ast.Call) or dotted_name(node) in CONSTANTS


def _type_of_default(default: Any) -> Type:
    if default == ():
        return ListType(INT)
    return constant_type(default)


def _default_fits(default: Any, type: Type) -> bool:
    if default == ():
        return isinstance(strip_optional(type), ListType)
    return is_subtype(NONE if default is None else constant_type(default), type)


def _converted(default: Any, type: Type) -> Any:
    """An int where a float is asked for is a float, in a list too."""
    if isinstance(type, ListType) and isinstance(default, tuple):
        return tuple(_converted(item, type.element) for item in default)
    is_int = isinstance(default, int) and not isinstance(default, bool)
    return float(default) if is_int and type == FLOAT else default


def emit_function(unit: Any, node: ast.FunctionDef) -> Walk:
    """The graph and the schema of a top-level function, closures inside."""
    arguments = parameters_of(node, unit.diagnostics)
    graph = Graph(node.name, unit.callees, node.span)
    names = frozenset(bound_names(node.body)) - {p.name for p in node.parameters}
    frame = Frame(None, unit.next_function(), locals=names)
    e = Emitter(unit, Builder(graph), frame, node.name, regions=regions_of(node, unit.diagnostics))
    for argument in arguments:
        _add_parameter(e, graph.body, argument.name, argument.type)
    outputs = yield _emit_body(e, node)
    graph.body.ret.replace_inputs(outputs)
    called = _result_names(e, len(outputs))
    results = tuple(Argument(name, v.type) for name, v in zip(called, outputs, strict=True) if v.type != CLOSURE)
    _check_annotation(e, node, [r.type for r in results])
    apply_grad_modes(graph, node, unit.names)
    return FunctionSchema(node.name, "", arguments, results), graph


def _add_parameter(e: Emitter, block: Block, name: str, type: Type) -> None:
    value = block.add_input(type, name)
    e.parameters[value] = name
    e.bind(name, value)


def _emit_body(e: Emitter, node: ast.FunctionDef) -> Walk:
    """Emit the statements; the values returned, one per element of a returned tuple."""
    _check_closures(e, node)
    structured = structure(node.body, e.diagnostics)
    if node.returns is not None:
        e.returns = resolve_type(node.returns, e.diagnostics)
    yield emit_statements(e, structured.body)
    if e.falls_off:
        message, note = f"'{node.name}' returns a value on some paths only", "end the function with a `return`"
        e.diagnostics.report("E306", message, node.name_span, note)
    if len(e.diagnostics.found) > MAX_DIAGNOSTICS:
        raise Abort(node.name)
    if structured.exit is Exit.NEVER or e.frame.raised:
        return [e.at(node).constant(None)]
    return _flattened(e, e.lookup(RESULT, node.name_span))


def _check_closures(e: Emitter, node: ast.FunctionDef) -> None:
    """Report closures that are not returned, for nothing ever calls them. Other uses are refused where they stand."""
    statements = list(statements_in(node.body))
    used = {name for statement in statements for name in _names_in(statement)}
    bindings = Counter(bound_names(node.body))
    closures = [s for s in statements if isinstance(s, ast.FunctionDef)]
    defined = Counter(closure.name for closure in closures)
    for closure in reversed(closures):
        if closure.name not in used:
            note = f"return it last: `return y, {closure.name}`; code that is called goes into a function of its own"
        elif bindings[closure.name] > defined[closure.name]:
            note = f"'{closure.name}' is assigned too, and that value is what is returned: rename one of the two"
        else:
            continue
        e.diagnostics.report("E402", f"closure '{closure.name}' is not returned", closure.name_span, note)


def _names_in(statement: ast.Stmt) -> Iterator[str]:
    """The names in a statement's own expressions."""
    pending: list[ast.Syntax] = list(ast.expressions_of(statement))
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Name):
            yield part.id
        pending += ast.children(part)


def _result_names(e: Emitter, count: int) -> Sequence[str]:
    """Those of a named tuple that is returned as it is, as far as its type is known."""
    returned = e.frame.lookup(RESULT)
    names = returned.type.names if isinstance(returned, Value) and isinstance(returned.type, TupleType) else ()
    return names if len(names) == count else [f"result{i}" for i in range(count)]


def _flattened(e: Emitter, value: Value) -> list[Value]:
    if not isinstance(value.type, TupleType) or len(value.type.elements) < 2:
        return [value]
    if value.node.kind != "prim::TupleConstruct":
        return e.builder.unpack(value)
    values = list(value.node.inputs)
    if not value.use_count:
        value.node.destroy()
    if values[-1].type == CLOSURE and len(values) == 2:
        # `return (a, b), backward` has two outputs.
        return [*_flattened(e, values[0]), values[-1]]
    return values


def emit_result(e: Emitter, node: ast.Expr) -> Walk:
    """The value of a `return`: the one place where a closure may stand, as the last element of a tuple."""
    if isinstance(node, ast.Name):
        value = e.lookup(node.id, node.span)
        if value.type == CLOSURE:
            raise e.fail(
                "E402", "only a closure is returned", node.span, f"return the outputs before it: `return y, {node.id}`"
            )
        return value
    if not isinstance(node, ast.TupleExpr) or not node.elements:
        return _as_returned(e, (yield e.expression(node)))
    values: list[Value] = []
    for element in node.elements[:-1]:
        values.append((yield e.expression(element)))
    last = node.elements[-1]
    if isinstance(last, ast.Name) and len(node.elements) > 1:
        values.append(_last_element(e, last))
    else:
        values.append((yield e.expression(last)))
    return _as_returned(e, e.at(node).tuple(values))


def _as_returned(e: Emitter, value: Value) -> Value:
    if e.returns is not None:
        take_type(value, e.returns)
    return value


def _last_element(e: Emitter, node: ast.Name) -> Value:
    value = e.lookup(node.id, node.span)
    if value.type == CLOSURE and e.depth:
        raise e.fail(
            "E403",
            f"closure '{node.id}' is returned from inside a branch or a loop",
            node.span,
            f"return once, at the end, and put the `if` inside '{node.id}'",
            "code after an early `return` counts as its `else` branch",
        )
    return value


def emit_closure(e: Emitter, node: ast.FunctionDef) -> Walk:
    """A nested function: a prim::Function whose block uses the values around it as they are now."""
    for parameter in node.parameters:
        if parameter.default is not None or parameter.keyword_only:
            raise e.fail(
                "E406",
                f"parameter '{parameter.name}' of closure '{node.name}' has a default or is keyword-only",
                parameter.span,
                "a closure takes one gradient per output, and nothing else",
            )
    arguments = parameters_of(node, e.diagnostics)
    function = e.at(node).node("prim::Function", (), [CLOSURE], attrs={"name": node.name}, blocks=1)
    (block,) = function.blocks
    names = frozenset(bound_names(node.body)) - {p.name for p in node.parameters}
    frame = Frame(e.frame, e.unit.next_function(), locals=names)
    inner = Emitter(e.unit, Builder(block), frame, node.name, outer=e)
    inner.regions = regions_of(node, e.diagnostics)
    for argument in arguments:
        _add_parameter(inner, block, argument.name, argument.type)
    outputs = yield _emit_body(inner, node)
    block.ret.replace_inputs(outputs)
    _check_annotation(inner, node, [v.type for v in outputs if v.type != CLOSURE])
    e.bind(node.name, function.output)


def _check_annotation(e: Emitter, node: ast.FunctionDef, types: list[Type]) -> None:
    """`-> T`: what is returned, the closure left out."""
    declared = e.returns
    if node.returns is None or declared is None:
        return
    actual: Type = types[0] if len(types) == 1 else TupleType(tuple(types))
    if not is_subtype(actual, declared):
        raise e.fail("E301", f"'{node.name}' returns {described(actual)}, not {described(declared)}", node.returns.span)
