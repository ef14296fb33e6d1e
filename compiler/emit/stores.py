"""prim::Write: an object becomes what a value is."""

from __future__ import annotations

from ...lang import ast
from ...lang.source import Span
from ..analysis.python_tuples import is_shape
from ..functionalize.write_nodes import WRITE
from ..ir.node import Value
from ..types.types import is_tensor
from .emitter import Emitter

LIST_MUTATIONS = frozenset(("append", "extend", "insert", "pop", "reverse", "sort", "clear", "remove"))


def emit_update(e: Emitter, node: ast.Syntax, target: Value, new: Value, what: str) -> None:
    """The tensor becomes what an op made of it, which must have its shape, and a dtype that its own can hold."""
    if not is_tensor(new.type):
        raise e.fail("E301", f"{what} gives {new.type}, not a tensor", node.span)
    emit_write(e, node.span, target, e.value("aten::_updated", node, new, target), what)


def emit_write(e: Emitter, span: Span, target: Value, new: Value, what: str) -> None:
    """The object becomes what `new` is."""
    if is_shape(target):
        note = "in Python sizes are a tuple: write `list(x.shape)` for a list of one's own"
        raise e.fail("E202", f"{what} changes sizes of a tensor, which nothing does", span, note)
    e.builder.current_span = span
    e.builder.node(WRITE, [target, new], attrs={"what": what})


def emit_overwrite(e: Emitter, node: ast.Syntax, target: Value, new: Value, what: str) -> None:
    """The tensor becomes `new`, which does not depend on what it was: that has a gradient of zeros from then on."""
    emit_write(e, node.span, target, e.value("aten::_overwritten", node, target, new), what)


def is_written(value: Value) -> bool:
    """Whether a write into the object has been emitted."""
    return any(use.user.kind == WRITE and use.index == 0 for use in value.uses)
