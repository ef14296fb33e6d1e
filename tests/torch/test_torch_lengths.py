"""Lists on torch tensors that require a gradient: work grows with their length, not with its square."""

from __future__ import annotations

from collections.abc import Callable

import gradscript as gs
import pytest
import torch

BODIES = {
    "cat": "torch.cat([x for _ in range(n)])",
    "stack": "torch.stack([x * 2 for _ in range(n)]).sum(0)",
    "list": "[x for _ in range(n)]",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES.items()])
def test_work_is_linear_in_the_length_of_a_list(body: str, steps: Callable[[Callable[[], object]], int]) -> None:
    function = gs.CompilationUnit(f"def f(x, n: int):\n    return {body}\n").f
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def call(n: int) -> None:
        found = function(x, n)
        total = sum(found, torch.zeros(2)) if isinstance(found, list) else found
        total.sum().backward()

    call(10)  # compiled and prepared before it is counted
    few, many = (steps(lambda n=n: call(n)) for n in (100, 200))  # type: ignore[misc]
    assert many < 2.2 * few
