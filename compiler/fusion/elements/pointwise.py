"""Elements of pointwise ops, conversions and sums of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...ir.structure import UNROUNDED
from ...kernel_ir.kernel import KernelConstant, Operand
from ...ops.arrays import as_half, numpy_dtype
from ...ops.elementwise import SYMBOLIC, Pointwise, SpecializedOp
from ...ops.meta import Meta, UnknownType, is_known
from ...ops.registry import OPS
from ...ops.scalar import CHOICES, CONSTANT, LIMITS, PARAMETER, PRIMITIVES
from ...types.dtypes import BOOL, FLOAT16, DType
from ...types.types import BOOL as BOOL_TYPE
from ...types.types import INT, NUMBERS
from .body import Body, register_dtype
from .rule import ElementPlace, Elements, KnownFacts, LoadGuards, as_dtype

MAX_ASKED = 32
"""Answers that are kept of an op: targets are few, but for those that are made up."""
_EQUALITIES = ("eq", "ne")


def _samples(node: Node, known: KnownFacts) -> list[Any]:
    """Arguments that stand for the real ones where only their dtypes and ranks matter."""
    return [_sample(value, known.get(value)) for value in node.inputs]


def _sample(value: Value, found: Any) -> Any:
    if isinstance(found, Meta):
        return np.ones((1,) * found.rank, numpy_dtype(found.dtype))
    if isinstance(found, UnknownType) and value.type in NUMBERS:
        return 1 if value.type in (INT, BOOL_TYPE) else 1.0
    return found


def _specialization(node: Node, known: KnownFacts) -> SpecializedOp:
    op = OPS.of(node.schema)
    assert op is not None
    scalar: Pointwise = op.scalar
    if not scalar.static:
        return scalar.specialize(())
    found = [known.get(value) for value in node.inputs]
    return scalar.specialize([SYMBOLIC if isinstance(f, Meta | UnknownType) else f for f in found])


def _dtypes(special: SpecializedOp, node: Node, known: KnownFacts) -> tuple[DType, DType]:
    """The dtype to compute in and that of the result; remembered, as they are the same for many nodes."""
    kinds = tuple([_kind(value, known.get(value)) for value in node.inputs])
    found = special.decided.get(kinds)
    if found is None:
        found = special.decided[kinds] = special.dtypes(_samples(node, known))
    return found


def _kind(value: Value, found: Any) -> Any:
    """What a dtype may follow from: of a number its type."""
    if isinstance(found, Meta):
        return found.dtype, found.rank
    return value.type if isinstance(found, UnknownType) else type(found)


def pointwise_fits(node: Node, known: KnownFacts, supports: Callable[[str, DType], bool]) -> bool:
    for index, value in enumerate(node.inputs):
        found = known.get(value)
        number = isinstance(found, UnknownType) and value.type in NUMBERS
        if not (number or is_known(found)) or (number and index in _static_arguments(node)):
            return False
    try:
        special = _specialization(node, known)
        compute, _ = _dtypes(special, node, known)
    except Exception:
        return False
    asked = compute, supports
    found = special.supported.get(asked)
    if found is None:
        if len(special.supported) >= MAX_ASKED:
            special.supported.clear()
        found = special.supported[asked] = _is_supported(special, compute, supports)
    return found


def _is_supported(special: SpecializedOp, compute: DType, supports: Callable[[str, DType], bool]) -> bool:
    if compute.is_half:
        return False
    kinds = [step.kind for step in special.steps]
    for step in special.steps:
        # What is decided within an op on floats, as whether one is infinite and positive, is decided of bools.
        decides = bool(step.operands) and all(kinds[operand] == "bool" for operand in step.operands)
        dtype = BOOL if decides else compute
        if step.operands and not all(supports(name, dtype) for name in _names(step.op, dtype)):
            return False
    return True


def _names(op: str, compute: DType) -> list[str]:
    """The primitives that may take part in a step."""
    choice = CHOICES.get(op)
    if choice is None:
        return [op]
    return [choice.otherwise, *(choice.cases.values() if compute.is_floating else ())]


def functions_within(node: Node, known: KnownFacts) -> int:
    """How many functions, as sines, an element of a pointwise op is computed by: each takes as long as many sums."""
    return sum(step.op in PRIMITIVES and PRIMITIVES[step.op].floating for step in _specialization(node, known).steps)


def _static_arguments(node: Node) -> Sequence[int]:
    op = OPS.of(node.schema)
    assert op is not None
    arguments = op.schema.arguments
    return [i for i in op.scalar.static if str(arguments[i].type) in ("int", "bool", "str")]


def pointwise_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    special = _specialization(node, group.known)
    compute, result = _dtypes(special, node, group.known)
    hint = node.output.name_hint
    body, made = group.body, []
    last = len(special.steps) - 1
    for number, step in enumerate(special.steps):
        if step.op == PARAMETER:
            dtype = BOOL if step.kind == "bool" else compute
            operand = yield _argument(group, node.inputs[step.value], dtype, place, guards)
            operand = _as_stored(group, node, node.inputs[step.value], operand, dtype)
            half = _half_of(special, node, group.known) if step.value in special.rounded else None
            made.append(operand if half is None else _rounded(group, node.inputs[step.value], operand, half))
        elif step.op == CONSTANT:
            made.append(_literal(body, step.value, compute))
        elif step.op in LIMITS:
            limit = LIMITS[step.op](numpy_dtype(result))
            made.append(KernelConstant(limit if isinstance(limit, int) else limit.item()))
        else:
            dtype = BOOL if step.kind == "bool" else compute
            operands = [made[o] for o in step.operands]
            made.append(_primitive(body, hint if number == last else "", step.op, dtype, operands, result))
    return as_dtype(group, made[-1], compute if special.steps[-1].kind == "number" else BOOL, result)


def _as_stored(group: Elements, node: Node, value: Value, operand: Operand, dtype: DType) -> Operand:
    """What is asked whether it is equal to another, as memory has it: among halves as kernels compute them, in float32,
    the median of rounded ones need not be."""
    op, found = OPS.of(node.schema), group.known.get(value)
    if op is None or op.schema.base_name not in _EQUALITIES or not isinstance(found, Meta) or not found.dtype.is_half:
        return operand
    if isinstance(operand, KernelConstant):
        return operand
    return group.body.cast(group.body.cast(operand, found.dtype), dtype)


def _half_of(special: SpecializedOp, node: Node, known: KnownFacts) -> DType | None:
    """The half that the arguments are promoted to; None where it is none."""
    metas = [known.get(value) for value in node.inputs]
    if not any(isinstance(found, Meta) and found.dtype.is_half for found in metas):
        return None
    return special.common_half(_samples(node, known))


def _rounded(group: Elements, value: Value, operand: Operand, half: DType) -> Operand:
    """A number or an element of a wider tensor as a half holds it, in float32."""
    found = group.known.get(value)
    if isinstance(found, Meta) and (found.dtype == half or not found.dtype.is_floating):
        return operand
    if isinstance(operand, KernelConstant):
        return KernelConstant(as_half(operand.value, half))
    wide = register_dtype(half)
    return group.body.cast(group.body.cast(group.body.cast(operand, wide), half), wide)


def _primitive(body: Body, hint: str, name: str, dtype: DType, operands: Sequence[Operand], result: DType) -> Operand:
    """A primitive; of a choice what a literal chooses, or all of them where the number is not known yet."""
    choice = CHOICES.get(name)
    if choice is None:
        return body.compute(hint, name, dtype, operands)
    given, number = operands[:-1], operands[-1]
    cases = choice.cases if dtype.is_floating and result != FLOAT16 else {}
    if isinstance(number, KernelConstant) and number.value in cases:
        return body.compute(hint, cases[number.value], dtype, given)
    found = body.compute(hint, choice.otherwise, dtype, operands)
    if isinstance(number, KernelConstant):
        return found
    for value, chosen in cases.items():
        is_value = body.compute("", "eq", BOOL, [number, KernelConstant(value)])
        found = body.where(is_value, body.compute("", chosen, dtype, given), found, dtype)
    return found


def _literal(body: Body, number: Any, dtype: DType) -> Operand:
    """A number that is known; among integers what it is in their dtype, with which it is compared as well."""
    return body.cast(KernelConstant(number), dtype) if dtype.category == 1 else KernelConstant(number)


def _argument(group: Elements, value: Value, dtype: DType, place: ElementPlace, guards: LoadGuards) -> Walk:
    """An argument of a pointwise op: an element of a tensor that is broadcast to the result, or a number."""
    found = group.known.get(value)
    if not isinstance(found, Meta):
        yield from ()
        given = found is None or isinstance(found, UnknownType)
        return group.number(value) if given else _literal(group.body, found, dtype)
    operand = yield group.element(value, place[len(place) - found.rank :], guards)
    return as_dtype(group, operand, register_dtype(found.dtype), dtype)


def add_gradients(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    dtype = group.known[node.output].dtype
    parts = []
    for value in node.inputs:
        if group.known.get(value) is not None:
            parts.append((yield _argument(group, value, register_dtype(dtype), place, guards)))
    if len(parts) == 1:
        return parts[0]
    return group.body.compute(node.output.name_hint, "add", register_dtype(dtype), parts)


def cast_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """A conversion rounds where it is written, also to halves. What has 8 bits is in a half what it is, and so is what
    kernels are to go on with."""
    source, wanted = group.known[node.inputs[0]].dtype, group.known[node.output].dtype
    operand = yield group.element(node.inputs[0], place, guards)
    if wanted == source or UNROUNDED in node.attrs:
        return operand
    is_exact = not source.is_floating and source.itemsize == 1
    if wanted.is_half and not is_exact and not isinstance(operand, KernelConstant):
        rounded = group.body.cast(operand, wanted)
        return group.body.cast(rounded, register_dtype(wanted))
    return as_dtype(group, operand, register_dtype(source), wanted)


def same_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    return (yield group.element(node.inputs[0], place, guards))


def materialized(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    if group.known.get(node.inputs[0]) is not None:
        return (yield group.element(node.inputs[0], place, guards))
    return KernelConstant(0)
