"""Numbers that are no halves, beside halves: where torch rounds them first, the rounded ones are computed with.

So it is in comparisons, powers and remainders, op by op and in C, of literals, arguments and tensors of no dimensions.
"""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch

BACKENDS = ("numpy", "c")
COMPARED = ("u == n", "u != n", "u < n", "u <= n", "u > n", "u >= n", "n < u")
COMPUTED = (
    *("u % n", "n % u", "torch.fmod(u, n)", "n ** u", "n // u"),
    *("torch.xlogy(u, n)", "torch.xlogy(n, u)", "torch.special.xlog1py(u, n)", "torch.special.xlog1py(n, u)"),
)
HELD = ("u ** n", "torch.nn.functional.hardshrink(u, n)")
"""What refuses a number beyond the range of the tensor's dtype."""
REFUSED = (
    *("u ** n", "torch.clamp(u, max=n)", "torch.clamp(u, n, n)", "u.masked_fill(u > 0, n)"),
    *("torch.add(u, u, alpha=n)", "torch.nn.functional.threshold(u, 0.0, n)"),
    *("torch.nn.functional.hardtanh(u, -1.0, n * n)", "torch.nn.functional.pad(u, (1, 1), value=n)"),
    *("u.new_full((2,), n)", "torch.clamp(u, max=n * 10.0)"),
)
"""What fills with a number, or compares with one as a half."""
NUMBERS = (0.3, 0.1, 1e-8, 65519.0, 65520.0, 70000.0, -70000.0)


def _function(calls: tuple[str, ...], number: str, annotation: str) -> tuple[Any, Any]:
    """The calls as one function, and as torch's."""
    body = ", ".join(f"({call})" for call in calls).replace("(n ", f"({number} ").replace(" n)", f" {number})")
    body = body.replace("(n,", f"({number},")
    text = f"def f(u, n{annotation}):\n    return {body}\n"
    scope: dict[str, Any] = {"torch": torch}
    exec(text, scope)
    return gs.CompilationUnit(text).f, scope["f"]


def _assert_same(found: Any, wanted: Any, told: str) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        tolerance = 2e-3 if theirs.dtype == torch.float16 else 1.6e-2
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=2e-7, equal_nan=True, msg=told)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_are_rounded_first(dtype: torch.dtype, backend: str) -> None:
    u = torch.tensor([0.5, -1.5, 2.0, 0.0, 1.0, 0.3, 3.0, torch.inf, -torch.inf, torch.nan, 300.0, 60000.0]).to(dtype)
    with gs.settings.backend(backend):
        given, in_torch = _function((*COMPARED, *COMPUTED), "n", ": float")
        held, held_in_torch = _function(HELD, "n", ": float")
        for number in NUMBERS:
            _assert_same(given(u, number), in_torch(u, number), f"{number} of {dtype}")
            if abs(number) <= 65504 or dtype == torch.bfloat16:
                _assert_same(held(u, number), held_in_torch(u, number), f"{number} of {dtype}")
        for number in NUMBERS[:: 1 if backend == "numpy" else 3]:
            literal, in_torch = _function((*COMPARED, *COMPUTED), f"({number})", ": float")
            _assert_same(literal(u, number), in_torch(u, number), f"the literal {number} of {dtype}")
        beside, in_torch = _function(COMPARED, "n", "")
        for number in NUMBERS:
            for wide in (torch.float32, torch.float64):
                n = torch.tensor(number, dtype=wide)
                _assert_same(beside(u, n), in_torch(u, n), f"the tensor {number} of {wide} beside {dtype}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("call", REFUSED)
def test_numbers_beyond_halves_are_refused_whichever_came_before(call: str, backend: str) -> None:
    u = torch.tensor([0.5, 1.5, 2.0, 0.25], dtype=torch.float16)
    given, in_torch = _function((call,), "n", ": float")
    with gs.settings.backend(backend):
        for number in (2.0, 3.0, 7e4, 0.5, -7e4, 4.0):
            try:
                wanted = in_torch(u, number)
            except RuntimeError:
                for arguments in (u, u.numpy()):
                    with pytest.raises(gs.RuntimeFailure, match="cannot be converted to float16"):
                        given(arguments, number)
                continue
            torch.testing.assert_close(given(u, number), wanted, rtol=2e-3, atol=0)
            torch.testing.assert_close(torch.as_tensor(given(u.numpy(), number)), wanted, rtol=2e-3, atol=0)
