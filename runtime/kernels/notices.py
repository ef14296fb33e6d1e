"""What is told of kernels in passing, once: that there are none, or none for a function, why, and on which line.

RuntimeWarning: f runs op by op: a list of lists of tensors is given
  --> norm.grad:2:5: return F.rms_norm(x * torch.sigmoid(x), [x.size(-1)], weight, 1e-6)
"""

from __future__ import annotations

import warnings

from ...compiler.fusion.straight import Unfusable
from ...compiler.ir.graph import Graph
from ...lang.callers import calling_frame
from ...lang.source import NO_SPAN, Span
from ..settings.modes import settings

TOLD: set[str] = set()


def tell(message: str, of: str = "") -> None:
    """One notice of a kind, at the user's call: with this message, or, whatever the message says, `of` this."""
    if (of or message) not in TOLD:
        TOLD.add(of or message)
        _, level = calling_frame()
        warnings.warn(message, RuntimeWarning, stacklevel=level)


def tell_of_ops(graph: Graph, reason: Exception | str) -> None:
    """That a graph runs op by op, though kernels are to run it."""
    span = span_of(reason, graph)
    line = span.source.line(span.line).strip() if span.text else ""
    tell(f"{graph.title} runs op by op: {reason}" + (f"\n  --> {span}: {line}" if line else ""))


def tell_unless_auto(graph: Graph, reason: Exception | str) -> None:
    """The same of kernels in C, where somebody asked for these."""
    if settings.backend != "auto":
        tell_of_ops(graph, reason)


def span_of(reason: Exception | str, graph: Graph) -> Span:
    """Where in a user's source it lies that a graph has no kernels: the function at least."""
    span = reason.span if isinstance(reason, Unfusable) else NO_SPAN
    return span if span.text and not span.source.is_library else graph.span
