"""Sums and chains of many tensors: time and text grow with how many there are, not with their square."""

from __future__ import annotations

from collections.abc import Callable

import gradscript as gs
import numpy as np


def planned(count: int) -> Callable[[], object]:
    """Plans the kernels of both passes of a sum, for a function that nobody has called."""
    names = [f"p{i}" for i in range(count)]
    function = gs.CompilationUnit(f"def f({', '.join(names)}):\n    return {' + '.join(names)}\n").f
    arrays = [np.full(8, i, np.float32) for i in range(count)]
    return lambda: function.kernels(*arrays).forward


def test_work_grows_with_the_number_of_parameters(steps: Callable[[Callable[[], object]], int]) -> None:
    planned(10)()
    few, many = steps(planned(15)), steps(planned(60))
    assert many < 5 * few


def test_a_sum_of_many_is_one_kernel() -> None:
    (kernel,) = planned(100)()  # type: ignore[misc] # a listing's
    assert kernel.bytes_read == 100 * 32


def statements(length: int) -> int:
    """Of the kernels for the gradients of a chain in its tensors, and for theirs."""
    text = (
        "def f(x, ws: List[Tensor]):\n    h = x\n    for w in ws:\n        h = torch.tanh(h * w)\n    return h.sum()\n"
    )
    gradients = gs.grad(gs.CompilationUnit(text).f, argnums=(0, 1))
    listing = gradients.kernels(np.ones(8), [np.ones(8)] * length)
    return sum(len(each.kernel.body) for each in [*listing.forward, *listing.backward])


def test_the_text_of_a_chain_to_second_order_grows_with_its_length() -> None:
    assert statements(28) < 3 * statements(14)
