"""Inverses, determinants, solvers and factorizations, for float32 and float64 as in torch.

Source: torch's documentation of each op. Signs of singular vectors and eigenvectors are LAPACK's choice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ....ops import rules, shapes
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape, ShapeRule, Shapes
from ...arrays import Array, cast, dtype_of, widen
from ...registry import Trait, declare
from .products import product

_M = Trait.MATMUL


def require_matrices(name: str, array: Array, square: bool = True) -> Array:
    """The array itself; RuntimeError unless it holds (square) matrices of float32 or float64."""
    if array.ndim < 2 or (square and array.shape[-1] != array.shape[-2]):
        kind = "batches of square matrices" if square else "at least 2 dimensions"
        raise RuntimeError(f"{name}: A must have {kind}, but its shape is {array.shape}")
    dtype = dtype_of(array)
    if not dtype.is_floating or dtype.is_half:
        raise RuntimeError(f"{name}: expected float32 or float64, but got {dtype}")
    return array


def _lapack(name: str, call: Callable[..., Any], *arrays: Array) -> Any:
    """The result of a call; RuntimeError where the matrix is singular or the like."""
    try:
        return call(*arrays)
    except np.linalg.LinAlgError as error:
        raise RuntimeError(f"{name}: {error} (shapes {', '.join(str(a.shape) for a in arrays)})") from None


def _inverse(self: Array) -> Array:
    return np.asarray(_lapack("linalg.inv", np.linalg.inv, require_matrices("linalg.inv", self)))


def _det(self: Array) -> Array:
    return cast(np.linalg.det(require_matrices("linalg.det", widen(self))), dtype_of(self))


def _cofactor(self: Array) -> Array:
    """The derivative of the determinant, finite for singular matrices too: det(A) A^-T of those that are well away from
    singular, by their inverses as well as any other way."""
    limit = np.finfo(self.dtype).eps ** -0.75
    with np.errstate(all="ignore"):
        try:
            inverse = np.linalg.inv(self)
        except np.linalg.LinAlgError:
            return _cofactor_of_any(self)
        condition = np.max(np.sum(np.abs(self), -1), -1, initial=0) * np.max(np.sum(np.abs(inverse), -1), -1, initial=0)
        result = np.asarray(np.linalg.det(self)[..., None, None] * inverse.swapaxes(-1, -2), self.dtype)
    is_near = ~(condition < limit) | ~np.isfinite(result).all((-2, -1))
    if is_near.any():
        result[is_near] = _cofactor_of_any(self[is_near])
    return result


def _cofactor_of_any(self: Array) -> Array:
    """For A = U S V^T it is det(U) det(V) U C V^T, where C holds the products of all singular values but one."""
    u, s, vh = _svd(self, False, None)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), np.ones((), s.dtype), s[..., None, :])
    factors = np.prod(others, axis=-1) * (np.linalg.det(u) * np.linalg.det(vh))[..., None]
    return np.asarray((u * factors[..., None, :]) @ vh, self.dtype)


def _slogdet(self: Array) -> tuple[Array, Array]:
    sign, logabsdet = np.linalg.slogdet(require_matrices("linalg.slogdet", self))
    return np.asarray(sign, self.dtype), np.asarray(logabsdet, self.dtype)


def _logdet(self: Array) -> Array:
    sign, logabsdet = _slogdet(self)
    return np.where(sign < 0, np.full((), np.nan, self.dtype), logabsdet)


def _is_vector(A: Array, B: Array) -> bool:  # noqa: N803
    """Whether B holds one right-hand side for each matrix of A, as torch decides it."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


def _solve(A: Array, B: Array, left: bool) -> Array:  # noqa: N803
    require_matrices("linalg.solve", A)
    vector = _is_vector(A, B)
    right = B[..., None] if vector else B
    if not left and vector:
        raise RuntimeError("linalg.solve: vectors can be solved for from the left only")
    if A.dtype != B.dtype or right.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(f"linalg.solve: A {A.shape} {A.dtype} and B {B.shape} {B.dtype} do not fit")
    if not left:
        return np.asarray(
            _lapack("linalg.solve", np.linalg.solve, A.swapaxes(-1, -2), right.swapaxes(-1, -2))
        ).swapaxes(-1, -2)
    found = np.asarray(_lapack("linalg.solve", np.linalg.solve, A, right))
    return found[..., 0] if vector else found


def _solve_triangular(self: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:  # noqa: N803
    require_matrices("linalg.solve_triangular", self)
    _require_ranks_of_matrices("linalg.solve_triangular", B)
    matrix = np.triu(self) if upper else np.tril(self)
    if unitriangular:
        matrix = np.where(np.eye(matrix.shape[-1], dtype=bool), np.ones((), matrix.dtype), matrix)
    return _solve(matrix, _beside(matrix, B), left)


def _require_ranks_of_matrices(name: str, *arrays: Array) -> None:
    for array in arrays:
        if array.ndim < 2:
            raise RuntimeError(f"{name}: expected tensors of 2 dimensions or more, but one has shape {array.shape}")


def _beside(matrix: Array, right: Array) -> Array:
    """As many matrices, or one for all: never the vectors that `linalg.solve` takes rows of them for."""
    return right.reshape((1,) * (matrix.ndim - right.ndim) + right.shape)


def _cholesky(self: Array, upper: bool) -> Array:
    require_matrices("linalg.cholesky", self)
    # Only one triangle counts, as in torch.
    triangle = np.triu(self).swapaxes(-1, -2) if upper else np.tril(self)
    whole = triangle + np.tril(triangle, -1).swapaxes(-1, -2)
    factor = np.asarray(_lapack("linalg.cholesky", np.linalg.cholesky, whole))
    return factor.swapaxes(-1, -2) if upper else factor


def _cholesky_solve(self: Array, input2: Array, upper: bool) -> Array:
    _require_ranks_of_matrices("cholesky_solve", self, input2)
    factor = np.triu(input2).swapaxes(-1, -2) if upper else np.tril(input2)
    return _solve(factor.swapaxes(-1, -2), _solve(factor, _beside(factor, self), True), True)


def _qr(A: Array, mode: str) -> tuple[Array, Array]:  # noqa: N803
    require_matrices("linalg.qr", A, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f'linalg.qr: mode must be "reduced", "complete" or "r", not {mode!r}')
    if mode == "r":
        return np.zeros((0,), A.dtype), np.asarray(np.linalg.qr(A, mode="r"))
    q, r = np.linalg.qr(A, mode="reduced" if mode == "reduced" else "complete")
    return q, r


def _old_qr(self: Array, some: bool) -> tuple[Array, Array]:
    return _qr(self, "reduced" if some else "complete")


def _svd(A: Array, full_matrices: bool, driver: str | None) -> tuple[Array, Array, Array]:  # noqa: N803
    del driver
    require_matrices("linalg.svd", A, square=False)
    u, s, vh = _lapack("linalg.svd", lambda a: np.linalg.svd(a, full_matrices=full_matrices), A)
    return u, s, vh


def _svdvals(A: Array, driver: str | None) -> Array:  # noqa: N803
    return _svd(A, False, driver)[1]


def _old_svd(self: Array, some: bool, compute_uv: bool) -> tuple[Array, Array, Array]:
    u, s, vh = _svd(self, not some, None)
    v = vh.swapaxes(-1, -2)
    return (u, s, v) if compute_uv else (np.zeros_like(u), s, np.zeros_like(v))


def _eigh(self: Array, uplo: str) -> tuple[Array, Array]:
    require_matrices("linalg.eigh", self)
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f'linalg.eigh: UPLO must be "L" or "U", not {uplo!r}')
    values, vectors = _lapack("linalg.eigh", lambda a: np.linalg.eigh(a, "L" if uplo.upper() == "L" else "U"), self)
    return values, vectors


def _eigvalsh(self: Array, uplo: str) -> Array:
    return _eigh(self, uplo)[0]


def _pinverse(self: Array, rcond: float) -> Array:
    require_matrices("pinverse", self, square=False)
    return np.asarray(np.linalg.pinv(self, rcond), self.dtype)


def _matrix_power(self: Array, n: int) -> Array:
    if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
        raise RuntimeError(f"matrix_power: A must be batches of square matrices, but its shape is {self.shape}")
    return cast(_lapack("matrix_power", lambda a: np.linalg.matrix_power(a, n), widen(self)), dtype_of(self))


def _matrix_exp(self: Array) -> Array:
    wide = require_matrices("matrix_exp", widen(self))
    import scipy.linalg  # Imported here: it is slow to load and nothing else needs it.

    return cast(scipy.linalg.expm(wide), dtype_of(self)) if self.size else self


def _multi_dot(tensors: list[Array]) -> Array:
    if len(tensors) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors")
    for i, tensor in enumerate(tensors):
        may_be_vector = i in (0, len(tensors) - 1)
        if tensor.ndim != 2 and not (may_be_vector and tensor.ndim == 1):
            raise RuntimeError(f"multi_dot(): tensor {i} of {len(tensors)} is no matrix: its shape is {tensor.shape}")
    dtype = dtype_of(tensors[0])
    if len(tensors) == 2:
        return product(*tensors)
    return cast(np.linalg.multi_dot([widen(t) for t in tensors]), dtype)


# --- what is known of results ---


def _determinant_shape(a: Arguments) -> Shape:
    return a.at(0)[:-2]


def _pinverse_shape(a: Arguments) -> Shape:
    *batch, rows, columns = a.at(0)
    return (*batch, columns, rows)


def _singular_values_shape(a: Arguments) -> Shape:
    return (*a.at(0)[:-2], min(a.at(0)[-2:]))


def _eigenvalues_shape(a: Arguments) -> Shape:
    return a.at(0)[:-1]


def _eigh_shapes(a: Arguments) -> Shapes:
    return [a.at(0)[:-1], a.at(0)]


def _solve_shape(a: Arguments) -> Shape:
    matrix, right = a.at(0), a.at(1)
    if len(right) == 1 or (len(matrix) - 1 == len(right) and right == matrix[:-1]):
        return shapes.broadcast(matrix[:-1], right)
    return (*shapes.broadcast(matrix[:-2], right[:-2]), *right[-2:])


def _solve_triangular_shape(a: Arguments) -> Shape:
    return (*shapes.broadcast(a.at(0)[:-2], a.at(1)[:-2]), *a.at(1)[-2:])


def _cholesky_solve_shape(a: Arguments) -> Shape:
    return (*shapes.broadcast(a.at(0)[:-2], a.at(1)[:-2]), *a.at(0)[-2:])


def _factors(shape: Shape, mode: str) -> Shapes:
    *batch, rows, columns = shape
    if mode == "r":
        return [(0,), (*batch, min(rows, columns), columns)]
    inner = rows if mode == "complete" else min(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


def _qr_shapes(a: Arguments) -> Shapes:
    return _factors(a.at(0), a["mode"])


def _old_qr_shapes(a: Arguments) -> Shapes:
    return _factors(a.at(0), "reduced" if a["some"] else "complete")


def _singular(shape: Shape, full: bool) -> tuple[Shape, Shape, Shape]:
    """U, S and V transposed."""
    *batch, rows, columns = shape
    rank = min(rows, columns)
    left, right = (rows, columns) if full else (rank, rank)
    return (*batch, rows, left), (*batch, rank), (*batch, right, columns)


def _svd_shapes(a: Arguments) -> Shapes:
    return list(_singular(a.at(0), a["full_matrices"]))


def _old_svd_shapes(a: Arguments) -> Shapes:
    """V itself, not transposed."""
    u, s, (*batch, right, columns) = _singular(a.at(0), not a["some"])
    return [u, s, (*batch, columns, right)]


def _multi_dot_shape(a: Arguments) -> Shape:
    factors: list[Shape] = [tensor.shape for tensor in a["tensors"]]
    return reduce(shapes.matrix_product, factors)


_lower = rules.shifted(-2)
_vector = rules.shifted(-1)

_UNARY: tuple[tuple[str, Callable[..., Array], rules.TypeRule, ShapeRule], ...] = (
    ("aten::inverse(Tensor self) -> Tensor", _inverse, rules.same(), shapes.first),
    ("aten::linalg_inv(Tensor A) -> Tensor", _inverse, rules.same(), shapes.first),
    ("aten::det(Tensor self) -> Tensor", _det, _lower, _determinant_shape),
    ("aten::linalg_det(Tensor A) -> Tensor", _det, _lower, _determinant_shape),
    ("gs::cofactor(Tensor self) -> Tensor", _cofactor, rules.same(), shapes.first),
    ("aten::logdet(Tensor self) -> Tensor", _logdet, _lower, _determinant_shape),
    ("aten::cholesky(Tensor self, bool upper=False) -> Tensor", _cholesky, rules.same(), shapes.first),
    ("aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", _cholesky, rules.same(), shapes.first),
    ("aten::pinverse(Tensor self, float rcond=1e-15) -> Tensor", _pinverse, rules.same(), _pinverse_shape),
    ("aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", _svdvals, _vector, _singular_values_shape),
    ('aten::linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor', _eigvalsh, _vector, _eigenvalues_shape),
    ("aten::matrix_power(Tensor self, int n) -> Tensor", _matrix_power, rules.same(), shapes.first),
    ("aten::linalg_matrix_power(Tensor self, int n) -> Tensor", _matrix_power, rules.same(), shapes.first),
    ("aten::matrix_exp(Tensor self) -> Tensor", _matrix_exp, rules.same(), shapes.shape_of("self")),
    ("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", _solve, rules.like(1), _solve_shape),
    (
        "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)"
        " -> Tensor",
        _solve_triangular,
        rules.widest(0, 1),
        _solve_triangular_shape,
    ),
    (
        "aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
        _cholesky_solve,
        rules.widest(0, 1),
        _cholesky_solve_shape,
    ),
)

_FACTORS: tuple[tuple[str, Callable[..., tuple[Array, ...]], tuple[rules.TypeRule, ...], ShapeRule], ...] = (
    ("aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", _slogdet, (_lower, _lower), _determinant_shape),
    (
        "aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
        _slogdet,
        (_lower, _lower),
        _determinant_shape,
    ),
    (
        "aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
        _old_qr,
        (rules.same(), rules.same()),
        _old_qr_shapes,
    ),
    (
        'aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
        _qr,
        (rules.like(), rules.same()),
        _qr_shapes,
    ),
    (
        "aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
        _old_svd,
        (rules.same(), _vector, rules.same()),
        _old_svd_shapes,
    ),
    (
        "aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
        _svd,
        (rules.same(), _vector, rules.same()),
        _svd_shapes,
    ),
    (
        'aten::linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
        _eigh,
        (_vector, rules.same()),
        _eigh_shapes,
    ),
)

for _schema, _evaluate, _rule, _shape in _UNARY:
    declare(_schema, _evaluate, traits=_M, result=_rule, shape=_shape)
for _schema, _factor, _rules, _shapes in _FACTORS:
    declare(_schema, _factor, traits=_M, result=rules.results(*_rules), shape=_shapes)
declare("aten::linalg_multi_dot(Tensor[] tensors) -> Tensor", _multi_dot, traits=_M, shape=_multi_dot_shape)
