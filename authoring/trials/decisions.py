"""Where an op decides by its numbers: the differences whose signs choose, of comparisons, kinks and ties.

A gap is such a difference, element by element. Where it is zero the op stands at a kink, or between two that tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.node import Node
from ...compiler.ops.arrays import Array
from .leaves import is_floating

Gaps = Callable[[Sequence[Any]], list[Any]]

COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


def _at(*points: float) -> Gaps:
    return lambda operands: [operands[0] - point for point in points]


def _between(operands: Sequence[Any]) -> list[Any]:
    """From each bound that is there."""
    return [operands[0] - bound for bound in operands[1:3] if bound is not None]


def _both(operands: Sequence[Any]) -> list[Any]:
    return [operands[0] - operands[1]] if len(operands) > 1 and operands[1] is not None else _tied(operands)


def _around(operands: Sequence[Any]) -> list[Any]:
    return [operands[0] - operands[1], operands[0] + operands[1]]


def _tied(operands: Sequence[Any]) -> list[Any]:
    """Of an extreme or an order: the differences between neighbours once all are sorted."""
    array = np.asarray(operands[0])
    if not is_floating(array):
        return []
    found = [np.diff(np.sort(array.ravel()))]
    return [*found, *(np.diff(np.sort(array, axis), axis=axis) for axis in range(array.ndim if array.ndim > 1 else 0))]


def _extreme(operands: Sequence[Any]) -> list[Any]:
    """Of a largest or smallest: its distance from the next, in all and along each dimension, at either end."""
    array = np.asarray(operands[0])
    if not is_floating(array):
        return []
    lines = [
        array.reshape(-1, 1),
        *(np.moveaxis(array, axis, 0) for axis in range(array.ndim if array.ndim > 1 else 0)),
    ]
    found = [np.diff(np.sort(line, 0), axis=0) for line in lines if len(line) > 1]
    return [end for gaps in found for end in (gaps[:1], gaps[-1:])]


GAPS: dict[str, Gaps] = {
    **dict.fromkeys(("relu", "leaky_relu", "elu", "celu", "selu", "abs", "sign", "prelu", "_prelu_kernel"), _at(0.0)),
    **dict.fromkeys((*COMPARISONS, "maximum", "minimum", "fmax", "fmin"), _both),
    **dict.fromkeys(("l1_loss", "smooth_l1_loss", "huber_loss"), _both),
    **dict.fromkeys(("max", "min"), _both),
    **dict.fromkeys(("amax", "amin", "aminmax"), _extreme),
    **dict.fromkeys(("median", "nanmedian", "sort", "topk", "kthvalue"), _tied),
    **dict.fromkeys(("cummax", "cummin", "max_pool1d", "max_pool2d", "max_pool3d"), _tied),
    "relu6": _at(0.0, 6.0),
    **dict.fromkeys(("hardsigmoid", "hardswish"), _at(-3.0, 3.0)),
    **dict.fromkeys(("clamp", "hardtanh"), _between),
    **dict.fromkeys(("clamp_min", "clamp_max", "threshold"), lambda operands: [operands[0] - operands[1]]),
    **dict.fromkeys(("softshrink", "hardshrink"), _around),
}
"""By the name of an op, from its operands to its gaps."""
_BY_INDEX = frozenset(("max", "min", "median", "nanmedian"))
"""What compares two tensors, or looks along one of them: the second operand is a dimension then."""


def gaps_of(node: Node, operands: Sequence[Any]) -> list[Array]:
    """The gaps of one op on what it was given; none where nothing that floats decides."""
    name = node.schema.base_name if node.schema is not None else ""
    rule = GAPS.get(name)
    if rule is None or not any(map(_floats, operands)):
        return []
    if name in _BY_INDEX and not (len(operands) > 1 and isinstance(operands[1], np.ndarray)):
        rule = _extreme if name in ("max", "min") else _tied
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(gap, np.float64) for gap in rule(operands)]
    except (ValueError, TypeError, IndexError):
        return []


def _floats(value: Any) -> bool:
    return is_floating(value) or isinstance(value, float)
