"""A node that fails, told in terms of the source: which op, on what, where, and called from where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.ir.graph import backward_of
from ...compiler.ir.node import Node
from ...compiler.ir.structure import GRADIENT_OF, spelled
from ...compiler.ops.families.language.control import GradientMisfit
from ...compiler.ops.families.language.properties import GradscriptRaise
from ...compiler.shapes.propagate import ShapeError
from ...compiler.types.types import TENSOR_LIST
from ..values.describe import describe_operands
from .failure import RuntimeFailure
from .wording import in_our_words

RAISE = "prim::RaiseException"
MAX_CALLERS = 5
"""A message names this many of the calls that led to a failure."""


def failure_at(
    node: Node,
    operands: Sequence[Any],
    error: BaseException,
    function: str,
    callers: Sequence[tuple[str, Node]],
    notes: Sequence[str] = (),
) -> RuntimeFailure:
    """What to raise for an error of a node that stands in `function`.

    `callers` has the function and the node of each call that led there, from the inside out. What fails inside a
    formula of the library is told at the user's line that led there.
    """
    inner = node
    if node.span.source.is_library:
        outside = next((i for i, (_, call) in enumerate(callers) if not call.span.source.is_library), None)
        if outside is not None:
            (function, node), callers = callers[outside], callers[outside + 1 :]
            notes = [f"by {inner.kind} at {inner.span}", *notes]
    calls = notes_of_calls(callers)
    if inner.kind == RAISE:
        return RuntimeFailure("R102", function, _message(error), span=node.span, notes=[*notes, *calls])
    if isinstance(error, GradientMisfit):
        note = "a backward returns a list with one gradient for each element of its argument, in the element's shape"
        return RuntimeFailure(
            "R105",
            backward_of(error.function),
            str(error),
            argument=error.argument,
            span=node.span,
            notes=[note, *notes, *calls],
        )
    if GRADIENT_OF in inner.attrs and not isinstance(error, MemoryError):
        return _wrong_gradient(node, operands, [*notes, *calls])
    code = "R103" if isinstance(error, MemoryError) else "R101"
    described = describe_operands(inner, operands)
    message = _undefined_element(inner, operands) or _message(error)
    return RuntimeFailure(code, spelled(node) or function, message, span=node.span, notes=[*described, *notes, *calls])


def notes_of_calls(callers: Sequence[tuple[str, Node]]) -> list[str]:
    """What is said of the calls that led somewhere, from the inside out."""
    calls = [f"called from {caller} at {call.span}" for caller, call in callers[:MAX_CALLERS]]
    if len(callers) > MAX_CALLERS:
        calls.append(f"and {len(callers) - MAX_CALLERS} more calls before that")
    return calls


def _wrong_gradient(node: Node, operands: Sequence[Any], notes: Sequence[str]) -> RuntimeFailure:
    """A user's backward gave a gradient that is not in the shape of its argument."""
    (function, name), (gradient, size) = node.attrs[GRADIENT_OF], operands
    message = f"the gradient of '{name}' has shape {list(gradient.shape)}, the argument {list(size)}"
    advice = f"a backward returns gradients in the shapes of the inputs: `.sum_to_size({name}.size())`"
    return RuntimeFailure("R101", backward_of(function), message, argument=name, span=node.span, notes=[advice, *notes])


def _undefined_element(node: Node, operands: Sequence[Any]) -> str | None:
    """What is wrong where an op got a list of tensors with a gradient in it that is none; None where nothing is."""
    for argument, operand in zip(node.schema.arguments if node.schema is not None else (), operands, strict=False):
        if argument.type == TENSOR_LIST and isinstance(operand, list) and any(value is None for value in operand):
            at = [value is None for value in operand].index(True)
            zeros = "`gs.materialize_grad(g, size, dtype)` makes zeros of it"
            return f"element {at} of '{argument.name}' is a gradient that nobody computed: {zeros}"
    return None


def _message(error: BaseException) -> str:
    """What went wrong in one line, with the kind of the error where the text does not tell it."""
    if isinstance(error, GradscriptRaise):
        kind = error.kind or "RuntimeError"
        return f"{kind}: {error}" if str(error) else kind
    # Of a number and a text, as C gives them, the text tells.
    told = error.args[1] if isinstance(error, OverflowError) and len(error.args) == 2 else error
    text = in_our_words(" ".join(str(told).split()))
    if isinstance(error, KeyError):
        text = f"unknown key {text}"
    return text or type(error).__name__


def misfit_failure(error: ShapeError) -> RuntimeFailure:
    """What running an op would say of the same arguments, and where in the library it comes to light."""
    assert error.__cause__ is not None
    inner = error.inner
    notes = [f"by {inner.kind} at {inner.span}"] if inner is not None else []
    return failure_at(error.node, error.inputs, error.__cause__, error.function, error.callers, notes)
