"""Shapes of matrix products, attention, solvers and decompositions."""

from __future__ import annotations

from functools import reduce

from ..ops.dims import wrap_dim
from ..ops.families.linalg.products import dimension_labels
from .rules import Arguments, Shape, Shapes, all_broadcast, broadcast, same, shape_of


def product(left: Shape, right: Shape) -> Shape:
    """matmul's: vectors stand for a row and a column, and what is in front of matrices is broadcast."""
    if not left or not right:
        raise RuntimeError("both arguments to matmul need to be at least 1-D")
    columns = right[-1:] if len(right) > 1 else ()
    if left[-1] != right[max(len(right) - 2, 0)]:
        raise RuntimeError(f"shapes {list(left)} and {list(right)} cannot be multiplied")
    return (*broadcast(left[:-2], right[:-2]), *left[-2:-1], *columns)


@shape_of("matmul", "mm", "bmm", "mv", "dot", "vdot")
def matmul(a: Arguments) -> Shape:
    return product(a.at(0), a.at(1))


@shape_of("addmm", "addmv", "baddbmm")
def added_product(a: Arguments) -> Shape:
    return product(a.at(1), a.at(2))


@shape_of("addbmm")
def added_batch(a: Arguments) -> Shape:
    return product(a.at(1), a.at(2))[1:]


@shape_of("outer", "ger")
def outer(a: Arguments) -> Shape:
    return a.at(0) + a.at(1)


@shape_of("addr")
def added_outer(a: Arguments) -> Shape:
    return a.at(1) + a.at(2)


@shape_of("inner")
def inner(a: Arguments) -> Shape:
    left, right = a.at(0), a.at(1)
    return left[:-1] + right[:-1] if left and right else left + right


@shape_of("kron")
def kron(a: Arguments) -> Shape:
    left, right = a.at(0), a.at(1)
    rank = max(len(left), len(right))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (left, right)]
    return tuple(m * n for m, n in zip(*padded, strict=True))


def _contracted(left: Shape, right: Shape, left_dims: list[int], right_dims: list[int]) -> Shape:
    for i, j in zip(left_dims, right_dims, strict=True):
        if left[i] != right[j] and 1 not in (left[i], right[j]):
            raise RuntimeError(f"tensordot: shapes {list(left)} and {list(right)} do not fit")
    kept = [size for i, size in enumerate(left) if i not in left_dims]
    return (*kept, *(size for j, size in enumerate(right) if j not in right_dims))


@shape_of("tensordot")
def tensordot(a: Arguments) -> Shape:
    left, right = a.at(0), a.at(1)
    dims = [[wrap_dim(d, len(s)) for d in a[n]] for s, n in ((left, "dims_self"), (right, "dims_other"))]
    return _contracted(left, right, *dims)


@shape_of("tensordot.int")
def tensordot_last(a: Arguments) -> Shape:
    left, right, count = a.at(0), a.at(1), a["dims"]
    return _contracted(left, right, list(range(len(left) - count, len(left))), list(range(count)))


@shape_of("bilinear")
def bilinear(a: Arguments) -> Shape:
    return (*broadcast(a.at(0)[:-1], a.at(1)[:-1]), a.at(2)[0])


@shape_of("linear")
def linear(a: Arguments) -> Shape:
    input, weight = a.at(0), a.at(1)
    if input[-1:] != weight[-1:]:
        raise RuntimeError(f"linear: input of shape {list(input)} does not fit weight of shape {list(weight)}")
    return (*input[:-1], *weight[:-1])


@shape_of("einsum")
def einsum(a: Arguments) -> Shape:
    shapes = [tensor.shape for tensor in a["tensors"]]
    terms, result = dimension_labels(a["equation"], [len(shape) for shape in shapes])
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return tuple(sizes[label] for label in result)


@shape_of("einsum_adjoint")
def einsum_adjoint(a: Arguments) -> Shape:
    shape: Shape = a["tensors"][a["operand"]].shape
    return shape


@shape_of("mm_tree")
def product_sum(a: Arguments) -> Shape:
    return product(a["left"][0].shape, a["right"][0].shape)


@shape_of("mm_shared_left")
def products_of_left(a: Arguments) -> Shapes:
    return [product(a.shape("side"), other.shape) for other in a["others"]]


@shape_of("mm_shared_right")
def products_of_right(a: Arguments) -> Shapes:
    return [product(other.shape, a.shape("side")) for other in a["others"]]


@shape_of("scaled_dot_product_attention")
def attention(a: Arguments) -> Shape:
    query, key, value = a.shape("query"), a.shape("key"), a.shape("value")
    if a["enable_gqa"]:
        key, value = ((*x[:-3], query[-3], *x[-2:]) for x in (key, value))
    mask = a["attn_mask"]
    scores = product(query, (*key[:-2], key[-1], key[-2]))
    scores = broadcast(scores, mask.shape) if mask is not None else scores
    return product(scores, value)


# --- solvers and decompositions, of matrices in the last two dimensions ---

shape_of("inverse", "linalg_inv", "cofactor", "cholesky", "linalg_cholesky", "matrix_power", "linalg_matrix_power")(
    lambda a: a.at(0)
)
shape_of("matrix_exp", "tril", "triu")(same("self"))


@shape_of("det", "linalg_det", "logdet", "slogdet", "linalg_slogdet")
def determinant(a: Arguments) -> Shape:
    return a.at(0)[:-2]


@shape_of("pinverse")
def pinverse(a: Arguments) -> Shape:
    *batch, rows, columns = a.at(0)
    return (*batch, columns, rows)


@shape_of("linalg_svdvals")
def singular_values(a: Arguments) -> Shape:
    return (*a.at(0)[:-2], min(a.at(0)[-2:]))


@shape_of("linalg_eigvalsh")
def eigenvalues(a: Arguments) -> Shape:
    return a.at(0)[:-1]


@shape_of("linalg_eigh")
def eigh(a: Arguments) -> Shapes:
    return [a.at(0)[:-1], a.at(0)]


@shape_of("linalg_solve")
def solve(a: Arguments) -> Shape:
    matrix, right = a.at(0), a.at(1)
    if len(right) == 1 or (len(matrix) - 1 == len(right) and right == matrix[:-1]):
        return broadcast(matrix[:-1], right)
    return (*broadcast(matrix[:-2], right[:-2]), *right[-2:])


@shape_of("linalg_solve_triangular")
def solve_triangular(a: Arguments) -> Shape:
    return (*broadcast(a.at(0)[:-2], a.at(1)[:-2]), *a.at(1)[-2:])


@shape_of("cholesky_solve")
def cholesky_solve(a: Arguments) -> Shape:
    return (*broadcast(a.at(0)[:-2], a.at(1)[:-2]), *a.at(0)[-2:])


def _factors(shape: Shape, mode: str) -> Shapes:
    *batch, rows, columns = shape
    if mode == "r":
        return [(0,), (*batch, min(rows, columns), columns)]
    inner = rows if mode == "complete" else min(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


@shape_of("linalg_qr")
def qr(a: Arguments) -> Shapes:
    return _factors(a.at(0), a["mode"])


@shape_of("qr")
def old_qr(a: Arguments) -> Shapes:
    return _factors(a.at(0), "reduced" if a["some"] else "complete")


def _singular(shape: Shape, full: bool) -> tuple[Shape, Shape, Shape]:
    """U, S and V transposed."""
    *batch, rows, columns = shape
    rank = min(rows, columns)
    left, right = (rows, columns) if full else (rank, rank)
    return (*batch, rows, left), (*batch, rank), (*batch, right, columns)


@shape_of("linalg_svd")
def svd(a: Arguments) -> Shapes:
    return list(_singular(a.at(0), a["full_matrices"]))


@shape_of("svd")
def old_svd(a: Arguments) -> Shapes:
    """V itself, not transposed."""
    u, s, (*batch, right, columns) = _singular(a.at(0), not a["some"])
    return [u, s, (*batch, columns, right)]


@shape_of("linalg_multi_dot")
def multi_dot(a: Arguments) -> Shape:
    shapes: list[Shape] = [tensor.shape for tensor in a["tensors"]]
    return reduce(product, shapes)


# --- diagonals ---


@shape_of("diag")
def diag(a: Arguments) -> Shape:
    shape, offset = a.shape("self"), a["diagonal"]
    if len(shape) == 1:
        return (shape[0] + abs(offset),) * 2
    return (max(min(shape[0] + min(offset, 0), shape[1] - max(offset, 0)), 0),)


@shape_of("diag_embed")
def diag_embed(a: Arguments) -> Shape:
    shape = a.shape("self")
    rank = len(shape) + 1
    first, second = sorted(wrap_dim(a[name], rank) for name in ("dim1", "dim2"))
    size = shape[-1] + abs(a["offset"])
    result = [*shape[:-1]]
    result.insert(first, size)
    result.insert(second, size)
    return tuple(result)


shape_of("cross", "linalg_cross")(all_broadcast)
