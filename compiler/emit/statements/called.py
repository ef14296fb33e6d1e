"""Functions inside functions that the function around them calls: written out where they are called.

    def f(x, n: int):                        def f(x, n: int):
        def force(q):                            for i in range(n):
            return -k * q                            k = float(i)
        for i in range(n):            ─▶             x = x + -k * x
            k = float(i)                         return x
            x = x + force(x)
        return x

So the body sees the names around it as they are at the call, as Python's closures do; what it binds is in a frame of
its own, and ends with the call. Parameters stand for what is given: a write into one is a write into that.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....lang import ast
from ....lang.diagnostics import Diagnostics
from ....lang.trampoline import Walk
from ...ir.node import Node
from ...spelling.overloads import Argued
from ...types.schema import Argument, FunctionSchema
from ...types.types import NONE, TENSOR, Type
from ..annotations import resolve_type
from ..bindings import bound_names, returned_names, statements_in
from ..emitter import Emitter, InnerCall, WrittenOut
from ..exits import RESULT, Exit
from ..expressions.lambdas import as_called
from ..resolve import emit_arguments, matched_arguments
from ..scopes import Frame
from .bodies import emit_function_body
from .grad_modes import region_at, regions_of
from .results import check_annotation

MAX_WRITTEN = 10_000
"""Statements that are written out for calls of functions inside one function: such calls inside each other multiply."""


def bind_called(e: Emitter, node: ast.FunctionDef) -> Walk:
    """Let a name stand for a function that is called. Its defaults have the values of now."""
    e.frame.bind(node.name, (yield as_called(e, node)))


def emit_written_out(e: Emitter, node: InnerCall) -> Walk:
    """A call of a function inside this one: its body, here; the value that it returns."""
    definition = node.called.definition
    arguments: list[Argued] = yield emit_arguments(e, node.call)
    _check_call(e, node)
    inner = _entered(e, node)
    _bind_parameters(e, inner, node, arguments)
    found = len(e.diagnostics.found)
    e.calls.open.add(id(definition))
    written = WrittenOut(inner.regions, inner.mode)

    def tell(made: Node) -> None:
        e.calls.modes[made] = written

    try:
        with e.builder.telling(tell):
            return (yield _emit_body(e, inner, definition))
    finally:
        e.calls.open.discard(id(definition))
        _drop_repeated(e.diagnostics, found)


def _check_call(e: Emitter, node: InnerCall) -> None:
    definition, span = node.called.definition, node.call.function.span
    name = definition.name
    if id(definition) in e.calls.open:
        raise e.fail("E404", f"function '{name}' calls itself", span, "write a loop instead")
    inside = {s.name for s in statements_in(definition.body) if isinstance(s, ast.FunctionDef)}
    if inside & returned_names(definition.body):
        note = "one with a backward of its own stands outside of others: move it out, captured names as parameters"
        raise e.fail("E401", f"'{name}', which returns a closure, is called inside its function", span, note)
    e.calls.written += 1 + sum(1 for _ in statements_in(definition.body))
    if e.calls.written > MAX_WRITTEN:
        note = f"move '{name}' out of its function, captured names as parameters: that is compiled once"
        message = f"calls of functions inside each other write out more than {MAX_WRITTEN} statements"
        raise e.fail("E004", message, span, note)


def _entered(e: Emitter, node: InnerCall) -> Emitter:
    """What emits the body: into the same block, under names of its own."""
    definition = node.called.definition
    names = frozenset(bound_names(definition.body)) - {p.name for p in definition.parameters}
    frame = Frame(e.frame.seen_by(node.called), e.unit.next_function(), locals=names)
    inner = Emitter(e.unit, e.builder, frame, definition.name, outer=e, calls=e.calls)
    inner.depth, inner.unrolled = e.depth, e.unrolled
    inner.untold, inner.dtypes, inner.unsettled = e.untold, e.dtypes, e.unsettled
    mode = region_at(e.regions, node.call.span)
    inner.mode = e.mode if mode is None else mode
    inner.regions = regions_of(definition, e.diagnostics)
    return inner


def _bind_parameters(e: Emitter, inner: Emitter, node: InnerCall, arguments: Sequence[Argued]) -> None:
    """Parameters have the types that are annotated, or those of what is given."""
    definition = node.called.definition
    by_name = {argument.keyword: argument for argument in arguments if argument.keyword is not None}
    by_place = [p.name for p in definition.parameters if not p.keyword_only]
    by_name |= zip(by_place, [a for a in arguments if a.keyword is None], strict=False)
    given = [*arguments]
    for parameter in definition.parameters:
        if parameter.default is not None and parameter.name not in by_name:
            value = node.called.defaults[parameter.name]
            by_name[parameter.name] = Argued(value, parameter.default.span, parameter.name)
            given.append(by_name[parameter.name])
    taken: list[Argument] = []
    for parameter in definition.parameters:
        type: Type = TENSOR
        if parameter.annotation is not None:
            type = resolve_type(parameter.annotation, e.diagnostics, e.unit.environment)
        elif parameter.name in by_name:
            type = by_name[parameter.name].value.type
        taken.append(Argument(parameter.name, type, keyword_only=parameter.keyword_only))
    schema = FunctionSchema(definition.name, "", tuple(taken), ())
    values = matched_arguments(e, node.call, schema, given)
    for parameter, value in zip(definition.parameters, values, strict=True):
        if parameter.annotation is None:
            value = by_name[parameter.name].value
        inner.bind(parameter.name, value)


def _emit_body(e: Emitter, inner: Emitter, definition: ast.FunctionDef) -> Walk:
    left_by = yield emit_function_body(inner, definition)
    if inner.frame.raised:
        # Nor does the call come to an end.
        e.frame.raised = True
        return inner.builder.uninitialized(inner.returns or NONE)
    if left_by is Exit.NEVER:
        return inner.at(definition).constant(None)
    value = inner.lookup(RESULT, definition.name_span)
    check_annotation(inner, definition, [value.type])
    return value


def _drop_repeated(diagnostics: Diagnostics, start: int) -> None:
    """What is wrong with a body is told once, however often it is called."""
    told = {(d.code, d.message, d.span.start, d.span.end) for d in diagnostics.found[:start]}
    new = [d for d in diagnostics.found[start:] if (d.code, d.message, d.span.start, d.span.end) not in told]
    diagnostics.found[start:] = new
