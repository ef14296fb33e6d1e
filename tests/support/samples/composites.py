"""Calls of every op that is written in the language."""

from __future__ import annotations

from math import inf

import numpy as np
from gradscript.compiler.ops import OPS, Op, Trait
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.types.dtypes import FLOAT64
from samples import factorizations, masked
from samples.arrays import Call, Leaf, call, definite, index, literal, positive, probability, regular, t

_REDUCTIONS = ("mean", "none", "sum")


def near(low: float, high: float, *shape: int) -> Leaf:
    """Values between two bounds."""
    return Leaf(lambda rng: rng.uniform(low, high, shape))


def signs(*shape: int) -> Leaf:
    """Ones and minus ones that are never differentiated, as integers."""
    return Leaf(lambda rng: rng.integers(0, 2, shape) * 2 - 1, literal(0).dtype)


def places(*shape: int) -> Leaf:
    """Where a grid samples an image of 3 to 5 rows: inside, a little outside, and never near to where another element
    becomes the nearest, so that roundings of a place change no choice."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        tried = rng.uniform(-1.3, 1.3, 4000)
        scaled = [slope * tried for slope in (1.0, 1.5, 2.0, 2.5)]
        clear = np.all([np.abs(x * 2 - np.round(x * 2)) > 0.16 for x in scaled], axis=0)
        return tried[clear][: int(np.prod(shape))].reshape(shape)

    return Leaf(draw)


def _reduced(*calls: Call) -> list[Call]:
    return [Call(c.args, {**c.kwargs, "reduction": name}) for c in calls for name in _REDUCTIONS]


def _unpooled(rank: int, *sizes: int) -> list[Call]:
    """Every window's first element was its largest."""
    grid = np.arange(np.prod([2 * s for s in sizes])).reshape([2 * s for s in sizes])
    first = grid[tuple(slice(None, None, 2) for _ in sizes)]
    indices = literal(np.broadcast_to(first, (2, 3, *sizes)).copy())
    window = [2] * rank
    return [
        call(t(2, 3, *sizes), indices, window),
        call(t(3, *sizes), literal(np.broadcast_to(first, (3, *sizes)).copy()), window, [2] * rank),
        call(t(2, 3, *sizes), indices, window, output_size=[2 * s for s in sizes]),
    ]


_LABELS = literal([[2, 0, -1, 1], [3, -1, 0, 0], [0, 1, 2, -1]])
_NORM = [call(t(3, 4)), call(t(2, 3, 4), dim=[1], keepdim=True), call(t(0, 3), dim=[0])]
_RESIZED = ("nearest", "bilinear")
# Logarithms of probabilities: (steps, batch, classes).
_SCORES = Leaf(lambda rng: np.log(rng.dirichlet([1.0] * 4, (6, 2))))
_NONE = Leaf(lambda rng: np.zeros((3, 4)))
_STEPS = literal([0.0, 1.0, 1.5, 3.0], FLOAT64)
_THETA = Leaf(lambda rng: np.eye(2, 3) * 0.8 + rng.normal(0, 0.1, (2, 2, 3)))
_THETA3 = Leaf(lambda rng: np.eye(3, 4) * 0.8 + rng.normal(0, 0.1, (1, 3, 4)))
_SPLIT = [call(t(4, 6), 2), call(t(4, 6, 2), 2)]
_CUTS = [call(t(4, 6), [1, 3]), call(t(4, 6, 2), [1])]
_PAIR_LOSS = [call(t(3, 4), t(3, 4), signs(3, 4)), call(t(3, 4), t(3, 4), signs(3, 4), margin=0.5)]

CASES: dict[str, list[Call]] = {
    # --- pointwise, softmin, normalization ---
    "softsign": [call(t(3, 4)), call(t()), call(t(0, 3))],
    "tanhshrink": [call(t(3, 4)), call(near(0.5, 2.0)), call(t(0, 3))],
    "softmin": [call(t(3, 4), 1), call(t(), 0), call(t(0, 3), 0)],
    "normalize": [call(t(3, 4)), call(t(2, 3, 4), 3.0, -1, 1e-3), call(t(3, 4), 1.0, 0), call(t(0, 3))],
    "local_response_norm": [call(t(2, 5, 3), 3), call(t(2, 4, 3, 2), 2, 0.3, 0.5, 2.0)],
    "instance_norm.functional": [
        call(t(2, 3, 5)),
        call(t(2, 3, 4, 2), None, None, positive(3), t(3)),
        call(t(2, 3, 5), t(3), positive(3), positive(3), t(3), use_input_stats=False, eps=0.1),
    ],
    # --- dropout: by a seed, or where nothing is random ---
    "normal.Tensor_float": [call(t(3, 4), 0.0)],
    "normal.float_Tensor": [call(1.5, _NONE)],
    "normal.Tensor_Tensor": [call(t(3, 4), _NONE)],
    "rrelu": [call(t(3, 4)), call(t(), 0.1, 0.3), call(t(0, 3))],
    "seeded_rrelu": [call(t(3, 4), 0.1, 0.3, 5), call(t(), 0.1, 0.3, 7), call(t(0, 3), 0.1, 0.3, 7)],
    "seeded_dropout": [call(t(3, 4), 0.5, 3), call(t(2, 3, 4), 0.25, 4, [2, 3, 1]), call(t(0, 3), 0.5, 3)],
    **{
        name: [call(t(2, 3, 4), 0.5, False), call(t(2, 3, 4), 0.0, True), call(t(0, 3), 0.5, False)]
        for name in ("dropout", "dropout.functional", "native_dropout", "feature_dropout")
    },
    **{name: [call(t(2, 3, 4), 0.5, False)] for name in ("dropout1d", "dropout2d", "dropout3d")},
    "dropout_attention": [
        call(t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 2)),
        call(t(2, 5, 4), t(2, 6, 4), t(2, 6, 3), t(5, 6), scale=0.5),
        call(near(-1, 1, 3, 4), near(-1, 1, 3, 4), t(3, 4), is_causal=True),
    ],
    "alpha_dropout": [call(t(3, 4)), call(t())],
    "feature_alpha_dropout": [call(t(2, 3, 4))],
    # --- embedding, windows, pooling ---
    "functional_embedding": [
        call(index(5, 2, 3), t(5, 4)),
        call(index(5, 7), t(5, 4), 2),
        call(literal([0, 0, 3]), t(5, 4), -1, scale_grad_by_freq=True),
        call(literal(1), t(5, 4)),
    ],
    "functional_embedding_bag": [
        call(index(5, 3, 4), t(5, 4)),
        call(index(5, 7), t(5, 4), literal([0, 2, 2, 5]), mode="sum", per_sample_weights=t(7)),
        call(index(5, 7), t(5, 4), literal([0, 4, 7]), mode="max", include_last_offset=True),
        call(index(5, 3, 4), t(5, 4), padding_idx=-2),
    ],
    "functional_elu": [call(t(2, 3)), call(t(4), 0.5)],
    "functional_unfold": [call(t(2, 3, 5, 6), [2, 3]), call(t(3, 5, 6), [2, 2], [2, 1], [1, 1], [1, 2])],
    "lp_pool1d": [call(positive(2, 3, 8), 3.0, [2]), call(positive(3, 8), 2.0, [3], [2], True)],
    "lp_pool2d": [call(t(2, 3, 6, 5), 2.0, [2, 2]), call(positive(3, 6, 5), 3.0, [3, 2], [2, 2], True)],
    "lp_pool3d": [call(t(2, 3, 4, 4, 4), 2.0, [2, 2, 2]), call(positive(3, 4, 4, 4), 1.5, [2, 2, 2], [1, 2, 2])],
    "max_unpool1d": _unpooled(1, 4),
    "max_unpool2d": _unpooled(2, 3, 2),
    "max_unpool3d": _unpooled(3, 2, 3, 2),
    "functional_adaptive_max_pool1d": [call(t(2, 3, 8), [3]), call(t(3, 8), [1])],
    "functional_adaptive_max_pool2d": [call(t(2, 3, 6, 5), [3, 2]), call(t(3, 6, 5), [1, 4])],
    "functional_adaptive_max_pool3d": [call(t(2, 3, 4, 5, 3), [2, 2, 2])],
    **{
        f"{name}.partial": [call(t(2, 3, 6, 5), [None, 2]), call(t(3, 6, 5), [4, None])]
        for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d", "functional_adaptive_max_pool2d")
    },
    **{
        f"{name}.partial": [call(t(2, 3, 3, 5, 4), [None, 2, None])]
        for name in ("adaptive_avg_pool3d", "adaptive_max_pool3d", "functional_adaptive_max_pool3d")
    },
    # --- rearranging, sampling ---
    "pixel_shuffle": [call(t(2, 8, 3, 2), 2), call(t(4, 3, 2), 2)],
    "pixel_unshuffle": [call(t(2, 3, 4, 6), 2), call(t(1, 4, 6), 2)],
    "channel_shuffle": [call(t(2, 6, 3, 2), 2), call(t(2, 6, 3), 3)],
    "affine_grid": [call(_THETA, [2, 3, 4, 5]), call(_THETA, [2, 1, 3, 3], True), call(_THETA3, [1, 2, 3, 2, 4])],
    "grid_sample": [
        *(
            call(t(2, 3, 5, 4), places(2, 4, 3, 2), mode, padding, corners)
            for mode in ("bilinear", "nearest")
            for padding in ("zeros", "border", "reflection")
            for corners in (False, True)
        ),
        call(t(2, 3, 5, 4), places(2, 4, 3, 2), "bicubic"),
        call(t(2, 3, 5, 4), places(2, 4, 3, 2), "bicubic", "border", True),
        call(t(2, 3, 5, 4), places(2, 4, 3, 2), "bicubic", "reflection", False),
        call(t(1, 2, 3, 4, 3), places(1, 2, 3, 2, 3), padding_mode="border"),
    ],
    **{f"upsample_{name}": [call(t(2, 3, 4, 5), [7, 3]), call(t(1, 2, 3, 4), None, [2.0, 1.5])] for name in _RESIZED},
    **{f"upsample_{name}.number": [call(t(2, 3, 4, 5), 6), call(t(1, 2, 3, 4), None, 2.0)] for name in _RESIZED},
    "grid_sampler_2d": [
        call(t(2, 3, 5, 4), places(2, 4, 3, 2), 0, 0, False),
        call(t(2, 3, 5, 4), places(2, 4, 3, 2), 1, 1, True),
    ],
    "grid_sampler_3d": [call(t(1, 2, 3, 4, 3), places(1, 2, 3, 2, 3), 0, 2, True)],
    # --- losses ---
    "linear_cross_entropy": [
        call(t(4, 3), t(5, 3), index(5, 4)),
        call(t(4, 3), t(5, 3), index(5, 4), linear_bias=t(5), weight=positive(5), ignore_index=2, reduction="sum"),
        call(t(4, 3), t(5, 2, 3), index(5, 4, 2), label_smoothing=0.1, reduction="none"),
    ],
    "functional_ctc_loss": [
        call(_SCORES, index(4, 2, 3), literal([6, 5]), literal([3, 2])),
        call(_SCORES, literal([1, 1, 2, 3]), literal([6, 6]), literal([1, 3]), 3, "none"),
        call(_SCORES, literal([[1, 1, 1], [2, 3, 2]]), literal([4, 6]), literal([3, 0]), 0, "sum", True),
    ],
    "functional_ctc_loss.lists": [call(_SCORES, literal([[1, 2, 3], [2, 3, 2]]), [6, 5], [3, 2])],
    "margin_ranking_loss": _reduced(*_PAIR_LOSS),
    "hinge_embedding_loss": _reduced(call(t(3, 4), signs(3, 4)), call(t(3, 4), signs(4), 0.5)),
    "cosine_embedding_loss": _reduced(
        call(t(3, 4), t(3, 4), literal([1, -1, 1])), call(t(3, 4), t(3, 4), signs(3), 0.1)
    ),
    "triplet_margin_loss": _reduced(
        call(t(3, 4), t(3, 4), t(3, 4), 3.0), call(t(3, 4), t(3, 4), t(3, 4), 2.0, 3.0, swap=True)
    ),
    "poisson_nll_loss": _reduced(
        call(t(3, 4), positive(3, 4)), call(positive(3, 4), positive(3, 4), False, True), call(t(3, 4), positive(4))
    ),
    "gaussian_nll_loss": [
        *(call(t(3, 4), t(3, 4), positive(3, 4), reduction=name) for name in _REDUCTIONS),
        call(t(3, 4), t(3, 4), positive(3, 1), True),
        call(t(3, 4), t(3, 4), positive(3), eps=1e-3),
    ],
    "gaussian_nll_loss.number": [call(t(3, 4), t(3, 4), 0.7), call(t(3, 4), t(3, 4), 1.5, True, reduction="sum")],
    "multi_margin_loss": _reduced(
        call(t(3, 4), index(4, 3)),
        call(t(3, 4), index(4, 3), 2, 0.5, positive(4)),
        call(t(4), literal(2)),
        call(t(4), literal([1])),
    ),
    "multilabel_margin_loss": _reduced(
        call(t(3, 4), _LABELS), call(t(4), literal([1, 0, -1, 2])), call(t(), literal(0))
    ),
    "multilabel_soft_margin_loss": _reduced(
        call(t(3, 4), probability(3, 4)), call(t(3, 4), probability(3, 4), positive(4))
    ),
    # --- differences and integrals ---
    "diff": [
        call(t(3, 4)),
        call(t(3, 5), 2, 0, t(1, 5), t(2, 5)),
        call(t(3, 4), 0, 1, t(3, 2), None),
        call(t(3, 2), 3),
        call(t(0, 3), 1, 0),
    ],
    "sum_rows": [call(t(3, 4)), call(t(3), 1.5), call(t(0, 3))],
    "sum_tensors": [call([t(3, 4), t(4), t()]), call([t(3)], 1.5), call([t(0, 3), t(1, 3)])],
    "sum_tensors.start": [call([t(3, 4), t(4)], t(1, 4)), call([], t(2))],
    "trapezoid.x": [call(t(3, 4), t(4)), call(t(3, 4), t(3, 4), dim=0), call(t(3, 4), t(1, 4)), call(t(0, 3), t(3))],
    "trapezoid.dx": [call(t(3, 4)), call(t(3, 4), dx=0.5, dim=0), call(t(0, 3))],
    "cumulative_trapezoid.x": [call(t(3, 4), t(4)), call(t(3, 4), t(3, 4), dim=0)],
    "cumulative_trapezoid.dx": [call(t(3, 4)), call(t(3, 4), dx=0.5, dim=0)],
    # --- statistics and order ---
    "cov": [
        call(t(3, 5)),
        call(t(5), correction=0),
        call(t(3, 4), fweights=literal([1, 2, 1, 3]), aweights=positive(4)),
        call(t(3, 4), aweights=positive(4)),
        call(t(3, 4), correction=0, aweights=positive(4)),
    ],
    "corrcoef": [call(t(3, 5))],
    "msort": [call(t(5, 3)), call(t(4)), call(t(0, 3))],
    "quantile.scalar": [
        call(t(3, 5), 0.3),
        *(call(t(3, 5), 0.4, 1, interpolation=way) for way in ("linear", "lower", "higher", "midpoint", "nearest")),
        call(t(3, 5), 0.7, 0, True),
        call(t(), 0.5),
        call(t(), 0.5, 0, True),
    ],
    "quantile": [
        call(t(3, 5), near(0.1, 0.9, 3), 1),
        call(t(3, 5), near(0.1, 0.9), 0, True),
        call(t(3, 5), near(0.1, 0.9, 2), interpolation="midpoint"),
    ],
    "nanquantile.scalar": [call(t(3, 5).with_nan(), 0.3, 1), call(t(3, 5), 0.7, 0, True)],
    "nanquantile": [
        call(t(3, 5).with_nan(), near(0.1, 0.9, 3), 1),
        call(t(3, 5), near(0.1, 0.9), interpolation="lower"),
    ],
    "gradient.scalarint": [call(t(4, 5)), call(t(4, 5), spacing=0.5, dim=1, edge_order=2)],
    "gradient.scalararray": [call(t(4, 5), spacing=2.0, dim=[1, 0])],
    "gradient.array": [call(t(4, 5), dim=[0])],
    "gradient.scalarrayint": [call(t(4, 5), spacing=[0.5, 2.0])],
    "gradient.scalarrayarray": [call(t(4, 5), spacing=[0.5, 2.0], dim=[0, 1])],
    "gradient.tensorarrayint": [call(t(4, 5), spacing=[_STEPS], dim=0, edge_order=2)],
    "gradient.tensorarray": [call(t(4, 4), spacing=[_STEPS, _STEPS], dim=[0, 1])],
    "combinations": [call(t(4)), call(t(4), 3, True), call(t(3), 1)],
    "histc": [call(t(3, 4), 5), call(t(20), 4, -1, 2)],
    "bincount": [call(index(5, 9)), call(index(4, 6), t(6), 7)],
    # --- slices that are combined ---
    "index_reduce": [
        call(t(4, 3), 0, literal([0, 2, 0]), t(3, 3), "mean"),
        *(call(t(4, 3), 1, literal([2, 0]), t(4, 2), name, include_self=False) for name in ("prod", "amax", "amin")),
    ],
    # --- shapes ---
    "fft_fftshift": [call(t(5, 4)), call(t(5, 4), [1])],
    "fft_ifftshift": [call(t(5, 4)), call(t(5, 4), [0])],
    "diagflat": [call(t(3)), call(t(2, 2), -1), call(t()), call(t(0))],
    "block_diag": [call([t(2, 3), t(3), t()]), call([t(2, 1)])],
    "_fill_diagonal": [call(t(3, 3), 2.0), call(t(2, 4), -1.0), call(t(7, 2), 0.5, True), call(t(2, 2, 2), 1.0)],
    "_given_or_detached": [call([t(2), t(3)], [t(2), t(1, 3)])],
    "cartesian_prod": [call([t(2), t(3)]), call([t(2)]), call([t(2), t(1), t(3)])],
    "hsplit.int": [*_SPLIT, call(t(4), 2)],
    "hsplit.array": [*_CUTS, call(t(4), [1, 3])],
    "vsplit.int": _SPLIT,
    "vsplit.array": _CUTS,
    "dsplit.int": [call(t(2, 3, 4), 2)],
    "dsplit.array": [call(t(2, 3, 4), [1, 2])],
    "vander": [call(t(4)), call(t(3), 5, True), call(t(3), 1)],
    # --- products, norms, distances ---
    "tensordot.pair": [
        call(t(3, 4), t(4, 5), [[1], [0]]),
        call(t(2, 3, 4), t(4, 2), [[0, 2], [1, 0]]),
        call(t(2, 1), t(3, 2), [[1], [0]]),
    ],
    "chain_matmul": [call([t(2, 3), t(3, 4), t(4, 2)]), call([t(2, 3)])],
    "cdist": [
        call(t(3, 4), t(5, 4)),
        *(call(t(2, 3, 4), t(5, 4), p) for p in (1.0, 3.0, inf)),
        call(t(0, 4), t(5, 4)),
    ],
    "renorm": [call(t(3, 4), 2, 0, 1.5), call(t(2, 3, 4), 1, -1, 4.0), call(t(3, 4), 3, 1, 100.0)],
    "pdist": [call(t(4, 3)), call(t(4, 3), 1.0), call(t(4, 3), 3.0)],
    "norm.named": _NORM,
    "norm.str": [
        call(t(3, 4), "fro"),
        call(t(3, 4), "fro", [1], True),
        call(t(3, 4), "nuc"),
        call(t(2, 3, 4), "nuc", [0, 2], True),
    ],
    "linalg_vecdot": [call(t(3, 4), t(3, 4)), call(t(3, 4), t(2, 3, 1), dim=-2), call(t(0, 3), t(3))],
    "linalg_vander": [call(t(4)), call(t(), N=2), call(t(2, 3), N=2), call(t(3), N=5)],
    "linalg_norm": [
        *_NORM,
        call(t(3, 4), 2),
        call(t(4), 3),
        call(t(2, 3, 4), 1, [0, 2], True),
        call(t(2, 3, 4), inf, [1]),
    ],
    "linalg_norm.ord_str": [call(t(3, 4), "fro"), call(t(2, 3, 4), "nuc", [0, 2], True)],
    "linalg_matrix_norm": [*(call(t(3, 4), p) for p in (1, -1, 2, -2, inf, -inf)), call(t(2, 3, 4), 1, [0, 1], True)],
    "linalg_matrix_norm.str_ord": [call(t(3, 4)), call(t(2, 3, 4), "nuc"), call(t(2, 3, 4), "fro", [0, -1], True)],
    "linalg_cond": [call(regular(3, 3)), call(regular(2, 3, 3), -2), call(regular(3, 3), inf), call(t(3, 4))],
    "linalg_pinv": [call(t(3, 4)), call(t(2, 4, 3), rtol=1e-10), call(definite(3, 3), hermitian=True)],
    "linalg_tensorinv": [
        call(Leaf(lambda rng: _invertible(rng, 6).reshape(2, 3, 6), rigid=True)),
        call(regular(3, 3), 1),
    ],
    "linalg_tensorsolve": [
        call(Leaf(lambda rng: _invertible(rng, 6).reshape(2, 3, 6), rigid=True), t(2, 3)),
        call(Leaf(lambda rng: _invertible(rng, 6).reshape(2, 6, 3), rigid=True), t(2, 3), [1]),
    ],
    "angle": [call(t(3, 4)), call(t())],
    "isreal": [call(t(3))],
    "isin.Tensor_Tensor": [call(t(3, 4), t(2)), call(index(4, 3, 2), index(4, 3), invert=True)],
    "isin.Tensor_Scalar": [call(index(3, 4), 1), call(t(3), 0.5, invert=True)],
    "isin.Scalar_Tensor": [call(1, index(3, 4)), call(0.5, t(3), invert=True)],
    "mvlgamma": [call(near(2.0, 5.0, 3, 4), 3), call(near(2.0, 5.0), 2)],
    # --- places and comparisons ---
    "nonzero_numpy": [call(t(3, 4)), call(t()), call(t(0, 3))],
    "nonzero_static": [call(t(3, 4), size=5), call(t(2), size=4, fill_value=7)],
    "unravel_index": [call(index(24, 5), [2, 3, 4])],
    "gcd": [call(index(60, 3, 4), index(60, 4)), call(literal([-12, 0, 5]), literal([18, 0, -10]))],
    "lcm": [call(index(60, 3, 4), index(60, 4)), call(literal([-12, 0, 5]), literal([18, 0, -10]))],
    "equal": [call(t(3, 4), t(3, 4)), call(t(3, 4), t(4)), call(t(0, 3), t(0, 3))],
    "allclose": [call(t(3, 4), t(3, 4)), call(t(3, 4), t(3, 4), 1e3, 10.0), call(t(), t(), 1.0, 30.0)],
    **factorizations.CASES,
    **masked.CASES,
}
"""By op: a plain call first."""


def _invertible(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 0.3, (n, n)) + 2 * np.eye(n)


RIGID = frozenset(
    (
        *("linalg_cond", "linalg_pinv", "linalg_norm", "linalg_norm.ord_str", "linalg_matrix_norm", "norm.str"),
        *("linalg_matrix_norm.str_ord", "cov", "corrcoef", "quantile", "quantile.scalar", "msort", "pdist", "cdist"),
        *("instance_norm.functional", "linalg_cholesky_ex"),
    )
)
"""Ops of which copies of one row are singular, tied or without variance."""
FIXED: dict[str, frozenset[str]] = {
    "instance_norm.functional": frozenset(("running_mean", "running_var")),
    "multi_margin_loss": frozenset(("weight",)),
    "linear_cross_entropy": frozenset(("weight",)),
    "_given_or_detached": frozenset(("made",)),
}
"""Floating arguments that have no gradient."""
FLAT: dict[str, frozenset[int]] = {
    "normal.Tensor_float": frozenset((0,)),
    "normal.float_Tensor": frozenset((1,)),
    "normal.Tensor_Tensor": frozenset((0, 1)),
}
"""By op, the arguments in which it is constant in pieces."""
DECOMPOSING = frozenset(
    (
        *("norm.str", "linalg_norm", "linalg_norm.ord_str", "linalg_matrix_norm", "linalg_matrix_norm.str_ord"),
        *("linalg_cond", "linalg_pinv", "linalg_tensorinv", "linalg_tensorsolve"),
        *(name for name in factorizations.CASES if name not in ("linalg_householder_product", "orgqr", "ormqr")),
    )
)
"""Ops that refuse halves where they decompose or invert a matrix, as torch does."""
MORE_ROUNDINGS = {"cosine_embedding_loss": 24, "dropout_attention": 32}
"""Gradients whose terms nearly cancel, those of an angle; scores that lose digits before they are exponentiated."""


def composites() -> dict[str, Op]:
    """Every op that is written in the language, by base name and overload; those that only draw numbers excepted."""
    drawing = Trait.RANDOM | Trait.NONDIFFERENTIABLE
    found = [op for op in OPS.all() if is_composite(op) and op.traits & drawing != drawing]
    return {op.schema.full_name.partition("::")[2]: op for op in found}
