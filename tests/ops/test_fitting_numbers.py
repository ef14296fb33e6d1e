"""Numbers beside tensors that do not hold them: what torch refuses is refused, what it wraps around is wrapped.

So it is where the number stands in the text and where it is an argument, op by op and in kernels.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some

CALLS = """
torch.add(u, u, alpha=N) | torch.sub(u, u, alpha=N) | torch.rsub(u, u, alpha=N) | torch.addcmul(u, u, u, value=N)
torch.where(u == 1, N, u) | torch.where(u == 1, u, N) | torch.where(u == 1, N, 2) | u.masked_fill(u == 1, N)
torch.clamp(u, N) | torch.clamp(u, max=N) | torch.clamp_min(u, N) | torch.clamp(u, 0, N) | u ** N | F.hardtanh(u, -1, N)
F.threshold(u, N, 1) | F.threshold(u, 1, N) | u.index_fill(0, i, N) | u.scatter(0, i, N) | torch.full_like(u, N)
u.new_full([2], N) | torch.full([2], N, dtype=u.dtype) | torch.addmm(v, v, v, beta=N) | torch.addmv(u, v, u, alpha=N)
torch.addr(v, u, u, beta=N) | torch.baddbmm(v[None], v[None], v[None], alpha=N) | torch.fill(u, N)
u == N | u != N | u < N | u >= N | N < u | u + N | u - N | N - u | u * N | u & N | u | N | u ^ N | u >> N | u << N
torch.full_like(u, 3) < N | torch.full_like(u, 3) + N | torch.maximum(u, torch.full_like(u, 1)) > N
F.elu(u, N) | F.celu(u, N) | F.leaky_relu(u, N) | F.softplus(u, N) | F.hardshrink(u, N) | F.softshrink(u, N)
torch.logit(u, eps=N) | torch.lerp(u, u, N) | torch.addcdiv(u, u, u, value=N)
F.cosine_similarity(u, u, 0, N) | torch.tensor(N, dtype=u.dtype) | torch.as_tensor(N, dtype=u.dtype)
torch.tensor([N, 1], dtype=u.dtype)
"""
EXPRESSIONS = [call.strip() for line in CALLS.splitlines() for call in line.split(" | ") if call.strip()]
EXPRESSIONS = [e for e in EXPRESSIONS if e not in ("u", "N")] + ["u | N"]
INTEGERS = ("300", "-1", "-200", "40000", "2147483648", "1099511627776")
FLOATS = ("1e40", "2.5", "-1.0", "9223372036854775808.0")
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)


def outcome(run: Any, *, is_torch: bool = False) -> Any:
    try:
        result = run()
    except gs.RuntimeFailure:
        return "refused"
    except (RuntimeError, TypeError, ValueError, NotImplementedError, ZeroDivisionError):
        # Of ours no such error may come: RuntimeFailure, above, is what tells of data.
        assert is_torch
        return "refused"
    return str(result.dtype), result.to(torch.float64).numpy()


def calls() -> list[tuple[str, str, bool]]:
    return [(e, n, is_argument) for e in EXPRESSIONS for n in (*INTEGERS, *FLOATS) for is_argument in (False, True)]


@pytest.mark.filterwarnings("ignore:f runs op by op")
@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("part", range(some(12)))
def test_it_fits_or_is_refused_as_in_torch(part: int, backend: str) -> None:
    for expression, number, is_argument in calls()[part::12][:: 1 if backend == "numpy" else 3]:
        kind = "int" if number in INTEGERS else "float"
        written = "n" if is_argument else f"({number})"
        body = re.sub(r"\bN\b", written, expression)
        text = f"def f(u, v, i, n: {kind}):\n    return {body}\n"
        function = gs.CompilationUnit(text).f
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(text, scope)
        for dtype in DTYPES:
            arguments = (
                torch.tensor([0, 1, 100]).to(dtype),
                torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0]]).to(dtype),
                torch.tensor([1]),
                eval(number),
            )
            wanted = outcome(partial(scope["f"], *arguments), is_torch=True)
            with gs.settings.backend(backend):
                for _ in range(1 if backend == "numpy" else 2):
                    found = outcome(partial(function, *arguments))
                    told = f"{expression} with {number} of {dtype}: {found}, torch: {wanted}"
                    if wanted == "refused" or found == "refused":
                        assert found == wanted, told
                    else:
                        assert found[0] == wanted[0], told
                        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=0, err_msg=told)
