"""Every op, declared once, by family. `registry.OPS` finds them."""

from .registry import OPS, Op, Trait, declare

__all__ = ["OPS", "Op", "Trait", "declare"]
