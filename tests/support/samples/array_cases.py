"""Calls of every differentiable op on whole arrays, and torch's ways to evaluate them.

The calls of samples_*.py, except where those leave the domain in which torch has a derivative; and more,
for what matters to gradients: folded batches, repeated indices, empty tensors, singular matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.types.types import is_tensor, strip_optional
from samples import creation as samples_creation
from samples import indexing as samples_indexing
from samples import linalg as samples_linalg
from samples import nn as samples_nn
from samples import shape as samples_shape
from samples import torchscript as samples_torchscript
from samples.array_calls import module_of
from samples.arrays import Call, Leaf, call, definite, distinct, index, literal, mask, regular, t
from torch.nn.attention import SDPBackend, sdpa_kernel

MODULES = {
    "linalg.products",
    "linalg.solvers",
    "linalg.structure",
    "shape",
    "rearranging",
    "indexing",
    "indexing_scatter",
    "creation",
    "conversion",
    "nn.layers",
    "nn.windows",
    "nn.adjoints",
    "nn.resize",
    "torchscript",
}
"""The files of ops whose formulas are tested here."""
FILES = ("attention", "convolution", "creation", "indexing", "linalg", "matmul", "pooling", "shape", "torchscript")
"""The files of formulas that are tested here."""

_SAMPLES = (samples_linalg, samples_shape, samples_indexing, samples_creation, samples_nn, samples_torchscript)
SIGN_FREE = samples_linalg.SIGN_FREE
"""Factors are determined up to sign: their squares are differentiated."""
RIGID_OPS = {"cholesky", "linalg_cholesky", "linalg_svdvals", "linalg_eigvalsh", *SIGN_FREE}
"""Copies of one row would make their argument singular."""
FIXED = {
    "masked_dropout": frozenset({"mask"}),
    "native_dropout_backward": frozenset({"mask"}),
    "_batch_norm_impl_index": frozenset({"running_mean", "running_var"}),
    "_batch_norm_impl_index_backward": frozenset({"running_mean", "running_var", "reservedSpace"}),
}
"""Tensors that are floating and have no gradient all the same: a mask is drawn, not learned; averages were kept."""

_REPLACED: dict[str, list[Call]] = {
    # torch wants the source as large as the index to differentiate.
    "scatter.src": [
        call(t(3, 5), 0, distinct(3, 2, 5), t(2, 5)),
        call(t(6), -1, distinct(6, 4), t(4)),
        call(t(), 0, literal(0), t()),
        call(t(3, 4), 1, index(4, 0, 4), t(0, 4)),
    ],
    "scatter_add": [
        call(t(3, 5), 0, index(3, 6, 5), t(6, 5)),
        call(t(4), 0, index(4, 9), t(9)),
        call(t(2, 3), -1, index(3, 2, 7), t(2, 7)),
    ],
    "scatter_reduce.two": [
        call(t(3, 5), 0, index(3, 6, 5), t(6, 5), name, **kwargs)
        for name in ("sum", "prod", "mean", "amax", "amin")
        for kwargs in ({}, {"include_self": False})
    ],
    "scatter.reduce": [
        call(t(3, 5), 0, index(3, 6, 5), t(6, 5), reduce="add"),
        call(t(3, 5), 1, index(5, 3, 8), t(3, 8), reduce="multiply"),
    ],
    # torch differentiates no empty lookup, and has no Q to differentiate in mode "r".
    "embedding": [call(t(5, 3), index(5, 4)), call(t(5, 3), index(5, 2, 7), 1), call(t(5, 3), literal(2))],
    "linalg_qr": [
        call(t(4, 3)),
        call(t(3, 4)),
        call(t(2, 3, 3), "complete"),
        call(t(3, 5), "complete"),
    ],
    "cholesky_solve": [call(t(3, 2), regular(3, 3)), call(t(2, 3, 2), regular(2, 3, 3), True)],
    "unbind.int": [call(t(3, 2)), call(t(3, 2), -1)],
}
_MORE: dict[str, list[Call]] = {
    "matmul": [
        call(t(2, 3, 4), t(4, 5)),
        call(t(0, 3, 4), t(4, 5)),
        call(t(3, 4), t(2, 4, 5)),
        call(t(2, 3, 4), t(1, 4, 5)),
        call(t(3, 0), t(0)),
    ],
    "linear": [call(t(0, 4), t(3, 4), t(3)), call(t(2, 0, 4), t(3, 4)), call(t(2, 3, 4), t(4), t())],
    "einsum": [
        call("ij,ij->ij", [t(1, 3), t(2, 1)]),
        call("...ij, jk -> ...ki", [t(2, 4, 3), t(3, 5)]),
        call("ij,kj->k", [t(2, 3), t(4, 3)]),
        call("iij,j->i", [t(3, 3, 2), t(2)]),
        call("ab,bc,cd", [t(2, 3), t(3, 4), t(4, 2)]),
        call("i->", [t(0)]),
    ],
    "tensordot": [call(t(0, 3), t(3, 2), [1], [0]), call(t(2, 3), t(2, 3), [0, 1], [-2, -1])],
    "linalg_multi_dot": [call([t(3), t(3, 4), t(4)])],
    "linalg_solve": [call(regular(2, 3, 3), t(3)), call(regular(2, 3, 3), t(4, 3), left=False)],
    "linalg_solve_triangular": [call(regular(2, 3, 3), t(3, 2), upper=True, unitriangular=True)],
    "cross": [call(t(4, 3), t(1, 3)), call(t(1, 3), t(2, 3), -1)],
    "linalg_cholesky": [call(definite(4, 4), upper=True)],
    "linalg_svd": [call(t(3, 5), True), call(t(5, 3))],
    "linalg_svdvals": [call(t(2, 4, 3))],
    "pinverse": [call(t(2, 3, 3))],
    "gather": [call(t(3, 4), -1, literal([[0, 0, 0], [1, 1, 3]]))],
    "index_select": [call(t(3, 4), -1, literal([1, 1, 1, 0]))],
    "index.Tensor": [call(t(3, 4), [literal([0, 0, 2]), literal([1, 1, 3])]), call(t(0, 4), [literal([])])],
    "index_put": [
        call(t(4, 3), [literal([1, 1, -1])], t(1, 3), True),
        call(t(4, 3), [None, literal([0, 2])], t(4, 1)),
    ],
    "index_fill.int_Tensor": [call(t(4, 3), 0, literal([0, 2, 2]), t())],
    "take": [call(t(3, 4), literal([3, 3, -1]))],
    "take_along_dim": [call(t(1, 4), index(4, 3, 2), -1)],
    "masked_select": [call(t(3, 4), literal(np.zeros((3, 4)), mask().dtype))],
    "embedding_backward": [call(t(6, 3), literal([0, 0, 2, 2, 2, 1]), 4, 2, True, False)],
    "cat": [call([t(2, 3), t(0), t(1, 3)])],
    "expand": [call(t(1, 1), [0, 3])],
    "slice.Tensor": [call(t(4, 5), 1, -4, -1, 2), call(t(0, 3))],
    "narrow": [call(t(4, 2), -2, -3, 2)],
    "select.int": [call(t(3, 4, 2), -2, -1)],
    "repeat": [call(t(2, 1), [3, 1, 2]), call(t(0, 2), [2, 2])],
    "permute": [call(t(2, 0, 3), [1, 2, 0]), call(t(2, 3, 4), [-1, -3, -2])],
    "flip": [call(t(0, 2), [0])],
    "roll": [call(t(3, 4), [-5, 2], [-1, 0])],
    "to.other": [call(t(2, 3), t(1)), call(t(2), Leaf(lambda rng: rng.normal(size=3), samples_creation.BFLOAT16))],
    "type_as": [call(t(2, 3), Leaf(lambda rng: rng.normal(size=3), samples_creation.BFLOAT16))],
    "scaled_dot_product_attention": [
        call(t(2, 5, 4), t(2, 6, 4), t(2, 6, 4), literal(np.eye(5, 6) + np.eye(5, 6, 1) > 0, mask().dtype)),
        call(t(2, 1, 5, 4), t(1, 3, 6, 4), t(1, 3, 6, 4), t(5, 6)),
        call(t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), literal([[0, 0, 0], [1, 0, 1], [1, 1, 1]], mask().dtype)),
    ],
    "conv2d": [call(t(2, 3, 5, 5), t(2, 3, 5, 5), t(2))],
    "cosine_similarity": [call(t(2, 3, 4), t(3, 1), -2)],
    "glu": [call(t(2, 0), -1)],
}


def op_key(op: Op) -> str:
    """What samples call an op: its base name and overload."""
    return op.schema.full_name.partition("::")[2]


def differentiable_ops() -> list[Op]:
    """Every op of MODULES through which a gradient can pass."""
    return [op for op in OPS.all() if module_of(op) in MODULES and _has_gradient(op)]


def _has_gradient(op: Op) -> bool:
    if op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY):
        return False
    types = [strip_optional(argument.type) for argument in op.schema.arguments]
    return any(is_tensor(type) or is_tensor(getattr(type, "element", type)) for type in types)


def calls(op: Op) -> list[Call]:
    name = op_key(op)
    own = _REPLACED.get(name) or next(module.CASES[name] for module in _SAMPLES if name in module.CASES)
    return [*own, *_MORE.get(name, [])]


# --- torch's ways ---


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> torch.Tensor:
    """The backend that has second derivatives."""
    attn_mask, dropout_p, is_causal, scale, enable_gqa = rest
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


def _embedding_backward(
    grad: torch.Tensor, indices: torch.Tensor, num_weights: int, padding_idx: int, scale: bool, *rest: bool
) -> torch.Tensor:
    """torch's own forgets the scale in its derivative."""
    flat = indices.reshape(-1)
    rows = grad.reshape(flat.numel(), grad.shape[-1]) * (flat != padding_idx).unsqueeze(-1)
    if scale:
        rows = rows / torch.bincount(flat, minlength=num_weights)[flat].unsqueeze(-1)
    return grad.new_zeros(num_weights, grad.shape[-1]).index_add(0, flat, rows)


def _scatter_value(self: torch.Tensor, dim: int, index: torch.Tensor, value: float, reduce: str) -> torch.Tensor:
    return _scatter(self, dim, index, self.new_full(index.shape, value), reduce)


def _scatter(self: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str) -> torch.Tensor:
    return self.scatter_reduce(dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def _cholesky_solve(self: torch.Tensor, input2: torch.Tensor, upper: bool) -> torch.Tensor:
    """torch's derivative has entries in the triangle that is not read."""
    return torch.cholesky_solve(self, input2.triu() if upper else input2.tril(), upper)


def _batch_statistics(input: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    variance, mean = torch.var_mean(input, [0, *range(2, input.dim())], correction=0)
    return mean, torch.rsqrt(variance + eps)


def _batch_norm_impl_index(input: torch.Tensor, weight: Any, bias: Any, *rest: Any) -> list[Any]:
    """From torch's batch_norm and the definition of the statistics, of which torch has no gradient."""
    training, eps = rest[2], rest[4]
    output = torch.batch_norm(input, weight, bias, *rest)
    empty = input.new_zeros(0)
    statistics = _batch_statistics(input, eps) if training else (empty, empty)
    return [output, *statistics, torch.zeros(0, dtype=torch.uint8), 0]


def _batch_norm_backward(_: int, input: torch.Tensor, grad: torch.Tensor, weight: Any, *rest: Any) -> list[Any]:
    """From its definition: torch takes the saved statistics to be those of the input, also where they are not."""
    running_mean, running_var, mean, rstd, train, eps, mask, _ = rest
    if not train:
        mean, rstd = running_mean, torch.rsqrt(running_var + eps)
    dims, shape = [0, *range(2, input.dim())], [-1, *[1] * (input.dim() - 2)]
    normal = (input - mean.reshape(shape)) * rstd.reshape(shape)
    g = grad if weight is None else grad * weight.reshape(shape)
    along = g.mean(dims, True) + normal * (g * normal).mean(dims, True) if train else 0
    found = [(g - along) * rstd.reshape(shape), (grad * normal).sum(dims), grad.sum(dims)]
    return [value if wanted else None for value, wanted in zip(found, mask, strict=True)]


_REFERENCES: dict[str, Callable[..., Any]] = {
    "_batch_norm_impl_index": _batch_norm_impl_index,
    "_batch_norm_impl_index_backward": _batch_norm_backward,
    "scaled_dot_product_attention": _attention,
    "embedding_backward": _embedding_backward,
    "embedding_dense_backward": _embedding_backward,
    "scatter.reduce": _scatter,
    "scatter.value_reduce": _scatter_value,
    "cholesky_solve": _cholesky_solve,
    "copy": lambda self, src, non_blocking: src.to(self.dtype).expand_as(self),
}


def reference_call(op: Op) -> Callable[..., Any] | None:
    """How torch evaluates an op, where that is not the aten op of its name."""
    name = op_key(op)
    samples = {name: f for module in _SAMPLES for name, f in module.REFERENCES.items()}
    return _REFERENCES.get(name) or samples.get(name)
