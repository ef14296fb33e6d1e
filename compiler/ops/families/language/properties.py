"""What a tensor is rather than what is in it, identity, optionals, raising, and undoing a broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from ....types.dtypes import BOOL, BY_CODE, INT64, UINT8, DType, promote
from ....types.lazy_numpy import np
from ... import shapes
from ...arguments import Arguments, Shape
from ...arrays import Array, cast, compute_dtype, dtype_of, float_limits, numpy_dtype, result_dtype
from ...registry import Trait, declare

SHAPE_ONLY = Trait.SHAPE_ONLY
DEVICE = "cpu"


class GradscriptRaise(RuntimeError):
    """What a `raise` or a failed `assert` in source raises; `kind` is the name of the exception written there."""

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind


# --- sizes ---


def _dimension(tensor: Array, dim: int) -> int:
    ndim = max(tensor.ndim, 1)
    if not -ndim <= dim < ndim or not tensor.ndim:
        raise IndexError(f"dimension {dim} is out of range for a tensor of shape {list(tensor.shape)}")
    return dim


def _index_rank(index: Array | None) -> int:
    """How many dimensions an entry of a subscript takes: a mask as many as it has."""
    return 1 if index is None or dtype_of(index) not in (BOOL, UINT8) else index.ndim


def _contiguous_strides(tensor: Array) -> list[int]:
    """Strides, in elements, of a contiguous tensor of this shape: layout is no part of a value."""
    return [math.prod(max(size, 1) for size in tensor.shape[i + 1 :]) for i in range(tensor.ndim)]


# --- what is known of results ---


def _size_summed_to(a: Arguments) -> Shape:
    return _summed_to(a.shape("self"), a["size"])


def _summed_to(shape: Shape, size: Sequence[int], more: int = 0) -> Shape:
    if shapes.broadcast(size[more:], shape) != shape:
        raise RuntimeError(f"size {list(size)} is not expandable to the shape {list(shape)} of the tensor")
    return tuple(size)


def _more_than_place(shape: Shape, size: Sequence[int]) -> int:
    """How many dimensions a value had that the place to which it was written has not: leading ones, each of one."""
    more = max(len(size) - len(shape), 0)
    return more if all(s == 1 for s in size[:more]) else 0


def _size_of_gradient(a: Arguments) -> Shape:
    size, shape = a["size"], a.shape("self")
    if size is None:
        return shape
    return _summed_to(shape, size, _more_than_place(shape, size))


def _dtype_summed_to(a: Arguments) -> DType:
    """A tensor that has the size already stays what it is, but for a 0-d one."""
    size, tensor = a["size"], a.tensor("self")
    is_kept = size is None or (bool(size) and len(size) == tensor.rank and tuple(size) == tensor.shape)
    return tensor.dtype if is_kept else shapes.summed(a)


declare("aten::size(Tensor self) -> int[]", lambda x: list(x.shape), traits=SHAPE_ONLY, aliases=("shape",))
declare("aten::size.int(Tensor self, int dim) -> int", lambda x, dim: x.shape[_dimension(x, dim)], traits=SHAPE_ONLY)
declare("aten::dim(Tensor self) -> int", lambda x: x.ndim, traits=SHAPE_ONLY, aliases=("ndim", "ndimension"))
declare("aten::_index_rank(Tensor? index) -> int", _index_rank, traits=SHAPE_ONLY)
declare("aten::numel(Tensor self) -> int", lambda x: x.size, traits=SHAPE_ONLY, aliases=("nelement",))
declare("aten::stride(Tensor self) -> int[]", _contiguous_strides, traits=SHAPE_ONLY)
declare(
    "aten::stride.int(Tensor self, int dim) -> int",
    lambda x, dim: _contiguous_strides(x)[_dimension(x, dim)],
    traits=SHAPE_ONLY,
)
declare("aten::is_same_size(Tensor self, Tensor other) -> bool", lambda x, y: x.shape == y.shape, traits=SHAPE_ONLY)

# --- dtype, device and the like ---

declare("prim::dtype(Tensor a) -> int", lambda x: dtype_of(x).code, traits=SHAPE_ONLY)
declare("prim::device(Tensor a) -> Device", lambda x: DEVICE, traits=SHAPE_ONLY)
declare("prim::layout(Tensor a) -> int", lambda x: 0, traits=SHAPE_ONLY)
declare("prim::is_cpu(Tensor a) -> bool", lambda x: True, traits=SHAPE_ONLY)
for name in (
    *("is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized"),
    *("is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu"),
):
    declare(f"prim::{name}(Tensor a) -> bool", lambda x: False, traits=SHAPE_ONLY)
# Where gradients are recorded or computed, that is what decides: see `autodiff.requires_grad` and the tape.
declare("prim::requires_grad(Tensor a) -> bool", lambda x: False, traits=Trait.NONDIFFERENTIABLE)
declare("aten::device(str a) -> Device", lambda name: name)
declare("gs::device_type(Device self) -> str", lambda name: name.partition(":")[0])
declare("gs::device_index(Device self) -> int?", lambda name: int(name.partition(":")[2]) if ":" in name else None)
declare("aten::element_size(Tensor self) -> int", lambda x: dtype_of(x).itemsize, traits=SHAPE_ONLY)
declare("aten::is_floating_point(Tensor self) -> bool", lambda x: dtype_of(x).is_floating, traits=SHAPE_ONLY)
declare("aten::is_complex(Tensor self) -> bool", lambda x: False, traits=SHAPE_ONLY)
for left, right in (("Tensor", "Tensor"), ("Tensor", "Scalar"), ("Scalar", "Tensor"), ("Scalar", "Scalar")):
    overload = f"{left}_{right}" if left == "Scalar" else {"Tensor": "Tensor", "Scalar": "Scalar"}[right]
    declare(
        f"aten::result_type.{overload}({left} tensor, {right} other) -> ScalarType",
        lambda x, y: result_dtype(x, y).code,
        traits=SHAPE_ONLY,
    )

declare(
    "aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType",
    lambda one, other: promote(BY_CODE[one], BY_CODE[other]).code,
)

# --- the limits of dtypes, by their names in torch.finfo and torch.iinfo ---


def _float_limit(dtype: int, name: str) -> float:
    found = BY_CODE[dtype]
    if not found.is_floating:
        raise ValueError(f"torch.finfo() is of floating dtypes, not of {found}: `torch.iinfo` is of integers")
    limits = float_limits(numpy_dtype(found))
    # As torch has it, which is no number of the dtype.
    return float(f"1e-{limits.precision}") if name == "resolution" else float(getattr(limits, name))


def _integer_limit(dtype: int, name: str) -> int:
    found = BY_CODE[dtype]
    if found.is_floating or found == BOOL:
        raise ValueError(f"torch.iinfo() is of integer dtypes, not of {found}")
    return int(getattr(np.iinfo(numpy_dtype(found)), name))


for name in ("eps", "max", "min", "tiny", "smallest_normal", "resolution"):
    declare(f"gs::finfo_{name}(ScalarType dtype) -> float", partial(_float_limit, name=name))
for name in ("bits", "max", "min"):
    declare(f"gs::iinfo_{name}(ScalarType dtype) -> int", partial(_integer_limit, name=name))

# --- identity and optionals ---


def _unwrap(value: Any) -> Any:
    if value is None:
        raise ValueError("an optional that must have a value here is None")
    return value


declare("aten::__is__(t1 a, t2 b) -> bool", lambda a, b: a is b)
declare("aten::__isnot__(t1 a, t2 b) -> bool", lambda a, b: a is not b)
declare("aten::_unwrap_optional(t? optional) -> t", _unwrap, aliases=("unchecked_unwrap_optional",))

# --- control ---


def _raise(message: str, kind: str | None = None) -> NoReturn:
    raise GradscriptRaise(message, kind)


declare("prim::RaiseException(str msg, str? cls=None) -> ()", _raise, traits=Trait.SIDE_EFFECT)
declare(
    "aten::detach(Tensor self) -> Tensor",
    lambda x: x,
    traits=Trait.NONDIFFERENTIABLE | Trait.VIEW,
    result=lambda types: types[0],
    shape=shapes.shape_of("self"),
)

# A view that is taken where no gradient flows: of a tensor that requires one, it says that it does too, as in torch.
declare(
    "aten::_unrecorded_view(Tensor self) -> Tensor",
    lambda x: x,
    traits=Trait.NONDIFFERENTIABLE | Trait.VIEW,
    result=lambda types: types[0],
    shape=shapes.shape_of("self"),
)

declare(
    "aten::_unrecorded_views(Tensor[] self) -> Tensor[]",
    lambda value: value,
    traits=Trait.NONDIFFERENTIABLE | Trait.VIEW,
)

declare(
    "aten::_without_gradient(t self) -> t",
    lambda value: value,
    traits=Trait.NONDIFFERENTIABLE | Trait.VIEW,
)

# --- undoing a broadcast ---


def sum_to_size(tensor: Array, size: list[int] | tuple[int, ...]) -> Array:
    """Sum over the dimensions in which `size` was broadcast to the tensor's shape.

    Halves add up in float32. Sums of integers are int64; torch counts that of a 0-d tensor among them. Any other
    tensor that has the size already is returned itself.
    """
    shape = tuple(size)
    if tensor.shape == shape and (shape or dtype_of(tensor).is_floating):
        return tensor
    extra = tensor.ndim - len(shape)
    if extra < 0 or any(s not in (1, t) for s, t in zip(shape, tensor.shape[extra:], strict=True)):
        raise ValueError(f"size {list(shape)} is not expandable to the shape {list(tensor.shape)} of the tensor")
    axes = [i for i, t in enumerate(tensor.shape) if i < extra or (shape[i - extra] == 1 and t != 1)]
    dtype = dtype_of(tensor) if dtype_of(tensor).is_floating else INT64
    total = np.add.reduce(cast(tensor, compute_dtype(dtype)), axis=tuple(axes), keepdims=True)
    return cast(total, dtype).reshape(shape)


def _grad_sum_to_size(tensor: Array, size: list[int] | None) -> Array:
    """The same, or nothing to do. What was written to a place may have had more dimensions than that, each of one."""
    if size is None:
        return tensor
    more = _more_than_place(tensor.shape, size)
    return sum_to_size(tensor, size[more:]).reshape(size) if more else sum_to_size(tensor, size)


def _size_if_not_equal(size: list[int], other: list[int]) -> list[int] | None:
    return None if list(size) == list(other) else list(size)


declare(
    "aten::sum_to_size(Tensor self, int[] size) -> Tensor",
    sum_to_size,
    traits=Trait.REDUCTION | Trait.MAY_ALIAS,
    shape=_size_summed_to,
    dtype=_dtype_summed_to,
)
declare(
    "aten::_grad_sum_to_size(Tensor self, int[]? size) -> Tensor",
    _grad_sum_to_size,
    traits=Trait.REDUCTION | Trait.MAY_ALIAS,
    shape=_size_of_gradient,
    dtype=_dtype_summed_to,
)
declare("aten::_size_if_not_equal(int[] self_size, int[] other_size) -> int[]?", _size_if_not_equal)
