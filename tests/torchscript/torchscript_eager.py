"""What torch itself calls each of TorchScript's functions, and its gradients of them.

Every function takes what TorchScript's takes, in the order of its parameters, a dtype as its code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from gradscript.compiler.types import dtypes
from samples.arrays import TORCH

aten = torch.ops.aten


def _dtype(code: int | None) -> torch.dtype | None:
    return None if code is None else TORCH[dtypes.BY_CODE[code]]


def _copy(statistic: torch.Tensor | None) -> torch.Tensor | None:
    """Running statistics are updated in place in torch, and never here."""
    return None if statistic is None else statistic.clone()


def _scaled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, y, alpha: function(x, y, alpha=alpha)


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *rest: Any) -> torch.Tensor:
    return torch.batch_norm(x, weight, bias, _copy(mean), _copy(var), training, *rest)


def _embedding(
    weight: torch.Tensor, indices: torch.Tensor, padding_idx: int, scale: bool, sparse: bool
) -> torch.Tensor:
    return torch.embedding(weight, indices, padding_idx, scale, sparse)


_CALLS: dict[str, Callable[..., Any]] = {
    "mean_0": lambda x, dtype: torch.mean(x, dtype=_dtype(dtype)),
    "mean_1": lambda x, dim, keep, dtype: torch.mean(x, dim, keep, dtype=_dtype(dtype)),
    "std_0": torch.std,
    "std_1": lambda x, dim, unbiased, keep: torch.std(x, dim, correction=int(unbiased), keepdim=keep),
    "std_2": lambda x, dim, correction, keep: torch.std(x, dim, correction=_one(correction), keepdim=keep),
    "var_1": lambda x, dim, unbiased, keep: torch.var(x, dim, correction=int(unbiased), keepdim=keep),
    "var_2": lambda x, dim, correction, keep: torch.var(x, dim, correction=_one(correction), keepdim=keep),
    "softmax": lambda x, dim, dtype: torch.softmax(x, dim, _dtype(dtype)),
    "log_softmax": lambda x, dim, dtype: torch.log_softmax(x, dim, _dtype(dtype)),
    "_grad_sum_to_size": lambda x, size: x if size is None else x.sum_to_size(size),
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "div_2": lambda x, y, mode: torch.div(x, y, rounding_mode=mode),
    "div_3": lambda x, y, mode: torch.div(x, y, rounding_mode=mode),
    **{f"{f.__name__}_{i}": _scaled(f) for f in (torch.add, torch.sub, torch.rsub) for i in (0, 1)},
    "addcmul": lambda x, y, z, value: torch.addcmul(x, y, z, value=value),
    "addmm": lambda x, y, z, beta, alpha: torch.addmm(x, y, z, beta=beta, alpha=alpha),
    "view": lambda x, size: x.view(size),
    "expand": lambda x, size, implicit: x.expand(size, implicit=implicit),
    "expand_as": lambda x, other: x.expand_as(other),
    "meshgrid": lambda tensors: torch.meshgrid(*tensors, indexing="ij"),
    "index": lambda x, indices: x[tuple(indices)],
    "contiguous": lambda x, memory_format: x.contiguous(),
    "type_as": lambda x, other: x.type_as(other),
    "to_0": lambda x, device, dtype, non_blocking, copy: x.to(device, _dtype(dtype), non_blocking, copy),
    "to_1": lambda x, dtype, non_blocking, copy: x.to(_dtype(dtype), non_blocking, copy),
    "to_2": lambda x, other, non_blocking, copy: x.to(other, non_blocking, copy),
    "_dim_arange": aten._dim_arange,
    "_autocast_to_full_precision": aten._autocast_to_full_precision,
    "_autocast_to_reduced_precision": lambda x, cuda, cpu, cuda_dtype, cpu_dtype: aten._autocast_to_reduced_precision(
        x, cuda, cpu, _dtype(cuda_dtype), _dtype(cpu_dtype)
    ),
    "batch_norm": _batch_norm,
    "layer_norm": torch.layer_norm,
    "embedding": _embedding,
    "nll_loss": aten.nll_loss,
    **{name: getattr(aten, name) for name in ("avg_pool2d", "max_pool2d", "max_pool2d_with_indices")},
}


def _one(correction: float | None) -> float:
    return 1 if correction is None else correction


def eager(name: str) -> Callable[..., Any]:
    """torch's function of a name such as `pow_1`."""
    found = _CALLS.get(name)
    if found is None:
        base = re.sub(r"_\d\Z", "", name)
        found = getattr(torch, base, None) or getattr(F, base)
    return found


def leaves(value: Any) -> list[Any]:
    """The elements of nested lists and tuples."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list | tuple) else [value]


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def gradients(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor], again: bool
) -> list[torch.Tensor | None]:
    """torch's gradients of the inputs, None where there is none."""
    pairs = [(o, g) for o, g in zip(outputs, cotangents, strict=True) if o.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    results, seeds = zip(*pairs, strict=True)
    return list(torch.autograd.grad(results, inputs, seeds, create_graph=again, allow_unused=True))
