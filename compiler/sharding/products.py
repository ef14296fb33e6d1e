"""How products run on parts: by the labels of einsum, written or meant."""

from __future__ import annotations

from collections.abc import Hashable

from ..ops.families.linalg.product_shapes import dimension_labels
from .labels import (
    Labelled,
    aten,
    from_the_right,
    has_argument,
    named_dims,
    paired,
    rank_of,
    rule_of,
    tensors_of,
)
from .placements import Forbidden
from .site import ShardingRule, Site

# --- products ---


def _matrix(site: Site, left: str, right: str) -> tuple[list[Hashable], list[Hashable], list[Hashable]]:
    """The labels of two factors and their product: batches from the right, rows, what is summed over, columns."""
    ranks = rank_of(site, left), rank_of(site, right)
    at_left = [*from_the_right(max(ranks[0] - 2, 0)), *(["rows"] if ranks[0] > 1 else []), "inner"]
    at_right = [*from_the_right(max(ranks[1] - 2, 0)), "inner", *(["columns"] if ranks[1] > 1 else [])]
    batches = from_the_right(max(*ranks, 2) - 2)
    return at_left, at_right, [*batches, *(["rows"] if ranks[0] > 1 else []), *(["columns"] if ranks[1] > 1 else [])]


def _product(left: str, right: str) -> ShardingRule:
    def label(site: Site) -> Labelled:
        at_left, at_right, result = _matrix(site, left, right)
        return Labelled(tensors_of(site, {left: at_left, right: at_right}), [result], ["inner"], [{0}, {1}])

    return rule_of(label)


def _added_product(left: str, right: str) -> ShardingRule:
    """`beta self + alpha left @ right`: what is added is added once, so that no sum over parts gives it."""

    def label(site: Site) -> Labelled:
        at_left, at_right, result = _matrix(site, left, right)
        own = result[len(result) - rank_of(site, "self") :]
        return Labelled(tensors_of(site, {"self": own, left: at_left, right: at_right}), [result], (), [{0, 1}, {0, 2}])

    return rule_of(label)


def _linear(site: Site) -> Labelled:
    rank, is_matrix = rank_of(site, "input"), rank_of(site, "weight") > 1
    rows: list[Hashable] = [*range(rank - 1)]
    tail = ["columns"] if is_matrix else []
    tensors = tensors_of(site, {"input": [*rows, "inner"], "weight": [*tail, "inner"], "bias": tail})
    if len(tensors) < 3:
        return Labelled(tensors, [[*rows, *tail]], ["inner"], [{0}, {1}])
    return Labelled(tensors, [[*rows, *tail]], (), [{0, 2}, {1, 2}])


def _outer(left: str, right: str) -> ShardingRule:
    def label(site: Site) -> Labelled:
        own = [[(name, dim) for dim in range(rank_of(site, name))] for name in (left, right)]
        return Labelled(
            tensors_of(site, dict(zip((left, right), own, strict=True))), [[*own[0], *own[1]]], (), [{0}, {1}]
        )

    return rule_of(label)


def _inner(site: Site) -> Labelled:
    if not rank_of(site, "self") or not rank_of(site, "other"):
        raise Forbidden("inner of a single number")
    left = [*(("left", dim) for dim in range(rank_of(site, "self") - 1)), "inner"]
    right = [*(("right", dim) for dim in range(rank_of(site, "other") - 1)), "inner"]
    return Labelled(
        tensors_of(site, {"self": left, "other": right}), [[*left[:-1], *right[:-1]]], ["inner"], [{0}, {1}]
    )


def _tensordot(site: Site) -> Labelled:
    ranks = rank_of(site, "self"), rank_of(site, "other")
    if has_argument(site, "dims"):
        dims = site.named("dims")
        pairs = (range(ranks[0] - dims, ranks[0]), range(dims))
    else:
        pairs = ([d % ranks[0] for d in site.named("dims_self")], [d % ranks[1] for d in site.named("dims_other")])  # type: ignore[assignment]
    left: list[Hashable] = [("left", dim) for dim in range(ranks[0])]
    right: list[Hashable] = [("right", dim) for dim in range(ranks[1])]
    for number, (i, j) in enumerate(zip(*pairs, strict=True)):
        left[i] = right[j] = ("inner", number)
        if site.shape("self")[i] != site.shape("other")[j]:
            left[i] = right[j] = None
    inner = [label for label in left if label in right and label is not None]
    result = [
        *(own for n, own in enumerate(left) if n not in pairs[0]),
        *(own for n, own in enumerate(right) if n not in pairs[1]),
    ]
    return Labelled(tensors_of(site, {"self": left, "other": right}), [result], inner, [{0}, {1}])


def _matmul_left(site: Site) -> Labelled:
    """The gradient of `left @ right` in left, of left's size."""
    rank, other = len(site.named("left_size")), rank_of(site, "right")
    right = [*from_the_right(max(other - 2, 0)), "inner", *(["columns"] if other > 1 else [])]
    result = [*from_the_right(max(rank - 2, 0)), *(["rows"] if rank > 1 else []), "inner"]
    return _matmul_gradient(site, "right", right, rank, other, result, ["columns"])


def _matmul_right(site: Site) -> Labelled:
    """The gradient of `left @ right` in right, of right's size."""
    rank, other = len(site.named("right_size")), rank_of(site, "left")
    left = [*from_the_right(max(other - 2, 0)), *(["rows"] if other > 1 else []), "inner"]
    result = [*from_the_right(max(rank - 2, 0)), "inner", *(["columns"] if rank > 1 else [])]
    return _matmul_gradient(site, "left", left, other, rank, result, ["rows"])


def _matmul_gradient(
    site: Site, name: str, factor: list[Hashable], left: int, right: int, result: list[Hashable], summed: list[Hashable]
) -> Labelled:
    batches = from_the_right(max(left, right, 2) - 2)
    gradient = [*batches, *(["rows"] if left > 1 else []), *(["columns"] if right > 1 else [])]
    tensors = tensors_of(site, {name: factor, "grad_output": gradient})
    return Labelled(tensors, [result], [*summed, *batches], [{0}, {1}])


def _einsum(site: Site) -> Labelled:
    metas, places = site.named("tensors"), site.placements[site.op.schema.index_of("tensors")]
    terms, result = dimension_labels(site.named("equation"), [len(meta.shape) for meta in metas])
    tensors = [*zip(metas, places, terms, strict=True)]
    summed = {label for term in terms for label in term if label not in result}
    return Labelled(tensors, [result], summed, [{i} for i in range(len(tensors))])


def _einsum_adjoint(site: Site) -> Labelled:
    metas, places = site.named("tensors"), site.placements[site.op.schema.index_of("tensors")]
    terms, result = dimension_labels(site.named("equation"), [len(meta.shape) for meta in metas])
    operand = site.named("operand")
    tensors = [(site.named("grad_output"), site.at("grad_output"), result), *zip(metas, places, terms, strict=True)]
    summed = {label for term in (result, *terms) for label in term}
    # An index that nothing else has was summed away: where it is cut, each part takes the same, which is no sum.
    linear = [{i} for i in range(len(tensors)) if i != operand + 1]
    return Labelled(tensors, [terms[operand]], summed, linear)


def _all_terms(site: Site) -> Labelled:
    metas, places = site.values[0], site.placements[0]
    rank = max(len(meta.shape) for meta in metas)
    labels = from_the_right(rank)
    tensors = [(m, p, labels[rank - len(m.shape) :]) for m, p in zip(metas, places, strict=True)]
    return Labelled(tensors, [labels], (), [set(range(len(tensors)))])


PRODUCTS: dict[str, ShardingRule] = {
    "aten::mv": _product("self", "vec"),
    "aten::matmul": _product("self", "other"),
    **dict.fromkeys(aten("mm", "bmm"), _product("self", "mat2")),
    "aten::dot": _product("self", "tensor"),
    "aten::vdot": _product("self", "other"),
    "aten::inner": rule_of(_inner),
    **dict.fromkeys(aten("outer", "ger"), _outer("self", "vec2")),
    "aten::addmm": _added_product("mat1", "mat2"),
    "aten::addmv": _added_product("mat", "vec"),
    "aten::baddbmm": _added_product("batch1", "batch2"),
    "aten::linear": rule_of(_linear),
    **dict.fromkeys(aten("tensordot"), rule_of(_tensordot)),
    "gs::matmul_left": rule_of(_matmul_left),
    "gs::matmul_right": rule_of(_matmul_right),
    "aten::einsum": rule_of(_einsum),
    "gs::einsum_adjoint": rule_of(_einsum_adjoint),
    "gs::add_n": rule_of(_all_terms),
    "aten::linalg_cross": paired(named_dims, ("self", "other")),
    "aten::linalg_vecdot": paired(named_dims, ("x", "y"), gone=True),
    "aten::cosine_similarity": paired(named_dims, ("x1", "x2"), gone=True),
}
"""By full name, or by the name of all overloads."""
