"""What views show, in memory of its own. They are written in the language, in stdlib_grads/copies.grad.

Source of the schemas: torch's, of the functions of these names.
"""

from __future__ import annotations

from ..composite import composite
from ..registry import Trait

for _schema in (
    "alias_copy(Tensor self) -> Tensor",
    "view_copy(Tensor self, int[] size) -> Tensor",
    "expand_copy(Tensor self, int[] size, *, bool implicit=False) -> Tensor",
    "permute_copy(Tensor self, int[] dims) -> Tensor",
    "transpose_copy(Tensor self, int dim0, int dim1) -> Tensor",
    "t_copy(Tensor self) -> Tensor",
    "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    "squeeze_copy(Tensor self) -> Tensor",
    "squeeze_copy.dim(Tensor self, int dim) -> Tensor",
    "squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
    "unsqueeze_copy(Tensor self, int dim) -> Tensor",
    "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
    "narrow_copy(Tensor self, int dim, int start, int length) -> Tensor",
    "select_copy(Tensor self, int dim, int index) -> Tensor",
    "slice_copy(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
    "unbind_copy(Tensor self, int dim=0) -> Tensor[]",
    "split_copy(Tensor self, int split_size, int dim=0) -> Tensor[]",
    "split_with_sizes_copy(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
):
    composite(f"aten::{_schema}")
composite("aten::detach_copy(Tensor self) -> Tensor", traits=Trait.NONDIFFERENTIABLE)
