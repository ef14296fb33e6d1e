"""Ops of ours that torch has no name for, in terms of its own: what a device computes stays there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add, attrgetter
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

from ....compiler.ops.families.conversion import CONVERSIONS
from ....compiler.ops.families.language import control
from ....compiler.ops.families.language.control import fit_gradients, grad_list, is_gradient_there, no_grads
from ....compiler.ops.families.language.lists import LISTED, check_listed
from ....compiler.ops.registry import OPS
from ....compiler.spelling.names import METHOD_ATTRIBUTES
from ....compiler.types.dtypes import DEFAULT_FLOAT
from ...values.torch_dtypes import dtypes_of_torch, torch_dtypes
from .products import einsum_adjoint, matmul_left, matmul_right
from .windows import conv_input, conv_weight

TorchForm = Callable[..., Any]
TorchSizes = Sequence[int]


def _add_n(terms: Sequence[torch.Tensor]) -> torch.Tensor:
    if not terms:
        raise RuntimeError("add_n: expected a non-empty list of tensors")
    return reduce(add, terms[1:], terms[0]) if len(terms) > 1 else terms[0].clone()


# --- subscripts ---


def _located(tensor: torch.Tensor, indices: Sequence[Any]) -> tuple[torch.Tensor, list[Any]]:
    """A view, and what is left of the indices in it: an integer of no dimensions picks like a number.

    A mask of no dimensions keeps a new dimension's one row or none.
    """
    is_number = [i is not None and not i.dim() and i.dtype not in (torch.bool, torch.uint8) for i in indices]
    if all(index is None or number for index, number in zip(indices, is_number, strict=True)):
        return tensor, list(indices)
    dim, left = 0, []
    for index, number in zip(indices, is_number, strict=True):
        if number:
            tensor = tensor.select(dim, index.__index__())
            continue
        if index is not None and not index.dim():
            tensor, index = tensor.unsqueeze(dim), index.unsqueeze(0)
        left.append(index)
        dim += index.dim() if index is not None and index.dtype in (torch.bool, torch.uint8) else 1
    return tensor, left


def _index(self: torch.Tensor, indices: Sequence[Any]) -> torch.Tensor:
    return torch.ops.aten.index(*_located(self, indices))


def _index_put(self: torch.Tensor, indices: Sequence[Any], values: torch.Tensor, accumulate: bool) -> torch.Tensor:
    result = self.clone()
    view, left = _located(result, indices)
    while values.ndim and values.shape[0] == 1:
        # An assignment drops what index_put refuses: leading dimensions of one that are more than the place has.
        values = values[0]
    torch.ops.aten.index_put_(view, left, values, accumulate)
    return result


def _expand_into(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    more = max(self.ndim - other.ndim, 0)
    return (self[(0,) * more] if self.shape[:more].numel() == 1 else self).expand(other.shape)


def _grad_sum_to_size(self: torch.Tensor, size: Sequence[int] | None) -> torch.Tensor:
    if size is None:
        return self
    more = max(len(size) - self.ndim, 0)
    return self.sum_to_size(size[more:]).reshape(size) if all(s == 1 for s in size[:more]) else self.sum_to_size(size)


def _updated(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    if new.shape != old.shape:
        size, other = list(old.shape), list(new.shape)
        raise RuntimeError(f"output with shape {size} doesn't match the broadcast shape {other}")
    if not torch.can_cast(new.dtype, old.dtype):
        raise RuntimeError(f"result type {new.dtype} can't be cast to the desired output type {old.dtype}")
    return new.to(old.dtype)


def _tolist(kind: str, rank: int, a: Any) -> Any:
    check_listed(kind, rank, dtypes_of_torch()[a.dtype], a.shape)
    return a.tolist()


def _index_rank(index: torch.Tensor | None) -> int:
    return 1 if index is None or index.dtype not in (torch.bool, torch.uint8) else index.ndim


# --- gradients of what control flow carries ---


def _grad_size(primal: torch.Tensor | None) -> list[int]:
    return [] if primal is None else list(primal.shape)


def _grad_dtype(primal: torch.Tensor | None) -> int:
    return (DEFAULT_FLOAT if primal is None else dtypes_of_torch()[primal.dtype]).code


def _grad_zeros(primal: Any) -> list[Any]:
    """Zeros for a list of tensors, or of such lists; None for None."""
    return [_grad_zeros(item) if isinstance(item, list) else _zeros_like(item) for item in primal or ()]


def _zeros_like(primal: torch.Tensor | None) -> torch.Tensor | None:
    return None if primal is None else torch.zeros_like(primal)


def _zeros_for(primal: Any) -> Any:
    return _grad_zeros(primal) if isinstance(primal, list) else _zeros_like(primal)


def _grad_shapes(primal: list[Any]) -> list[Any]:
    """Tensors of which shapes are asked, and nothing else: none is launched to fill them."""
    return [_grad_shapes(item) if isinstance(item, list) else item.new_empty(()).expand_as(item) for item in primal]


def _grad_list(gradients: list[Any] | None, primal: Any) -> Any:
    return grad_list(gradients, primal, _zeros_for)


def _grad_fit(gradients: list[Any], primal: Any, function: str, argument: str) -> Any:
    return fit_gradients(gradients, primal, function, argument, _summed_to, _zeros_for)


def _summed_to(gradient: torch.Tensor, primal: torch.Tensor) -> torch.Tensor:
    try:
        return gradient.sum_to_size(primal.shape)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _grad_spread(gradients: list[Any], like: list[Any]) -> list[Any]:
    return [
        _grad_spread(g, x) if isinstance(x, list) else g if g is None or x is None else g.expand(x.shape)
        for g, x in zip(gradients, like, strict=True)
    ]


def _scalar_seed(output: torch.Tensor) -> torch.Tensor:
    if output.numel() != 1:
        # It says what is wrong, of an array without memory.
        OPS.named("prim::scalar_seed").evaluate(np.broadcast_to(np.float32(0), tuple(output.shape)))
    return torch.ones_like(output)


# --- sums of gradients ---


def _grad_add_item(
    gradients: list[Any] | None, gradient: Any, index: int, count: int, plus: control.GradientPlus = add
) -> Any:
    """As on arrays."""
    return control.grad_add_item(gradients, gradient, index, count, plus)


def add_tensor_in_place(
    gradients: list[Any] | None, gradient: Any, index: int, count: int, plus: control.GradientPlus = add
) -> Any:
    """As on arrays, into the list itself."""
    return control.add_item_in_place(gradients, gradient, index, count, plus)


def grad_add_slice(
    gradients: torch.Tensor | None, gradient: torch.Tensor | None, size: TorchSizes, *at: Any
) -> torch.Tensor | None:
    """As on arrays."""
    return add_slice_in_place(None if gradients is None else gradients.clone(), gradient, size, *at)


def add_slice_in_place(
    gradients: torch.Tensor | None, gradient: torch.Tensor | None, size: TorchSizes, *at: Any
) -> torch.Tensor | None:
    """As on arrays, into the tensor itself."""
    if gradient is None:
        return gradients
    total = gradient.new_zeros(tuple(size)) if gradients is None else gradients
    part = torch.ops.aten.slice.Tensor(total, *at)
    if total.dtype == gradient.dtype and total.shape == torch.Size(size) and part.shape == gradient.shape:
        part.add_(gradient)
        return total
    return total + torch.slice_scatter(gradient.new_zeros(tuple(size)), gradient, *at)


def grad_add_select(
    gradients: torch.Tensor | None, gradient: torch.Tensor | None, size: TorchSizes, dim: int, index: int
) -> torch.Tensor | None:
    """As on arrays."""
    return add_select_in_place(None if gradients is None else gradients.clone(), gradient, size, dim, index)


def add_select_in_place(
    gradients: torch.Tensor | None, gradient: torch.Tensor | None, size: TorchSizes, dim: int, index: int
) -> torch.Tensor | None:
    """As on arrays, into the tensor itself."""
    if gradient is None:
        return gradients
    total = gradient.new_zeros(tuple(size)) if gradients is None else gradients
    part = total.select(dim, index)
    if total.dtype == gradient.dtype and total.shape == torch.Size(size) and part.shape == gradient.shape:
        part.add_(gradient)
        return total
    return total + torch.select_scatter(gradient.new_zeros(tuple(size)), gradient, dim, index)


def grad_add_product(gradients: torch.Tensor | None, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """As on arrays."""
    return add_product_in_place(None if gradients is None else gradients.clone(), left, right)


def add_product_in_place(gradients: torch.Tensor | None, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """As on arrays, into the tensor itself."""
    if gradients is None:
        return left @ right
    is_plain = gradients.dtype == left.dtype == right.dtype
    if is_plain and gradients.shape == (left.shape[0], right.shape[-1]):
        return gradients.addmm_(left, right)
    return gradients + left @ right


# --- products ---


def _mm_tree(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> torch.Tensor:
    return reduce(
        lambda total, pair: torch.addmm(total, *pair), zip(left[1:], right[1:], strict=True), left[0] @ right[0]
    )


def _mm_total(state: Sequence[torch.Tensor]) -> torch.Tensor:
    first = len(state) % 2
    pairs = list(zip(state[first::2], state[first + 1 :: 2], strict=True))
    total = state[0] if first else pairs[0][0] @ pairs[0][1]
    return reduce(lambda total, pair: torch.addmm(total, *pair), pairs if first else pairs[1:], total)


# --- adjoints of linear ops ---


def _adjoint(forward: TorchForm) -> TorchForm:
    """The gradient by torch's own formula: of the size of the input alone, for the op is linear."""

    def run(grad_output: torch.Tensor, input_size: TorchSizes, *how: Any) -> torch.Tensor:
        with torch.enable_grad():
            input = grad_output.new_zeros(()).expand(tuple(input_size)).detach().requires_grad_()
            (found,) = torch.autograd.grad(forward(input, *how), input, grad_output)
        return found

    return run


def _interpolate(input: torch.Tensor, *how: Any) -> torch.Tensor:
    size, scale, mode, corners, recompute, *antialias = how
    return F.interpolate(input, size, scale, mode, corners, recompute, *antialias)


_OF_FLOATS: dict[str, TorchForm] = {
    "gs::conv_input": conv_input,
    "gs::conv_weight": conv_weight,
    "gs::matmul_left": matmul_left,
    "gs::matmul_right": matmul_right,
    "gs::einsum_adjoint": einsum_adjoint,
    "gs::pad_adjoint": _adjoint(F.pad),
    "aten::interpolate": _interpolate,
    "aten::interpolate.number": _interpolate,
    "gs::interpolate_adjoint": _adjoint(_interpolate),
    "gs::interpolate_adjoint.number": _adjoint(_interpolate),
    **{
        f"gs::{name}{rank}d_adjoint": _adjoint(getattr(F, f"{name}{rank}d"))
        for name in ("avg_pool", "adaptive_avg_pool")
        for rank in (1, 2, 3)
    },
}


def _to_dtype(dtype: torch.dtype, tensor: torch.Tensor, memory_format: int | None) -> torch.Tensor:
    return tensor.to(dtype)


FORMS: dict[str, TorchForm] = {
    "gs::add_n": _add_n,
    "aten::index.Tensor": _index,
    "aten::index_put": _index_put,
    "prim::grad_size": _grad_size,
    "prim::grad_dtype": _grad_dtype,
    "prim::grad_zeros": _grad_zeros,
    "prim::grad_shapes": _grad_shapes,
    "prim::grad_list": _grad_list,
    "prim::grad_fit": _grad_fit,
    "prim::grad_spread": _grad_spread,
    "prim::no_grads": no_grads,
    "prim::grad_defined": is_gradient_there,
    "prim::scalar_seed": _scalar_seed,
    "prim::grad_add_item": _grad_add_item,
    "prim::grad_add_select": grad_add_select,
    "prim::grad_add_slice": grad_add_slice,
    "prim::grad_add_product": grad_add_product,
    "aten::_expand_into": _expand_into,
    "aten::_grad_sum_to_size": _grad_sum_to_size,
    "aten::_index_rank": _index_rank,
    "aten::_updated": _updated,
    "aten::_replaced": lambda old, new: new,
    "aten::_overwritten": lambda old, new: new,
    "aten::size": lambda a: list(a.shape),
    "aten::size.int": lambda a, dim: a.size(dim),
    "aten::numel": lambda a: a.numel(),
    "aten::dim": lambda a: a.dim(),
    "aten::stride.int": lambda a, dim: a.stride(dim),
    "aten::is_floating_point": lambda a: a.is_floating_point(),
    **{f"aten::{name}": partial(_to_dtype, torch_dtypes()[dtype]) for name, dtype in CONVERSIONS.items()},
    **{f"prim::{name}": attrgetter(name) for name in METHOD_ATTRIBUTES if name.startswith(("is_", "requires_"))},
    **{name: partial(_tolist, *listed) for name, listed in LISTED.items()},
    "prim::layout": lambda a: 0,
    "gs::save": lambda a: a,
    "gs::recompute": lambda a: a,
    "gs::surrogate": lambda a, why, linear: a,
    "gs::constant": lambda a: a.detach(),
    "gs::constant.optional": lambda a: None if a is None else a.detach(),
    "prim::device": lambda a: str(a.device),
    "prim::dtype": lambda a: dtypes_of_torch()[a.dtype].code,
    "prim::mm_tree": _mm_tree,
    "prim::mm_gather": lambda state, left, right: [*state, left, right],
    "prim::mm_total": _mm_total,
    "prim::mm_shared_left": lambda side, others: [side @ other for other in others],
    "prim::mm_shared_right": lambda side, others: [other @ side for other in others],
    **_OF_FLOATS,
}
"""By full name, with the arguments that we give an op."""


def is_of_floats(name: str) -> bool:
    """Whether a form is one for floating tensors only."""
    return name in _OF_FLOATS


def takes(name: str, arguments: Sequence[Any]) -> bool:
    """Whether a form is one for such arguments: torch has some for floating tensors only."""
    return name not in _OF_FLOATS or all(
        argument.is_floating_point() for argument in arguments if isinstance(argument, torch.Tensor)
    )
