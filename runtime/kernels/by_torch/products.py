"""Gradients of products in terms of torch's own ops, where ours have one op and torch has several."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import torch

from ....compiler.ops.families.linalg.product_shapes import dimension_labels


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def matmul_left(left_size: Sequence[int], right: torch.Tensor, grad_output: torch.Tensor) -> torch.Tensor:
    """The gradient of `left @ right` in `left`, rounded once."""
    column, grad = _wide(right), _wide(grad_output)
    if right.dim() == 1:
        column, grad = column.unsqueeze(-1), grad.unsqueeze(-1)
    grad = grad.unsqueeze(-2) if len(left_size) == 1 else grad
    size = [1, *left_size] if len(left_size) == 1 else [*left_size]
    made = grad @ column.transpose(-1, -2)
    return made.sum_to_size(size).reshape([*left_size]).to(grad_output.dtype)


def matmul_right(left: torch.Tensor, right_size: Sequence[int], grad_output: torch.Tensor) -> torch.Tensor:
    """The gradient of `left @ right` in `right`, rounded once."""
    row, grad = _wide(left), _wide(grad_output)
    grad = grad.unsqueeze(-1) if len(right_size) == 1 else grad
    if left.dim() == 1:
        row, grad = row.unsqueeze(0), grad.unsqueeze(-2)
    size = [*right_size, 1] if len(right_size) == 1 else [*right_size]
    made = row.transpose(-1, -2) @ grad
    return made.sum_to_size(size).reshape([*right_size]).to(grad_output.dtype)


def einsum_adjoint(
    grad_output: torch.Tensor, equation: str, tensors: Sequence[torch.Tensor], operand: int
) -> torch.Tensor:
    """The gradient of einsum's operand of this number: the other factors and the gradient, multiplied.

    A label that nothing else has was summed away, and every element along it receives the same; one that stands twice
    in the operand stands for its diagonal.
    """
    terms, result = dimension_labels(equation, [tensor.dim() for tensor in tensors])
    own, like = terms[operand], tensors[operand]
    like_gradient = [tensor.to(grad_output.dtype) for tensor in tensors]
    others = [(term, t) for i, (term, t) in enumerate(zip(terms, like_gradient, strict=True)) if i != operand]
    factors = [(result, grad_output), *others]
    size = dict(zip(own, like.shape, strict=True))
    full: dict[str, int] = {}
    for labels, factor in factors:
        for label, length in zip(labels, factor.shape, strict=True):
            full[label] = length if full.get(label, 1) == 1 else full[label]
    kept = [label for label in size if label in full and (size[label] == full[label] or full[label] == 1)]
    labels, total = factors[0]
    labels, total = _apart(labels, total)
    for n, (more, factor) in enumerate(factors[1:], 2):
        wanted = {*kept, *(label for term, _ in factors[n:] for label in term)}
        labels, total = _multiplied(labels, total, *_apart(more, factor), full, wanted)
    total = _summed(labels, total, kept)
    total = total.reshape([total.shape[kept.index(label)] if label in kept else 1 for label in size])
    found = total.expand([*size.values()]).to(grad_output.dtype)
    return _on_diagonals(found, list(size), own)


def _apart(labels: Sequence[str], tensor: torch.Tensor) -> tuple[list[str], torch.Tensor]:
    """A tensor with each label once: of one that stands twice, the diagonal."""
    left = [*labels]
    for label in dict.fromkeys(labels):
        while left.count(label) > 1:
            first = left.index(label)
            second = left.index(label, first + 1)
            tensor = tensor.diagonal(0, first, second)
            left = [*left[:first], *left[first + 1 : second], *left[second + 1 :], label]
    return left, tensor


def _summed(labels: Sequence[str], tensor: torch.Tensor, kept: Sequence[str]) -> torch.Tensor:
    """Summed over all labels but those that are kept, which are put in this order."""
    gone = [dim for dim, label in enumerate(labels) if label not in kept]
    left = [label for label in labels if label in kept]
    tensor = tensor.sum(gone) if gone else tensor
    return tensor.permute([left.index(label) for label in kept])


def _multiplied(
    at_left: Sequence[str],
    left: torch.Tensor,
    at_right: Sequence[str],
    right: torch.Tensor,
    sizes: Mapping[str, int],
    wanted: Collection[str],
) -> tuple[list[str], torch.Tensor]:
    """Two factors as one product of matrices, which is what einsum makes of them; batches have a rule for that."""
    both = [label for label in at_left if label in at_right]
    batch, inner = [x for x in both if x in wanted], [x for x in both if x not in wanted]
    rows = [label for label in at_left if label not in both and label in wanted]
    columns = [label for label in at_right if label not in both and label in wanted]
    left, right = _summed(at_left, left, [*batch, *rows, *inner]), _summed(at_right, right, [*batch, *inner, *columns])
    left = left.expand(
        [*(sizes[x] for x in batch), *left.shape[len(batch) : len(batch) + len(rows)], *(sizes[x] for x in inner)]
    )
    right = right.expand([*(sizes[x] for x in (*batch, *inner)), *right.shape[len(both) :]])
    shape = [*left.shape[: len(batch) + len(rows)], *right.shape[len(both) :]]
    batches, depth = left.shape[: len(batch)], prod(sizes[x] for x in inner)
    height, width = prod(shape[len(batch) : len(batch) + len(rows)]), prod(shape[len(batch) + len(rows) :])
    made = left.reshape([*batches, height, depth]) @ right.reshape([*batches, depth, width])
    return [*batch, *rows, *columns], made.reshape(shape)


def _on_diagonals(tensor: torch.Tensor, labels: Sequence[str], own: Sequence[str]) -> torch.Tensor:
    """A tensor of these labels where its own ones stand, some of them twice; zeros off the diagonals."""
    at = [[dim for dim, label in enumerate(own) if label == name] for name in labels]
    shape = [1] * len(own)
    for places, size in zip(at, tensor.shape, strict=True):
        shape[places[0]] = size
    order = sorted(range(len(labels)), key=lambda i: at[i][0])
    found = tensor.permute(order).reshape(shape)
    for places, size in zip(at, tensor.shape, strict=True):
        for place in places[1:]:
            shape = [size if dim in (places[0], place) else 1 for dim in range(len(own))]
            found = found * torch.eye(size, dtype=tensor.dtype, device=tensor.device).reshape(shape)
    return found
