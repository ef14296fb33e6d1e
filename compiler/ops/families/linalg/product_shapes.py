"""The shapes of products, the labels of einsum, and what shapes products take."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ops import fitting, shapes
from ....types.dtypes import BOOL, INT64, DType, promote
from ...arguments import Arguments, Shape
from ...dims import wrap_dim


def einsum_dtype(equation: str, shapes: Sequence[Sequence[int]], dtypes: Sequence[DType]) -> DType:
    """What torch's steps from the left give: products promote, matrix products ask for one dtype, sums are int64."""
    terms, result = dimension_labels(equation, [len(shape) for shape in shapes])
    wide = [
        {label for label, size in zip(term, shape, strict=True) if size != 1}
        for term, shape in zip(terms, shapes, strict=True)
    ]
    done, found = wide[0], dtypes[0]
    for i, dtype in enumerate(dtypes[1:], 1):
        wanted = set(result).union(*wide[i + 1 :])
        left, right = found, dtype
        left = _total_dtype(left) if done - wide[i] - wanted else left
        right = _total_dtype(right) if wide[i] - done - wanted else right
        if (done & wide[i]) - wanted:
            if left != right:
                raise RuntimeError(f"einsum({equation!r}): expected operands of one dtype, but got {left} and {right}")
            if left == BOOL and all(prod(shape) for shape in shapes):
                raise RuntimeError(f"einsum({equation!r}): bools have no matrix product; convert them: `x.float()`")
        done, found = (done | wide[i]) & wanted, promote(left, right)
    return _total_dtype(found) if len(dtypes) == 1 and set(terms[0]) - set(result) else found


def _total_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_floating else INT64


def dimension_labels(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand's dimensions, and of the result's; those that `...` stands for are numbers."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise RuntimeError(f"einsum({equation!r}): there are {len(terms)} terms for {len(ranks)} operands")
    for i, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        named = len(term.replace("...", ""))
        if named > rank or (named < rank and "..." not in term):
            raise RuntimeError(f"einsum({equation!r}): {term!r} has {named} labels, and operand {i} {rank} dimensions")
    spans = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    dots = [str(i) for i in range(max([s for term, s in zip(terms, spans, strict=True) if "..." in term], default=0))]

    def expanded(term: str, span: int) -> list[str]:
        before, ellipsis, after = term.partition("...")
        return [*before, *(dots[len(dots) - span :] if ellipsis else ()), *after]

    letters = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
    result = expanded(right, len(dots)) if arrow else [*dots, *letters]
    return [expanded(term, span) for term, span in zip(terms, spans, strict=True)], result


def matmul(a: Arguments) -> Shape:
    return shapes.matrix_product(a.at(0), a.at(1))


def added_product(a: Arguments) -> Shape:
    return shapes.matrix_product(a.at(1), a.at(2))


def added_batch(a: Arguments) -> Shape:
    return shapes.matrix_product(a.at(1), a.at(2))[1:]


def outer(a: Arguments) -> Shape:
    return a.at(0) + a.at(1)


def added_outer(a: Arguments) -> Shape:
    return a.at(1) + a.at(2)


def inner(a: Arguments) -> Shape:
    left, right = a.at(0), a.at(1)
    return left[:-1] + right[:-1] if left and right else left + right


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


def tensordot(a: Arguments) -> Shape:
    left, right = a.at(0), a.at(1)
    dims = [[wrap_dim(d, len(s)) for d in a[n]] for s, n in ((left, "dims_self"), (right, "dims_other"))]
    return _contracted(left, right, *dims)


def tensordot_last(a: Arguments) -> Shape:
    left, right, count = a.at(0), a.at(1), a["dims"]
    if not 0 <= count <= min(len(left), len(right)):
        raise RuntimeError(f"tensordot: {count} dimensions of {list(left)} and {list(right)} cannot be contracted")
    return _contracted(left, right, list(range(len(left) - count, len(left))), list(range(count)))


def bilinear(a: Arguments) -> Shape:
    return (*shapes.broadcast(a.at(0)[:-1], a.at(1)[:-1]), a.at(2)[0])


def linear(a: Arguments) -> Shape:
    input, weight = a.at(0), a.at(1)
    if input[-1:] != weight[-1:]:
        raise RuntimeError(f"linear: input of shape {list(input)} does not fit weight of shape {list(weight)}")
    return (*input[:-1], *weight[:-1])


def einsum(a: Arguments) -> Shape:
    operands = [tensor.shape for tensor in a["tensors"]]
    terms, result = dimension_labels(a["equation"], [len(shape) for shape in operands])
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, operands, strict=True):
        for label, size in zip(term, shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return tuple(sizes[label] for label in result)


def einsum_adjoint(a: Arguments) -> Shape:
    shape: Shape = a["tensors"][a["operand"]].shape
    return shape


_RANKS: dict[str, tuple[int, ...]] = {
    "mm": (2, 2),
    "bmm": (3, 3),
    "mv": (2, 1),
    "dot": (1, 1),
    "vdot": (1, 1),
    "outer": (1, 1),
    "ger": (1, 1),
    "addmm": (2, 2),
    "addmv": (2, 1),
    "baddbmm": (3, 3),
    "addbmm": (3, 3),
    "addr": (1, 1),
}
"""Of the two operands, the last of the tensors that an op takes."""


def have_ranks(a: Arguments) -> None:
    name = a.schema.base_name
    first = 1 if name.startswith(("add", "badd")) else 0
    left, right = a.at(first), a.at(first + 1)
    if (len(left), len(right)) != _RANKS[name]:
        raise fitting.misfit(
            a, f"expected tensors of rank {_RANKS[name]}, but got shapes {list(left)} and {list(right)}"
        )
    if len(left) == len(right) == 3 and left[0] != right[0]:
        raise fitting.misfit(a, f"batch sizes differ: {list(left)} and {list(right)}")
    if first and not fitting.is_broadcast_to(a.at(0), _added(name, left, right)):
        raise fitting.misfit(
            a, f"a term of shape {list(a.at(0))} does not fit a result of {list(_added(name, left, right))}"
        )


def _added(name: str, left: Shape, right: Shape) -> Shape:
    if name == "addr":
        return left + right
    made = shapes.matrix_product(left, right)
    return made[1:] if name == "addbmm" else made


def bias_of_linear(a: Arguments) -> None:
    if len(a.at(1)) not in (1, 2):
        raise fitting.misfit(a, f"a weight has one or two dimensions, but its shape is {list(a.at(1))}")
    result = (*a.at(0)[:-1], *a.at(1)[:-1])
    for bias in fitting.shapes_given(a, "bias"):
        if not fitting.is_broadcast_to(bias, result):
            raise fitting.misfit(a, f"a bias of shape {list(bias)} does not fit a result of shape {list(result)}")


def dtype_of_einsum(a: Arguments) -> DType:
    tensors = a["tensors"]
    return einsum_dtype(a["equation"], [t.shape for t in tensors], [t.dtype for t in tensors])


def dtype_of_gradient(a: Arguments) -> DType:
    return a.tensor("grad_output").dtype
