"""Which shapes fit an op, beyond what its result's shape asks: so that kernels refuse what a call on arrays does.

A rule of shapes reads what the result's shape depends on; a weight's shape, for one, does not show there. What is
declared here is asked before the rule, with what is known; what depends on elements only a run can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias, TypeVar

from ..ops.dims import wrap_dim, wrap_dims
from ..ops.meta import Meta
from ..ops.registry import Op
from .products import product
from .rules import Arguments, Shape, Undecided, broadcast

Check: TypeAlias = Callable[[Arguments], None]
C = TypeVar("C", bound=Check)

_CHECKS: dict[str, Check] = {}
"""By the base name of an op."""


def require_fit(op: Op, arguments: Arguments) -> None:
    """RuntimeError or IndexError where known arguments do not fit the op."""
    check = _CHECKS.get(op.schema.base_name)
    if check is None:
        return
    try:
        check(arguments)
    except Undecided:
        # What is not known before it runs is told when it runs.
        return


def fits(*names: str) -> Callable[[C], C]:
    """Declare what some ops ask of their arguments."""

    def register(check: C) -> C:
        for name in names:
            assert name not in _CHECKS, f"{name} has two checks"
            _CHECKS[name] = check
        return check

    return register


def _given(a: Arguments, *names: str) -> list[Shape]:
    """The shapes of those of some tensors that are there."""
    found = [a.get(name) for name in names]
    return [tensor.shape for tensor in found if isinstance(tensor, Meta)]


def _is_broadcast_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a shape can be broadcast to another and no further."""
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    return len(shape) <= len(target) and all(own in (1, size) for own, size in zip(padded, target, strict=True))


def _fail(a: Arguments, text: str) -> RuntimeError:
    return RuntimeError(f"{a.op.schema.base_name}: {text}")


# --- dimensions ---


@fits(
    *("softmax", "_softmax", "log_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    *("sort", "argsort"),
)
def has_dimension(a: Arguments) -> None:
    rank = len(a.at(0))
    wrap_dim(a["dim"], rank)


@fits("flip", "rot90")
def has_dimensions(a: Arguments) -> None:
    wrap_dims(a["dims"], len(a.at(0)))


@fits("roll")
def has_dimensions_to_roll(a: Arguments) -> None:
    rank, dims = len(a.at(0)), a["dims"] or ()
    if dims and not rank:
        raise _fail(a, f"dimensions {list(dims)} of a tensor that has none")
    for dim in dims:
        wrap_dim(dim, rank)


@fits("tril", "triu", "fliplr", "flipud", "trace")
def is_matrix(a: Arguments) -> None:
    rank = len(a.at(0))
    name = a.op.schema.base_name
    least = 1 if name == "flipud" else 2
    if rank < least or (name == "trace" and rank > 2):
        raise _fail(a, f"expected {least} dimensions, but got a tensor of shape {list(a.at(0))}")


@fits("item", "Int", "Float", "Bool", "IntImplicit", "FloatImplicit", "ScalarImplicit")
def is_one_number(a: Arguments) -> None:
    for shape in _given(a, a.op.schema.arguments[0].name):
        if prod(shape) != 1:
            raise RuntimeError(f"only a tensor of one element is a number, not one of shape {list(shape)}")


# --- products ---

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


@fits(*_RANKS)
def have_ranks(a: Arguments) -> None:
    name = a.op.schema.base_name
    first = 1 if name.startswith(("add", "badd")) else 0
    left, right = a.at(first), a.at(first + 1)
    if (len(left), len(right)) != _RANKS[name]:
        raise _fail(a, f"expected tensors of rank {_RANKS[name]}, but got shapes {list(left)} and {list(right)}")
    if len(left) == len(right) == 3 and left[0] != right[0] and name != "addbmm":
        raise _fail(a, f"batch sizes differ: {list(left)} and {list(right)}")
    if first and not _is_broadcast_to(a.at(0), _added(name, left, right)):
        raise _fail(a, f"a term of shape {list(a.at(0))} does not fit a result of {list(_added(name, left, right))}")


def _added(name: str, left: Shape, right: Shape) -> Shape:
    if name == "addr":
        return left + right
    made = product(left, right)
    return made[1:] if name == "addbmm" else made


@fits("linear")
def bias_of_linear(a: Arguments) -> None:
    if len(a.at(1)) not in (1, 2):
        raise _fail(a, f"a weight has one or two dimensions, but its shape is {list(a.at(1))}")
    result = (*a.at(0)[:-1], *a.at(1)[:-1])
    for bias in _given(a, "bias"):
        if not _is_broadcast_to(bias, result):
            raise _fail(a, f"a bias of shape {list(bias)} does not fit a result of shape {list(result)}")


@fits("conv1d", "conv2d", "conv3d")
def bias_of_convolution(a: Arguments) -> None:
    weight = a.shape("weight")
    if weight[0] % a["groups"]:
        raise _fail(a, f"{weight[0]} outputs do not divide into {a['groups']} groups")
    for bias in _given(a, "bias"):
        if bias != weight[:1]:
            raise _fail(a, f"expected a bias for each of {weight[0]} outputs, but got shape {list(bias)}")


# --- normalization ---


@fits("layer_norm", "native_layer_norm", "rms_norm")
def ends_in_normalized_shape(a: Arguments) -> None:
    shape, inner = a.shape("input"), tuple(a["normalized_shape"])
    if not inner or shape[len(shape) - len(inner) :] != inner:
        raise _fail(a, f"normalized_shape={list(inner)} is not the end of the input's shape {list(shape)}")
    for given in _given(a, "weight", "bias"):
        if given != inner:
            raise _fail(a, f"weight or bias has shape {list(given)}, but normalized_shape is {list(inner)}")


@fits("group_norm")
def divides_into_groups(a: Arguments) -> None:
    shape, groups = a.shape("input"), a["num_groups"]
    if len(shape) < 2 or groups <= 0 or shape[1] % groups:
        raise _fail(a, f"the channels of shape {list(shape)} do not divide into {groups} groups")
    _one_for_each(a, shape[1], "channels", "weight", "bias")


@fits("batch_norm", "_batch_norm_impl_index")
def has_channels(a: Arguments) -> None:
    shape = a.shape("input")
    if len(shape) < 2:
        raise _fail(a, f"expected at least 2 dimensions, but got shape {list(shape)}")
    statistics = () if a["training"] else ("running_mean", "running_var")
    if len(_given(a, *statistics)) != len(statistics):
        raise _fail(a, "expected running_mean and running_var when training is False")
    _one_for_each(a, shape[1], "channels", "weight", "bias", *statistics)


def _one_for_each(a: Arguments, count: int, what: str, *names: str) -> None:
    """Whether tensors are vectors over channels or classes; one number serves all, and one channel takes any."""
    for given in _given(a, *names):
        if count != 1 and prod(given) not in (1, count):
            raise _fail(a, f"expected one number for each of {count} {what}, but got shape {list(given)}")


# --- losses ---


@fits("binary_cross_entropy", "binary_cross_entropy_with_logits")
def is_as_its_target(a: Arguments) -> None:
    shape, target = a.at(0), a.shape("target")
    if shape != target:
        raise _fail(a, f"the target's shape {list(target)} is not the input's {list(shape)}")
    broadcast(shape, *_given(a, "weight", "pos_weight"))


@fits("nll_loss", "nll_loss_nd", "nll_loss_forward")
def has_a_class_for_each_target(a: Arguments) -> None:
    _classes(a, a.at(0), a.shape("target"))


@fits("cross_entropy_loss")
def has_classes(a: Arguments) -> None:
    """The target holds classes, or probabilities of all of them."""
    shape, target = a.at(0), a.tensor("target")
    if not target.dtype.is_floating:
        _classes(a, shape, target.shape)
    elif target.shape != shape or not shape:
        raise _fail(a, f"probabilities of shape {list(target.shape)} do not fit an input of shape {list(shape)}")
    else:
        _one_for_each(a, shape[0 if len(shape) == 1 else 1], "classes", "weight")


def _classes(a: Arguments, shape: Shape, target: Shape) -> None:
    axis = 0 if len(shape) == 1 else 1
    batch = shape[:axis] + shape[axis + 1 :]
    if not shape or target != batch:
        expected = f"expected a target of shape {list(batch)} for an input of shape {list(shape)}"
        raise _fail(a, f"{expected}, got {list(target)}")
    for weight in _given(a, "weight"):
        if weight != (shape[axis],):
            raise _fail(a, f"expected one weight for each of {shape[axis]} classes, but got shape {list(weight)}")
