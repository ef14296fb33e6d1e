"""Statistics and norms whose squares or sums leave the range of their dtype: what docs/conventions.md says of them."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

BACKENDS = ("numpy", "c")
ROWS: dict[torch.dtype, list[list[float]]] = {
    torch.float32: [
        [1e30, -1e30, 1e30, -1e30],
        [3e38, 3e38, 3e38, 3e38],
        [1e19, 2e19, 3e19, 4e19],
        [1e-30, 2e-30, 3e-30, -1e-30],
        [1e-20, 2e-20, -1e-20, 0.0],
    ],
    torch.bfloat16: [[1e30, -1e30, 1e30, -1e30], [1e19, 2e19, 3e19, 4e19], [1e-30, 2e-30, 3e-30, -1e-30]],
    torch.float16: [[300.0, -300.0, 300.0, -300.0], [2e4, 5e4, 1e4, 4e4]],
}
WIDE = (
    *("torch.var(x)", "x.std()", "torch.std(x, -1)", "torch.var(x, -1, correction=0)", "x.var(0, keepdim=True)"),
    *("torch.var_mean(x, -1)", "torch.std_mean(x)", "torch.std_mean(x, [0], correction=0)"),
)
"""What torch adds up in float64."""
NORMS = (
    *(
        "x.norm()",
        "x.norm(dim=-1)",
        "x.norm(1)",
        "x.norm(float('inf'), -1)",
        "torch.linalg.vector_norm(x, 2, [0], True)",
    ),
    *("F.normalize(x)", "torch.dist(x, -x)", "F.cosine_similarity(x, x + 1)", "F.pairwise_distance(x, -x)"),
    *("F.rms_norm(x, [x.size(1)])",),
)
"""What torch adds up in float32, in a range that every order of adding leaves alike."""
NORMALIZED = ("F.layer_norm(x, [4])", "F.group_norm(x, 1)", "F.rms_norm(x, [4])", "F.instance_norm(x.unsqueeze(0))")


def _rows(row: list[float], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([row, row[::-1]], dtype=dtype)


def _with_gradient(function: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Results and the gradient of x: of each result times another number."""
    x = x.clone().requires_grad_()
    results = function(x)
    results = list(results) if isinstance(results, tuple) else [results]
    weights = [torch.full_like(result, 0.5 + i) for i, result in enumerate(results)]
    return [*results, *torch.autograd.grad(results, [x], weights)]


def _assert_near(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        # A half is rounded once here, and after each op in torch: the more of them, the larger what is added up.
        relative = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[mine.dtype]
        largest = float(theirs.detach().double().abs().nan_to_num(posinf=0).max())
        absolute = largest * (1e-6 if mine.dtype == torch.float32 else relative)
        torch.testing.assert_close(mine, theirs, rtol=relative, atol=absolute, equal_nan=True)


ORDERED = (
    *("torch.norm(x, p=P)", "torch.linalg.vector_norm(x, P, 1)", "torch.dist(x, x * 2, P)", "F.normalize(x, p=P)"),
    *(
        "torch.cdist(x, x * 2 + 1, P)",
        "F.pdist(x, P)",
        "F.pairwise_distance(x, x * 2, P)",
        "torch.renorm(x, P, 0, 1.0)",
    ),
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ["1e39", "1e-46"])
@pytest.mark.parametrize("text", ORDERED)
def test_orders_beyond_float32(text: str, order: str, backend: str) -> None:
    x = torch.tensor([[0.5, -1.5, 0.25], [2.0, 1.0, -0.75], [0.1, 0.2, 0.3]])
    call = text.replace("P", order)
    with gs.settings.backend(backend):
        found = gs.CompilationUnit(f"def f(x):\n    return {call}\n").f(x)
    torch.testing.assert_close(found, eval(call), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", WIDE)
def test_moments_are_those_of_float64(text: str, backend: str) -> None:
    function = gs.CompilationUnit(f"def f(x):\n    return {text}\n").f
    for dtype, rows in ROWS.items():
        for row in rows:
            if row[0] == 3e38 and ("std" in text or text == "torch.var(x)"):
                continue  # What the mean of float32 is decides, which leaves its range.
            x = _rows(row, dtype)
            with gs.settings.backend(backend):
                found = _with_gradient(function, x)
            _assert_near(found, _with_gradient(eval(f"lambda x: {text}"), x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", NORMS)
def test_norms_are_those_of_float32(text: str, backend: str) -> None:
    function = gs.CompilationUnit(f"def f(x):\n    return {text}\n").f
    for row in ROWS[torch.float32]:
        if row[0] == 3e38:
            continue
        x = _rows(row, torch.float32)
        with gs.settings.backend(backend):
            found = _with_gradient(function, x)
        _assert_near(found, _with_gradient(eval(f"lambda x: {text}", {"torch": torch, "F": F}), x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", NORMALIZED)
@pytest.mark.parametrize("dtype, large", [("float32", 1e30), ("float64", 1e300)])
def test_rows_of_infinite_squares_are_normalized_to_zero(text: str, backend: str, dtype: str, large: float) -> None:
    x = np.array([[1, -1, 1, -1], [2, 1, -2, -1]], dtype=dtype) * large
    with gs.settings.backend(backend):
        value, pullback = gs.vjp(gs.CompilationUnit(f"def f(x):\n    return {text}\n").f, x)
        (gradient,) = pullback(np.ones_like(value))
    assert not value.any() and not gradient.any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ["3", "2.5", "1.5", "0.5"])
def test_a_norm_that_is_zero_or_infinite_has_no_gradient(order: str, backend: str) -> None:
    unit = gs.CompilationUnit(f"def f(x):\n    return x.norm({order})\n")
    tiny, large = {"0.5": (0.0, 1e80), "1.5": (1e-250, 1e250)}.get(order, (1e-150, 1e150))
    with gs.settings.backend(backend):
        for row in ([tiny, -tiny, tiny], [large, -large, 0.0]):
            x = np.array(row)
            norm = unit.f(x)
            if norm in (0, np.inf):
                assert not gs.grad(unit.f)(x).any(), row


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_quotients_of_halves_are_rounded_as_those_of_float32(dtype: torch.dtype, mode: str, backend: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(500, generator=generator).mul(scale).to(dtype) for scale in (30, 1))
    function = gs.CompilationUnit(f"def f(x, y):\n    return torch.div(x, y, rounding_mode='{mode}')\n").f
    with gs.settings.backend(backend):
        found = function(x, y)
    assert torch.equal(found, torch.div(x.float(), y.float(), rounding_mode=mode).to(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_dimensions_than_arrays_have_are_refused(backend: str) -> None:
    function = gs.CompilationUnit("def f(x):\n    return torch.amax(x, -1) * 2\n").f
    with gs.settings.backend(backend):
        assert function(torch.ones([1] * 64)).dim() == 63
        with pytest.raises(gs.RuntimeFailure, match="a tensor of 65 dimensions"):
            function(torch.ones([1] * 65))
        with pytest.raises(gs.RuntimeFailure, match="a tensor of 65 dimensions"):
            function(torch.ones([1] * 65, requires_grad=True))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("base", [1e39, 3.5e38, 65520.0, 1e-46, 0.0, -1e39])
def test_the_gradient_of_a_power_of_a_number_that_does_not_fit_is_there(base: float, backend: str) -> None:
    def slopes(power: Any, dtype: torch.dtype) -> torch.Tensor:
        x = torch.tensor([0.25, -0.5, 0.0, 1.0], dtype=dtype, requires_grad=True)
        (found,) = torch.autograd.grad(power(x).sum(), x)
        return torch.as_tensor(found)

    with gs.settings.backend(backend):
        f = gs.CompilationUnit(f"def f(x):\n    return torch.pow({base!r}, x)\n").f
        for dtype in (torch.float32, torch.float64):
            torch.testing.assert_close(slopes(f, dtype), slopes(lambda x: torch.pow(base, x), dtype), equal_nan=True)
