"""Functions of torch.nn.functional that are written in the language: `functional*.grad` and `sampling.grad` in
`stdlib_grads/nn`.

What is called `functional_…` shares its name with another op that takes other arguments. Source of the schemas:
torch's documentation of torch.nn.functional; a reduction is its name.
"""

from __future__ import annotations

from ..composite import composite

_REDUCTION = 'str reduction="mean"'

for _schema in (
    # --- pointwise, softmin, normalization ---
    "gs::softsign(Tensor input) -> Tensor",
    "gs::functional_elu(Tensor input, float alpha=1.0) -> Tensor",
    "gs::tanhshrink(Tensor input) -> Tensor",
    "gs::softmin(Tensor input, int dim, *, ScalarType? dtype=None) -> Tensor",
    "gs::normalize(Tensor input, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
    "gs::local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
    "aten::instance_norm.functional(Tensor input, Tensor? running_mean=None, Tensor? running_var=None,"
    " Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1,"
    " float eps=1e-05) -> Tensor",
    # --- embedding, windows, pooling ---
    "gs::functional_embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None,"
    " float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    "gs::functional_embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None,"
    ' float norm_type=2.0, bool scale_grad_by_freq=False, str mode="mean", bool sparse=False,'
    " Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> Tensor",
    "gs::functional_unfold(Tensor input, int[2] kernel_size, int[2] dilation=[1, 1], int[2] padding=[0, 0],"
    " int[2] stride=[1, 1]) -> Tensor",
    "gs::lp_pool1d(Tensor input, Scalar norm_type, int[1] kernel_size, int[1] stride=[],"
    " bool ceil_mode=False) -> Tensor",
    "gs::lp_pool2d(Tensor input, Scalar norm_type, int[2] kernel_size, int[2] stride=[],"
    " bool ceil_mode=False) -> Tensor",
    "gs::lp_pool3d(Tensor input, Scalar norm_type, int[3] kernel_size, int[3] stride=[],"
    " bool ceil_mode=False) -> Tensor",
    *(
        f"gs::max_unpool{rank}d(Tensor input, Tensor indices, int[{rank}] kernel_size, int[{rank}] stride=[],"
        f" int[{rank}] padding=[{zeros}], int[]? output_size=None) -> Tensor"
        for rank, zeros in ((1, "0"), (2, "0, 0"), (3, "0, 0, 0"))
    ),
    *(
        f"gs::functional_adaptive_max_pool{rank}d(Tensor input, int[{rank}] output_size) -> Tensor"
        for rank in (1, 2, 3)
    ),
    *(f"aten::adaptive_avg_pool{rank}d.partial(Tensor self, int?[] output_size) -> Tensor" for rank in (2, 3)),
    *(
        f"aten::adaptive_max_pool{rank}d.partial(Tensor self, int?[] output_size) -> (Tensor, Tensor)"
        for rank in (2, 3)
    ),
    *(
        f"gs::functional_adaptive_max_pool{rank}d.partial(Tensor input, int?[] output_size) -> Tensor"
        for rank in (2, 3)
    ),
    # --- rearranging, sampling ---
    "aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    "aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    "aten::channel_shuffle(Tensor self, int groups) -> Tensor",
    "gs::affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
    'gs::grid_sample(Tensor input, Tensor grid, str mode="bilinear", str padding_mode="zeros",'
    " bool? align_corners=None) -> Tensor",
    *(
        f"gs::upsample_{name}{overload}(Tensor input, {size} size=None, {scale} scale_factor=None) -> Tensor"
        for name in ("nearest", "bilinear")
        for overload, size, scale in (("", "int[]?", "float[]?"), (".number", "int?", "float?"))
    ),
    *(
        f"aten::grid_sampler_{rank}d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode,"
        " bool align_corners) -> Tensor"
        for rank in (2, 3)
    ),
    # --- distances ---
    "aten::pdist(Tensor self, float p=2.0) -> Tensor",
    # --- losses ---
    f"gs::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, *,"
    f" {_REDUCTION}) -> Tensor",
    f"gs::hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, *, {_REDUCTION}) -> Tensor",
    f"gs::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, *,"
    f" {_REDUCTION}) -> Tensor",
    f"gs::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0,"
    f" float eps=1e-06, bool swap=False, *, {_REDUCTION}) -> Tensor",
    f"gs::poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, *, float eps=1e-08,"
    f" {_REDUCTION}) -> Tensor",
    f"gs::gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float eps=1e-06,"
    f" {_REDUCTION}) -> Tensor",
    f"gs::gaussian_nll_loss.number(Tensor input, Tensor target, float var, bool full=False, float eps=1e-06,"
    f" {_REDUCTION}) -> Tensor",
    f"gs::multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor? weight=None, *,"
    f" {_REDUCTION}) -> Tensor",
    f"gs::multilabel_margin_loss(Tensor input, Tensor target, *, {_REDUCTION}) -> Tensor",
    f"gs::multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, *, {_REDUCTION}) -> Tensor",
    "gs::linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? linear_bias=None,"
    f" Tensor? weight=None, {_REDUCTION}, int? ignore_index=None, float label_smoothing=0.0) -> Tensor",
    *(
        f"gs::functional_ctc_loss{overload}(Tensor log_probs, Tensor targets, {kind} input_lengths,"
        f" {kind} target_lengths, int blank=0, {_REDUCTION}, bool zero_infinity=False) -> Tensor"
        for overload, kind in (("", "Tensor"), (".lists", "int[]"))
    ),
):
    composite(_schema)
