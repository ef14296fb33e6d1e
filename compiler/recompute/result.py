"""What a policy made of a gradient, as data."""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass
from ...lang.source import Span
from ..autodiff.gradient import Gradient
from ..ir.node import Value


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """What becomes of one value of f that the backward could keep.

    `nbytes` is what keeping it would cost (None where its shape is not known): 0 for what lives anyway, which are the
    inputs and the outputs of the function, numbers, and views of what is kept.
    """

    value: Value
    name: str
    nbytes: int | None
    span: Span
    saved: bool
    reason: str


@dataclass(frozen=True, eq=False, slots=True)
class Recomputed:
    """A gradient under a policy.

    `policy` is the one in force, "save_all" where the one asked for would not have won. Bytes are None where shapes are
    not known: `saved_bytes` is what the backward keeps of the forward, beyond the function's inputs and outputs; the
    peaks are estimates of what f and df hold at once, arguments and cotangents left out, under "save_all" and under
    the policy in force.
    """

    gradient: Gradient
    decisions: tuple[Decision, ...]
    policy: str
    saved_bytes: int | None
    peak_before: int | None
    peak_after: int | None
