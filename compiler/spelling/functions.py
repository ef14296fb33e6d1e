"""What torch and Python have as functions alone: `F.gelu(x)`, `len(x)`, for no tensor has a method `gelu`, or `len`.

Held to torch itself by a test.
"""

from __future__ import annotations

from .functional_names import FUNCTIONAL_ALONE
from .names import BUILTINS

_TORCH = """
    _batch_norm_impl_index _dim_arange _log_softmax _log_softmax_backward_data _prelu_kernel _softmax
    _softmax_backward_data alias_copy arange as_tensor atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors
    bucketize cartesian_prod cat cdist chain_matmul column_stack combinations concat concatenate constant_pad_nd
    convolution cumulative_trapezoid detach_copy diagonal_copy dstack einsum empty empty_like expand_copy eye
    feature_dropout fill full full_like gradient grid_sampler_2d grid_sampler_3d hstack isin linspace logspace
    lu_unpack meshgrid native_dropout native_layer_norm normal ones ones_like permute_copy promote_types rand
    rand_like randint randint_like randn randn_like randperm result_type row_stack rsub scalar_tensor searchsorted
    select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy stack std_mean t_copy tensor tensordot
    transpose_copy trapezoid trapz tril_indices triu_indices unbind_copy unfold_copy unravel_index unsqueeze_copy
    vander var_mean view_copy vstack zeros zeros_like
"""

_METHODS_TOO = frozenset(("abs", "min", "max", "sum", "round", "pow", "any", "all"))
FUNCTIONS_ONLY = {
    **{op: name for name, op in BUILTINS.items() if op not in _METHODS_TOO},
    **{name: f"torch.{name}" for name in _TORCH.split()},
    **{name: f"F.{name}" for name in sorted(FUNCTIONAL_ALONE)},
}
"""By the name that would be a method's, the function as it is written."""
