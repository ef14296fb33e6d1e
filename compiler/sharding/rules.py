"""By op: where the results are, given where the arguments are.

A rule is exact or says no (Forbidden): each device is to compute, of its parts alone, its part of the results. What
is pointwise follows from the op's scalar expression, which also tells what it is linear in; views, reductions,
products and norms from the dimensions they are declared over. An op without a rule takes whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..ops.arguments import Arguments
from ..ops.elementwise import SYMBOLIC
from ..ops.meta import Meta
from ..ops.registry import Trait
from ..ops.scalar import linearize
from .layers import LAYERS
from .lookups import LOOKUPS
from .placements import MEAN, REPLICATE, SUM, Forbidden, Placement, shard
from .products import PRODUCTS
from .site import ShardingRule, Site


def placed(site: Site) -> Sequence[Any]:
    """Where each result is. Forbidden where parts of the arguments do not give parts of it."""
    op = site.op
    found = next(
        (table[name] for name in (op.schema.full_name, op.schema.name) for table in _TABLES if name in table), None
    )
    if found is not None:
        return found(site)
    if op.has(Trait.POINTWISE) and op.scalar is not None:
        return [_pointwise(site)]
    raise Forbidden(f"{op.schema.name} takes whole tensors")


# --- pointwise ---


def _pointwise(site: Site) -> Placement:
    places = [place for _, place in site.tensors]
    if any(place.is_partial for place in places):
        return _linear(site)
    return aligned(site.tensors, site.results[0])


def aligned(tensors: Sequence[tuple[Meta, Placement]], result: Meta) -> Placement:
    """Of tensors that are broadcast together: all are cut along the same dimension, or have one element there."""
    rank = len(result.shape)
    cuts = {place.dim + rank - meta.rank for meta, place in tensors if place.kind == "shard"}
    if not cuts:
        return REPLICATE
    if len(cuts) > 1:
        raise Forbidden("the tensors are cut along different dimensions")
    (cut,) = cuts
    for meta, place in tensors:
        dim = cut - rank + meta.rank
        has_all = dim >= 0 and meta.shape[dim] != 1
        if has_all and place.kind != "shard":
            raise Forbidden("one tensor is cut along a dimension along which another one is whole")
        if place.kind == "shard" and meta.shape[dim] == 1 and result.shape[cut] != 1:
            raise Forbidden("the single element of a dimension that is broadcast cannot be cut")
    return shard(cut)


def _linear(site: Site) -> Placement:
    """Of partial tensors: what is linear in them is partial too, by the steps of the scalar expression."""
    if any(place.kind == "shard" for _, place in site.tensors):
        raise Forbidden("partial results meet a tensor that is cut")
    arguments = Arguments(site.op.schema, site.values).values
    known = [SYMBOLIC if isinstance(value, Meta) else value for value in arguments]
    states: list[Placement] = []
    for step in linearize(site.op.scalar.expression(known)):
        operands = [states[i] for i in step.operands]
        if step.op == "parameter":
            place = site.placements[step.value] if step.value < len(site.placements) else REPLICATE
            states.append(place if isinstance(place, Placement) else REPLICATE)
        else:
            states.append(_step(step.op, operands))
    return states[-1]


def _step(op: str, operands: Sequence[Placement]) -> Placement:
    partial = [place for place in operands if place.is_partial]
    if not partial:
        return REPLICATE
    whole = len(operands) - len(partial)
    if op in ("add", "sub") and not whole and len(set(partial)) == 1:
        return partial[0]
    if op in ("neg", "cast") or (op == "mul" and len(partial) == 1):
        return partial[0]
    if op == "div" and operands[0].is_partial and whole == 1:
        return operands[0]
    raise Forbidden("what follows is not linear in partial results")


def _same(site: Site) -> Sequence[Any]:
    """Of one tensor, element by element, and linear as long as it stays floating."""
    if site.placements[0].is_partial and not site.results[0].dtype.is_floating:
        raise Forbidden("what follows is not linear in partial results")
    return [site.placements[0]]


def _bits(site: Site) -> Sequence[Any]:
    (place,) = site.placements[:1]
    if place != REPLICATE:
        raise Forbidden("bits are read as they lie")
    return [REPLICATE]


# --- views ---


def _moved(move: Callable[[Site, int], int | None]) -> ShardingRule:
    """A view that takes each dimension to one; None where it does not keep it whole."""

    def rule(site: Site) -> Sequence[Any]:
        place = site.placements[0]
        if place.kind != "shard":
            return [place]
        dim = move(site, place.dim)
        if dim is None:
            raise Forbidden(f"dimension {place.dim} does not go into the result as it is")
        return [shard(dim)]

    return rule


def _wrapped(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def _transposed(site: Site, dim: int) -> int:
    rank = len(site.values[0].shape)
    pair = [_wrapped(site.named("dim0"), rank), _wrapped(site.named("dim1"), rank)]
    return pair[1 - pair.index(dim)] if dim in pair else dim


def _permuted(site: Site, dim: int) -> int:
    rank = len(site.values[0].shape)
    return [_wrapped(d, rank) for d in site.named("dims")].index(dim)


def _unsqueezed(site: Site, dim: int) -> int:
    new = _wrapped(site.named("dim"), len(site.values[0].shape) + 1)
    return dim + (new <= dim)


def _squeezed(site: Site, dim: int) -> int | None:
    """A part may be a single element, which would go as well."""
    given = site.named("dim") if any(a.name == "dim" for a in site.op.schema.arguments) else None
    rank = len(site.values[0].shape)
    chosen = (
        {*range(rank)} if given is None else {_wrapped(d, rank) for d in ([given] if isinstance(given, int) else given)}
    )
    return None if dim in chosen else _reshaped(site, dim)


def _swapped(site: Site, dim: int) -> int:
    rank = len(site.values[0].shape)
    pair = [_wrapped(site.named("axis0" if site.op.schema.base_name == "swapaxes" else "dim0"), rank)]
    pair.append(_wrapped(site.named("axis1" if site.op.schema.base_name == "swapaxes" else "dim1"), rank))
    return pair[1 - pair.index(dim)] if dim in pair else dim


def _swapped_last(site: Site, dim: int) -> int:
    rank = len(site.values[0].shape)
    return 2 * rank - 3 - dim if dim >= rank - 2 else dim


def _moved_dim(site: Site, dim: int) -> int:
    rank = len(site.values[0].shape)
    given = [site.named("source"), site.named("destination")]
    source, target = ([_wrapped(d, rank) for d in ([side] if isinstance(side, int) else side)] for side in given)
    if dim in source:
        return target[source.index(dim)]
    free = [d for d in range(rank) if d not in target]
    return free[[d for d in range(rank) if d not in source].index(dim)]


def _diagonal(site: Site, dim: int) -> int | None:
    rank = len(site.values[0].shape)
    pair = {_wrapped(site.named(name), rank) for name in ("dim1", "dim2")}
    return None if dim in pair else dim - sum(d < dim for d in pair)


def _unfolded(site: Site, dim: int) -> int | None:
    return None if dim == _wrapped(site.named("dimension"), len(site.values[0].shape)) else dim


def _repeated(site: Site, dim: int) -> int | None:
    """As often as it is there once, and no more."""
    shift = len(site.results[0].shape) - len(site.values[0].shape)
    is_kept = dim + shift >= 0 and site.results[0].shape[dim + shift] == site.values[0].shape[dim]
    return dim + shift if is_kept else None


def _reshaped(site: Site, dim: int) -> int | None:
    """The dimension of the result that begins where this one does in the order of elements, and is as long."""
    before, after = site.values[0].shape, site.results[0].shape
    outer = prod(before[:dim])
    for place, size in enumerate(after):
        if size == before[dim] and prod(after[:place]) == outer and (size != 1 or place == dim):
            return place
    # The outermost of dimensions that are joined may be cut: parts of it are parts of what they make.
    for place, size in enumerate(after):
        if prod(after[:place]) == outer and before[dim] > 1 and size % before[dim] == 0:
            return place
    return None


def _expanded(site: Site, dim: int) -> int | None:
    shift = len(site.results[0].shape) - len(site.values[0].shape)
    return dim + shift if site.results[0].shape[dim + shift] == site.values[0].shape[dim] else None


def _selected(site: Site, dim: int) -> int | None:
    chosen = _wrapped(site.named("dim"), len(site.values[0].shape))
    return None if dim == chosen else dim - (chosen < dim)


def _sliced(site: Site, dim: int) -> int | None:
    chosen = _wrapped(site.named("dim"), len(site.values[0].shape))
    return None if dim == chosen and site.results[0].shape != site.values[0].shape else dim


def _split(site: Site) -> Sequence[Any]:
    place = site.placements[0]
    if place.kind == "shard" and place.dim == _wrapped(site.named("dim"), len(site.values[0].shape)):
        raise Forbidden(f"dimension {place.dim} is split")
    return [[place] * len(site.results[0])]


def _unbound(site: Site) -> Sequence[Any]:
    place, dim = site.placements[0], _wrapped(site.named("dim"), len(site.values[0].shape))
    if place.kind == "shard" and place.dim == dim:
        raise Forbidden(f"dimension {dim} is split")
    moved = shard(place.dim - (dim < place.dim)) if place.kind == "shard" else place
    return [[moved] * len(site.results[0])]


def _joined(site: Site) -> Sequence[Any]:
    (places,), (metas,) = site.placements[:1], site.values[:1]
    if len(set(places)) > 1:
        raise Forbidden("the tensors of a list are in different places")
    place = places[0]
    rank = len(metas[0].shape) + (site.op.schema.name == "aten::stack")
    dim = _wrapped(site.named("dim"), rank)
    if place.kind != "shard":
        return [place]
    if site.op.schema.name == "aten::stack":
        return [shard(place.dim + (dim <= place.dim))]
    if place.dim == dim:
        raise Forbidden(f"the tensors are joined along dimension {dim}")
    return [place]


# --- reductions ---


def _dims(site: Site) -> list[int]:
    given = site.named("dim") if any(a.name == "dim" for a in site.op.schema.arguments) else None
    rank = len(site.values[0].shape)
    chosen = [given] if isinstance(given, int) else given
    return [*range(rank)] if not chosen else [_wrapped(d, rank) for d in chosen]


def _reduced(partial: Placement | None) -> ShardingRule:
    """Over dimensions: of one that is cut, each device has a part; `partial` says what of."""

    def rule(site: Site) -> Sequence[Any]:
        place, dims = site.placements[0], _dims(site)
        keeps = any(a.name == "keepdim" for a in site.op.schema.arguments) and site.named("keepdim")
        if place.kind != "shard":
            is_linear = partial is not None and site.results[0].dtype.is_floating
            if place.is_partial and not is_linear:
                raise Forbidden("what follows is not linear in partial results")
            return [place] * len(site.results)
        if place.dim in dims:
            if partial is None:
                raise Forbidden(f"dimension {place.dim} is reduced, and not by a sum")
            return [partial]
        gone = 0 if keeps else sum(d < place.dim for d in dims)
        return [shard(place.dim - gone)] * len(site.results)

    return rule


def _sum_to_size(site: Site) -> Sequence[Any]:
    place, shape, target = site.placements[0], site.values[0].shape, site.results[0].shape
    if place.kind != "shard":
        return [place]
    dim = place.dim - (len(shape) - len(target))
    if dim < 0 or target[dim] != shape[place.dim]:
        return [SUM]
    return [shard(dim)]


# --- along a dimension, which has to be whole ---


def _along(site: Site) -> Sequence[Any]:
    """softmax and its like, and their backwards."""
    rank = len(site.results[0].shape)
    place = aligned(site.tensors, site.results[0]) if not _has_partial(site) else _linear_in_first(site)
    if place.kind == "shard" and place.dim == _wrapped(site.named("dim"), rank):
        raise Forbidden(f"{site.op.schema.base_name} needs dimension {place.dim} whole")
    return [place]


def _has_partial(site: Site) -> bool:
    return any(place.is_partial for _, place in site.tensors)


def _linear_in_first(site: Site) -> Placement:
    (_, first), *others = site.tensors
    if not first.is_partial or any(place != REPLICATE for _, place in others) or "backward" not in site.op.schema.name:
        raise Forbidden("what follows is not linear in partial results")
    return first


def _rows(site: Site, *, rank: int, tensors: Sequence[str], whole: Sequence[str]) -> Placement:
    """The place of tensors whose first dimensions are rows of one norm each, and the last ones of it whole."""
    metas = [(site.named(name), site.at(name)) for name in tensors]
    if any(place.is_partial for _, place in metas):
        raise Forbidden("a norm is not linear in partial results")
    places = {place for _, place in metas}
    if len(places) > 1:
        raise Forbidden("one tensor is cut along a dimension along which another one is whole")
    (place,) = places
    if place.kind == "shard" and place.dim >= len(metas[0][0].shape) - rank:
        raise Forbidden(f"{site.op.schema.base_name} needs dimension {place.dim} whole")
    for name in whole:
        if isinstance(site.named(name), Meta) and site.at(name) != REPLICATE:
            raise Forbidden(f"{site.op.schema.base_name} takes '{name}' whole")
    return place


def _norm(site: Site) -> Sequence[Any]:
    place = _rows(site, rank=len(site.named("normalized_shape")), tensors=["input"], whole=_present(site, "bias"))
    return [place] * len(site.results)


def _present(site: Site, *names: str) -> list[str]:
    known = [argument.name for argument in site.op.schema.arguments]
    return [name for name in ("weight", *names) if name in known]


def _norm_backward(site: Site) -> Sequence[Any]:
    rank = len(site.named("normalized_shape"))
    others = ["input", "mean", "rstd"]
    if site.at("grad_out").is_partial:
        if any(site.at(name) != REPLICATE for name in (*others, "weight")):
            raise Forbidden("partial results meet a tensor that is cut")
        return [site.at("grad_out")] * 3
    place = _rows(site, rank=rank, tensors=["grad_out", *others], whole=["weight", "bias"])
    return [place, SUM, SUM] if place.kind == "shard" else [REPLICATE] * 3


RULES: dict[str, ShardingRule] = {
    **dict.fromkeys(("aten::to", "aten::type_as", "aten::detach", "aten::contiguous", "aten::clone"), _same),
    **dict.fromkeys([f"aten::{name}" for name in ("float", "double", "half", "bfloat16", "int", "long")], _same),
    **dict.fromkeys([f"aten::{name}" for name in ("short", "byte", "char", "bool")], _same),
    **dict.fromkeys(("gs::save", "gs::recompute", "aten::alias"), _same),
    "aten::t": _moved(lambda site, dim: len(site.values[0].shape) - 1 - dim),
    "aten::transpose": _moved(_transposed),
    "aten::permute": _moved(_permuted),
    "aten::unsqueeze": _moved(_unsqueezed),
    "aten::squeeze": _moved(_squeezed),
    **dict.fromkeys(("aten::swapaxes", "aten::swapdims"), _moved(_swapped)),
    **dict.fromkeys(("aten::mT", "aten::adjoint"), _moved(_swapped_last)),
    "aten::numpy_T": _moved(lambda site, dim: len(site.values[0].shape) - 1 - dim),
    **dict.fromkeys(("aten::movedim", "aten::moveaxis"), _moved(_moved_dim)),
    **dict.fromkeys(("aten::view_as", "aten::reshape_as", "aten::unflatten", "aten::ravel"), _moved(_reshaped)),
    **dict.fromkeys(("aten::expand_as", "aten::_expand_into", "aten::broadcast_to"), _moved(_expanded)),
    "aten::narrow": _moved(_sliced),
    "aten::diagonal": _moved(_diagonal),
    "aten::unfold": _moved(_unfolded),
    **dict.fromkeys(("aten::repeat", "aten::tile"), _moved(_repeated)),
    "aten::reshape": _moved(_reshaped),
    "aten::view": _moved(_reshaped),
    "aten::view.dtype": _bits,
    "aten::flatten": _moved(_reshaped),
    "aten::expand": _moved(_expanded),
    "aten::select": _moved(_selected),
    "aten::slice": _moved(_sliced),
    **dict.fromkeys(("aten::chunk", "aten::split", "aten::split_with_sizes", "aten::tensor_split"), _split),
    "aten::unbind": _unbound,
    "aten::__getitem__.t": lambda site: [site.placements[0][site.values[1]]],
    "aten::append.t": lambda site: [[*site.placements[0], site.placements[1]]],
    **dict.fromkeys(("aten::cat", "aten::concat", "aten::concatenate", "aten::stack"), _joined),
    "aten::sum": _reduced(SUM),
    "aten::mean": _reduced(MEAN),
    **dict.fromkeys(("aten::amax", "aten::amin", "aten::prod", "aten::logsumexp", "aten::var"), _reduced(None)),
    **dict.fromkeys(("aten::sum_to_size", "aten::_grad_sum_to_size"), _sum_to_size),
    **dict.fromkeys(("aten::softmax", "aten::log_softmax", "aten::_softmax", "aten::_log_softmax"), _along),
    **dict.fromkeys(("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"), _along),
    **dict.fromkeys(("aten::native_layer_norm", "aten::layer_norm", "aten::rms_norm"), _norm),
    "aten::native_layer_norm_backward": _norm_backward,
}
"""By full name, or by the name of all overloads."""
_TABLES = (RULES, PRODUCTS, LOOKUPS, LAYERS)
