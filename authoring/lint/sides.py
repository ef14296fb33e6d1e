"""Sides of where() that make NaN where they are not taken, and the operand that is harmless there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...compiler.ir.graph import Callee
from ...compiler.ir.node import Node, Value, walk
from ...compiler.ir.rewrite import constant_of
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import is_tensor
from ...lang.light_dataclasses import dataclass
from ...lang.source import Source
from .findings import Edit, Finding, stands_in
from .sameness import are_the_same


@dataclass(frozen=True, slots=True)
class _TakenSide:
    """What an op takes where a condition holds, or does not."""

    value: Value
    condition: Value
    where_true: bool


@dataclass(frozen=True, slots=True)
class _Singular:
    """Where a function has no slope or an infinite one, and a number where it has a plain one."""

    at: Callable[[float], bool]
    plain: int
    at_zero: bool = True
    """Whether it is singular where what goes through its numbers must come by: at 0."""


_POLE = _Singular(lambda number: number == 0, 1)
_ROOT = _Singular(lambda number: number <= 0, 1)
_INSIDE = _Singular(lambda number: abs(number) >= 1, 0, at_zero=False)
_SINGULAR = {
    **dict.fromkeys(("log", "log2", "log10", "reciprocal", "div"), _POLE),
    **dict.fromkeys(("sqrt", "rsqrt", "pow"), _ROOT),
    **dict.fromkeys(("acos", "asin", "atanh"), _INSIDE),
    "log1p": _Singular(lambda number: number == -1, 0, at_zero=False),
    "acosh": _Singular(lambda number: number <= 1, 2, at_zero=False),
}

_THROUGH_ZERO = frozenset(("mul", "neg", "abs", "square", "relu", "sub", "rsub", "div"))
"""What is 0 somewhere if a tensor under it goes through its numbers."""


def dead_sides(callee: Callee, source: Source) -> Iterator[Finding]:
    """Sides of where() and masked_fill() that make NaN where they are not taken, in what is differentiated through."""
    if callee.pair is not None:
        return
    for node in walk(callee.graph.nodes):
        for side in _sides(node):
            culprit = _partial(side)
            if culprit is None or not stands_in(culprit.span, source):
                continue
            operand, singular = _operand(culprit), _singular(culprit)
            assert singular is not None
            text = operand.name_hint.partition(".")[0] or operand.node.span.text
            condition = side.condition.name_hint.partition(".")[0] or side.condition.node.span.text
            chosen = f"{text}, {singular.plain}" if side.where_true else f"{singular.plain}, {text}"
            rewrite = f"torch.where({condition}, {chosen})"
            name = node.schema.base_name if node.schema is not None else "where"
            message = f"the gradient of `{culprit.span.text}` is NaN or infinite also where {name}() does not take it"
            note = f"give it a harmless operand there: `{rewrite}` in the place of `{text}`"
            edit = _edit(node, culprit, text, rewrite)
            if not _keeps_places(side.value, culprit):
                note = f"give it an operand that is harmless there, such as {singular.plain}, in the place of `{text}`"
                edit = None
            yield Finding("L301", message, culprit.span, note, edit)


def _sides(node: Node) -> Iterator[_TakenSide]:
    name = node.schema.base_name if node.schema is not None else ""
    if name == "where" and len(node.inputs) == 3:
        yield _TakenSide(node.inputs[1], node.inputs[0], True)
        yield _TakenSide(node.inputs[2], node.inputs[0], False)
    elif name == "masked_fill":
        yield _TakenSide(node.inputs[0], node.inputs[1], False)


def _singular(node: Node) -> _Singular | None:
    name = node.schema.base_name if node.schema is not None else ""
    if name == "div" and not is_tensor(node.inputs[1].type):
        return None
    if name == "pow":
        power = constant_of(node.inputs[1])
        if not isinstance(power, int | float) or (float(power).is_integer() and power >= 0):
            return None
        return _POLE if float(power).is_integer() else _ROOT
    return _SINGULAR.get(name)


def _partial(side: _TakenSide) -> Node | None:
    """What on the way to a side is not defined everywhere, of something that the condition asks about."""
    asked = _tensors_below(side.condition)
    waiting, seen = [side.value], {side.value}
    while waiting:
        node = waiting.pop().node
        singular = _singular(node)
        if singular is not None and _is_asked(node, singular, side, asked):
            return node
        for inner in node.inputs:
            taken_apart = node.schema is not None and node.schema.base_name in ("where", "masked_fill")
            if inner not in seen and is_tensor(inner.type) and not taken_apart:
                seen.add(inner)
                waiting.append(inner)
    return None


def _is_asked(node: Node, singular: _Singular, side: _TakenSide, asked: set[Value]) -> bool:
    """Whether a condition asks about the operand of a function, and leaves it where the function is singular."""
    operand = _operand(node)
    if not _has_gradient(operand):
        return False
    if operand in asked or any(are_the_same(operand, one) for one in asked if one.node.kind == operand.node.kind):
        return _reaches(side, operand, singular)
    return singular.at_zero and _goes_through_zero(operand, asked)


def _goes_through_zero(operand: Value, asked: set[Value]) -> bool:
    waiting = [operand]
    while waiting:
        value = waiting.pop()
        if value in asked:
            return True
        if value.node.schema is not None and value.node.schema.base_name in _THROUGH_ZERO:
            waiting += [inner for inner in value.node.inputs if is_tensor(inner.type)]
    return False


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "gt": float.__gt__,
    "ge": float.__ge__,
    "lt": float.__lt__,
    "le": float.__le__,
    "eq": float.__eq__,
    "ne": float.__ne__,
}


def _reaches(side: _TakenSide, operand: Value, singular: _Singular) -> bool:
    """Whether an operand may be where a function is singular while the side is not taken.

    What compares the operand with a number says so; any other condition may.
    """
    node = side.condition.node
    compared = _COMPARISONS.get(node.schema.base_name if node.schema is not None else "")
    bound = constant_of(node.inputs[1]) if compared is not None and len(node.inputs) > 1 else None
    if compared is None or not isinstance(bound, int | float) or not are_the_same(node.inputs[0], operand):
        return True
    near = (*range(-3, 4), bound - 1, bound, bound + 1)
    return any(singular.at(n) and compared(float(n), float(bound)) != side.where_true for n in near)


def _edit(node: Node, culprit: Node, text: str, rewrite: str) -> Edit | None:
    """The rewrite, where the text of the one stands in that of the other."""
    whole, span = node.span, culprit.span
    if not (span.source is whole.source and whole.start <= span.start < span.end <= whole.end):
        return None
    places = list(re.finditer(rf"(?<![\w.]){re.escape(text)}(?!\w)", span.text))
    if len(places) != 1:
        return None
    return Edit(span.start + places[0].start(), span.start + places[0].end(), rewrite)


def _keeps_places(side: Value, culprit: Node) -> bool:
    """Whether all between what is singular and where() goes element by element."""
    waiting, seen = [side], {side}
    while waiting:
        node = waiting.pop().node
        if node is culprit:
            return True
        for inner in node.inputs if OPS.has(node.schema, Trait.POINTWISE) else ():
            if inner not in seen and is_tensor(inner.type):
                seen.add(inner)
                waiting.append(inner)
    return False


def _operand(node: Node) -> Value:
    """What decides whether a function is defined."""
    return node.inputs[1] if node.schema is not None and node.schema.base_name == "div" else node.inputs[0]


def _has_gradient(value: Value) -> bool:
    """Whether a gradient goes back from a value to an argument: none does through what is a constant."""
    waiting, seen = [value], {value}
    while waiting:
        node = waiting.pop().node
        if node.kind == "prim::Param":
            return True
        if node.schema is not None and node.schema.base_name in ("detach", "constant"):
            continue
        for inner in node.inputs:
            if inner not in seen and is_tensor(inner.type):
                seen.add(inner)
                waiting.append(inner)
    return False


def _tensors_below(value: Value) -> set[Value]:
    waiting, seen = [value], {value}
    while waiting:
        for inner in waiting.pop().node.inputs:
            if inner not in seen and is_tensor(inner.type):
                seen.add(inner)
                waiting.append(inner)
    return seen
