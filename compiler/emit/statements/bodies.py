"""The statements of a function, of a closure, and of a function that is written out where it is called."""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...types.types import may_be_none
from ..annotations import resolve_type
from ..bindings import returned_names
from ..emitter import Emitter
from ..exits import gives_values, structure
from .results import report_falling_off
from .simple import emit_statements
from .uses import check_uses


def emit_function_body(e: Emitter, node: ast.FunctionDef, *, of_closure: bool = False) -> Walk:
    """Emit them; the `Exit` by which they leave. A closure has to say on each path which gradients it gives."""
    check_uses(e, node)
    e.returned = returned_names(node.body)
    if node.returns is not None:
        e.returns = resolve_type(node.returns, e.diagnostics, e.unit.environment)
    may_end = may_be_none(e.returns) if e.returns is not None else not gives_values(node.body)
    structured = structure(node.body, e.diagnostics, may_end and not of_closure)
    yield emit_statements(e, structured.body)
    report_falling_off(e, node)
    return structured.exit
