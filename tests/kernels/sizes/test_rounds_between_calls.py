"""Loops of as many rounds as a call says: planned once, and to the bit what a plan for the very number gives."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some, some_of
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.size_classes import SizeClasses
from round_programs import BY_HAND, TEXT, arguments, random_function

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("in_c"),
    pytest.mark.skipif(compilers.compiler() is None, reason="needs a compiler of C"),
]
FIRST = (9, 14, 12, 19, 6)
"""What loops are planned for."""
LATER = (10, 25, 31, 8)


def results_of(f: Any, given: list[Any]) -> list[Any] | str:
    """What a function gives by two roads and its gradients, or the error that it ends in."""
    try:
        y, pull_back = gs.vjp(f, *given)
        plain = f(*given)
    except gs.RuntimeFailure as error:
        return str(error).splitlines()[0]
    outputs, plain = (found if isinstance(found, tuple) else (found,) for found in (y, plain))
    gradients = pull_back(*[np.linspace(-1, 1, o.size, dtype=o.dtype).reshape(o.shape) for o in outputs])
    flat = [item for found in gradients for item in (found if isinstance(found, list) else [found])]
    return [*outputs, *plain, *flat]


def in_torch() -> dict[str, Any]:
    """The functions as Python has them, of torch's ops."""
    names: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(TEXT, names)
    return names


def results_in_torch(f: Any, x: Any, w: Any, matrices: list[Any], n: int) -> list[Any]:
    """The same of one output, as torch computes it op by op; None for what takes no part."""
    leaves = [torch.from_numpy(one.copy()).requires_grad_() for one in (x, w, *matrices)]
    y = f(leaves[0], leaves[1], leaves[2:], n)
    seed = torch.from_numpy(np.linspace(-1, 1, y.numel()).reshape(y.shape))
    found = [None if g is None else g.numpy() for g in torch.autograd.grad(y, leaves, seed, allow_unused=True)]
    of_matrices = found[2:] if any(g is not None for g in found[2:]) else [None]
    plain = y.detach().numpy()
    return [plain, plain, *found[:2], *of_matrices, None]


def bits(found: list[Any] | str) -> Any:
    if isinstance(found, str):
        return found
    return [None if array is None else (array.shape, array.dtype, array.tobytes()) for array in found]


def exact(monkeypatch: pytest.MonkeyPatch, f: Any, n: int) -> list[Any] | str:
    """What a plan for the very arguments gives."""
    with monkeypatch.context() as patch:
        patch.setattr(SizeClasses, "find", lambda *given: None)
        patch.setattr(SizeClasses, "plan", lambda *given: None)
        return results_of(f, arguments(n))


@pytest.mark.parametrize("name", BY_HAND)
def test_another_number_of_rounds_plans_nothing_anew(name: str, planned: list[object]) -> None:
    f = gs.CompilationUnit(TEXT)[name]
    for n in FIRST:
        results_of(f, arguments(n))
    before = len(planned)
    for n in range(20, 40):
        results_of(f, arguments(n))
    assert len(planned) == before


@pytest.mark.parametrize("name", some_of(BY_HAND))
def test_results_are_those_of_a_plan_for_the_very_rounds_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, other = gs.CompilationUnit(TEXT)[name], gs.CompilationUnit(TEXT)[name]
    found = {n: results_of(f, arguments(n)) for n in (*FIRST, *LATER, 4, 3, 2, 1)}
    for n in (*LATER, 4, 1):
        wanted = exact(monkeypatch, other, n)
        if name != "suffixes":
            assert bits(found[n]) == bits(wanted), n
            continue
        # Its sums are of as many terms as there are rounds left, and are taken in another order.
        for have, want in zip(found[n], wanted, strict=True):
            if have is not None:
                np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", BY_HAND)
def test_results_are_those_of_torch_in_float64(name: str) -> None:
    f, of_torch = gs.CompilationUnit(TEXT)[name], in_torch()[name]
    for n in (*FIRST, *LATER):
        x, w, matrices, _ = arguments(n)
        x, w, matrices = x.astype(np.float64), w.astype(np.float64), [one.astype(np.float64) for one in matrices]
        have, wanted = results_of(f, [x, w, matrices, n]), results_in_torch(of_torch, x, w, matrices, n)
        assert len(have) == len(wanted)
        for a, b in zip(have, wanted, strict=True):
            assert a is not None or b is None
            if a is not None:
                b = np.zeros_like(a) if b is None else b
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * np.abs(b).max(initial=1.0))


# The tenth stacks a list that grows once more behind its loop. The ninth, which reads the last of a list in inner
# rounds, plans a part of its gradient anew for eleven.
@pytest.mark.parametrize("seed", sorted({*range(some(12)), 10} - {9}))
def test_random_loops_are_what_plans_for_the_very_rounds_give(
    seed: int, planned: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients may be summed in another order where the very rounds are few and written out."""
    text = random_function(seed)
    f, other = gs.CompilationUnit(text).f, gs.CompilationUnit(text).f
    found = {n: results_of(f, arguments(n)) for n in (7, 9, 12, 8, 10, 13, 15, 5)}
    before = len(planned)
    found[11] = results_of(f, arguments(11))
    assert len(planned) == before, text
    for n in (10, 5, 11):
        have, want = found[n], exact(monkeypatch, other, n)
        if isinstance(have, str) or isinstance(want, str):
            assert have == want, text
            continue
        assert bits(have[:4]) == bits(want[:4]), f"{n}\n{text}"
        for a, b in zip(have, want, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(b).max(initial=1e-3))
