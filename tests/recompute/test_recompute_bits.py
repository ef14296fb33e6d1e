"""Under every policy a gradient has the same bits, and never a higher estimated peak."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from program_generator import Programs, moderate
from recompute_support import array, assert_same_bits, gradient_of, results, under

POLICIES = ("save_all", "mirror", "min_cut", "recompute_all", "budget=24")
ARGUMENTS = [array(3), array(3, seed=1), 3]


def ran(gradient: Any) -> list[Any] | None:
    """What it gives; None for a program whose shapes do not fit each other."""
    try:
        return results(gradient, ARGUMENTS)
    except gs.RuntimeFailure:
        return None


@pytest.mark.usefixtures("op_by_op")  # kernels of what is computed again may sum in another order
@pytest.mark.parametrize("seed", moderate(some(30)))
def test_random_programs(seed: int) -> None:
    gradient = gradient_of(Programs(seed).function(), ARGUMENTS)
    expected = ran(gradient)
    if expected is None:
        pytest.skip("the program fails")
    for name in POLICIES:
        found = under(gradient, ARGUMENTS, name)
        assert_same_bits(results(found.gradient, ARGUMENTS), expected)
        # A budget is kept whatever the peak, and mirroring has rules of its own.
        if found.peak_after is not None and found.policy not in ("budget", "mirror"):
            assert found.peak_before is not None and found.peak_after <= found.peak_before
        if found.policy == "budget":
            assert found.saved_bytes is not None and found.saved_bytes <= 24


@pytest.mark.usefixtures("op_by_op")  # as above
@pytest.mark.parametrize("seed", [5, 46, 48, 49, 54])
def test_second_derivatives(seed: int) -> None:
    """The gradient of a gradient is one more function."""
    unit = gs.CompilationUnit(Programs(seed).function())
    first = gs.grad(unit.f, (0, 1), allow_unused=True)
    gradient = gradient_of(first, ARGUMENTS)
    expected = ran(gradient)
    assert expected is not None
    for name in ("mirror", "min_cut", "recompute_all"):
        assert_same_bits(results(under(gradient, ARGUMENTS, name).gradient, ARGUMENTS), expected)


def test_absent_cotangents() -> None:
    """A backward for fewer gradients than there are outputs computes again only what it needs."""
    source = "def f(x, y):\n    return torch.exp(x * y), torch.tanh(torch.sin(y) * y)\n"
    arguments = [array(5), array(5, seed=1)]
    gradient = gradient_of(source, arguments)
    from gradscript.runtime.execution.differentiated import Differentiated

    for spec in ("mirror", "recompute_all"):
        found = under(gradient, arguments, spec).gradient
        for seeds in ([np.ones(5, np.float32), None], [None, np.ones(5, np.float32)], [None, None]):
            pair = []
            for each in (gradient, found):
                differentiated = Differentiated(each)
                _, residuals = differentiated.run(arguments)
                pair.append(differentiated.pull_back(arguments, seeds, residuals))
            assert_same_bits(*pair)


def test_unknown_shapes_keep_everything() -> None:
    from gradscript.compiler.recompute import policy
    from gradscript.compiler.recompute.driver import recompute

    gradient = gradient_of("def f(x):\n    return torch.sin(torch.exp(x)).sum()\n", [array(4)])
    for spec in ("mirror", "min_cut", "budget=0"):
        found = recompute(gradient, None, policy(spec))
        assert found.policy == "save_all" and found.saved_bytes is None and found.peak_after is None
    assert recompute(gradient, None, policy("recompute_all")).policy == "recompute_all"


def test_gradients_of_temporaries_are_left_alone() -> None:
    from gradscript.compiler.autodiff import differentiate
    from gradscript.compiler.ops.meta import Meta
    from gradscript.compiler.recompute import policy
    from gradscript.compiler.recompute.driver import recompute

    unit = gs.CompilationUnit("def f(x):\n    return torch.sin(torch.exp(x)).sum()\n")
    gradient = differentiate(unit.f.graph)
    found = recompute(gradient, [Meta.of(array(4))], policy("recompute_all"))
    assert found.gradient is gradient and found.policy == "save_all"
