"""A node that fails, told in terms of the source: which op, on what, where, and called from where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compiler.ir import Node
from ..compiler.ops.prim import GradscriptRaise
from .describe import describe_operands
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

    `callers` has the function and the node of each call that led there, from the inside out.
    """
    calls = [f"called from {caller} at {call.span}" for caller, call in callers[:MAX_CALLERS]]
    if len(callers) > MAX_CALLERS:
        calls.append(f"and {len(callers) - MAX_CALLERS} more calls before that")
    if node.kind == RAISE:
        return RuntimeFailure("R102", function, _message(error), span=node.span, notes=[*notes, *calls])
    code = "R103" if isinstance(error, MemoryError) else "R101"
    op = node.attrs.get("callee", node.kind)
    described = describe_operands(node, operands)
    return RuntimeFailure(code, op, _message(error), span=node.span, notes=[*described, *notes, *calls])


def _message(error: BaseException) -> str:
    """What went wrong in one line, with the kind of the error where the text does not tell it."""
    if isinstance(error, GradscriptRaise):
        kind = error.kind or "RuntimeError"
        return f"{kind}: {error}" if str(error) else kind
    text = in_our_words(" ".join(str(error).split()))
    if isinstance(error, KeyError):
        text = f"unknown key {text}"
    return text or type(error).__name__
