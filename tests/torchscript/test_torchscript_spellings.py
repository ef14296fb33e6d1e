"""What formulas written for TorchScript use, each in a small program of its own, run forward and backward."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
ROW = np.array([2.0, 3.0, 5.0])


def unit(text: str) -> gs.CompilationUnit:
    """The program, which prints as itself."""
    compiled = gs.CompilationUnit(text)
    assert gs.CompilationUnit(compiled.code).code == compiled.code
    return compiled


def gradients(function: gs.Function, *arguments: Any) -> tuple[Any, ...]:
    """By the function's own backward, for an output gradient of ones; `gs.vjp` gives the same."""
    out, context = function.forward(*arguments)
    grads = function.backward(context, np.ones_like(out))
    _, pullback = gs.vjp(function, *arguments)
    for mine, other in zip(grads, pullback(np.ones_like(out)), strict=True):
        np.testing.assert_array_equal(mine, other)
    return grads


def test_overloads_with_a_number_at_the_end_are_functions_of_their_own() -> None:
    cu = unit("""
def scale_0(x, other):
    def backward(g):
        return (g * other)._grad_sum_to_size(x.size()), (g * x)._grad_sum_to_size(other.size())
    return x * other, backward

def scale_1(x, other: number):
    def backward(g):
        return g * other, None
    return x * other, backward

def log10(x):
    def backward(g):
        return g / (x * 2.302585092994046)
    return torch.log10(x), backward

def expm1(x):
    return torch.expm1(x)

def relu6(x):
    return torch.relu6(x)

def both(x, other):
    return scale_1(scale_0(x, other), 3) + relu6(expm1(log10(other)))
""")
    assert list(cu) == ["scale_0", "scale_1", "log10", "expm1", "relu6", "both"]
    np.testing.assert_allclose(gradients(cu.scale_0, X, ROW)[1], X.sum(0))
    np.testing.assert_allclose(gradients(cu.scale_1, X, 2.5)[0], np.full_like(X, 2.5))
    np.testing.assert_allclose(cu.both(X, ROW), 3 * X * ROW + np.clip(np.expm1(np.log10(ROW)), 0, 6))


def test_private_names_are_ops() -> None:
    cu = unit("""
def shift(x, other):
    result = x + other
    x_size = torch._size_if_not_equal(x.size(), result.size())
    other_size = torch._size_if_not_equal(other.size(), result.size())
    def backward(g):
        return g._grad_sum_to_size(x_size), torch._grad_sum_to_size(g, other_size)
    return result, backward
""")
    first, second = gradients(cu.shift, X, ROW)
    np.testing.assert_array_equal(first, np.ones_like(X))
    np.testing.assert_array_equal(second, [2, 2, 2])


def test_a_number_may_come_first() -> None:
    cu = unit("""
def exponential(base: number, exponent):
    result = torch.pow(base, exponent)
    def backward(g):
        return None, g * result * torch.log(float(base))
    return result, backward
""")
    np.testing.assert_allclose(gradients(cu.exponential, 2, ROW)[1], 2**ROW * np.log(2))
    np.testing.assert_allclose(cu.exponential(0.5, ROW), 0.5**ROW)


def test_torchs_function_of_a_number_is_that_of_a_tensor() -> None:
    cu = unit("def f(x: float):\n    return torch.log(x), torch.sqrt(x)\n")
    assert cu.f(0.0) == (-np.inf, 0.0)
    np.testing.assert_array_equal(cu.f(-1.0), (np.nan, np.nan))
    with pytest.raises(gs.RuntimeFailure, match="math domain"):
        gs.CompilationUnit("def f(x: float):\n    return math.log(x)\n").f(0.0)


CONVERSIONS = (
    "x.to(other)",
    "x.to(other, False, True)",
    "x.to(other, non_blocking=False, copy=True)",
    "x.to(dtype)",
    "x.to(dtype, False, False)",
    "x.to(dtype=dtype, non_blocking=False, copy=False)",
    "x.to(x.device, dtype=dtype, non_blocking=False, copy=False)",
    "x.to(x.device, dtype)",
    "x.to(dtype, non_blocking=False).contiguous(memory_format=0)",
    "torch.zeros_like(x, dtype=dtype, memory_format=1) + x.type_as(other)",
    "torch.sum(x, dtype=dtype) + x.type_as(other) * 0",
)


@pytest.mark.parametrize("call", CONVERSIONS)
def test_every_spelling_of_to(call: str) -> None:
    """dtypes and memory formats are ints: 6 is float32."""
    cu = unit(f"def f(x, other, dtype: int):\n    return {call}\n")
    other = np.ones(1, np.float32)
    assert cu.f(X, other, 6).dtype == np.float32
    _, pullback = gs.vjp(cu.f, X, other, 6)
    (grad, _, _) = pullback(np.ones_like(cu.f(X, other, 6)))
    assert grad.dtype == np.float64
    assert grad.shape == X.shape


def test_an_optional_device_and_dtype() -> None:
    cu = unit("""
def convert(x, device: Optional[Device], dtype: Optional[int], copy: bool):
    here, before = x.device, x.dtype
    if device is not None:
        result = x.to(device, dtype=dtype, non_blocking=False, copy=copy)
    else:
        result = x.to(dtype, non_blocking=False, copy=copy)
    def backward(g):
        return g.to(here, dtype=before, non_blocking=False, copy=copy), None, None, None
    return result, backward
""")
    for device in (None, "cpu"):
        assert cu.convert(X, device, 6, False).dtype == np.float32
        assert gradients(cu.convert, X, device, 6, True)[0].dtype == np.float64
    assert cu.convert(X, "cpu", None, False).dtype == np.float64


def test_lists_are_made_stored_into_and_appended_to() -> None:
    cu = unit("""
def spread(tensors: List[Tensor]):
    count = len(tensors)
    sizes = [0] * count
    for i in range(count):
        sizes[i] = tensors[i].size()[0]
    def backward(gs: List[Tensor]):
        found = []
        for i in range(count):
            shape = [1] * count
            shape[i] = sizes[i]
            found.append(gs[i]._grad_sum_to_size(shape).reshape([sizes[i]]))
        return found
    return torch.meshgrid(tensors), backward
""")
    given = [np.arange(2.0), np.arange(3.0)]
    out, context = cu.spread.forward(given)
    assert [o.shape for o in out] == [(2, 3), (2, 3)]
    (grads,) = cu.spread.backward(context, [np.ones((2, 3)), np.ones((2, 3))])
    np.testing.assert_array_equal(grads[0], [3, 3])
    np.testing.assert_array_equal(grads[1], [2, 2, 2])


def test_negative_stores() -> None:
    cu = unit("""
def swapped(x):
    dims = rangelist(x.dim())
    dims[-1] = x.dim() - 2
    dims[-2] = x.dim() - 1
    return x.permute(dims)
""")
    assert cu.swapped(np.zeros((2, 3, 4))).shape == (2, 4, 3)


def test_an_optional_joined_across_branches_is_unwrapped_unchecked() -> None:
    cu = unit("""
def affine(x, bias: Optional[Tensor]):
    result = x * 2 if bias is None else x * 2 + bias
    def backward(g):
        if bias is not None:
            grad_bias = g._grad_sum_to_size(bias.size())
        else:
            grad_bias = None
        return g * 2, grad_bias.unchecked_unwrap_optional
    return result, backward
""")
    np.testing.assert_array_equal(gradients(cu.affine, X, ROW)[1], [2, 2, 2])
    assert gradients(cu.affine, X, None)[1] is None


def test_parameters_may_have_the_names_of_builtins_and_of_their_function() -> None:
    cu = unit("""
def limit(x, min: Optional[number], max: Optional[number], limit: float):
    def backward(g):
        if min is not None and max is not None:
            mask = (x >= float(min)) * (x <= float(max))
        elif min is not None:
            mask = x >= float(min)
        else:
            mask = x == x
        return g * mask.type_as(x) * limit, None, None, None
    return torch.clamp(x, min=min, max=max) * limit, backward
""")
    np.testing.assert_array_equal(gradients(cu.limit, ROW, 2.5, 4, 2.0)[0], [0, 2, 0])
    np.testing.assert_array_equal(gradients(cu.limit, ROW, 2.5, None, 2.0)[0], [0, 2, 2])


def test_parameters_may_be_reassigned() -> None:
    cu = unit("""
def stacked(x, dims: List[int], count: Optional[int]):
    if count is None:
        count = 1
    for i in range(len(dims)):
        x = x.unsqueeze(dims[i])
    return x / count
""")
    assert cu.stacked(ROW, [0, 0], None).shape == (1, 1, 3)
    np.testing.assert_array_equal(cu.stacked(ROW, [], 2), ROW / 2)


def test_functions_may_be_called_before_they_are_defined() -> None:
    cu = unit("""
def mean_of(x, dim: List[int]):
    sizes = x.size()
    def backward(g):
        return g.unsqueeze(dim[0]).expand(sizes) / counted(sizes, dim), None
    return torch.mean(x, dim), backward

def counted(sizes: List[int], dims: Optional[List[int]]):
    total = 1
    if dims is None:
        for s in sizes:
            total *= s
    else:
        for i in range(len(dims)):
            total *= sizes[dims[i]]
    return total
""")
    np.testing.assert_allclose(gradients(cu.mean_of, X, [1])[0], np.full_like(X, 1 / 3))
    assert cu.counted([2, 3], None) == 6


def test_writing_to_a_part_of_a_new_tensor() -> None:
    cu = unit("""
def chosen(x, dim: int, index: int):
    sizes = x.size()
    def backward(g):
        grad = torch.zeros(sizes).to(g)
        grad.select(dim, index).copy_(g)
        return grad, None, None
    return torch.select(x, dim, index), backward
""")
    leaf = torch.from_numpy(X).requires_grad_()
    (expected,) = torch.autograd.grad(leaf.select(1, 2).sum(), leaf)
    np.testing.assert_array_equal(gradients(cu.chosen, X, 1, 2)[0], expected.numpy())
