"""What reductions leave of a shape."""

from __future__ import annotations

from ...arguments import Arguments, Shape
from ...dims import axes_of


def reduced(a: Arguments) -> Shape:
    """Over `dim`, by default all; `keepdim` keeps what is reduced as 1."""
    shape = a.shape("self")
    axes = axes_of(a.get("dim"), len(shape))
    if a.get("keepdim", False):
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def reduced_over(a: Arguments) -> Shape:
    """As `reduced`, but over a list of no dimensions nothing is."""
    return a.shape("self") if a.get("dim") == [] else reduced(a)
