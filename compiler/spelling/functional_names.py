"""What torch.nn.functional has. Held to torch itself by a test."""

from __future__ import annotations

_ALONE = """
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
_METHODS_TOO = "hardshrink log_softmax prelu relu sigmoid softmax tanh unfold"

FUNCTIONAL_ALONE = frozenset(_ALONE.split())
"""Of these no tensor has a method."""
FUNCTIONAL = FUNCTIONAL_ALONE | frozenset(_METHODS_TOO.split())
