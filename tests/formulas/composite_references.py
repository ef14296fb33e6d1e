"""torch's function of each op that is written in the language, and definitions where its derivative is no reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from gradscript.compiler.ops import OPS, Op
from torch.nn.attention import SDPBackend, sdpa_kernel

_MODULES = (("linalg_", torch.linalg), ("functional_", F), ("unmasked_", torch.masked), ("fft_", torch.fft))
_STARRED = frozenset(("block_diag", "cartesian_prod", "chain_matmul"))


def torch_function(op: Op) -> Callable[..., Any]:
    """torch's function, taking one value per argument of the op's schema."""
    function = _named(op)

    def run(*values: Any) -> Any:
        given = [(a, _as_torch_wants(op, a.name, v)) for a, v in zip(op.schema.arguments, values, strict=True)]
        positional = [v for a, v in given if not a.keyword_only]
        if op.schema.base_name in _STARRED:
            return function(*positional[0])
        return function(*positional, **{a.name: v for a, v in given if a.keyword_only and v is not None})

    return run


def _uniform(seed: int, size: Any) -> torch.Tensor:
    return torch.from_numpy(OPS.named("gs::uniform").evaluate(seed, list(size), None, 0))


def _seeded_dropout(input: torch.Tensor, p: float, seed: int, size: Any) -> torch.Tensor:
    return input * (_uniform(seed, input.shape if size is None else size) >= p) / (1 - p)


def _seeded_rrelu(input: torch.Tensor, lower: float, upper: float, seed: int) -> torch.Tensor:
    slope = lower + (upper - lower) * _uniform(seed, input.shape).to(input.dtype)
    return torch.where(input < 0, input * slope, input)


def _kept(input: torch.Tensor, p: float, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """torch's mask is not of bools where nothing is random."""
    return torch.native_dropout(input, p, train)[0], torch.ones_like(input, dtype=torch.bool)


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
    """The backend that has second derivatives."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(query, key, value, *rest, **options)


_OTHERWISE: dict[str, Callable[..., Any]] = {
    "dropout_attention": _attention,
    "sum_tensors": sum,
    "sum_rows": lambda self, start: sum(self, self.new_full(self.shape[1:], start)),
    "_fill_diagonal": lambda self, value, wrap: self.clone().fill_diagonal_(value, wrap),
    "nonzero_numpy": lambda self: torch.nonzero(self, as_tuple=True),
    **{f"adaptive_avg_pool{rank}d": getattr(F, f"adaptive_avg_pool{rank}d") for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d": getattr(F, f"adaptive_max_pool{rank}d_with_indices") for rank in (2, 3)},
    "seeded_dropout": _seeded_dropout,
    "seeded_rrelu": _seeded_rrelu,
    "native_dropout": _kept,
    "lu_with_infos": lambda self, pivot: torch.lu(self, pivot=pivot, get_infos=True),
    "_given_or_detached": lambda given, made: [
        old if old.shape == new.shape else new.detach() for old, new in zip(given, made, strict=True)
    ],
}


def _named(op: Op) -> Callable[..., Any]:
    base = op.schema.base_name
    if base in _OTHERWISE:
        return _OTHERWISE[base]
    for prefix, module in _MODULES:
        if base.startswith(prefix):
            return getattr(module, base.removeprefix(prefix))
    own = op.schema.name.startswith("gs::") or op.schema.overload == "functional"
    return getattr(F if own and hasattr(F, base) else torch, base)


def _as_torch_wants(op: Op, name: str, value: Any) -> Any:
    if name == "stride" and value == []:
        return None
    if name == "compute_mode":
        return value or "use_mm_for_euclid_dist_if_necessary"
    if op.schema.base_name == "lp_pool1d" and isinstance(value, list):
        return value[0]
    return value


# --- definitions, where torch's own backward has no derivative or fails ---


def _embedding(input: torch.Tensor, weight: torch.Tensor, padding_idx: int | None, *rest: Any) -> torch.Tensor:
    """torch's second derivative forgets the scale."""
    if rest[2]:
        count = torch.bincount(input.flatten(), minlength=len(weight)).clamp_min(1).unsqueeze(1)
        weight = weight / count + (weight - weight / count).detach()
    if padding_idx is not None:
        row = F.one_hot(torch.tensor(padding_idx % len(weight)), len(weight)).bool().unsqueeze(1)
        weight = torch.where(row, weight.detach(), weight)
    return weight[input]


def _pdist(rows: torch.Tensor, p: float) -> torch.Tensor:
    left, right = torch.triu_indices(len(rows), len(rows), 1)
    return torch.linalg.vector_norm(rows[left] - rows[right], p, -1)


def _cdist(left: torch.Tensor, right: torch.Tensor, p: float, _: str) -> torch.Tensor:
    return torch.linalg.vector_norm(left.unsqueeze(-2) - right.unsqueeze(-3), p, -1)


def _vander(x: torch.Tensor, columns: int | None, increasing: bool) -> torch.Tensor:
    powers = [x**i for i in range(len(x) if columns is None else columns)]
    return torch.stack(powers if increasing else powers[::-1], 1)


def _cond(matrix: torch.Tensor, p: Any) -> torch.Tensor:
    if p in (None, 2, -2):
        return torch.linalg.cond(matrix, p)
    return torch.linalg.matrix_norm(matrix, p) * torch.linalg.matrix_norm(torch.linalg.inv(matrix).clone(), p)


def _mean_sum_or_all(loss: torch.Tensor, reduction: str) -> torch.Tensor:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _multi_margin(x: torch.Tensor, y: torch.Tensor, p: int, margin: float, weight: Any, reduction: str) -> torch.Tensor:
    rows, labels = torch.atleast_2d(x), y.reshape(-1, 1)
    excess = (margin - rows.gather(1, labels) + rows).clamp_min(0) ** p
    excess = excess * (1 if weight is None else weight[labels]) * (1 - F.one_hot(labels[:, 0], x.shape[-1]))
    return _mean_sum_or_all((excess.sum(1) / x.shape[-1]).reshape(y.shape), reduction)


def _multilabel_margin(x: torch.Tensor, target: torch.Tensor, reduction: str) -> torch.Tensor:
    losses = []
    for scores, labels in zip(torch.atleast_2d(x), torch.atleast_2d(target).tolist(), strict=True):
        wanted = labels[: [*labels, -1].index(-1)]
        others = [i for i in range(len(scores)) if i not in wanted]
        pairs = [(1 - scores[i] + scores[j]).clamp_min(0) for i in wanted for j in others]
        losses.append(sum(pairs, torch.zeros(())) / len(scores))
    return _mean_sum_or_all(torch.stack(losses) if x.dim() > 1 else losses[0], reduction)


def _cholesky_inverse(factor: torch.Tensor, upper: bool) -> torch.Tensor:
    lower = factor.triu().mT if upper else factor.tril()
    return torch.linalg.inv(lower @ lower.mT)


def _lstsq(matrix: torch.Tensor, right: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:
    found = torch.linalg.lstsq(matrix.detach(), right.detach())
    solution = torch.linalg.pinv(matrix) @ right
    tall = matrix.shape[-2] > matrix.shape[-1]
    residuals = (matrix @ solution - right).square().sum(-2) if tall else found.residuals
    return solution, residuals, found.rank, found.singular_values


def _masked_logaddexp(left: torch.Tensor, right: torch.Tensor, _: Any, left_mask: Any, right_mask: Any) -> torch.Tensor:
    both = torch.logaddexp(left, right)
    if left_mask is None:
        return both
    one = torch.where(left_mask.bool(), torch.where(right_mask.bool(), both, left), right)
    return torch.where(left_mask.bool() | right_mask.bool(), one, -torch.inf)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "linalg_lstsq": _lstsq,
    "unmasked_logaddexp": _masked_logaddexp,
    "cholesky_inverse": _cholesky_inverse,
    "trace": lambda x: x.diagonal().sum(),
    "functional_embedding": _embedding,
    "pdist": _pdist,
    "cdist": _cdist,
    "vander": _vander,
    "linalg_cond": _cond,
    "multi_margin_loss": _multi_margin,
    "multilabel_margin_loss": _multilabel_margin,
}
"""What a function is, one value per argument, for a derivative that torch's own does not have, or has wrong: that of
`trace` writes beyond the diagonal of a matrix with more rows than columns, in some versions."""
NOT_DIFFERENTIATED_IN_TORCH = frozenset(("vander", "linalg_cond", "cholesky_inverse", "linalg_lstsq"))
"""Functions whose backward fails in torch, where it changed in place what it saved, takes the triangle that is not read
for one that is, or wants residuals where there are none."""
