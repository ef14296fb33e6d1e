"""Operators between two values."""

from __future__ import annotations

from ....lang import ast
from ...analysis.python_tuples import differ_in_kind, is_python_list
from ...ir.node import Value
from ...spelling.operators import COMPARE, MIRRORED, binary_op
from ...spelling.overloads import Argued
from ...types.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    STR,
    ListType,
    TupleType,
    Type,
    is_tensor,
    may_be_none,
    strip_optional,
)
from ..emitter import Emitter
from ..resolve import emit_resolved, with_float_base
from ..truth import truth_of
from .strings import emit_percent
from .tuples import joined_tuples, type_of_elements


def emit_binary(e: Emitter, node: ast.Syntax, op: str, left: Argued, right: Argued, *, extends: bool = False) -> Value:
    """`left op right` on values; a number on the left of a tensor changes sides where the operator allows.

    A list `extends` by anything, as `l += x.shape` does in Python.
    """
    what = f"operator '{op}'"
    if op == "%" and left.value.type == STR:
        return emit_percent(e, node, left, right)
    if op == "+" and isinstance(left.value.type, TupleType) and isinstance(right.value.type, TupleType):
        return joined_tuples(e, node, left.value, right.value)
    if op == "+" and not (extends and is_python_list(left.value)):
        _require_alike(e, node, left, right)
    found = binary_op(op, left.value.type, right.value.type)
    if found is None:
        # As torch eager does: number / x is reciprocal(x) * number.
        reciprocal = emit_resolved(e, node, "reciprocal", [right], what)
        return emit_resolved(e, node, "mul", [Argued(reciprocal, right.span), left], what)
    name, swapped = found
    operands = [right, left] if swapped else [left, right]
    if op == "**" and not is_tensor(left.value.type) and not is_tensor(right.value.type):
        operands = [*with_float_base(e, node, operands)]
    return emit_resolved(e, node, name, operands, what)


def _require_alike(e: Emitter, node: ast.Syntax, left: Argued, right: Argued) -> None:
    """Lists and tuples are joined with their like, as in Python; sizes are lists here, and take tuples of ints."""
    types = [left.value.type, right.value.type]
    if differ_in_kind(left.value, right.value):
        note = "in Python sizes are a tuple: write `(1,) + x.shape`, or `[1] + list(x.shape)`"
        raise e.fail("E203", "operator '+' does not take sizes and a list", node.span, note)
    kinds = {ListType, TupleType}
    if {type(t) for t in types} == kinds and not all(_holds_ints(t) for t in types):
        note = "write brackets for both: `[a] + [b, c]`; `list(…)` makes a list of a list or of a tensor's rows"
        raise e.fail("E203", f"operator '+' does not take ({types[0]}, {types[1]})", node.span, note)


def _holds_ints(type: Type) -> bool:
    return type == ListType(INT) or (isinstance(type, TupleType) and all(e == INT for e in type.elements))


def emit_comparison(e: Emitter, node: ast.Syntax, op: str, left: Argued, right: Argued) -> Value:
    """One comparison of two values, `in` and `not in` included."""
    what = f"operator '{op}'"
    if op in ("in", "not in"):
        for listed in right.value.node.inputs if right.value.node.kind == "prim::ListConstruct" else ():
            _require_one_kind(e, node, op, left.value, listed)
        found = emit_resolved(e, node, "__contains__", [right, left], what)
        return found if op == "in" else e.value("aten::__not__.bool", node, found)
    name = COMPARE[op]
    _require_one_kind(e, node, op, left.value, right.value)
    are_tuples = isinstance(left.value.type, TupleType) and isinstance(right.value.type, TupleType)
    if are_tuples and name not in ("eq", "ne"):
        left, right = (_as_list(e, node, side) for side in (left, right))
    elif are_tuples:
        same = _equal_tuples(e, node, left.value, right.value)
        return same if name == "eq" else e.value("aten::__not__.bool", node, same)
    if name in ("eq", "ne") and _may_differ_in_being(left.value.type, right.value.type):
        same = _equal_optionals(e, node, left, right)
        return same if name == "eq" else e.value("aten::__not__.bool", node, same)
    if is_tensor(right.value.type) and left.value.type in NUMBERS:
        return emit_resolved(e, node, MIRRORED[name], [right, left], what)
    return emit_resolved(e, node, name, [left, right], what)


def _may_differ_in_being(left: Type, right: Type) -> bool:
    """Whether two numbers, or two texts, are compared of which one may be None."""
    plain = {strip_optional(left), strip_optional(right)}
    return (left, right) != (strip_optional(left), strip_optional(right)) and (plain == {STR} or plain <= NUMBERS)


def _equal_optionals(e: Emitter, node: ast.Syntax, left: Argued, right: Argued) -> Value:
    """`left == right` where one may be None, which equals None alone."""
    if not may_be_none(left.value.type):
        left, right = right, left
    none = e.at(node).constant(None)
    branch = e.at(node).node("prim::If", [e.value("aten::__isnot__", node, left.value, none)], [BOOL], blocks=2)
    there, missing = branch.blocks
    with e.builder.at(there):
        mine = Argued(e.at(node).unwrap(left.value), left.span)
        e.builder.returns(emit_comparison(e, node, "==", mine, right))
    with e.builder.at(missing):
        is_one = may_be_none(right.value.type)
        e.builder.returns(e.value("aten::__is__", node, right.value, none) if is_one else e.at(node).constant(False))
    return branch.output


def _as_list(e: Emitter, node: ast.Syntax, side: Argued) -> Argued:
    """A tuple whose elements have one type as a list, which is ordered as it is; any other as it stands."""
    assert isinstance(side.value.type, TupleType)
    type = type_of_elements(side.value.type)
    return side if type is None else Argued(e.at(node).list(e.elements(side.value, node), type), side.span)


def _require_one_kind(e: Emitter, node: ast.Syntax, op: str, left: Value, right: Value) -> None:
    """Sizes are tuples in Python, and no tuple is equal to a list: what is compared has to say which it means."""
    if differ_in_kind(left, right):
        note = "in Python sizes are a tuple, which is equal to no list: write `(2, 3)` for `[2, 3]`, or `list(x.shape)`"
        raise e.fail("E203", f"operator '{op}' does not take sizes and a list", node.span, note)
    types = {type(left.type): left, type(right.type): right}
    if types.keys() == {ListType, TupleType} and is_python_list(types[ListType]):
        note = "in Python no list is equal to a tuple: write both in brackets, or both in parentheses"
        raise e.fail("E203", f"operator '{op}' does not take a list and a tuple", node.span, note)


def _equal_tuples(e: Emitter, node: ast.Syntax, left: Value, right: Value) -> Value:
    """`left == right`: as many elements, each equal to the other."""
    mine, other = e.elements(left, node), e.elements(right, node)
    if len(mine) != len(other):
        return e.at(node).constant(False)
    result: Value | None = None
    for a, b in _joined_objects(e, node, list(zip(mine, other, strict=True))):
        if a.type == NONE or b.type == NONE:
            same = e.at(node).constant(a.type == b.type)
        else:
            truth = truth_of(e, node, emit_comparison(e, node, "==", Argued(a, node.span), Argued(b, node.span)))
            assert truth.value is not None, "a comparison is a bool or a tensor"
            same = truth.value
        result = same if result is None else e.value("aten::__and__.bool", node, result, same)
    return result or e.at(node).constant(True)


def _joined_objects(e: Emitter, node: ast.Syntax, pairs: list[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """The pairs, those that may be NaN as two lists: these say where Python knows NaN by the object that it is."""
    of_tensors = [pair for pair in pairs if all(is_tensor(value.type) for value in pair)]
    of_floats = [pair for pair in pairs if all(value.type == FLOAT for value in pair)]
    found = [pair for pair in pairs if pair not in of_tensors and pair not in of_floats]
    for objects in filter(None, (of_tensors, of_floats)):
        mine, other = ([pair[side] for pair in objects] for side in (0, 1))
        found.append((e.at(node).list(mine), e.at(node).list(other)))
    return found
