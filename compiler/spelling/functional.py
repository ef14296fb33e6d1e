"""torch.nn.functional's parameters by place, for functions with some that no schema here has: in place, deprecated.

F.softplus(x, 1.0)           as the schema has them
F.relu(x, True)              relu(x, inplace=True)
F.mse_loss(x, y, False)      mse_loss(x, y, size_average=False)
"""

from __future__ import annotations

LEFT_OUT = frozenset(("inplace", "size_average", "reduce", "_stacklevel"))
"""Parameters of torch's functions that schemas do without."""

_REDUCED = ("size_average", "reduce", "reduction")
_NORMALIZED = ("input", "dim", "_stacklevel", "dtype")
_DROPPED = ("input", "p", "training", "inplace")

PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"), ("input", "inplace")),
    **dict.fromkeys(("celu", "elu"), ("input", "alpha", "inplace")),
    "leaky_relu": ("input", "negative_slope", "inplace"),
    "hardtanh": ("input", "min_val", "max_val", "inplace"),
    "threshold": ("input", "threshold", "value", "inplace"),
    "rrelu": ("input", "lower", "upper", "training", "inplace"),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), _DROPPED),
    **dict.fromkeys(("alpha_dropout", "feature_alpha_dropout"), _DROPPED),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), _NORMALIZED),
    **dict.fromkeys(("soft_margin_loss", "multilabel_margin_loss"), ("input", "target", *_REDUCED)),
    **dict.fromkeys(("l1_loss", "mse_loss"), ("input", "target", *_REDUCED, "weight")),
    "smooth_l1_loss": ("input", "target", *_REDUCED, "beta"),
    "kl_div": ("input", "target", *_REDUCED, "log_target"),
    "hinge_embedding_loss": ("input", "target", "margin", *_REDUCED),
    "binary_cross_entropy": ("input", "target", "weight", *_REDUCED),
    "binary_cross_entropy_with_logits": ("input", "target", "weight", *_REDUCED, "pos_weight"),
    "multilabel_soft_margin_loss": ("input", "target", "weight", *_REDUCED),
    "multi_margin_loss": ("input", "target", "p", "margin", "weight", *_REDUCED),
    "nll_loss": ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"),
    "cross_entropy": (
        *("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
    ),
    "poisson_nll_loss": ("input", "target", "log_input", "full", "size_average", "eps", "reduce", "reduction"),
    **dict.fromkeys(
        ("margin_ranking_loss", "cosine_embedding_loss"), ("input1", "input2", "target", "margin", *_REDUCED)
    ),
    "triplet_margin_loss": ("anchor", "positive", "negative", "margin", "p", "eps", "swap", *_REDUCED),
}
"""In torch's order: held to torch's own signatures by a test."""


def first_left_out(name: str) -> int:
    """The place from which on arguments are known by their names; after all of them for a function that is not here."""
    places = [i for i, parameter in enumerate(PARAMETERS.get(name, ())) if parameter in LEFT_OUT]
    return places[0] if places else 1 << 30


def legacy_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """What the two deprecated arguments of losses ask for, of which one at least is not None."""
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
