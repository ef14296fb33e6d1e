"""`torch.no_grad()` and its like: what a `with` may enter."""

from __future__ import annotations

from .. import ast

_MODES = {"no_grad": False, "inference_mode": False, "enable_grad": True}
_MODULES = ("torch", "torch.autograd", "gs")
SETTERS = ("set_grad_enabled", "inference_mode")
"""Those that may be told: `torch.set_grad_enabled(False)`."""


def grad_mode_of(node: ast.Expr) -> bool | None:
    """Whether gradients flow from what is computed in a context; None for an expression that is no such context."""
    match node:
        case ast.Call(function=ast.Attribute(value=module, name=name), args=args, keywords=()):
            if _dotted(module) not in _MODULES:
                return None
        case _:
            return None
    match args:
        case ():
            return _MODES.get(name)
        case (ast.Constant(value=bool(value)),) if name in SETTERS:
            return value if name == "set_grad_enabled" else not value
    return None


def _dotted(node: ast.Expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=root), name=name):
            return f"{root}.{name}"
    return ""
