"""What stands left of `=`, or behind `for`."""

from __future__ import annotations

from collections.abc import Sequence

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.advice import for_name
from ...spelling.overloads import Argued
from ...types.types import ListType, TupleType, is_tensor
from ..annotations import dotted_name
from ..emitter import Emitter, described
from .subscripts import emit_subscript_store


def emit_target(e: Emitter, target: ast.Target, source: Argued) -> Walk:
    """Bind what stands left of `=`."""
    match target:
        case ast.Name():
            e.bind(target.id, source.value)
        case ast.TupleExpr():
            for element, value in zip(target.elements, _unpacked(e, target, source), strict=True):
                yield emit_target(e, element, Argued(value, source.span))  # type: ignore[arg-type]
        case ast.Subscript():
            yield emit_subscript_store(e, target, source)
        case _:
            notes = for_name(dotted_name(target).partition(".")[0]) or ("values are immutable: give it a name",)
            raise e.fail("E305", f"the attribute '{target.name}' cannot be assigned", target.span, *notes)


def _unpacked(e: Emitter, target: ast.TupleExpr, source: Argued) -> Sequence[Value]:
    value, count = source.value, len(target.elements)
    names = [t.id if isinstance(t, ast.Name) else "" for t in target.elements]
    if isinstance(value.type, TupleType):
        if len(value.type.elements) != count:
            found = len(value.type.elements)
            raise e.fail("E301", f"cannot unpack {found} values into {count} names", target.span)
        if value.node.kind != "prim::TupleConstruct":
            return e.at(target).unpack(value, names)
        elements = list(value.node.inputs)
        if not value.use_count and not value.name_hint:
            value.node.destroy()
        return elements
    if isinstance(value.type, ListType):
        node = e.at(target).node("prim::ListUnpack", [value], [value.type.element] * count, names=names)
        return node.outputs
    note = "use `torch.unbind`" if is_tensor(value.type) else "only tuples and lists are unpacked"
    raise e.fail("E301", f"{described(value.type)} cannot be unpacked", target.span, note)
