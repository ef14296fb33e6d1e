"""What ops give in parts is the whole in parts: the rule of each op, on samples cut in all ways (sharding_samples)."""

from __future__ import annotations

import pytest
from amounts import some_of
from sharding_samples import NAMES, wrong_ways

WITH_RULES = (
    *("matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "addmm", "baddbmm", "linear", "tensordot", "einsum"),
    *("einsum_adjoint", "matmul_left", "matmul_right", "sum.dim_IntList", "mean.dim", "amax"),
    *("std.dim", "max.dim", "cumsum", "sort", "topk", "flip", "tril", "swapaxes", "movedim.int", "diagonal", "repeat"),
    *("index_select", "gather", "index.Tensor", "embedding", "embedding_dense_backward", "scatter_add", "index_add"),
    *("mse_loss", "binary_cross_entropy", "nll_loss", "conv2d", "conv_input", "conv_weight", "conv_transpose2d.input"),
    *("avg_pool2d", "max_pool2d_with_indices", "pad", "scaled_dot_product_attention", "batch_norm", "group_norm"),
    *("linalg_inv", "softmax.int", "native_layer_norm", "native_layer_norm_backward", "unbind.int"),
)


@pytest.mark.parametrize("name", some_of(NAMES))
def test_what_a_rule_allows_is_right(name: str) -> None:
    _, wrong = wrong_ways(name)
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("name", WITH_RULES)
def test_these_ops_run_in_parts(name: str) -> None:
    allowed, wrong = wrong_ways(name)
    assert allowed and not wrong, "\n".join(wrong[:10])
