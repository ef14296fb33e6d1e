"""Samples of matrix products, solvers, triangles and diagonals."""

from __future__ import annotations

from typing import Any

import torch
from gradscript.compiler.types.dtypes import INT32
from samples.arrays import Call, adjoint_of, call, definite, full_rank, literal, regular, t

_SQUARE = [call(regular(3, 3)), call(regular(2, 4, 4)), call(regular(1, 1))]
_ADDED = {"beta": 2, "alpha": 3}
_TRIANGLE = [call(t(3, 4)), call(t(2, 4, 3), 1), call(t(3, 3), -1), call(t(0, 3)), call(t(3, 3), 7)]

CASES: dict[str, list[Call]] = {
    "matmul": [
        call(t(3, 4), t(4, 5)),
        call(t(4), t(4)),
        call(t(3, 4), t(4)),
        call(t(4), t(4, 2)),
        call(t(2, 1, 3, 4), t(5, 4, 2)),
        call(t(4), t(2, 4, 3)),
        call(t(2, 3, 4), t(4)),
        call(t(0, 3), t(3, 2)),
        call(t(2, 0), t(0, 3)),
        call(t(3, 6).with_nan(), t(6, 2)),
    ],
    "matmul_left": [
        call([3, 4], t(4, 2), t(3, 2)),
        call([4], t(4, 2), t(2)),
        call([2, 3, 4], t(4), t(2, 3)),
        call([1, 3, 4], t(5, 4, 2), t(5, 3, 2)),
    ],
    "matmul_right": [
        call(t(3, 4), [4, 2], t(3, 2)),
        call(t(4), [4, 2], t(2)),
        call(t(2, 3, 4), [4], t(2, 3)),
        call(t(2, 3, 4), [4, 2], t(2, 3, 2)),
        call(t(5, 3, 4), [1, 4, 2], t(5, 3, 2)),
    ],
    "mm": [call(t(3, 4), t(4, 2)), call(t(3, 0), t(0, 2))],
    "bmm": [call(t(2, 3, 4), t(2, 4, 2)), call(t(0, 3, 4), t(0, 4, 2))],
    "mv": [call(t(3, 4), t(4))],
    "dot": [call(t(4), t(4)), call(t(0), t(0))],
    "vdot": [call(t(4), t(4))],
    "inner": [call(t(2, 4), t(3, 4)), call(t(), t(3)), call(t(4), t(4)), call(t(2, 3, 4), t(4))],
    "outer": [call(t(3), t(4)), call(t(0), t(4))],
    "ger": [call(t(3), t(4))],
    "kron": [call(t(2, 3), t(3, 2)), call(t(3), t(2, 2)), call(t(), t(2))],
    "tensordot": [
        call(t(2, 3, 4), t(4, 3, 5), [1, 2], [1, 0]),
        call(t(2, 3), t(3, 2), [-1], [0]),
        call(t(2), t(3), [], []),
    ],
    "tensordot.int": [call(t(2, 3, 4), t(3, 4, 5)), call(t(2, 3), t(3, 4), 1), call(t(2), t(3), 0)],
    "bilinear": [call(t(5, 3), t(5, 4), t(2, 3, 4)), call(t(5, 3), t(5, 4), t(2, 3, 4), t(2))],
    "addmm": [
        call(t(3, 5), t(3, 4), t(4, 5)),
        call(t(5), t(3, 4), t(4, 5), **_ADDED),
        call(t(5).with_nan(), t(3, 4), t(4, 5), beta=0),
    ],
    "addmv": [call(t(3), t(3, 4), t(4)), call(t(1), t(3, 4), t(4), **_ADDED)],
    "addbmm": [call(t(3, 5), t(2, 3, 4), t(2, 4, 5)), call(t(5), t(2, 3, 4), t(2, 4, 5), **_ADDED)],
    "baddbmm": [call(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)), call(t(5), t(2, 3, 4), t(2, 4, 5), **_ADDED)],
    "addr": [call(t(3, 4), t(3), t(4)), call(t(4), t(3), t(4), **_ADDED)],
    "linear": [call(t(5, 4), t(3, 4)), call(t(2, 5, 4), t(3, 4), t(3)), call(t(4), t(3, 4), t(3)), call(t(5, 4), t(4))],
    "einsum": [
        call("ij,jk->ik", [t(3, 4), t(4, 2)]),
        call("ii->i", [t(3, 3)]),
        call("bij,bjk,bk->bi", [t(2, 3, 4), t(2, 4, 5), t(2, 5)]),
        call("...i,...i", [t(2, 3), t(3)]),
        call("i,j", [t(2), t(3)]),
        call("ij->", [t(2, 3)]),
    ],
    "einsum_adjoint": [
        call(t(3, 2), "ij,jk->ik", [t(3, 4), t(4, 2)], 0),
        call(t(3), "ii->i", [t(3, 3)], 0),
        call(t(2, 3), "bij,bjk,bk->bi", [t(2, 3, 4), t(2, 4, 5), t(2, 5)], 1),
        call(t(2), "...i,...i", [t(2, 3), t(3)], 1),
        call(t(), "ij->", [t(2, 3)], 0),
        call(t(2, 3), "ij,ij->ij", [t(1, 3), t(2, 1)], 0),
        call(t(4, 2, 3), "...ij, k -> ...ki", [t(4, 3, 5), t(2)], 1),
    ],
    "tril": _TRIANGLE,
    "triu": _TRIANGLE,
    "diag": [call(t(3)), call(t(3, 4), 1), call(t(2), -1)],
    "diag_embed": [call(t(2, 3)), call(t(2, 3), 1), call(t(2, 3), -2, 0, 2), call(t(3), 0, 1, 0)],
    "diagonal": [call(t(3, 4)), call(t(3, 4), 1), call(t(2, 3, 4), -1, 1, 2), call(t(2, 3, 4), 0, -1, 0)],
    "linalg_diagonal": [call(t(3, 4)), call(t(2, 3, 4), offset=1), call(t(2, 3, 4), dim1=0, dim2=1)],
    "cross": [call(t(4, 3), t(4, 3)), call(t(3, 4), t(3, 4), 0), call(t(3, 3), t(3, 3))],
    "linalg_cross": [call(t(4, 3), t(4, 3)), call(t(3, 4), t(3, 4), dim=0), call(t(4, 3), t(1, 3))],
    "inverse": _SQUARE,
    "linalg_inv": _SQUARE,
    "det": [*_SQUARE, call(t(0, 0))],
    "linalg_det": _SQUARE,
    "cofactor": [*_SQUARE, call(t(0, 0))],
    "logdet": _SQUARE,
    "slogdet": _SQUARE,
    "linalg_slogdet": _SQUARE,
    "linalg_lu_factor_ex": [call(regular(3, 3)), call(full_rank(4, 3)), call(full_rank(2, 3, 5))],
    "_cholesky_factor": [call(definite(3, 3), False), call(definite(2, 3, 3), True)],
    "_row_order": [call(literal([2, 3, 3], INT32), 4), call(literal([[1, 2], [2, 2]], INT32), 2)],
    "cholesky": [call(definite(3, 3)), call(definite(2, 3, 3), True)],
    "linalg_cholesky": [call(definite(3, 3)), call(definite(2, 3, 3), upper=True)],
    "cholesky_solve": [call(t(3, 2), regular(3, 3)), call(t(3, 2), regular(3, 3), True)],
    "pinverse": [call(t(4, 3)), call(t(3, 4))],
    "linalg_svdvals": [call(t(4, 3)), call(t(2, 3, 4))],
    "linalg_eigvalsh": [call(definite(3, 3)), call(regular(3, 3), "U")],
    "matrix_power": [call(regular(3, 3), 3), call(regular(2, 3, 3), 0), call(regular(3, 3), -2)],
    "linalg_matrix_power": [call(regular(3, 3), 3)],
    "matrix_exp": [call(regular(3, 3)), call(regular(2, 2, 2))],
    "linalg_solve": [
        call(regular(3, 3), t(3, 2)),
        call(regular(3, 3), t(3)),
        call(regular(2, 3, 3), t(2, 3)),
        call(regular(3, 3), t(2, 3), left=False),
        call(regular(2, 3, 3), t(3, 2)),
    ],
    "linalg_solve_triangular": [
        call(regular(3, 3), t(3, 2), upper=True),
        call(regular(3, 3), t(2, 3), upper=False, left=False),
        call(regular(3, 3), t(3, 2), upper=False, unitriangular=True),
        call(regular(3, 3), t(2, 3, 2), upper=True),
        call(regular(2, 3, 3), t(3, 2), upper=False),
    ],
    "linalg_multi_dot": [call([t(2, 3), t(3, 4), t(4, 2)]), call([t(2, 3), t(3, 4)])],
    "qr": [call(full_rank(4, 3)), call(full_rank(3, 3), False)],
    "linalg_qr": [
        call(full_rank(4, 3)),
        call(full_rank(3, 4)),
        call(full_rank(4, 3), "complete"),
        call(full_rank(4, 3), "r"),
    ],
    "svd": [call(full_rank(4, 3)), call(full_rank(3, 3), False)],
    "linalg_svd": [call(full_rank(4, 3), False), call(full_rank(2, 3, 3))],
    "linalg_eigh": [call(definite(3, 3)), call(regular(3, 3), "U")],
}


def _einsum_adjoint(grad: torch.Tensor, equation: str, tensors: list[torch.Tensor], operand: int) -> torch.Tensor:
    if not tensors[operand].requires_grad:
        tensors = [x.clone().requires_grad_() if i == operand else x for i, x in enumerate(tensors)]
    return torch.autograd.grad(torch.einsum(equation, tensors), tensors[operand], grad, create_graph=True)[0]


def _cofactor(matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.det(matrix)[..., None, None] * torch.linalg.inv(matrix).mT


def _row_order(pivots: torch.Tensor, n: int) -> torch.Tensor:
    """Where each column of the permutation has its one."""
    factors = torch.zeros(*pivots.shape[:-1], n, pivots.shape[-1])
    return torch.lu_unpack(factors, pivots)[0].argmax(-2)


REFERENCES: dict[str, Any] = {
    "_row_order": _row_order,
    "_cholesky_factor": lambda matrix, upper: torch.linalg.cholesky_ex(matrix, upper=upper),
    "cofactor": _cofactor,
    "matmul_left": lambda size, right, grad: adjoint_of(lambda left: left @ right)(grad, size),
    "matmul_right": lambda left, size, grad: adjoint_of(lambda right: left @ right)(grad, size),
    "einsum_adjoint": _einsum_adjoint,
    "tensordot.int": lambda self, other, dims: torch.tensordot(self, other, dims),
}

SIGN_FREE = {"qr", "linalg_qr", "svd", "linalg_svd", "linalg_eigh"}
"""Factors whose columns LAPACK may negate: absolute values are compared, and the factors multiplied out."""
