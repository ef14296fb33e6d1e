"""Ops that the compiler puts in the place of several matrix products, and of sums of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ops import rules, shapes
from ....types.lazy_numpy import np
from ....types.types import TENSOR_LIST, ListType, TensorType, Type
from ...arguments import Arguments, Shape, Shapes
from ...arrays import Array, plain_floats
from ...libraries import add_product, library_product
from ...registry import OPS, Trait, declare

MAX_NUMEL = 1 << 14
"""Operands with more elements are not worth the copy that joining them takes."""
MAX_PAIRS = 32
"""So many pairs of operands are gathered before they are multiplied."""
BLOCK_BYTES = 1 << 20
"""Of a product that is added to a sum, so much is there at a time, and no more than an eighth of the operands."""


def _products(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    multiply = OPS.named("aten::mm").evaluate
    return [multiply(a, b) for a, b in zip(left, right, strict=True)]


def _are_alike(arrays: Sequence[Array]) -> bool:
    first = arrays[0]
    if first.ndim != 2 or first.dtype not in plain_floats() or first.size > MAX_NUMEL:
        return False
    return all(array.shape == first.shape and array.dtype == first.dtype for array in arrays)


def _sum_of_products(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """left[0] @ right[0] + left[1] @ right[1] + …, as one product where all are small and alike."""
    joins = _are_alike(left) and _are_alike(right) and left[0].dtype == right[0].dtype
    if joins and left[0].shape[1] == right[0].shape[0]:
        return library_product(np.concatenate(left, axis=1), np.concatenate(right, axis=0))
    add = OPS.named("aten::add.Tensor").evaluate
    total, *rest = _products(left, right)
    for product in rest:
        total = add(total, product)
    return total


def _gather(state: Sequence[Array], left: Array, right: Array) -> list[Array]:
    """A pair of operands behind those gathered: pairs, and in front of them, where their number is odd, a sum."""
    if len(state) >= 2 * MAX_PAIRS:
        return [_total(state), left, right]
    gathered = [*state, left, right]
    return [_total(gathered)] if max(left.size, right.size) > MAX_NUMEL else gathered


def _total(state: Sequence[Array]) -> Array:
    """The sum of all products that were gathered."""
    first = len(state) % 2
    if first == len(state):
        return state[0]
    products = _sum_of_products(state[first::2], state[first + 1 :: 2])
    return OPS.named("aten::add.Tensor").evaluate(state[0], products) if first else products


def _shared_left(left: Array, others: Sequence[Array]) -> list[Array]:
    """left @ others[i] for each i."""
    joins = _are_alike(others) and left.ndim == 2 and left.dtype == others[0].dtype
    if not joins or left.shape[1] != others[0].shape[0]:
        return _products([left] * len(others), others)
    width = others[0].shape[1]
    whole = library_product(left, np.concatenate(others, axis=1))
    return [whole[:, i * width : (i + 1) * width] for i in range(len(others))]


def _shared_right(right: Array, others: Sequence[Array]) -> list[Array]:
    """others[i] @ right for each i."""
    joins = _are_alike(others) and right.ndim == 2 and right.dtype == others[0].dtype
    if not joins or right.shape[0] != others[0].shape[1]:
        return _products(others, [right] * len(others))
    height = others[0].shape[0]
    whole = library_product(np.concatenate(others, axis=0), right)
    return [whole[i * height : (i + 1) * height] for i in range(len(others))]


def grad_add_product(gradients: Array | None, left: Array, right: Array) -> Array:
    """gradients + left @ right, of matrices."""
    return add_product_in_place(None if gradients is None else gradients.copy(), left, right)


def add_product_in_place(gradients: Array | None, left: Array, right: Array) -> Array:
    """As `grad_add_product`, into the array itself, where that has the shape and the dtype of the sum.

    Where the library has no product that adds to what is there, some rows of it are made at a time.
    """
    multiply = OPS.named("aten::mm").evaluate
    if gradients is None:
        return multiply(left, right)
    is_plain = left.ndim == right.ndim == 2 and gradients.dtype == left.dtype == right.dtype
    if not is_plain or gradients.shape != (left.shape[0], right.shape[1]) or not gradients.flags.writeable:
        return OPS.named("aten::add.Tensor").evaluate(gradients, multiply(left, right))
    if left.shape[1] == right.shape[0] and add_product(gradients, left, right):
        return gradients
    most = min(BLOCK_BYTES, (left.nbytes + right.nbytes) // 8)
    rows = max(64, most // max(1, gradients.shape[1] * gradients.itemsize))
    for start in range(0, len(gradients), rows):
        gradients[start : start + rows] += multiply(left[start : start + rows], right)
    return gradients


def _element(types: Sequence[Type]) -> TensorType:
    """What a list of matrices says of their product."""
    inner = types[0].element if isinstance(types[0], ListType) else types[0]
    return TensorType(inner.dtype, 2) if isinstance(inner, TensorType) else TensorType(None, 2)


# --- what is known of results ---


def _product_sum_shape(a: Arguments) -> Shape:
    return shapes.matrix_product(a["left"][0].shape, a["right"][0].shape)


def _gathered_shapes(a: Arguments) -> Shapes:
    state, pair = [operand.shape for operand in a["state"]], [a.shape("left"), a.shape("right")]
    if len(state) >= 2 * MAX_PAIRS:
        return [_shape_of_total(state), *pair]
    gathered = [*state, *pair]
    return [_shape_of_total(gathered)] if max(map(prod, pair)) > MAX_NUMEL else gathered


def _total_shape(a: Arguments) -> Shape:
    return _shape_of_total([operand.shape for operand in a["state"]])


def _shape_of_total(state: Sequence[Shape]) -> Shape:
    return state[0] if len(state) % 2 else shapes.matrix_product(state[0], state[1])


def _products_of_left(a: Arguments) -> Shapes:
    return [shapes.matrix_product(a.shape("side"), other.shape) for other in a["others"]]


def _products_of_right(a: Arguments) -> Shapes:
    return [shapes.matrix_product(other.shape, a.shape("side")) for other in a["others"]]


_M = Trait.MATMUL | Trait.NONDIFFERENTIABLE
declare(
    "prim::mm_tree(Tensor[] left, Tensor[] right) -> Tensor",
    _sum_of_products,
    traits=_M,
    result=_element,
    shape=_product_sum_shape,
)
declare(
    "prim::mm_gather(Tensor[] state, Tensor left, Tensor right) -> Tensor[]",
    _gather,
    traits=_M,
    result=lambda types: types[0],
    shape=_gathered_shapes,
)
declare("prim::mm_total(Tensor[] state) -> Tensor", _total, traits=_M, result=_element, shape=_total_shape)
declare(
    "prim::grad_add_product(Tensor gradients, Tensor left, Tensor right) -> Tensor",
    grad_add_product,
    traits=_M,
    result=rules.agreed(0, 1, 2),
    shape=lambda a: shapes.sum_with(a["gradients"], shapes.matrix_product(a.shape("left"), a.shape("right"))),
)
for _name, _evaluate, _shape in (
    ("mm_shared_left", _shared_left, _products_of_left),
    ("mm_shared_right", _shared_right, _products_of_right),
):
    declare(
        f"prim::{_name}(Tensor side, Tensor[] others) -> Tensor[]",
        _evaluate,
        traits=_M,
        result=lambda types: ListType(_element(types)) if types else TENSOR_LIST,
        shape=_shape,
    )
