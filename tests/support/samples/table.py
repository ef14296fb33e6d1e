"""Sample calls of every op that has a formula, inside the domain in which it is differentiable.

A pointwise op's calls follow from its schema: DOMAINS says where its tensors live, NUMBERS which numbers and strings
to try. Ops on whole arrays take the calls of array_calls.py; DIFFERENTIABLE replaces those that
would meet ties, integers or NaN, and adds the ops that torch lacks.

    for call in calls(op):
        arguments = call.arguments(op, FLOAT64, seed, LAYOUTS["transposed"])     # one value per schema argument
        expected = reference(op)(*tensors)                                       # torch's op, same arguments
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np
import torch
from gradscript.compiler.ops import OPS, Op, Trait
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.compiler.types.schema import Argument
from gradscript.compiler.types.types import NUMBER, is_tensor, strip_optional
from samples import creation as samples_creation
from samples import indexing as samples_indexing
from samples import linalg as samples_linalg
from samples import nn as samples_nn
from samples import reduction as samples_reduction
from samples import shape as samples_shape
from samples import torchscript as samples_torchscript
from samples.arrays import LAYOUTS, Call, Leaf, call, index, literal, mask, positive, probability, t

__all__ = ["LAYOUTS", "Call", "calls", "differentiable_ops", "key", "reference", "tensor_positions"]

MODULES = (
    samples_reduction,
    samples_linalg,
    samples_shape,
    samples_indexing,
    samples_creation,
    samples_nn,
    samples_torchscript,
)

Make = Callable[..., Leaf]


def between(low: float, high: float) -> Make:
    """Values spread over an interval."""
    return lambda *shape: Leaf(lambda rng: rng.uniform(low, high, shape))


def away_from(*kinks: float, reach: float = 3.0, margin: float = 0.05) -> Make:
    """Values within `reach` of 0, none nearer to a kink than `margin`."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = rng.uniform(-reach, reach, shape)
        for kink in kinks:
            near = np.abs(values - kink) < margin
            values = np.where(near, kink + np.where(values < kink, -2 * margin, 2 * margin), values)
        return np.asarray(values)

    return lambda *shape: Leaf(lambda rng: draw(rng, shape))


ABOVE_ONE = between(1.2, 4)
INSIDE_ONE = between(-0.9, 0.9)
NONZERO = away_from(0.0, margin=0.2)

DOMAINS: dict[str, Make] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "digamma", "polygamma"), positive),
    **dict.fromkeys(("pow", "float_power", "special_entr"), positive),
    **dict.fromkeys(("log1p", "atanh", "asin", "acos", "erfinv"), INSIDE_ONE),
    **dict.fromkeys(("logit", "special_ndtri"), probability),
    **dict.fromkeys(("special_zeta", "acosh"), ABOVE_ONE),
    **dict.fromkeys(("xlogy.other", "special_xlog1py.other", "addcdiv.tensor2"), positive),
    **dict.fromkeys(("div.other", "remainder.other", "fmod.other", "floor_divide.other"), ABOVE_ONE),
    **dict.fromkeys(("reciprocal", "abs", "copysign", "sinc", "hypot", "atan2", "relu", "leaky_relu"), NONZERO),
    **dict.fromkeys(("tan", "special_i1", "special_i1e", "special_i0e", "i0"), between(0.2, 1.2)),
    **dict.fromkeys(("elu", "selu", "celu", "threshold", "prelu", "_prelu_kernel"), NONZERO),
    **dict.fromkeys(("hardsigmoid", "hardswish"), away_from(-3.0, 3.0, reach=5)),
    **dict.fromkeys(("hardshrink", "softshrink"), away_from(-0.5, 0.5)),
    "relu6": away_from(0.0, 6.0, reach=8),
    "hardtanh": away_from(-1.0, 1.0),
    "clamp.self": away_from(-1.5, 0.5, 2.0),
    "clamp_min.self": away_from(-1.5, 0.5, 2.0),
    "clamp_max.self": away_from(-1.5, 0.5, 2.0),
    "lerp.weight": probability,
    "special_erfcx": between(-1.5, 3),
}
"""Where the tensors of a pointwise op live, by op or by op and argument; elsewhere they are normal with deviation 2."""

NUMBERS: dict[str, list[Any]] = {
    "rounding_mode": [None, "trunc", "floor"],
    "approximate": ["none", "tanh"],
    "decimals": [1],
    "n": [0, 1, 2],
    "eps": [None, 0.02],
    "alpha": [1, 2, 0.5],
    "value": [1, 2.5],
    "scale": [1, 1.5],
    "input_scale": [1, 0.5],
    "weight": [0.25, 0.75],
    "lambd": [0.5],
    "beta": [1, 2],
    "threshold": [20, 1],
    "negative_slope": [0.01, 0.3],
    "min_val": [-1, -2],
    "max_val": [1, 2],
    "nan": [None, 1.5],
    "posinf": [None],
    "neginf": [None],
    "min": [-1.5, 0.5, None],
    "max": [2.0, 0.5, None],
    "exponent": [2, 3, 0.5, -1, 0, 1],
    "self": [2.5, 3],
    "other": [1.5, 2],
}
"""Values for the numbers and strings of a pointwise op, by the argument's name; the first one is taken most often."""

SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4), (3, 4), (3, 4)),
    ((3, 4), (4,), (3, 1)),
    ((1, 4), (2, 3, 1), (4,)),
    ((), (2, 3), ()),
    ((), (), ()),
    ((0, 3), (3,), (1, 3)),
)
"""Shapes for the tensors of a pointwise op: equal, broadcast both ways, 0-d, empty."""

DIFFERENTIABLE: dict[str, list[Call]] = {
    "binary_cross_entropy": [
        call(probability(3, 4), probability(3, 4), reduction=0),
        call(probability(3, 4), probability(3, 4), positive(4), reduction=1),
        call(probability(3, 4), probability(3, 4), reduction=2),
    ],
    "nll_loss_backward": [
        call(t(5), t(5, 4), index(4, 5), None, 0, -100, literal(5.0, FLOAT64)),
        call(t(), t(5, 4), index(4, 5), None, 1, -100, literal(5.0, FLOAT64)),
        call(t(), t(5, 4), index(4, 5), positive(4), 2, 1, literal(5.0, FLOAT64)),
    ],
    "var": [call(t(3, 4)), call(t(3, 4), False), call(t(2, 3, 4)), call(t(0))],
    "var_mean": [call(t(3, 4)), call(t(3, 4), False), call(t(2, 3, 4)), call(t(0))],
    "sum_to_size": [call(t(3, 4), [4]), call(t(2, 3, 4), [3, 1]), call(t(), []), call(t(0, 3), [3])],
    "_grad_sum_to_size": [call(t(3, 4), [4]), call(t(3, 4), None)],
    "binary_cross_entropy.str": [
        call(probability(3, 4), probability(3, 4), reduction="none"),
        call(probability(3, 4), probability(3, 4), positive(4), reduction="mean"),
        call(probability(3, 4), probability(3, 4), reduction="sum"),
    ],
    "clamp.Tensor": [
        call(t(3, 4), t(3, 4), t(3, 4)),
        call(t(3, 4), t(4), t(3, 1)),
        call(t(2, 3), t(), None),
        call(t(2, 3), None, t(3)),
        call(t(), t(), t()),
        call(t(0, 3), t(3), t(1, 3)),
    ],
    "dist": [call(t(3, 4), t(4)), call(t(3), t(3), 1), call(t(3), t(3), inf), call(t(3), t(3), 2.5)],
    "group_norm": [
        call(t(2, 6, 4), 2, t(6), t(6)),
        call(t(2, 6), 2),
        call(t(2, 4, 3, 2), 4, t(4), None, 0.1),
    ],
    "masked_fill.Tensor": [call(t(3, 4), mask(4), t()), call(t(), mask(2, 3), t()), call(t(0, 3), mask(3), t())],
    "prelu": [call(NONZERO(3, 4), t(4)), call(NONZERO(2, 4, 3), t(1)), call(NONZERO(3), t()), call(NONZERO(), t(1))],
}
"""Calls for the ops on arrays whose samples do not serve to differentiate."""

_LIST = [t(3), t(), t(2, 2), t(0)]
_NUMBERS = [t(), t(), t(), t()]
_HALF = Leaf(lambda rng: np.asarray(0.5))
LISTS: dict[str, tuple[list[Call], Callable[..., Any]]] = {
    "__getitem__.t": ([call(_LIST, 0), call(_LIST, -2)], lambda items, idx: items[idx]),
    "grad_item": ([call(_LIST, 0), call(_LIST, -2)], lambda gradients, index: gradients[index]),
    "grad_list": ([call(_LIST, _LIST)], lambda gradients, primal: list(gradients)),
    "grad_fit": (
        [call([t(2, 3), t(2), t(4, 2, 2), t(0)], _LIST, "f", "items")],
        lambda gradients, primal, *_: [g.sum_to_size(p.shape) for g, p in zip(gradients, primal, strict=True)],
    ),
    "grad_spread": (
        [call(_LIST, [t(2, 3), t(2), t(4, 2, 2), t(0)])],
        lambda gradients, like: [g.expand(x.shape) for g, x in zip(gradients, like, strict=True)],
    ),
    "pop.t": ([call(_LIST), call(_LIST, 1)], lambda items, idx: items[idx]),
    "slice.t": (
        [call(_LIST), call(_LIST, 1, 3), call(_LIST, None, None, -1), call(_LIST, -1, 0, -2)],
        lambda items, *bounds: items[slice(*bounds)],
    ),
    "append.t": ([call(_LIST, t(2))], lambda items, item: [*items, item]),
    "_set_item.t": (
        [call(_LIST, 2, t(5)), call(_LIST, -4, t(5))],
        lambda items, idx, item: [item if i == idx % len(items) else old for i, old in enumerate(items)],
    ),
    "_set_slice.t": (
        [call(_LIST, [t(5), t(1)], 1, 3), call(_LIST, [t(5), t(1)], None, None, 2)],
        lambda items, new, *bounds: _with_slice(items, slice(*bounds), new),
    ),
    "insert.t": (
        [call(_LIST, idx, t(5)) for idx in (0, 2, 9, -1, -9)],
        lambda items, idx, item: _with_slice(items, slice(idx, idx), [item]),
    ),
    "extend.t": ([call(_LIST, [t(2), t()])], lambda items, more: items + more),
    "add.t": ([call(_LIST, [t(2), t()])], lambda items, more: items + more),
    "_without.t": (
        [call(_LIST), call(_LIST, 1), call(_LIST, -3)],
        lambda items, idx: [item for i, item in enumerate(items) if i != idx % len(items)],
    ),
    "reverse.t": ([call(_LIST)], lambda items: items[::-1]),
    "_ordered": ([call(_LIST, [2, 0, 3, 1])], lambda items, order: [items[i] for i in order]),
    "sorted.list": (
        [call(_NUMBERS), call(_NUMBERS, True), call([])],
        lambda items, reverse: sorted(items, reverse=reverse),
    ),
    "remove.list": (
        [call([t(), _HALF, t()], _HALF)],
        lambda items, item: [items[0], items[2]],
    ),
    "copy.t": ([call(_LIST)], lambda items: items),
    "list.t": ([call(_LIST)], lambda items: items),
    "mul.left_t": ([call([t(2), t()], 3)], lambda items, n: items * n),
    "mul.right_": ([call(3, [t(2), t()])], lambda n, items: items * n),
}
"""Calls of the ops on lists of tensors, of different shapes so that none is taken for another, and what they mean."""


def _with_slice(items: list[Any], place: slice, new: list[Any]) -> list[Any]:
    changed = list(items)
    changed[place] = new
    return changed


def key(op: Op) -> str:
    """`add.Tensor` of `aten::add.Tensor`: what the tables of samples go by."""
    return op.schema.full_name.partition("::")[2]


def calls(op: Op) -> list[Call]:
    """Calls of an op; its first one is a plain one. KeyError for an op that has none."""
    name = key(op)
    if name in DIFFERENTIABLE:
        return DIFFERENTIABLE[name]
    if name in LISTS:
        return LISTS[name][0]
    if op.has(Trait.POINTWISE):
        return list(_pointwise_calls(op))
    for module in MODULES:
        if name in module.CASES:
            return [c for c in module.CASES[name] if not _has_nan(c)]
    raise KeyError(f"{op.schema.full_name} has no samples: add them to tests/support/samples/table.py")


def _has_nan(sample: Call) -> bool:
    return any(isinstance(value, Leaf) and value.nan for value in (*sample.args, *sample.kwargs.values()))


def _pointwise_calls(op: Op) -> Iterator[Call]:
    """Every shape with the first numbers, then every other number with the first shape."""
    tensors = tensor_positions(op)
    numbers = [i for i in range(len(op.schema.arguments)) if i not in tensors]
    options = {i: _numbers(op, op.schema.arguments[i]) for i in numbers}
    first = {i: values[0] for i, values in options.items()}
    shapes = SHAPES if len(tensors) > 1 else (((3, 4),), ((),), ((0, 3),))
    for chosen in shapes:
        yield _pointwise_call(op, dict(zip(tensors, chosen, strict=False)), first)
    for i in numbers:
        for value in options[i][1:]:
            yield _pointwise_call(op, dict.fromkeys(tensors, (3, 4)), {**first, i: value})


def _pointwise_call(op: Op, shapes: dict[int, tuple[int, ...]], numbers: dict[int, Any]) -> Call:
    arguments = op.schema.arguments
    made = [_leaf(op, arguments[i], shapes[i]) if i in shapes else numbers[i] for i in range(len(arguments))]
    return Call(tuple(made))


def _leaf(op: Op, argument: Argument, shape: tuple[int, ...]) -> Leaf:
    if argument.name in op.scalar.conditions:
        return mask(*shape)
    name = op.schema.base_name
    return DOMAINS.get(f"{name}.{argument.name}", DOMAINS.get(name, t))(*shape)


def _numbers(op: Op, argument: Argument) -> list[Any]:
    values = NUMBERS[argument.name]
    if argument.type == NUMBER or not argument.required:
        values = [v for v in values if v is not None or not argument.required]
    return values if argument.type != NUMBER else [v for v in values if v is not None]


def tensor_positions(op: Op) -> list[int]:
    """The arguments that are tensors, optional ones included."""
    return [i for i, a in enumerate(op.schema.arguments) if is_tensor(strip_optional(a.type))]


def differentiable_ops(*families: str) -> list[Op]:
    """The ops of some modules of compiler/ops through which a gradient may pass."""
    return [
        op
        for op in OPS.all()
        if family_of(op) in families
        and not op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY)
        and any(is_tensor(strip_optional(a.type)) for a in op.schema.arguments)
    ]


def family_of(op: Op) -> str:
    """The module of `compiler/ops/families` that declares an op: `pointwise`, `reductions.norms`."""
    evaluate = op.scalar.formula if op.scalar is not None else op.evaluate
    return str(evaluate.__module__).partition(".families.")[2]


# --- torch ---


def reference(op: Op) -> Callable[..., Any]:
    """torch's op on one value per schema argument, tensors and dtypes as torch's own."""
    name = key(op)
    found: Callable[..., Any] | None = LISTS[name][1] if name in LISTS else REFERENCES.get(name)
    for module in MODULES:
        found = found or module.REFERENCES.get(name)
    base, _, overload = name.partition(".")
    keywords = [a.name for a in op.schema.arguments if a.keyword_only]

    def run(*values: Any) -> Any:
        if found is not None:
            return found(*values)
        split = len(values) - len(keywords)
        aten = getattr(getattr(torch.ops.aten, base), overload or "default")
        return aten(*values[:split], **dict(zip(keywords, values[split:], strict=True)))

    return run


def _broadcast(name: str) -> Callable[..., Any]:
    """A loss of two tensors of one shape: given others, torch's own gradient divides a mean by the wrong number."""
    loss = getattr(torch.ops.aten, name)
    return lambda input, target, *rest: loss(*torch.broadcast_tensors(input, target), *rest)


def _soft_margin(input: torch.Tensor, target: torch.Tensor, reduction: int | str) -> torch.Tensor:
    """torch gives the target no gradient."""
    loss = torch.log1p(torch.exp(-input * target))
    return loss if reduction in (0, "none") else loss.mean() if reduction in (1, "mean") else loss.sum()


def _native_layer_norm(
    input: torch.Tensor, shape: list[int], weight: Any, bias: Any, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """From its definition: torch has no gradient for the statistics, nor a second one for a bias on its own."""
    variance, mean = torch.var_mean(input, dim=[*range(-len(shape), 0)], correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    normal = (input - mean) * rstd
    scaled = normal if weight is None else normal * weight
    return scaled if bias is None else scaled + bias, mean, rstd


def _layer_norm(input: torch.Tensor, shape: list[int], weight: Any, bias: Any, eps: float, _: bool) -> torch.Tensor:
    return _native_layer_norm(input, shape, weight, bias, eps)[0]


def _native_layer_norm_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    shape: list[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Any,
    bias: Any,
    mask: list[bool],
) -> list[Any]:
    """From its definition: torch takes mean and rstd to be those of the input, also where they are not."""
    outer, inner = [*range(grad.dim() - len(shape))], [*range(-len(shape), 0)]
    normal = (input - mean) * rstd
    g = grad if weight is None else grad * weight
    along = normal * (g * normal).mean(inner, True)
    found = [(g - g.mean(inner, True) - along) * rstd, (grad * normal).sum(outer), grad.sum(outer)]
    return [value if wanted else None for value, wanted in zip(found, mask, strict=True)]


REFERENCES: dict[str, Callable[..., Any]] = {
    "floor_divide.Scalar_Tensor": torch.floor_divide,
    "layer_norm": _layer_norm,
    "native_layer_norm": _native_layer_norm,
    "native_layer_norm_backward": _native_layer_norm_backward,
    **{name: _broadcast(name) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")},
    "soft_margin_loss": _soft_margin,
    "soft_margin_loss.str": _soft_margin,
}
"""torch's function where it is not `torch.ops.aten` of the same schema and tests/ops does not name it."""

_WEIGHTS = frozenset(("weight", "pos_weight"))
CONSTANTS: dict[str, frozenset[str]] = {
    "binary_cross_entropy": _WEIGHTS,
    "binary_cross_entropy_with_logits": _WEIGHTS,
    "nll_loss": _WEIGHTS,
    "nll_loss_nd": _WEIGHTS,
    "nll_loss_forward": _WEIGHTS,
    "nll_loss_backward": frozenset(("self", "weight", "total_weight")),
    "cross_entropy_loss": _WEIGHTS,
    "special_zeta": frozenset(("self",)),
    "batch_norm": frozenset(("running_mean", "running_var")),
    "instance_norm": frozenset(("running_mean", "running_var")),
    "masked_dropout": frozenset(("mask",)),
    "native_layer_norm_backward": frozenset(("bias",)),
    "native_dropout_backward": frozenset(("mask",)),
}
"""By op, the floating arguments that have no gradient, in torch or at all."""


def constants(op: Op) -> frozenset[str]:
    """The floating arguments of an op that have no gradient."""
    return CONSTANTS.get(op.schema.base_name, frozenset())
