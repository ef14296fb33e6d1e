"""Matrix products. Halves multiply in float32 and are rounded once.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ....ops import rules, shapes
from ....types.dtypes import BOOL, DType, Number, promote
from ....types.lazy_numpy import np
from ....types.types import TensorType, Type
from ...arguments import ShapeRule
from ...arrays import Array, cast, compute_dtype, dtype_of, element, refuse_bools, result_dtype, widen
from ...dims import wrap_dim
from ...libraries import library_product
from ...registry import Trait, declare
from ..language.properties import sum_to_size
from . import product_shapes
from .product_shapes import dimension_labels, einsum_dtype

_M = Trait.MATMUL
_FULL_FLOATS = "fd"
"""The codes of NumPy's float32 and float64, in which products are computed as they are."""


def _require_one_dtype(name: str, *arrays: Array) -> None:
    first = arrays[0].dtype
    if all(a.dtype is first for a in arrays):
        return
    if len({a.dtype for a in arrays}) > 1:
        dtypes = " and ".join(str(dtype_of(a)) for a in arrays)
        raise RuntimeError(f"{name}: expected operands of one dtype, but got {dtypes}; convert one with .to()")


def _require_ranks(name: str, arrays: Sequence[Array], ranks: Sequence[int]) -> None:
    if tuple(a.ndim for a in arrays) != tuple(ranks):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise RuntimeError(f"{name}: expected tensors of rank {', '.join(map(str, ranks))}, but got shapes {shapes}")


def product(left: Array, right: Array) -> Array:
    """`left @ right` by NumPy's rules, computed in float32 at least and rounded once."""
    try:
        if left.dtype.char in _FULL_FLOATS and right.dtype is left.dtype:
            return np.asarray(_rows_at_once(left, right))
        dtype = dtype_of(left)
        if left.ndim == right.ndim == 1 or (left.size and right.size):
            # torch has products of bools where there is nothing to multiply, but for vectors.
            refuse_bools("matmul", left)
        wide_left, wide_right = widen(left), widen(right)
        return cast(_rows_at_once(wide_left, wide_right), dtype)
    except ValueError:
        raise RuntimeError(f"matrix product: shapes {left.shape} and {right.shape} do not fit") from None


def _rows_at_once(left: Array, right: Array) -> Array:
    """`left @ right`; the rows of all batches are one product where there is one matrix for them, as torch has it.

    NumPy multiplies batch by batch, and reads the matrix as often.
    """
    if right.ndim == 2 < left.ndim and left.flags.c_contiguous and left.size and left.shape[-1] == right.shape[0]:
        rows = library_product(left.reshape(-1, left.shape[-1]), right)
        return rows.reshape(*left.shape[:-1], right.shape[1])
    return library_product(left, right)


def _matmul(self: Array, other: Array) -> Array:
    _require_one_dtype("matmul", self, other)
    if not self.ndim or not other.ndim:
        raise RuntimeError(
            f"matmul: both arguments need at least one dimension, but got {self.shape} and {other.shape}"
        )
    return product(self, other)


def _matmul_left(left_size: Sequence[int], right: Array, grad_output: Array) -> Array:
    """The gradient of `left @ right` in `left`: g y^T, summed over what was broadcast, and rounded once."""
    _require_one_dtype("matmul_left", right, grad_output)
    dtype = dtype_of(grad_output)
    right, grad_output = widen(right), widen(grad_output)
    column = right[:, None] if right.ndim == 1 else right
    grad = grad_output[..., None] if right.ndim == 1 else grad_output
    grad = grad[..., None, :] if len(left_size) == 1 else grad
    made = product(grad, np.swapaxes(column, -1, -2))
    wide = (1, *left_size) if len(left_size) == 1 else tuple(left_size)
    return cast(sum_to_size(made, wide), dtype).reshape(tuple(left_size))


def _matmul_right(left: Array, right_size: Sequence[int], grad_output: Array) -> Array:
    """The gradient of `left @ right` in `right`: x^T g, summed over what was broadcast, and rounded once."""
    _require_one_dtype("matmul_right", left, grad_output)
    dtype = dtype_of(grad_output)
    left, grad_output = widen(left), widen(grad_output)
    row = left[None] if left.ndim == 1 else left
    grad = grad_output[..., None] if len(right_size) == 1 else grad_output
    grad = grad[..., None, :] if left.ndim == 1 else grad
    wide = (*right_size, 1) if len(right_size) == 1 else tuple(right_size)
    if len(wide) == 2 < row.ndim:
        # One product over all rows, not one for each batch.
        row, grad = row.reshape(-1, row.shape[-1]), grad.reshape(-1, grad.shape[-1])
    made = product(np.swapaxes(row, -1, -2), grad)
    return cast(sum_to_size(made, wide), dtype).reshape(tuple(right_size))


def _ranked_product(name: str, *ranks: int) -> Callable[[Array, Array], Array]:
    """A product that takes operands of these ranks only."""

    def evaluate(self: Array, other: Array) -> Array:
        _require_ranks(name, (self, other), ranks)
        _require_one_dtype(name, self, other)
        if ranks == (3, 3) and self.shape[0] != other.shape[0]:
            raise RuntimeError(f"{name}: batch sizes differ: {self.shape} and {other.shape}")
        return product(self, other)

    return evaluate


def _inner(self: Array, other: Array) -> Array:
    if self.ndim and other.ndim:
        refuse_bools("inner", self)
    if not self.ndim or not other.ndim:
        dtype = result_dtype(self, other)
        return np.asarray(np.multiply(cast(self, dtype), cast(other, dtype)))
    _require_one_dtype("inner", self, other)
    return _tensordot(self, other, [-1], [-1])


def _outer(self: Array, vec2: Array) -> Array:
    _require_ranks("outer", (self, vec2), (1, 1))
    dtype = result_dtype(self, vec2)
    return np.multiply(cast(self, dtype)[:, None], cast(vec2, dtype))


def _added(name: str, multiply: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """`beta * self + alpha * multiply(left, right)`; beta = 0 ignores self, NaN and infinities included."""

    def evaluate(self: Array, left: Array, right: Array, beta: Number, alpha: Number) -> Array:
        if name == "addr":
            dtype = reduce(promote, map(dtype_of, (self, left, right)))
            self, left, right = (cast(given, dtype) for given in (self, left, right))
        else:
            _require_one_dtype("add of a product", self, left, right)
            dtype = dtype_of(left)
        beta, alpha = (_factor(name, factor, dtype) for factor in (beta, alpha))
        term = multiply(widen(left), widen(right))
        term = term if alpha == 1 else term * np.asarray(alpha, term.dtype)
        wide = np.broadcast_to(widen(self), term.shape)
        if beta == 0:
            return cast(term, dtype)
        wide = wide if beta == 1 else wide * np.asarray(beta, term.dtype)
        # The product is nobody else's: no third array of its size is made.
        is_own = isinstance(term, np.ndarray) and term.base is None and term.dtype == wide.dtype
        return cast(np.add(term, wide, out=term if is_own else None), dtype)

    return evaluate


def _factor(name: str, factor: Number, dtype: DType) -> Any:
    """beta or alpha as an element; RuntimeError where it is none, or where torch has no such product."""
    if name == "addr":
        if isinstance(factor, float) and not dtype.is_floating:
            raise RuntimeError("addr: beta and alpha must be integers for integer tensors")
        if isinstance(factor, bool) and dtype != BOOL:
            raise RuntimeError("addr: beta and alpha are bools for tensors of bools only")
    elif dtype == BOOL:
        raise RuntimeError(f"{name} is not defined for bool tensors")
    return element(factor, dtype if name in _ROUNDED_FACTORS else compute_dtype(dtype))


_ROUNDED_FACTORS = frozenset(("addmv", "addr"))
"""Those whose factors torch has in the tensors' dtype, also where that is a half."""


def _batch_sum(left: Array, right: Array) -> Array:
    return np.asarray(_ranked_product("addbmm", 3, 3)(left, right).sum(0, dtype=left.dtype))


def _linear(input: Array, weight: Array, bias: Array | None) -> Array:
    _require_one_dtype("linear", input, weight, *([] if bias is None else [bias]))
    if weight.ndim not in (1, 2) or not input.ndim or input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(f"linear: input of shape {input.shape} does not fit weight of shape {weight.shape}")
    result = product(widen(input), widen(weight.T))
    if bias is not None:
        sizes = zip(reversed(bias.shape), reversed(result.shape), strict=False)
        if bias.ndim > result.ndim or any(size not in (1, own) for size, own in sizes):
            raise RuntimeError(f"linear: a bias of shape {bias.shape} does not fit a result of shape {result.shape}")
        result = result + widen(bias)
    return cast(result, dtype_of(input))


def _bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None) -> Array:
    result = np.einsum("...i,kij,...j->...k", widen(input1), widen(weight), widen(input2), optimize=True)
    return cast(result if bias is None else result + widen(bias), dtype_of(input1))


def _einsum(equation: str, tensors: Sequence[Array], path: Sequence[int] | None) -> Array:
    del path  # It says in which order to multiply, not what.
    try:
        dtype = einsum_dtype(equation, [t.shape for t in tensors], [dtype_of(t) for t in tensors])
        operands = [widen(cast(tensor, dtype)) for tensor in tensors]
        result = np.einsum(equation, *operands, optimize=len(tensors) > 1)
    except ValueError as error:
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise RuntimeError(f"einsum({equation!r}): {error} (shapes {shapes})") from None
    return cast(result, dtype)


def _einsum_adjoint(grad_output: Array, equation: str, tensors: Sequence[Array], operand: int) -> Array:
    """The gradient of einsum's operand number `operand`, whose elements do not matter.

    A label that nothing else has was summed away: every element along it receives the same. A dimension of size 1
    that was broadcast adds up what it was broadcast to; a repeated label stands for a diagonal.
    """
    terms, result = dimension_labels(equation, [t.ndim for t in tensors])
    size = dict(zip(terms[operand], tensors[operand].shape, strict=True))
    others = [(term, t) for i, (term, t) in enumerate(zip(terms, tensors, strict=True)) if i != operand]
    factors = [(result, grad_output), *others]
    full: dict[str, int] = {}
    for labels, factor in factors:
        for label, length in zip(labels, factor.shape, strict=True):
            full[label] = length if full.get(label, 1) == 1 else full[label]
    kept = [label for label in size if label in full and (size[label] == full[label] or full[label] == 1)]
    number = {label: i for i, label in enumerate({**full, **size})}
    operands = [x for labels, factor in factors for x in (widen(factor), [number[label] for label in labels])]
    total = np.einsum(*operands, [number[label] for label in kept], optimize=len(factors) > 1)
    sums = total.reshape([total.shape[kept.index(label)] if label in kept else 1 for label in size])
    gradient = np.zeros(tensors[operand].shape, total.dtype)
    np.einsum(gradient, [number[label] for label in terms[operand]], [number[label] for label in size])[...] = sums
    return cast(gradient, dtype_of(grad_output))


def _summed_to_one(array: Array, dims: Sequence[int], other: Array, other_dims: Sequence[int]) -> Array:
    """Summed over the dimensions that meet one of size 1, which stands for as many as there are."""
    met = tuple(i for i, j in zip(dims, other_dims, strict=False) if other.shape[j] == 1 != array.shape[i])
    return cast(np.sum(widen(array), met, keepdims=True), dtype_of(array)) if met else array


def _tensordot(self: Array, other: Array, dims_self: Sequence[int], dims_other: Sequence[int]) -> Array:
    _require_one_dtype("tensordot", self, other)
    if self.size and other.size:
        refuse_bools("tensordot", self)
    left = [wrap_dim(dim, self.ndim) for dim in dims_self]
    right = [wrap_dim(dim, other.ndim) for dim in dims_other]
    self, other = _summed_to_one(self, left, other, right), _summed_to_one(other, right, self, left)
    if [self.shape[i] for i in left] != [other.shape[i] for i in right]:
        raise RuntimeError(f"tensordot: dims {left} of {self.shape} do not fit dims {right} of {other.shape}")
    return cast(np.tensordot(widen(self), widen(other), (left, right)), dtype_of(self))


def _tensordot_int(self: Array, other: Array, dims: int) -> Array:
    if dims < 0:
        raise RuntimeError(f"tensordot: as many dimensions as are contracted must not be negative, but are {dims}")
    return _tensordot(self, other, range(self.ndim - dims, self.ndim), range(dims))


def _kron(self: Array, other: Array) -> Array:
    # As torch: what has fewer dimensions gets them first, and so a say in the dtype.
    rank = max(self.ndim, other.ndim)
    left, right = (a.reshape((1,) * (rank - a.ndim) + a.shape) for a in (self, other))
    dtype = result_dtype(left, right)
    return np.asarray(np.kron(cast(self, dtype), cast(other, dtype)))


def _matmul_type(types: Sequence[Type]) -> Type:
    """Vectors lose their dimension, batches are broadcast."""
    dtype = rules.agreed(0, 1)(types)
    assert isinstance(dtype, TensorType)
    ranks = [rules.tensor_at(types, i).rank for i in (0, 1)]
    known = [rank for rank in ranks if rank]
    return TensorType(dtype.dtype, max(0, max(known) - known.count(1)) if len(known) == 2 else None)


_PRODUCTS: tuple[tuple[str, Callable[..., Array], int | None, ShapeRule], ...] = (
    ("aten::matmul(Tensor self, Tensor other) -> Tensor", _matmul, None, product_shapes.matmul),
    ("aten::mm(Tensor self, Tensor mat2) -> Tensor", _ranked_product("mm", 2, 2), 2, product_shapes.matmul),
    ("aten::bmm(Tensor self, Tensor mat2) -> Tensor", _ranked_product("bmm", 3, 3), 3, product_shapes.matmul),
    ("aten::mv(Tensor self, Tensor vec) -> Tensor", _ranked_product("mv", 2, 1), 1, product_shapes.matmul),
    ("aten::dot(Tensor self, Tensor tensor) -> Tensor", _ranked_product("dot", 1, 1), 0, product_shapes.matmul),
    ("aten::vdot(Tensor self, Tensor other) -> Tensor", _ranked_product("vdot", 1, 1), 0, product_shapes.matmul),
    ("aten::inner(Tensor self, Tensor other) -> Tensor", _inner, None, product_shapes.inner),
    ("aten::outer(Tensor self, Tensor vec2) -> Tensor", _outer, 2, product_shapes.outer),
    ("aten::ger(Tensor self, Tensor vec2) -> Tensor", _outer, 2, product_shapes.outer),
    ("aten::kron(Tensor self, Tensor other) -> Tensor", _kron, None, product_shapes.kron),
    (
        "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
        _tensordot,
        None,
        product_shapes.tensordot,
    ),
    (
        "aten::tensordot.int(Tensor self, Tensor other, int dims=2) -> Tensor",
        _tensordot_int,
        None,
        product_shapes.tensordot_last,
    ),
    (
        "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
        _bilinear,
        None,
        product_shapes.bilinear,
    ),
)
"""Products of the first two arguments, with the rank of the result where it is always the same."""

_SUMS_OF_PRODUCTS: tuple[tuple[str, str, Callable[[Array, Array], Array], int, ShapeRule], ...] = (
    ("addmm", "Tensor mat1, Tensor mat2", _ranked_product("addmm", 2, 2), 2, product_shapes.added_product),
    ("addmv", "Tensor mat, Tensor vec", _ranked_product("addmv", 2, 1), 1, product_shapes.added_product),
    ("addbmm", "Tensor batch1, Tensor batch2", _batch_sum, 2, product_shapes.added_batch),
    ("baddbmm", "Tensor batch1, Tensor batch2", _ranked_product("baddbmm", 3, 3), 3, product_shapes.added_product),
    ("addr", "Tensor vec1, Tensor vec2", _outer, 2, product_shapes.added_outer),
)

for _schema, _evaluate, _rank, _shape in _PRODUCTS:
    declare(
        _schema,
        _evaluate,
        traits=_M,
        result=_matmul_type if _evaluate is _matmul else rules.agreed(0, 1, rank=_rank),
        shape=_shape,
        dtype=shapes.promoted_when_broadcast if "::kron" in _schema else None,
        fits=None if _rank is None else product_shapes.have_ranks,
    )

for _name, _operands, _multiply, _rank, _shape in _SUMS_OF_PRODUCTS:
    declare(
        f"aten::{_name}(Tensor self, {_operands}, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        _added(_name, _multiply),
        traits=_M,
        result=rules.agreed(0, 1, 2, rank=_rank),
        shape=_shape,
        dtype=shapes.promoted_whatever_ranks if _name == "addr" else None,
        fits=product_shapes.have_ranks,
    )

declare(
    "gs::matmul_left(int[] left_size, Tensor right, Tensor grad_output) -> Tensor",
    _matmul_left,
    traits=_M,
    result=rules.like(2),
    shape=shapes.sized("left_size"),
)
declare(
    "gs::matmul_right(Tensor left, int[] right_size, Tensor grad_output) -> Tensor",
    _matmul_right,
    traits=_M,
    result=rules.like(2),
    shape=shapes.sized("right_size"),
)
declare(
    "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    _linear,
    traits=_M,
    result=_matmul_type,
    shape=product_shapes.linear,
    fits=product_shapes.bias_of_linear,
)
declare(
    "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    _einsum,
    traits=_M | Trait.MAY_ALIAS | Trait.LIBRARY,
    shape=product_shapes.einsum,
    dtype=product_shapes.dtype_of_einsum,
)
declare(
    "gs::einsum_adjoint(Tensor grad_output, str equation, Tensor[] tensors, int operand) -> Tensor",
    _einsum_adjoint,
    traits=_M,
    result=rules.like(),
    shape=product_shapes.einsum_adjoint,
    dtype=product_shapes.dtype_of_gradient,
)
