"""torch.masked: `torch.masked.sum(x, 1, mask=m)` is `gs::unmasked_sum`, of what the mask leaves.

`masked_fill` and its like are no functions of that module. They are written in the language, in
stdlib_grads/masked.grad.

Source of the schemas: torch's documentation of torch.masked.
"""

from __future__ import annotations

from ..composite import composite
from ..registry import Trait

_LEFT = "ScalarType? dtype=None, Tensor? mask=None"
_REDUCED = f"Tensor input, int[1]? dim=None, *, bool keepdim=False, {_LEFT}"
_SPREAD = (
    f"Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool keepdim=False, {_LEFT}"
)
_ALONG = f"Tensor input, int dim, *, {_LEFT}"

for _name, _arguments in (
    *((name, _REDUCED) for name in ("sum", "prod", "amax", "amin", "mean", "logsumexp")),
    *((name, _SPREAD) for name in ("var", "std")),
    *((name, _ALONG) for name in ("cumsum", "cumprod", "softmax", "log_softmax", "softmin")),
    ("median", f"Tensor input, int dim=-1, *, bool keepdim=False, {_LEFT}"),
    ("norm", f"Tensor input, float? ord=2.0, int[1]? dim=None, *, bool keepdim=False, {_LEFT}"),
    ("normalize", f"Tensor input, float ord, int dim, *, float eps=1e-12, {_LEFT}"),
    (
        "logaddexp",
        "Tensor input, Tensor other, *, ScalarType? dtype=None, Tensor? input_mask=None, Tensor? other_mask=None",
    ),
):
    composite(f"gs::unmasked_{_name}({_arguments}) -> Tensor")
for _name in ("argmax", "argmin"):
    composite(
        f"gs::unmasked_{_name}(Tensor input, int? dim=None, *, bool keepdim=False, {_LEFT}) -> Tensor",
        traits=Trait.NONDIFFERENTIABLE,
    )
