"""What torch and Python have as functions alone: `F.gelu(x)`, `len(x)`, for no tensor has a method `gelu`, or `len`.

Held to torch itself by a test.
"""

from __future__ import annotations

from .names import BUILTINS

_FUNCTIONAL = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices
    adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices
    affine_grid alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
    binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy dropout dropout1d dropout2d dropout3d elu
    embedding feature_alpha_dropout fold gaussian_nll_loss gelu glu grid_sample group_norm hardsigmoid hardswish
    hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear
    linear_cross_entropy local_response_norm logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d
    max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d
    max_unpool2d max_unpool3d mish mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
    nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss relu6
    rms_norm rrelu scaled_dot_product_attention selu silu smooth_l1_loss soft_margin_loss softmin softplus
    softshrink softsign tanhshrink threshold triplet_margin_loss upsample upsample_bilinear upsample_nearest
"""
_TORCH = """
    _batch_norm_impl_index _dim_arange _log_softmax _log_softmax_backward_data _prelu_kernel _softmax
    _softmax_backward_data alias_copy arange as_tensor atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors
    bucketize cartesian_prod cat cdist chain_matmul column_stack combinations concat concatenate constant_pad_nd
    convolution cumulative_trapezoid detach_copy diagonal_copy dstack einsum empty empty_like expand_copy eye
    feature_dropout fill full full_like gradient grid_sampler_2d grid_sampler_3d hstack isin linspace logspace
    lu_unpack meshgrid native_dropout native_layer_norm normal ones ones_like permute_copy rand rand_like randint
    randint_like randn randn_like randperm result_type row_stack rsub scalar_tensor searchsorted select_copy
    slice_copy split_copy split_with_sizes_copy squeeze_copy stack std_mean t_copy tensor tensordot transpose_copy
    trapezoid trapz tril_indices triu_indices unbind_copy unfold_copy unravel_index unsqueeze_copy vander var_mean
    view_copy vstack zeros zeros_like
"""

_METHODS_TOO = frozenset(("abs", "min", "max", "sum", "round", "pow", "any", "all"))
FUNCTIONS_ONLY = {
    **{op: name for name, op in BUILTINS.items() if op not in _METHODS_TOO},
    **{name: f"torch.{name}" for name in _TORCH.split()},
    **{name: f"F.{name}" for name in _FUNCTIONAL.split()},
}
"""By the name that would be a method's, the function as it is written."""
