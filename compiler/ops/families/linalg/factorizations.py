"""Factorizations that say whether they came to an end, and what is solved with them.

Those by LAPACK are here; the others are written in the language, in stdlib_grads/factorizations.grad.
Source of the schemas: torch's documentation of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ops import rules
from ....types.dtypes import INT32, INT64
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape, Shapes
from ...arrays import Array
from ...composite import composite
from ...registry import Trait, declare
from .solvers import require_matrices

_LU = "(Tensor LU, Tensor pivots, Tensor info)"


def _lu_factor(A: Array, pivot: bool, check_errors: bool) -> tuple[Array, Array, Array]:  # noqa: N803
    """L without its ones and U in one matrix, which rows, from 1 on, were exchanged with the first, the second, …, and
    where U's diagonal is zero first, 0 for nowhere."""
    require_matrices("linalg.lu_factor", A, square=False)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    *batch, rows, columns = A.shape
    factors, pivots = np.empty(A.shape, A.dtype), np.empty((*batch, min(rows, columns)), np.int32)
    info = np.zeros(batch, np.int32)
    getrf = _lapack_function("getrf", A)
    for place in np.ndindex(*batch):
        if min(rows, columns) > 0:
            factors[place], found, info[place] = getrf(A[place])
            pivots[place] = found + 1
    if check_errors and info.any():
        raise RuntimeError(f"linalg.lu_factor: entry {int(info[info > 0][0])} of U's diagonal is zero")
    return factors, pivots, info


def _cholesky_factor(self: Array, upper: bool) -> tuple[Array, Array]:
    """The factor, and how many leading rows are not positive definite, 0 where all are."""
    require_matrices("linalg.cholesky", self)
    factors, info = np.zeros(self.shape, self.dtype), np.zeros(self.shape[:-2], np.int32)
    potrf = _lapack_function("potrf", self)
    for place in np.ndindex(*self.shape[:-2]):
        if self.shape[-1] > 0:
            factors[place], info[place] = potrf(self[place], lower=not upper)
    return factors, info


def _lapack_function(name: str, array: Array) -> Callable[..., Any]:
    from scipy.linalg import get_lapack_funcs  # Imported here: it is slow to load and nothing else needs it.

    found: Callable[..., Any] = get_lapack_funcs(name, dtype=array.dtype)
    return found


def _row_order(pivots: Array, n: int) -> Array:
    """Which row of the matrix each row of L U is."""
    order = np.broadcast_to(np.arange(n), (*pivots.shape[:-1], n)).copy()
    for place in np.ndindex(*pivots.shape[:-1]):
        for row, other in enumerate(pivots[place]):
            order[(*place, row)], order[(*place, other - 1)] = order[(*place, other - 1)], order[(*place, row)]
    return order


def _lu_shapes(a: Arguments) -> Shapes:
    *batch, rows, columns = a.at(0)
    return [a.at(0), (*batch, min(rows, columns)), tuple(batch)]


def _cholesky_shapes(a: Arguments) -> Shapes:
    return [a.at(0), a.at(0)[:-2]]


def _order_shape(a: Arguments) -> Shape:
    return (*a.at(0)[:-1], a["n"])


declare(
    f"aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> {_LU}",
    _lu_factor,
    traits=Trait.MATMUL,
    result=rules.results(rules.same(), rules.fixed(INT32), rules.fixed(INT32)),
    shape=_lu_shapes,
)
declare(
    "gs::_cholesky_factor(Tensor self, bool upper) -> (Tensor L, Tensor info)",
    _cholesky_factor,
    traits=Trait.MATMUL | Trait.NONDIFFERENTIABLE,
    result=rules.results(rules.same(), rules.fixed(INT32)),
    shape=_cholesky_shapes,
)
declare(
    "gs::_row_order(Tensor pivots, int n) -> Tensor",
    _row_order,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.fixed(INT64),
    shape=_order_shape,
)

for _schema in (
    "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)"
    " -> (Tensor P, Tensor L, Tensor U)",
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)"
    " -> (Tensor solution, Tensor cloned_coefficient)",
    "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None)"
    " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    "orgqr(Tensor self, Tensor input2) -> Tensor",
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
):
    composite(f"aten::{_schema}")
for _schema in (
    ".atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
    ".atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    "(Tensor self, float tol, bool hermitian=False) -> Tensor",
    ".tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
):
    composite(f"aten::linalg_matrix_rank{_schema}", traits=Trait.NONDIFFERENTIABLE)
composite("gs::lu(Tensor self, bool pivot=True) -> (Tensor, Tensor)")
composite("gs::lu_with_infos(Tensor self, bool pivot=True) -> (Tensor, Tensor, Tensor)")
