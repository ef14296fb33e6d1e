"""Functions and closures: parameters, results, schemas."""

from __future__ import annotations

from collections.abc import Sequence

from ....lang import ast
from ....lang.diagnostics import MAX_DIAGNOSTICS, Abort
from ....lang.trampoline import Walk
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Block, Value
from ...types.schema import Argument, FunctionSchema
from ...types.types import CLOSURE, NONE, TupleType, Type
from ..bindings import bound_names
from ..emitter import Emitter, Unit
from ..exits import RESULT, Exit
from ..expressions.lambdas import as_called
from ..scopes import Frame
from .bodies import emit_function_body
from .called import bind_called
from .grad_modes import apply_grad_modes, regions_of
from .parameters import parameters_of
from .results import check_annotation


def emit_definition(unit: Unit, node: ast.FunctionDef) -> Walk:
    """The graph and the schema of a top-level function, closures inside."""
    arguments = parameters_of(node, unit.diagnostics, unit.environment)
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
    check_annotation(e, node, [r.type for r in results])
    apply_grad_modes(graph, node, unit.names, unit.diagnostics, e.calls.modes)
    return FunctionSchema(node.name, "", arguments, results), graph


def _add_parameter(e: Emitter, block: Block, name: str, type: Type) -> None:
    value = block.add_input(type, name)
    e.parameters[value] = name
    e.bind(name, value)


def _emit_body(e: Emitter, node: ast.FunctionDef) -> Walk:
    """Emit the statements; the values returned, one per element of a returned tuple."""
    left_by = yield emit_function_body(e, node, of_closure=e.outer is not None)
    if len(e.diagnostics.found) > MAX_DIAGNOSTICS:
        raise Abort(node.name)
    if e.frame.raised:
        return _of_no_path(e, node)
    if left_by is Exit.NEVER:
        if e.outer is not None:
            note = "return one gradient per input, in order, None where there is none"
            e.diagnostics.report("E405", f"'{node.name}' returns no gradient", node.name_span, note)
        return [e.at(node).constant(None)]
    return _flattened(e, e.lookup(RESULT, node.name_span))


def _of_no_path(e: Emitter, node: ast.FunctionDef) -> list[Value]:
    """What a function returns that raises on every path: of the type that it declares, nothing."""
    declared = e.returns or NONE
    types = declared.elements if isinstance(declared, TupleType) and len(declared.elements) > 1 else [declared]
    return [e.at(node).uninitialized(type) for type in types]


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


def emit_closure(e: Emitter, node: ast.FunctionDef) -> Walk:
    """A nested function that is returned: a prim::Function whose block uses the values around it as they are now.

    One that is not is written out where it is called.
    """
    if node.name not in e.returned:
        yield bind_called(e, node)
        return
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
    inner = Emitter(e.unit, Builder(block), frame, node.name, outer=e, calls=e.calls)
    inner.regions = regions_of(node, e.diagnostics)
    for argument in arguments:
        _add_parameter(inner, block, argument.name, argument.type)
    outputs = yield _emit_body(inner, node)
    block.ret.replace_inputs(outputs)
    check_annotation(inner, node, [v.type for v in outputs if v.type != CLOSURE])
    e.bind(node.name, function.output)
    e.calls.closures[function.output] = yield as_called(e, node)
