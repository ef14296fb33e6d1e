"""Which shapes fit an op, beyond what its result's shape asks: so that kernels refuse what a call on arrays does.

A rule of shapes reads what the result's shape depends on; a weight's shape, for one, does not show there. What an op
declares as `fits` is asked before the rule, with what is known; what depends on elements only a run can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .arguments import Arguments, Shape
from .dims import wrap_dim, wrap_dims
from .meta import Meta


def shapes_given(a: Arguments, *names: str) -> list[Shape]:
    """The shapes of those of some tensors that are there."""
    found = [a.get(name) for name in names]
    return [tensor.shape for tensor in found if isinstance(tensor, Meta)]


def is_broadcast_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a shape can be broadcast to another and no further."""
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    return len(shape) <= len(target) and all(own in (1, size) for own, size in zip(padded, target, strict=True))


def misfit(a: Arguments, text: str) -> RuntimeError:
    """The error of an op that its arguments do not fit."""
    return RuntimeError(f"{a.schema.base_name}: {text}")


def require_one_for_each(a: Arguments, count: int, what: str, *names: str) -> None:
    """That tensors are vectors over channels or classes; one number serves all, and one channel takes any."""
    for shape in shapes_given(a, *names):
        if count != 1 and prod(shape) not in (1, count):
            raise misfit(a, f"expected one number for each of {count} {what}, but got shape {list(shape)}")


# --- checks ---


def has_dimension(a: Arguments) -> None:
    wrap_dim(a["dim"], len(a.at(0)))


def has_dimensions(a: Arguments) -> None:
    wrap_dims(a["dims"], len(a.at(0)))


def is_matrix(a: Arguments) -> None:
    rank = len(a.at(0))
    name = a.schema.base_name
    least = 1 if name == "flipud" else 2
    if rank < least or (name == "trace" and rank > 2):
        raise misfit(a, f"expected {least} dimensions, but got a tensor of shape {list(a.at(0))}")


def require_no_dimensions(a: Arguments) -> None:
    """A number is wanted, for which torch takes no tensor that has dimensions, of whatever size."""
    for shape in shapes_given(a, a.schema.arguments[0].name):
        if shape:
            message = (
                f"a number is wanted, and a tensor of shape {list(shape)} stands here: write float(…) or int(…) of it"
            )
            raise TypeError(message)


def require_one_number(a: Arguments) -> None:
    for shape in shapes_given(a, a.schema.arguments[0].name):
        if prod(shape) != 1:
            raise RuntimeError(f"only a tensor of one element is a number, not one of shape {list(shape)}")
