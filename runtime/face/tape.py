"""gs.tape: Variables, functions of one's own, gradients, and whether anything is recorded."""

from __future__ import annotations

from ..tape.backward import tape_grad as grad
from ..tape.custom import TapeFunction as Function
from ..tape.mode import enable_grad, is_grad_enabled, no_grad
from .variable import Variable

__all__ = ["Function", "Variable", "enable_grad", "grad", "is_grad_enabled", "no_grad"]
