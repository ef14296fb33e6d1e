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
    from .authoring.convert.converter import convert
    from .authoring.derive.derivation import derive
    from .authoring.export.face import export
    from .authoring.registration import register_formula
    from .compiler.parse_ir import parse_ir
    from .lang.diagnostics import CompileError
    from .runtime.face import compiler_debug, memory, random, tape
    from .runtime.face.function import Function
    from .runtime.face.graphed import graphed
    from .runtime.face.operators import ops
    from .runtime.face.pair import GradPair
    from .runtime.face.torch_op import torch_op
    from .runtime.face.trace import trace
    from .runtime.face.transforms import grad, value_and_grad, vjp
    from .runtime.face.units.files import load
    from .runtime.face.units.script import script
    from .runtime.face.units.unit import CompilationUnit
    from .runtime.failures.failure import RuntimeFailure
    from .runtime.settings.modes import settings
    from .runtime.tracing.traced import TracerWarning

__version__ = "0.1.0"

_HOMES = {
    "CompilationUnit": "runtime.face.units.unit",
    "CompileError": "lang.diagnostics",
    "Function": "runtime.face.function",
    "GradPair": "runtime.face.pair",
    "RuntimeFailure": "runtime.failures.failure",
    "TracerWarning": "runtime.tracing.traced",
    "check": "authoring.check",
    "compiler_debug": "runtime.face",
    "convert": "authoring.convert.converter",
    "derive": "authoring.derive.derivation",
    "export": "authoring.export.face",
    "grad": "runtime.face.transforms",
    "graphed": "runtime.face.graphed",
    "load": "runtime.face.units.files",
    "memory": "runtime.face",
    "ops": "runtime.face.operators",
    "parse_ir": "compiler.parse_ir",
    "random": "runtime.face",
    "register_formula": "authoring.registration",
    "script": "runtime.face.units.script",
    "settings": "runtime.settings.modes",
    "tape": "runtime.face",
    "torch_op": "runtime.face.torch_op",
    "trace": "runtime.face.trace",
    "value_and_grad": "runtime.face.transforms",
    "vjp": "runtime.face.transforms",
}
"""The module that each public name comes from."""

_ROOMS = {"compiler_debug", "memory", "random", "tape"}
"""Names that are modules of the face themselves."""

__all__ = [
    "CompilationUnit",
    "CompileError",
    "Function",
    "GradPair",
    "RuntimeFailure",
    "TracerWarning",
    "__version__",
    "check",
    "compiler_debug",
    "convert",
    "derive",
    "export",
    "grad",
    "graphed",
    "load",
    "memory",
    "ops",
    "parse_ir",
    "random",
    "register_formula",
    "script",
    "settings",
    "tape",
    "torch_op",
    "trace",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ROOMS:
        value: Any = importlib.import_module(f"{__name__}.{home}.{name}")
    else:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
