"""Calls of factorizations that say whether they came to an end, and of what is solved with them."""

from __future__ import annotations

from gradscript.compiler.types.dtypes import INT32
from samples.arrays import Call, Leaf, call, definite, full_rank, literal, regular, t

_SQUARE = [call(regular(3, 3)), call(regular(2, 3, 3))]
_ANY = [*_SQUARE, call(full_rank(4, 3)), call(full_rank(2, 3, 5))]
_PIVOTS = literal([2, 3, 3], INT32)
_REFLECTIONS = [call(t(4, 3), t(3)), call(t(2, 4, 3), t(2, 2))]

CASES: dict[str, list[Call]] = {
    "linalg_lu_factor": _ANY,
    "linalg_lu": _ANY,
    "lu": _ANY,
    "lu_with_infos": _ANY,
    "lu_unpack": [call(t(3, 3), _PIVOTS), call(t(4, 3), _PIVOTS, True, False), call(t(3, 5), _PIVOTS)],
    "linalg_lu_solve": [
        call(regular(3, 3), _PIVOTS, t(3, 2)),
        call(regular(3, 3), _PIVOTS, t(2, 3), left=False),
        call(regular(3, 3), _PIVOTS, t(3, 2), adjoint=True),
        call(regular(3, 3), _PIVOTS, t(2, 3), left=False, adjoint=True),
    ],
    "lu_solve": [call(t(3, 2), regular(3, 3), _PIVOTS)],
    "linalg_solve_ex": [
        call(regular(3, 3), t(3, 2)),
        call(regular(3, 3), t(3)),
        call(regular(3, 3), t(2, 3), left=False),
    ],
    "linalg_inv_ex": _SQUARE,
    "linalg_cholesky_ex": [call(definite(3, 3)), call(definite(2, 3, 3), upper=True)],
    "cholesky_inverse": [call(regular(3, 3)), call(regular(2, 3, 3), True)],
    "triangular_solve": [
        call(t(3, 2), regular(3, 3)),
        call(t(3, 2), regular(3, 3), False, True),
        call(t(3, 2), regular(3, 3), True, False, True),
    ],
    "linalg_lstsq": [call(full_rank(5, 3), t(5, 2)), call(full_rank(3, 3), t(3, 2)), call(full_rank(3, 5), t(3, 2))],
    "linalg_householder_product": _REFLECTIONS,
    "orgqr": _REFLECTIONS,
    "ormqr": [
        call(t(4, 3), t(3), t(4, 2)),
        call(t(4, 3), t(3), t(2, 4), False, True),
        call(t(4, 2), t(2), t(4, 3), True, True),
    ],
    "linalg_matrix_rank.atol_rtol_float": [
        call(full_rank(4, 3)),
        call(definite(3, 3), hermitian=True),
        call(t(3, 4), atol=2.0),
    ],
    "linalg_matrix_rank.atol_rtol_tensor": [
        call(full_rank(4, 3)),
        call(
            t(2, 4, 3), atol=Leaf(lambda rng: rng.uniform(0.5, 2, 2)), rtol=Leaf(lambda rng: rng.uniform(0.1, 0.5, 2))
        ),
    ],
    "linalg_matrix_rank": [call(full_rank(4, 3), 1.5)],
    "linalg_matrix_rank.tol_tensor": [call(t(2, 4, 3), Leaf(lambda rng: rng.uniform(0.5, 2, 2)))],
}
"""By op: a plain call first."""
