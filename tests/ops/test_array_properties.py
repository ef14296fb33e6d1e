"""What the tables against torch do not say: errors, precision, immutability, factorizations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gradscript.compiler.ops.registry import OPS, Trait
from samples.arrays import to_torch

F32 = np.float32


def run(kind: str, *arguments: Any) -> Any:
    """An op on arguments, the others at their defaults."""
    op = OPS.named(f"aten::{kind}" if "::" not in kind else kind)
    rest = [a.default for a in op.schema.arguments[len(arguments) :]]
    with np.errstate(all="ignore"):
        return op.evaluate(*arguments, *(list(d) if isinstance(d, tuple) else d for d in rest))


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ERRORS: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("sum.dim_IntList", (ones(2, 3), [2]), r"range of \[-2, 1\], but got 2"),
    ("sum.dim_IntList", (ones(2, 3), [0, -2]), "multiple times"),
    ("mean", (ids(1, 2),), "floating point"),
    ("amax", (ones(0, 3), [0]), r"empty tensor \(0, 3\)"),
    ("max", (ones(0),), "empty"),
    ("argmax", (ones(0, 3), 0), "empty"),
    ("softmax.int", (ids(1, 2), 0), "floating point"),
    ("kthvalue", (ones(3), 4), "out of range"),
    ("topk", (ones(3), 4), "k=4"),
    ("matmul", (ones(2, 3), ones(2, 3)), r"\(2, 3\) and \(2, 3\)"),
    ("matmul", (ones(), ones(2)), "at least one dimension"),
    ("matmul", (ones(2, 2), np.ones((2, 2))), "float32 and float64"),
    ("mm", (ones(2, 3, 4), ones(4, 2)), r"rank 2, 2.*\(2, 3, 4\)"),
    ("bmm", (ones(1, 2, 3), ones(2, 3, 2)), "batch sizes"),
    ("linear", (ones(2, 3), ones(4, 5)), r"\(2, 3\).*\(4, 5\)"),
    ("einsum", ("ij,jk", [ones(2, 3), ones(2, 3)]), r"\(2, 3\)"),
    ("inverse", (np.zeros((2, 2), F32),), "(?i)singular"),
    ("inverse", (ones(2, 3),), "square"),
    ("view", (ones(2, 3), [4]), r"shape '\[4\]' is invalid for input of size 6"),
    ("reshape", (ones(2, 3), [-1, -1]), "only one dimension"),
    ("reshape", (ones(0, 3), [-1, 0]), "ambiguous"),
    ("expand", (ones(2, 3), [4, 3]), r"\(4\) must match the existing size \(2\)"),
    ("transpose.int", (ones(2, 3), 0, 2), "out of range"),
    ("permute", (ones(2, 3), [0]), "permute"),
    ("unsqueeze", (ones(2), 2), r"\[-2, 1\]"),
    ("select.int", (ones(2, 3), 1, 3), r"index 3 out of range.*\[2, 3\]"),
    ("slice.Tensor", (ones(3), 0, 0, 3, -1), "positive"),
    ("narrow", (ones(3), 0, 2, 2), "exceeds"),
    ("cat", ([ones(2, 3), ones(2, 4)],), r"\(2, 3\), \(2, 4\)"),
    ("cat", ([],), "non-empty"),
    ("stack", ([ones(2), ones(3)],), "equal size"),
    ("split_with_sizes", (ones(5), [2, 2]), "sum exactly to 5"),
    ("index_select", (ones(3), 0, ids(-1)), "out of range"),
    ("gather", (ones(3), 0, ids(3)), "out of range"),
    ("gather", (ones(2, 3), 0, np.zeros((1, 4), np.int64)), r"\(1, 4\).*\(2, 3\)"),
    ("index.Tensor", (ones(3), [ids(3)]), "out of bounds"),
    ("index.Tensor", (ones(3), [ids(0), ids(0)]), "too many indices"),
    ("index_put", (ones(3), [ids(0, 1)], ones(3)), r"\(3,\).*\(2,\)"),
    ("scatter.src", (ones(3), 0, ids(5), ones(1)), "out of range"),
    ("embedding", (ones(3, 2), ids(3)), "out of range"),
    ("one_hot", (ids(3), 2), "class values"),
    ("zeros", ([-1],), "negative dimension"),
    ("arange", (-1,), "arange"),
    ("tensor", ([[1, 2], [3]],), "equal lengths"),
    ("layer_norm", (ones(2, 3), [2]), r"\[2\].*\(2, 3\)"),
    ("nll_loss", (ones(2, 3), ids(0, 3)), "Target 3 is out of bounds"),
    ("nll_loss", (ones(2, 3), ids(0)), r"\(2,\).*\(2, 3\).*\(1,\)"),
    ("mse_loss", (ones(2), ones(3)), r"\(2,\), \(3,\)"),
    ("mse_loss.str", (ones(2), ones(2), "average"), "average"),
    ("conv1d", (ones(1, 2, 3), ones(1, 2, 4)), "kernel size"),
    ("conv2d", (ones(1, 2, 3, 3), ones(1, 3, 2, 2)), r"\(1, 2, 3, 3\)"),
    ("pad", (ones(1, 1, 3), [3, 0], "reflect"), "do not fit"),
    ("scaled_dot_product_attention", (ones(2, 2), ones(2, 2), ones(2, 2), None, 0.1), "dropout"),
)


@pytest.mark.parametrize(("kind", "arguments", "message"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_say_what_is_wrong(kind: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError, NotImplementedError), match=message):
        run(kind, *arguments)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"), [e for e in ERRORS if e[0] in ("gather", "select.int", "cat", "view")]
)
def test_torch_refuses_them_too(kind: str, arguments: tuple[Any, ...], message: str) -> None:
    base, _, overload = kind.partition(".")
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        getattr(getattr(torch.ops.aten, base), overload or "default")(*map(to_torch, arguments))


def test_halves_add_up_in_wider_precision() -> None:
    many = np.full(40_000, 0.1, np.float16)
    assert float(run("sum", many)) == pytest.approx(40_000 * float(many[0]), rel=1e-3)
    assert float(run("mean", many)) == float(many[0])


def test_float32_sums_are_correctly_rounded_nearly_always() -> None:
    values = np.random.default_rng(0).normal(size=(2000, 300)).astype(F32)
    exact = values.astype(np.float64).sum(0)
    np.testing.assert_array_max_ulp(run("sum.dim_IntList", values, [0]), exact.astype(F32), 0)


def test_softmax_stays_finite_for_large_logits() -> None:
    logits = np.array([1e4, 1e4 - 1, -1e4], F32)
    np.testing.assert_allclose(run("softmax.int", logits, 0), torch.softmax(torch.tensor(logits), 0).numpy(), rtol=1e-6)
    assert np.isfinite(run("log_softmax.int", logits, 0)).all()
    assert np.isnan(run("softmax.int", np.full(3, -np.inf, F32), 0)).all()


def test_logsumexp_of_infinities() -> None:
    rows = np.array([[np.inf, 1], [-np.inf, -np.inf], [-np.inf, 1], [np.inf, -np.inf]])
    np.testing.assert_array_equal(run("logsumexp", rows, [1]), torch.logsumexp(torch.tensor(rows), 1).numpy())


def test_views_share_memory() -> None:
    x = ones(2, 3)
    for kind, arguments in (
        ("transpose.int", (0, 1)),
        ("view", ([3, 2],)),
        ("expand", ([4, 2, 3],)),
        ("unsqueeze", (0,)),
    ):
        assert np.shares_memory(run(kind, x, *arguments), x)
        assert OPS.named(f"aten::{kind}").has(Trait.VIEW)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3)])
def test_factors_multiply_out(shape: tuple[int, ...]) -> None:
    matrix = np.random.default_rng(1).normal(size=shape)
    q, r = run("linalg_qr", matrix)
    u, s, vh = run("linalg_svd", matrix, False)
    np.testing.assert_allclose(q @ r, matrix, atol=1e-12)
    np.testing.assert_allclose(u * s[..., None, :] @ vh, matrix, atol=1e-12)


def test_eigenvectors_multiply_out() -> None:
    matrix = np.random.default_rng(2).normal(size=(4, 4))
    matrix = matrix + matrix.T
    values, vectors = run("linalg_eigh", matrix)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-12)


def test_rows_masked_whole_attend_to_nothing() -> None:
    blocked = np.array([[True, True], [False, False]])
    result = run("scaled_dot_product_attention", ones(2, 4), ones(2, 4), ones(2, 3), blocked)
    np.testing.assert_array_equal(result, [[1, 1, 1], [0, 0, 0]])


def test_a_window_of_minus_infinity_points_into_the_plane() -> None:
    plane = np.full((1, 1, 3, 3), -np.inf, F32)
    values, index = run("max_pool2d_with_indices", plane, [2, 2], [1, 1], [1, 1])
    assert (values == -np.inf).all()
    assert index.min() >= 0 and index.max() < 9


def test_results_that_name_places_are_not_differentiable() -> None:
    for kind in ("argmax", "argsort", "nonzero", "count_nonzero", "all", "one_hot"):
        assert OPS.named(f"aten::{kind}").has(Trait.NONDIFFERENTIABLE)


def test_no_result_aliases_a_writable_input_by_accident() -> None:
    x = ones(3, 2)
    for kind, arguments in (
        ("scatter_add", (0, np.zeros((1, 2), np.int64), ones(1, 2))),
        ("index_put", ([ids(0)], ones(2))),
    ):
        result = run(kind, x, *arguments)
        assert not np.shares_memory(result, x)
        np.testing.assert_array_equal(x, ones(3, 2))
