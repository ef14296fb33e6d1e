"""Gradscript: write a gradient as a closure; get a checked, differentiable, fused operator.

    import gradscript as gs

    cu = gs.CompilationUnit(source)
    out, pullback = gs.vjp(cu.mul, x, y)

Names load their modules when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .authoring.check import check
    from .authoring.registration import register_formula
    from .compiler.ir.parser import parse_ir
    from .compiler.lift import GradPair
    from .lang.diagnostics import CompileError
    from .runtime.execution.executor import last_executed_graph, register_pass
    from .runtime.face.function import Function
    from .runtime.face.operators import ops
    from .runtime.face.script import script
    from .runtime.face.tape import TapeFunction, Variable, enable_grad, is_grad_enabled, no_grad, tape_grad
    from .runtime.face.trace import trace
    from .runtime.face.transforms import grad, value_and_grad, vjp
    from .runtime.face.unit import CompilationUnit
    from .runtime.failures.failure import RuntimeFailure
    from .runtime.settings.counters import counters, reset_counters
    from .runtime.settings.modes import (
        set_autodiff_debugging,
        set_autotuning,
        set_capture_checking,
        set_optimize,
        set_profiling,
    )
    from .runtime.settings.random import local_seed, manual_seed
    from .runtime.tracing.traced import TracerWarning

__version__ = "0.1.0"

_HOMES = {
    "CompilationUnit": "runtime.face.unit",
    "CompileError": "lang.diagnostics",
    "Function": "runtime.face.function",
    "GradPair": "compiler.lift",
    "RuntimeFailure": "runtime.failures.failure",
    "TapeFunction": "runtime.face.tape",
    "TracerWarning": "runtime.tracing.traced",
    "Variable": "runtime.face.tape",
    "check": "authoring.check",
    "counters": "runtime.settings.counters",
    "enable_grad": "runtime.face.tape",
    "grad": "runtime.face.transforms",
    "is_grad_enabled": "runtime.face.tape",
    "last_executed_graph": "runtime.execution.executor",
    "local_seed": "runtime.settings.random",
    "manual_seed": "runtime.settings.random",
    "no_grad": "runtime.face.tape",
    "ops": "runtime.face.operators",
    "parse_ir": "compiler.ir.parser",
    "register_formula": "authoring.registration",
    "register_pass": "runtime.execution.executor",
    "reset_counters": "runtime.settings.counters",
    "script": "runtime.face.script",
    "set_autodiff_debugging": "runtime.settings.modes",
    "set_capture_checking": "runtime.settings.modes",
    "set_optimize": "runtime.settings.modes",
    "set_autotuning": "runtime.settings.modes",
    "set_profiling": "runtime.settings.modes",
    "tape_grad": "runtime.face.tape",
    "trace": "runtime.face.trace",
    "value_and_grad": "runtime.face.transforms",
    "vjp": "runtime.face.transforms",
}
"""The module that each public name comes from."""

__all__ = [
    "CompilationUnit",
    "CompileError",
    "Function",
    "GradPair",
    "RuntimeFailure",
    "TapeFunction",
    "TracerWarning",
    "Variable",
    "__version__",
    "check",
    "counters",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "last_executed_graph",
    "local_seed",
    "manual_seed",
    "no_grad",
    "ops",
    "parse_ir",
    "register_formula",
    "register_pass",
    "reset_counters",
    "script",
    "set_autodiff_debugging",
    "set_autotuning",
    "set_capture_checking",
    "set_optimize",
    "set_profiling",
    "tape_grad",
    "trace",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
