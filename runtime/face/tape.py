"""The tape as users see it: Variables, functions of their own, gradients, and whether anything is recorded."""

from __future__ import annotations

from ..tape.backward import tape_grad
from ..tape.custom import TapeFunction
from ..tape.mode import enable_grad, is_grad_enabled, no_grad
from .variable import Variable

__all__ = ["TapeFunction", "Variable", "enable_grad", "is_grad_enabled", "no_grad", "tape_grad"]
