"""What stands left of `=`, or behind `for`."""

from __future__ import annotations

from collections.abc import Sequence

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.advice import for_name
from ...spelling.overloads import Argued
from ...types.types import TENSOR, ListType, TupleType, is_tensor
from ..annotations import dotted_name
from ..emitter import Emitter, described
from ..resolve import emit_resolved
from .subscripts import emit_subscript_store
from .tuples import type_of_elements

_UNPACKED = "tuples, lists and tensors are unpacked"


def emit_targets(e: Emitter, targets: Sequence[ast.Target], source: Argued) -> Walk:
    """Bind what stands left of `=`, several times in `a, b = c = t`. A tuple that was only taken apart is not made."""
    for target in targets:
        yield _emit_target(e, target, source)
    apart: set[Value] = {source.value} if all(isinstance(target, ast.TupleExpr) for target in targets) else set()
    while apart:
        value = apart.pop()
        if value.node.kind == "prim::TupleConstruct" and not value.use_count and not value.name_hint:
            apart.update(value.node.inputs)
            value.node.destroy()


def _emit_target(e: Emitter, target: ast.Target, source: Argued) -> Walk:
    match target:
        case ast.Name():
            e.bind(target.id, source.value)
        case ast.TupleExpr():
            for element, value in zip(target.elements, _unpacked(e, target, source), strict=True):
                yield _emit_target(e, element, Argued(value, source.span))  # type: ignore[arg-type]
        case ast.Starred():
            yield _emit_target(e, target.value, source)  # type: ignore[arg-type]
        case ast.Subscript():
            yield emit_subscript_store(e, target, source)
        case _:
            notes = for_name(dotted_name(target).partition(".")[0]) or ("values are immutable: give it a name",)
            raise e.fail("E305", f"the attribute '{target.name}' cannot be assigned", target.span, *notes)


def _unpacked(e: Emitter, target: ast.TupleExpr, source: Argued) -> Sequence[Value]:
    value, count = source.value, len(target.elements)
    if is_tensor(value.type):
        # Its rows.
        value = emit_resolved(e, target, "unbind", [source], "unpacking")
    starred = next((i for i, t in enumerate(target.elements) if isinstance(t, ast.Starred)), None)
    if starred is not None:
        return _unpacked_around(e, target, value, starred)
    names = [t.id if isinstance(t, ast.Name) else "" for t in target.elements]
    if isinstance(value.type, TupleType):
        if len(value.type.elements) != count:
            found = len(value.type.elements)
            raise e.fail("E301", f"cannot unpack {found} values into {count} names", target.span)
        if value.node.kind != "prim::TupleConstruct":
            return e.at(target).unpack(value, names)
        return value.node.inputs
    if isinstance(value.type, ListType):
        node = e.at(target).node("prim::ListUnpack", [value], [value.type.element] * count, names=names)
        return node.outputs
    raise e.fail("E301", f"{described(value.type)} cannot be unpacked", target.span, _UNPACKED)


def _unpacked_around(e: Emitter, target: ast.TupleExpr, value: Value, at: int) -> Sequence[Value]:
    """`a, *b, c = value`: what is left between the others is a list."""
    after = len(target.elements) - at - 1
    if isinstance(value.type, TupleType):
        elements = e.elements(value, target)
        if len(elements) < at + after:
            message = f"cannot unpack {len(elements)} values into {at + after} names and a list"
            raise e.fail("E301", message, target.span)
        end = len(elements) - after
        between = list(elements[at:end])
        type = type_of_elements(TupleType(tuple(element.type for element in between)))
        if type is None and between:
            note = "the elements of a list have one type: name them one by one"
            raise e.fail("E301", "what the `*` takes is of several types", target.elements[at].span, note)
        taken = e.at(target).list(between, type or TENSOR)
        if not between:
            e.untold.add(taken)
        return [*elements[:at], taken, *elements[end:]]
    if not isinstance(value.type, ListType):
        raise e.fail("E301", f"{described(value.type)} cannot be unpacked", target.span, _UNPACKED)
    before = [e.value("aten::__getitem__.t", target, value, i) for i in range(at)]
    # Of a list that is too short the rest has no such place.
    rest = e.value("aten::slice.t", target, value, at) if at else value
    behind = [e.value("aten::__getitem__.t", target, rest, i - after) for i in range(after)]
    taken = e.value("aten::slice.t", target, rest, 0, -after if after else None)
    return [*before, taken, *behind]
