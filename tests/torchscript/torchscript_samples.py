"""Sample arguments of TorchScript's functions: one tuple per call, in the order of the parameters.

Tensors are drawn in float64, inside the domain and at the kinks at which TorchScript and eager agree; those at which
they do not stand in torchscript_differences.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from samples.arrays import Leaf, index, literal, mask, positive, t

Sample = tuple[Any, ...]


def at(*values: Any) -> Leaf:
    """These numbers, as a vector."""
    return literal(list(values), FLOAT64)


def number(value: float) -> Leaf:
    """A tensor without dimensions."""
    return literal(value, FLOAT64)


def between(low: float, high: float, *shape: int) -> Leaf:
    return Leaf(lambda rng: rng.uniform(low, high, shape))


def of(dtype: DType, *shape: int) -> Leaf:
    return Leaf(lambda rng: rng.normal(0, 2, shape), dtype)


def _each(*tensors: Leaf) -> list[Sample]:
    return [(tensor,) for tensor in tensors]


def _same(names: Sequence[str], samples: list[Sample]) -> dict[str, list[Sample]]:
    """The same samples for several functions."""
    return dict.fromkeys(names, samples)


ANYWHERE = _each(t(3, 4), t(), t(0, 2))
ABOVE_ZERO = _each(positive(3, 4), positive(), positive(0, 2))
INSIDE_ONE = _each(between(-0.9, 0.9, 3, 4), between(-0.9, 0.9), between(-0.9, 0.9, 0, 2))
PAIRS: list[Sample] = [
    (t(3, 4), t(3, 4)),
    (t(3, 4), t(4)),
    (t(3, 1), t(2, 1, 4)),
    (t(), t(2, 3)),
    (t(), t()),
    (t(0, 3), t(3)),
]
"""Equal shapes, broadcast one way and both ways, 0-d, empty."""
QUOTIENTS: list[Sample] = [
    (t(3, 4), positive(3, 4)),
    (t(3, 4), positive(4)),
    (t(3, 1), positive(2, 1, 4)),
    (t(), positive(2, 3)),
    (t(), positive()),
    (t(0, 3), positive(3)),
]
SCALED: list[Sample] = [(x, y, alpha) for x, y in PAIRS[:3] for alpha in (1, 2, -0.5)]
WITH_NUMBER: list[Sample] = [(t(3, 4), 2.5), (t(), -3), (t(0, 2), 2)]
DIMS: list[Sample] = [
    (t(2, 3, 4), [1], False),
    (t(2, 3, 4), [0, -1], False),
    (t(2, 3, 4), [-3, 1], True),
    (t(2, 3, 4), [0, 1, 2], False),
    (t(5), [0], False),
    (t(5), [-1], True),
]

POINTWISE: dict[str, list[Sample]] = {
    **_same(("tanh", "sigmoid", "silu", "erf", "erfc", "exp", "expm1", "neg", "atan"), ANYWHERE),
    **_same(("sin", "cos", "sinh", "cosh"), ANYWHERE),
    "tan": [*INSIDE_ONE, (at(0, 0.5),)],
    **_same(("acos", "asin"), [*INSIDE_ONE, (at(-1, 1, 0),)]),
    **_same(("ceil", "floor", "round", "trunc", "frac"), [*ANYWHERE, (at(-1, -0.5, 0, 0.5, 1, 2.5),)]),
    **_same(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"), [*ABOVE_ZERO, (at(0, 1),)]),
    "log1p": [*INSIDE_ONE, (at(-1, 0),)],
    "abs": [*ANYWHERE, (at(-1, 0, 1),)],
    "relu": [*ANYWHERE, (at(-1, 0, 1),)],
    "relu6": [(between(-2, 8, 3, 4),), (at(0, 3, 6, 7),)],
    "hardswish": [(between(-5, 5, 3, 4),), (at(-3, 0, 3),)],
    "hardsigmoid": [(between(-5, 5, 3, 4),), (at(-3, 0, 3),)],
    "leaky_relu": [(t(3, 4), 0.125), (t(), -0.5), (at(-1, 0, 1), 0.25)],
    "gelu": [(x, how) for how in ("none", "tanh") for x in (t(3, 4), t(), t(0, 2), at(-30, 0, 30))],
    "softplus": [(t(3, 4), 1, 20), (t(), 2.5, 20), (at(-40, 0, 21, 40), 1, 20), (at(-1, 3), 2, 5)],
    "threshold": [(t(3, 4), 0.1, 20), (at(-1, 1), 0, -3), (t(0, 2), 1, 0)],
    "hardshrink": [(t(3, 4), 0.5), (at(-0.5, 0, 0.5), 0.5), (t(0, 2), 1)],
    "hardtanh": [(t(3, 4), -1, 1), (at(-3, 0, 3), -2.5, 0.5)],
    "clamp_1": [
        *[(t(3, 4), low, high) for low, high in ((-1, 1), (None, 0.5), (-0.5, None), (1, -1))],
        (at(-1, 0, 1, float("nan")), -1, 1),
        (t(), 0, None),
    ],
    "clamp_2": [
        (t(3, 4), literal(np.full((3, 4), -1)), None),
        (t(3, 4), None, literal(1)),
        (t(3, 4), literal(np.full(4, -1)), literal(np.full((3, 1), 1))),
        (at(-1, 0, 1), literal([-1, -1, -1]), literal([1, 1, 1])),
    ],
    "max": [*PAIRS, (t(3), at(float("inf"), float("-inf"), 0))],
    "min": [*PAIRS, (t(3), at(float("inf"), float("-inf"), 0))],
    "mul_0": PAIRS,
    "mul_1": WITH_NUMBER,
    "div_0": QUOTIENTS,
    "div_1": WITH_NUMBER,
    "div_2": [(*pair, how) for pair in QUOTIENTS for how in (None, "trunc", "floor")],
    "div_3": [(*pair, how) for pair in WITH_NUMBER for how in (None, "trunc", "floor")],
    "add_0": SCALED,
    "sub_0": SCALED,
    "rsub_0": SCALED,
    **_same(("add_1", "sub_1", "rsub_1"), [(t(3, 4), 2.5, 1), (t(), 3, -2), (t(0, 2), 1, 0.5)]),
    "fmod": [(t(3, 4), 1.5), (at(-3, 0, 3), 1.5), (t(), -2)],
    "remainder": [(t(3, 4), 1.5), (at(-3, 0, 3), 1.5), (t(), -2)],
    "pow_0": [
        *[(positive(3, 4), exponent) for exponent in (2, 0.5, -1.5, 0, 1)],
        (t(3, 4), 3),
        (at(0, 1), 2),
        (at(0, 1), 1),
        (at(0, 1), 0),
        (at(0, 1), 0.5),
        (at(0, 1), -1),
    ],
    "pow_1": [(positive(3, 4), t(4)), (positive(3, 1), t(2, 1, 4)), (positive(), t(3)), (positive(2), at(0, 1))],
    "pow_2": [(2.5, t(3, 4)), (2, t()), (0.5, at(-1, 0, 1)), (1, t(0, 2))],
    "addcmul": [
        (x, y, z, value)
        for value in (1, -0.5)
        for x, y, z in (
            (t(3, 4), t(3, 4), t(3, 4)),
            (t(4), t(3, 1), t(2, 1, 4)),
            (t(), t(3), t()),
            (t(0, 2), t(2), t(2)),
        )
    ],
    "lerp_0": [(*pair, weight) for pair in PAIRS[:4] for weight in (0.25, 0.75, 2)],
    "lerp_1": [
        (t(3, 4), t(3, 4), t(3, 4)),
        (t(4), t(3, 1), t(2, 1, 4)),
        (t(), t(3), between(0.6, 1, 3)),
        (t(3), t(3), t()),
    ],
    "where": [
        (mask(3, 4), t(3, 4), t(3, 4)),
        (mask(4), t(3, 1), t()),
        (mask(2, 1, 1), t(3), t(2, 3, 1)),
        (mask(), t(), t(2)),
    ],
    **_same(("lt", "le", "gt", "ge", "eq", "ne"), [(t(3, 4), 0.5), (at(-1, 0, 1), 0), (t(0, 2), 1)]),
}

REDUCTION: dict[str, list[Sample]] = {
    "mean_0": [(t(3, 4), None), (t(), None), (t(2, 3), FLOAT32.code), (of(FLOAT32, 3), FLOAT64.code)],
    "mean_1": [
        *[(*sample, None) for sample in DIMS],
        (t(2, 3), None, False, None),
        (t(2, 3), None, True, None),
        (t(2, 3), [1], False, FLOAT32.code),
        (t(), [0], False, None),
        (t(), [-1], True, None),
    ],
    "logsumexp": [*DIMS, (t(), [0], False), (t(), [-1], True), (at(float("-inf"), 0, 1), [0], False)],
    "std_0": [(t(3, 4), True), (t(3, 4), False), (t(5), True)],
    "var_0": [(t(3, 4), True), (t(3, 4), False), (t(5), True), (t(), False), (t(1), False)],
    **_same(
        ("std_1", "var_1"),
        [(x, dims, unbiased, keep) for x, dims, keep in DIMS for unbiased in (True, False)]
        + [(t(2, 3), None, unbiased, False) for unbiased in (True, False)],
    ),
    **_same(
        ("std_2", "var_2"),
        [(x, dims, correction, keep) for x, dims, keep in DIMS for correction in (None, 0, 0.5)]
        + [(t(2, 3), None, correction, False) for correction in (None, 0, 2)],
    ),
    **_same(
        ("softmax", "log_softmax"),
        [(t(3, 4), 1, None), (t(2, 3, 4), -3, None), (t(), 0, None), (t(0, 3), 1, None), (t(3, 4), 0, FLOAT64.code)],
    ),
    "_grad_sum_to_size": [(t(3, 4), [4]), (t(2, 3, 4), [3, 1]), (t(3, 4), None), (t(3, 4), [3, 4]), (t(0, 2), [1, 2])],
}

MATRICES: dict[str, list[Sample]] = {
    "mm": [(t(3, 4), t(4, 2)), (t(0, 4), t(4, 2)), (t(3, 0), t(0, 2)), (t(1, 1), t(1, 1))],
    "bmm": [(t(2, 3, 4), t(2, 4, 5)), (t(0, 3, 4), t(0, 4, 5)), (t(2, 3, 0), t(2, 0, 5))],
    "mv": [(t(3, 4), t(4)), (t(0, 4), t(4)), (t(3, 0), t(0))],
    "dot": [(t(4), t(4)), (t(0), t(0))],
    "matmul": [
        (t(4), t(4)),
        (t(3, 4), t(4)),
        (t(4), t(4, 3)),
        (t(3, 4), t(4, 2)),
        (t(2, 3, 4), t(4)),
        (t(4), t(2, 4, 3)),
        (t(2, 3, 4), t(4, 5)),
        (t(3, 4), t(2, 4, 5)),
        (t(2, 3, 4), t(2, 4, 5)),
        (t(2, 1, 3, 4), t(5, 4, 6)),
        (t(5, 4, 3), t(2, 1, 3, 2)),
        (t(1, 3, 4), t(2, 4, 5)),
        (t(2, 5, 3, 4), t(4)),
        (t(4), t(2, 5, 4, 3)),
        (t(2, 5, 3, 4), t(4, 2)),
        (t(0, 3, 4), t(4, 5)),
    ],
    "linear": [
        (t(3, 4), t(2, 4), t(2)),
        (t(3, 4), t(2, 4), None),
        (t(4), t(2, 4), t(2)),
        (t(2, 3, 4), t(5, 4), t(5)),
        (t(2, 3, 4), t(5, 4), None),
        (t(0, 4), t(2, 4), t(2)),
    ],
    "addmm": [
        (added, t(3, 4), t(4, 2), beta, alpha)
        for added in (t(3, 2), t(2), t(3, 1), t())
        for beta, alpha in ((1, 1), (0.5, -2), (0, 2))
    ],
}

SHAPE: dict[str, list[Sample]] = {
    "permute": [(t(2, 3, 4), [2, 0, 1]), (t(2, 3, 4), [-1, 0, -2]), (t(2, 3), [1, 0]), (t(), []), (t(0, 2), [1, 0])],
    "squeeze_0": [(t(1, 3, 1),), (t(2, 3),), (t(1, 1),), (t(),), (t(1, 0),)],
    "squeeze_1": [(t(1, 3, 1), 0), (t(1, 3, 1), -1), (t(1, 3), -2), (t(2, 3), 1), (t(), 0), (t(1), 0)],
    "unsqueeze": [(t(2, 3), 0), (t(2, 3), 1), (t(2, 3), -1), (t(), 0), (t(0, 2), 2)],
    "transpose": [(t(2, 3, 4), 0, 2), (t(2, 3, 4), -1, 1), (t(3), 0, 0), (t(0, 2), 0, 1)],
    "t": [(t(2, 3),), (t(3),), (t(),)],
    "reshape": [(t(2, 6), [3, 4]), (t(2, 6), [-1]), (t(), [1, 1]), (t(0, 3), [3, 0])],
    "view": [(t(2, 6), [3, 4]), (t(2, 6), [4, -1]), (t(), [1]), (t(0, 3), [3, 0])],
    "expand": [
        (t(3, 1), [3, 4], False),
        (t(3), [2, 3], False),
        (t(1, 3), [2, -1], True),
        (t(), [2], False),
        (t(1, 1), [0, 3], False),
        (t(2, 3), [2, 3], False),
    ],
    "expand_as": [(t(3, 1), t(3, 4)), (t(3), t(2, 3)), (t(), t(2)), (t(2), t(2))],
    "split": [(t(5, 2), 2, 0), (t(4, 6), 3, -1), (t(3), 5, 0)],
    "split_with_sizes": [(t(5, 2), [2, 0, 3], 0), (t(2, 6), [1, 5], -1)],
    "stack": [([t(2, 3), t(2, 3)], 0), ([t(2, 3), t(2, 3)], -1), ([t()], 0)],
    "unbind": [(t(3, 2), 0), (t(3, 2), -1), (t(2), 0)],
    "cat": [([t(2, 3), t(1, 3)], 0), ([t(2, 3), t(2, 1)], -1), ([t(0, 3), t(2, 3)], 0)],
    "meshgrid": [([t(2), t(3)],), ([t(2), t(), t(3)],), ([t(4)],)],
    "index": [
        (t(4, 3), [index(4, 5)]),
        (t(4, 3), [literal([0, 0, -1]), literal([2, 2, 1])]),
        (t(4, 3), [index(4, 2, 1), index(3, 3)]),
        (t(4, 3), [mask(4)]),
        (t(4, 3), [literal([])]),
    ],
    "contiguous": [(t(2, 3), 0), (t(), 0), (t(0, 2), 0)],
    "type_as": [(t(2, 3), t(1)), (t(2, 3), of(FLOAT32, 2)), (of(FLOAT16, 3), t())],
    "to_0": [
        (t(2, 3), device, dtype, False, copy)
        for device in (None, "cpu")
        for dtype, copy in ((FLOAT32.code, False), (FLOAT64.code, True), (BFLOAT16.code, False))
    ]
    + [(t(2, 3), "cpu", None, False, False)],
    "to_1": [(t(2, 3), FLOAT32.code, False, False), (of(FLOAT16, 3), FLOAT64.code, False, True)],
    "to_2": [(t(2, 3), of(FLOAT32, 1), False, False), (of(FLOAT32, 3), t(), False, True)],
    "nonzero": [(t(3, 4),), (at(0, 1, 0, 2),), (t(0, 2),)],
    "ones_like": ANYWHERE,
    "full_like": [(t(3, 4), 2.5), (t(), -1.0), (t(0, 2), 0.0)],
    "_dim_arange": [(t(3, 4), 1), (t(3, 4), -2), (t(0, 2), 0)],
    "_autocast_to_full_precision": [
        (of(dtype, 2, 3), False, enabled)
        for dtype in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
        for enabled in (True, False)
    ],
    "_autocast_to_reduced_precision": [
        (of(dtype, 2, 3), False, enabled, FLOAT16.code, BFLOAT16.code)
        for dtype in (FLOAT32, FLOAT64)
        for enabled in (True, False)
    ],
}

_RUNNING = (t(3), positive(3))
_LAYER: list[Sample] = [
    (t(2, 3, 4), [4], t(4), t(4), 1e-5, False),
    (t(2, 3, 4), [3, 4], t(3, 4), None, 1e-5, False),
    (t(2, 3, 4), [4], None, None, 0.1, False),
    (t(4), [4], None, t(4), 1e-5, False),
]
_INPUTS = (t(5, 3), t(4, 3, 2), t(2, 3, 2, 2))

NETWORK: dict[str, list[Sample]] = {
    "batch_norm": [
        (x, *affine, *running, training, 0.1, 1e-3, False)
        for x in _INPUTS
        for affine in ((t(3), t(3)), (None, None), (t(3), None), (None, t(3)))
        for running, training in ((_RUNNING, True), (_RUNNING, False), ((None, None), True))
    ],
    "layer_norm": _LAYER,
    "dropout": [(t(3, 4), 0.0, True), (t(3, 4), 0.5, False), (t(3, 4), 1.0, True), (t(0, 2), 0.0, True)],
    "embedding": [
        (t(5, 3), index(5, 4), -1, False, False),
        (t(5, 3), index(5, 2, 7), 1, False, False),
        (t(5, 3), index(5, 2, 7), 1, True, False),
        (t(5, 3), literal(2), -1, False, False),
    ],
    "nll_loss": [
        (t(5, 4), target, weight, reduction, ignored)
        for target, ignored in ((index(4, 5), -100), (literal([0, 3, 1, 1, 2]), 1))
        for weight in (None, positive(4))
        for reduction in (0, 1, 2)
    ],
    "adaptive_avg_pool1d": [(t(2, 3, 7), [3]), (t(3, 5), [1]), (t(2, 3, 4), [6])],
    "adaptive_avg_pool2d": [
        (t(2, 3, 7, 6), [3, 2]),
        (t(3, 5, 4), [1, 1]),
        (t(2, 3, 4, 4), [4, 5]),
        (t(3, 5, 4), [1, 2]),
    ],
    "adaptive_avg_pool3d": [(t(2, 2, 5, 4, 3), [2, 3, 3]), (t(2, 3, 4, 2), [1, 1, 1]), (t(2, 3, 4, 2), [1, 1, 2])],
    "avg_pool2d": [
        (t(2, 3, 6, 7), [2, 2], [2, 2], [0, 0], False, True, None),
        (t(2, 3, 7, 7), [3, 2], [2, 2], [1, 1], True, True, None),
        (t(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], True, False, None),
        (t(3, 7, 7), [3, 3], [], [1, 1], False, True, 5),
    ],
    **_same(
        ("max_pool2d", "max_pool2d_with_indices"),
        [
            (t(2, 3, 6, 7), [2, 2], [2, 2], [0, 0], [1, 1], False),
            (t(2, 3, 7, 7), [3, 2], [2, 2], [1, 1], [1, 1], True),
            (t(3, 6, 6), [2, 2], [1, 1], [0, 0], [2, 2], False),
            (literal(np.zeros((1, 4, 4)), FLOAT64), [2, 2], [], [0, 0], [1, 1], False),
        ],
    ),
}

SAMPLES: dict[str, list[Sample]] = {**POINTWISE, **REDUCTION, **MATRICES, **SHAPE, **NETWORK}
