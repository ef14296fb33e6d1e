"""Ops of ours that torch has no name for, run on its tensors without a detour over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gradscript.compiler.ops.registry import OPS
from gradscript.runtime.kernels.by_torch import ops
from gradscript.runtime.kernels.by_torch.forms import add_product_in_place, add_slice_in_place

CPU = torch.device("cpu")
ADD_N = OPS.named("gs::add_n")


def refuse(*arguments: Any) -> Any:
    raise AssertionError("evaluated on arrays")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("shapes", [[(3, 4)] * 5, [(4,), (3, 1), (), (3, 4)], [(2,)]])
def test_add_n(dtype: torch.dtype, shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_by_definition", refuse)
    generator = torch.Generator().manual_seed(0)
    terms = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    found = ops.op_function(ADD_N, CPU)(terms)
    np.testing.assert_array_equal(found.numpy(), ADD_N.evaluate([term.numpy() for term in terms]))
    assert found.dtype == dtype and all(found.data_ptr() != term.data_ptr() for term in terms)


def test_of_nothing() -> None:
    with pytest.raises(RuntimeError, match="non-empty list"):
        ops.op_function(ADD_N, CPU)([])


def matrices(*shapes: tuple[int, int]) -> list[torch.Tensor]:
    return [torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("prim::mm_tree", [matrices((3, 4), (3, 2), (3, 1)), matrices((4, 5), (2, 5), (1, 5))]),
        ("prim::mm_gather", [matrices((3, 4), (4, 5)), matrices((3, 2))[0], matrices((2, 5))[0]]),
        ("prim::mm_total", [matrices((3, 5), (3, 4), (4, 5), (3, 2), (2, 5))]),
        ("prim::mm_shared_left", [matrices((3, 4))[0], matrices((4, 5), (4, 1))]),
        ("prim::mm_shared_right", [matrices((4, 5))[0], matrices((3, 4), (2, 4))]),
        ("prim::grad_add_product", [None, *matrices((3, 4), (4, 5))]),
        ("prim::grad_add_product", matrices((3, 5), (3, 4), (4, 5))),
        ("prim::grad_add_product", matrices((1, 5), (3, 4), (4, 5))),
        ("prim::grad_add_slice", [None, *matrices((3, 2)), [3, 4], 1, 1, None, 2]),
        ("prim::grad_add_slice", [*matrices((3, 4), (3, 2)), [3, 4], -1, -3, -1, 1]),
        ("prim::grad_add_slice", [matrices((3, 4))[0], None, [3, 4], -1, -3, -1, 1]),
        ("prim::grad_zeros", [[matrices((3, 4))[0], matrices((2, 1))[0]]]),
        ("prim::grad_zeros", [[matrices((3, 4), (1, 1)), matrices((2, 1)), []]]),
        ("prim::grad_list", [None, matrices((3, 4))]),
        ("prim::grad_list", [matrices((3, 4)), matrices((3, 4))]),
        ("prim::grad_fit", [matrices((3, 4), (2, 2)), matrices((1, 4), (2, 2)), "f", "items"]),
        ("prim::grad_fit", [[matrices((3, 4)), []], [matrices((3, 1)), []], "f", "items"]),
        ("prim::grad_spread", [matrices((1, 4), (2, 2)), matrices((3, 4), (2, 2))]),
        ("prim::grad_size", [matrices((3, 4))[0]]),
        ("prim::grad_size", [None]),
        ("prim::grad_dtype", [matrices((3, 4))[0].double()]),
        ("prim::grad_dtype", [None]),
        ("prim::scalar_seed", [torch.tensor(2.5, dtype=torch.float64)]),
        ("prim::dtype", [matrices((3, 4))[0].half()]),
    ],
)
def test_what_the_compiler_makes(name: str, arguments: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_by_definition", refuse)
    op = OPS.named(name)
    assert_same(ops.op_function(op, CPU)(*arguments), op.evaluate(*arrays(arguments)))


def test_sums_of_gradients_are_written_where_they_lie() -> None:
    total, left, right = matrices((3, 5), (3, 4), (4, 5))
    before = total.clone()
    assert add_product_in_place(total, left, right) is total
    torch.testing.assert_close(total, before + left @ right)
    before = total.clone()
    assert add_slice_in_place(total, right[:2], [3, 5], 0, 1, 3, 1) is total
    torch.testing.assert_close(total[1:], before[1:] + right[:2])
    with pytest.raises(RuntimeError):
        add_slice_in_place(total, right[:1], [3, 5], 0, 1, 3, 1)


def arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [arrays(item) for item in value]
    return value.numpy() if isinstance(value, torch.Tensor) else value


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert isinstance(found, list) and len(found) == len(wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            assert_same(mine, theirs)
    elif isinstance(wanted, np.ndarray):
        assert found.numpy().dtype == wanted.dtype
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)
    else:
        assert found == wanted


def test_a_gradient_of_several_numbers_is_refused_in_the_words_of_arrays() -> None:
    op = OPS.named("prim::scalar_seed")
    with pytest.raises(ValueError, match=r"the output has shape \[2, 3\]"):
        ops.op_function(op, CPU)(torch.zeros(2, 3))


def test_what_is_bound_directly_is_of_the_same_types() -> None:
    """As `torch.ops` gives it: lists, and no tuples."""
    x = torch.arange(12.0).reshape(3, 4)
    others: dict[str, list[Any]] = {
        **{name: [x, x.t()] for name in ("aten::matmul", "aten::mm")},
        "aten::bmm": [x[None], x.t()[None]],
        **{name: [x, 0, 1] for name in ("aten::transpose.int", "aten::select.int")},
        "aten::permute": [x, [1, 0]],
        **{name: [x, [2, 6]] for name in ("aten::view", "aten::reshape")},
        **{name: [x, 0] for name in ("aten::unsqueeze", "aten::squeeze.dim", "aten::unbind.int")},
        **{name: [x] for name in ("aten::t", "aten::mT")},
    }
    assert others.keys() == ops.BOUND.keys()
    for name, arguments in others.items():
        op, overload = name.removeprefix("aten::").partition(".")[::2]
        wanted = getattr(getattr(torch.ops.aten, op), overload or "default")(*arguments)
        found = ops.BOUND[name](*arguments)
        assert type(found) is type(wanted), name
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("index", [lambda m: (m,), lambda m: (m, m), lambda m: (None, m), lambda m: (None, None, m)])
def test_a_mask_of_no_dimensions_among_indices(index: Callable[[Any], tuple[Any, ...]], mask: bool) -> None:
    given, indices = matrices((2, 3))[0], index(torch.tensor(mask))
    found = ops.op_function(OPS.named("aten::index.Tensor"), CPU)(given, [*indices])
    wanted = given[tuple(slice(None) if i is None else i for i in indices)]
    assert torch.equal(found, wanted)
    written = ops.op_function(OPS.named("aten::index_put"), CPU)(given, [*indices], torch.tensor(5.0), False)
    assert torch.equal(written, given.index_put([i for i in indices if i is not None][:1], torch.tensor(5.0)))


def test_a_gradient_of_einsum_has_its_own_dtype_whatever_the_others_have() -> None:
    ints, grad = torch.tensor([250, 3, 7], dtype=torch.uint8), torch.randn(3, dtype=torch.float64)
    adjoint = ops.op_function(OPS.named("gs::einsum_adjoint"), CPU)
    found = adjoint(grad, "i,i->i", [ints, torch.ones(3, dtype=torch.float64)], 1)
    torch.testing.assert_close(found, grad * ints)
