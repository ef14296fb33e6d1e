"""A value that control flow overwrote has no gradient, on any road: not one of zeros, which infinite derivatives turn
into NaN. Random programs of such values beside torch's eager autograd in float64, to second order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some
from dead_value_programs import Programs
from kernel_device import kernel_device

PROGRAMS = some(12)
POLICIES = ("save_all", "mirror", "min_cut", "recompute_all", "budget=60")
Array = np.ndarray[Any, Any]


def in_torch(source: str) -> Callable[..., torch.Tensor]:
    """The same text as a Python function over torch. It is text of our own making."""
    names: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(source, names)
    return names["f"]  # type: ignore[no-any-return]


def arguments(seed: int) -> Iterator[tuple[list[Array], tuple[int, bool]]]:
    rng = np.random.default_rng(seed)
    for n, b in ((0, True), (2, False), (3, True)):
        yield [rng.normal(size=3), rng.normal(size=3)], (n, b)


def dense(gradients: Sequence[Any]) -> Array:
    """Gradients as one array, zeros for one that is not there."""
    found = [getattr(g, "data", g) if isinstance(g, gs.tape.Variable) else g for g in gradients]
    found = [g.detach().numpy() if isinstance(g, torch.Tensor) else g for g in found]
    return np.stack([np.zeros(3) if g is None else g for g in found])


def assert_close(actual: Sequence[Any], expected: Sequence[Any], road: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(dense(actual), dense(expected), rtol=1e-8, atol=1e-10, err_msg=road)


def in_eager(reference: Callable[..., torch.Tensor], arrays: Sequence[Array], rest: Sequence[Any]) -> list[Any]:
    """First and second derivatives; the second ones are of the sum of the first."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    value = reference(*tensors, *rest)
    if not value.requires_grad:
        return [[None, None], [None, None]]
    first = torch.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
    return [first, second_in_torch(first, tensors)]


def second_in_torch(first: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Sequence[Any]:
    terms = [g.sum() for g in first if g is not None and g.requires_grad]
    return torch.autograd.grad(torch.stack(terms).sum(), tensors, allow_unused=True) if terms else [None, None]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_dead_values_have_no_gradients(seed: int) -> None:
    check(Programs(seed).function(), seed)


def check(source: str, seed: int) -> None:
    unit, reference = gs.CompilationUnit(source), in_torch(source)
    gradient = gs.grad(unit.f, (0, 1), allow_unused=True)
    policy = POLICIES[seed % len(POLICIES)]
    rematerialized = gs.grad(unit.f, (0, 1), policy=policy, allow_unused=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arrays, rest in arguments(seed):
            first, second = in_eager(reference, arrays, rest)
            assert_close(gradient(*arrays, *rest), first, "gs.grad")
            assert_close(gs.vjp(unit.f, *arrays, *rest)[1](1.0)[:2], first, "gs.vjp")
            assert_close(rematerialized(*arrays, *rest), first, policy)
            ones = (np.ones(3), np.ones(3))
            assert_close(gs.vjp(gradient, *arrays, *rest)[1](ones)[:2], second, "gs.vjp of gs.grad")
            check_on_torch(unit.f, arrays, rest, first, second)
            if seed % 4 == 0 and rest == (2, False):
                with kernel_device(pytest.MonkeyPatch()):
                    check_on_torch(unit.f, arrays, rest, first, second, "kernels")
            check_on_tape(unit.f, arrays, rest, first, second)


def check_on_torch(
    f: Any, arrays: Sequence[Array], rest: Sequence[Any], first: Any, second: Any, road: str = "torch tensors"
) -> None:
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    value = f(*tensors, *rest)
    found = torch.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
    assert_close(found, first, road)
    assert_close(second_in_torch(found, tensors), second, f"{road}, second order")


def check_on_tape(f: Any, arrays: Sequence[Array], rest: Sequence[Any], first: Any, second: Any) -> None:
    variables = [gs.tape.Variable(array, requires_grad=True) for array in arrays]
    found = gs.tape.grad(f(*variables, *rest), variables, create_graph=True, allow_unused=True)
    assert_close(found, first, "the tape")
    terms = [g.sum() for g in found if g is not None and g.requires_grad]
    if terms:
        again = gs.tape.grad(sum(terms[1:], terms[0]), variables, allow_unused=True)
        assert_close(again, second, "the tape, second order")


OVERWRITTEN = """
def branch(x, b: bool):
    v = torch.sqrt(x * 0.0)
    if b:
        v = x * x * x
    return v.sum()

def conditional(x, b: bool):
    v = torch.sqrt(x * 0.0)
    return (x * x * x if b else v).sum()

def loop(x, b: bool):
    v = torch.sqrt(x * 0.0)
    for i in range(2):
        v = x * x * x
    return v.sum()

def element(x, b: bool):
    values = [torch.sqrt(x * 0.0), x * x * x]
    return values[1].sum()

def grown(x, b: bool):
    values = list(torch.sqrt(x * 0.0).unbind(0))
    values.append(x * x * x)
    return values[-1].sum()
"""


@pytest.mark.parametrize("name", ["branch", "conditional", "loop", "element", "grown"])
def test_a_value_that_is_overwritten(name: str) -> None:
    f = gs.CompilationUnit(OVERWRITTEN)[name]
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(gs.grad(f)(x, True), 3 * x * x)
    np.testing.assert_allclose(gs.vjp(gs.grad(f), x, True)[1](np.ones(2))[0], 6 * x)


KEPT = """
def f(y, n: int):
    v = torch.sin(y)
    for i in range(n):
        v = torch.tanh(y)
    return v.sum()
"""


def test_what_a_loop_carries_and_keeps_has_both_gradients() -> None:
    y = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(gs.CompilationUnit(KEPT).f(y, 1), y, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), y)
    tanh = torch.tanh(y.detach())
    np.testing.assert_allclose(second.numpy(), (-2 * tanh * (1 - tanh * tanh)).numpy(), rtol=1e-12)


def test_a_part_that_may_be_undefined_is_added_as_one_in_either_order() -> None:
    """z's gradient is that of a row, of another row behind branches, and its own: the sums are taken apart for the
    rows, and what a branch may leave undefined may not come to an ordinary addition."""
    unit = gs.CompilationUnit(
        "def f(x0, z0, n: int, c: bool):\n    x = x0 * 1\n    z = z0 * 1\n    y = x + 1\n    if not c:\n"
        "        if n > 2:\n            if not c:\n                x = torch.tanh(x) + z[1]\n        y = z[0]\n"
        "    return x, y, z\n"
    )
    x, z = np.linspace(-1, 1, 3), np.linspace(-2, 2, 9).reshape(3, 3)
    for n, c in ((2, False), (3, False), (3, True)):
        _, pullback = gs.vjp(unit.f, x, z, n, c)
        found = pullback((np.ones(3), np.ones(3), np.ones((3, 3))))
        wanted = np.ones((3, 3))
        wanted[0] += 0 if c else 1
        wanted[1] += 1 if n > 2 and not c else 0
        assert np.array_equal(found[1], wanted), (n, c)
