"""Sums of lists of tensors.

Source: MXNet's `add_n`, with torch's type promotion.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ops import shapes
from ....types.lazy_numpy import np
from ....types.types import ListType, TensorType, Type
from ...arrays import Array
from ...registry import OPS, declare


def _add_n(terms: Sequence[Array]) -> Array:
    """The terms added up from the left, each sum rounded as `aten::add` rounds it, in an array of its own.

    The first sum is that array as long as what follows has its dtype and is broadcast to its shape.
    """
    if not terms:
        raise RuntimeError("add_n: expected a non-empty list of tensors")
    if len(terms) == 1:
        return terms[0].copy()
    add = OPS.named("aten::add.Tensor").evaluate
    total: Array = add(terms[0], terms[1])
    for term in terms[2:]:
        total = np.add(total, term, out=total) if _fits(term, total) else add(total, term)
    return total


def _fits(term: Array, total: Array) -> bool:
    """Whether a sum with a term has the dtype and the shape of the total so far."""
    if term.dtype != total.dtype or term.ndim > total.ndim:
        return False
    return all(size in (1, wanted) for size, wanted in zip(term.shape[::-1], total.shape[::-1], strict=False))


def _common(types: Sequence[Type]) -> Type:
    """What the type of the elements says of all of them."""
    element = types[0].element if isinstance(types[0], ListType) else None
    return TensorType(element.dtype, element.rank) if isinstance(element, TensorType) else TensorType()


declare("gs::add_n(Tensor[] terms) -> Tensor", _add_n, result=_common, shape=shapes.all_broadcast)
