"""Values in messages: `self: float64[2, 3]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.ir.node import Node
from ...compiler.ops.meta import UNKNOWN, Meta
from ...compiler.types.lazy_numpy import np
from .recorded import Recorded
from .torch_dtypes import torch_name

MAX_ITEMS = 6
"""Elements of a list that a message shows."""
MAX_TEXT = 40
"""Characters of a string or number that a message shows."""


def describe(value: Any) -> str:
    """A value in a few words: dtype and shape of an array, the elements of a list, a number itself."""
    if isinstance(value, Recorded):
        return describe(value.peek())
    if isinstance(value, Meta):
        return str(value)
    if value is UNKNOWN:
        return "not known before it runs"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "shape"):
        # Of a tensor on a device the elements would have to be waited for.
        return f"{torch_name(value.dtype)}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, list | tuple):
        shown = ", ".join([describe(item) for item in value[:MAX_ITEMS]])
        more = f", … {len(value)} in all" if len(value) > MAX_ITEMS else ""
        return f"[{shown}{more}]" if isinstance(value, list) else f"({shown}{more})"
    if isinstance(value, int) and abs(value) >= 10**MAX_TEXT:
        # A huge int is not even converted: Python limits the digits, and the time would be quadratic.
        return f"an int of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def describe_operands(node: Node, values: Sequence[Any]) -> list[str]:
    """One line with every operand of a node that fails, under the names of its schema."""
    if node.schema is not None:
        names = [argument.name for argument in node.schema.arguments]
    else:
        names = [value.name_hint or f"input {i}" for i, value in enumerate(node.inputs)]
    shown = [f"{name}: {describe(value)}" for name, value in zip(names, values, strict=False)]
    return [", ".join(shown)] if shown else []
