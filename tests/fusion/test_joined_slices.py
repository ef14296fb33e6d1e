"""Gradients of slices: of those that fill a tensor one kernel, which computes each part where it belongs."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from array_programs import check_fused

GATES = """
def f(gates, c):
    n = c.size(1)
    i, f = torch.sigmoid(gates[:, :n]), torch.sigmoid(gates[:, n : 2 * n])
    g, o = torch.tanh(gates[:, 2 * n : 3 * n]), torch.sigmoid(gates[:, 3 * n :])
    new = f * c + i * g
    return o * torch.tanh(new), new
"""
INTERLEAVED = """
def f(x, c, s):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
"""


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def of(source: str, name: str = "f") -> gs.Function:
    return gs.CompilationUnit(source)[name]


def test_gates_that_are_slices_have_one_backward_kernel() -> None:
    function, values = of(GATES), [draw(7, 4 * 24), draw(7, 24)]
    forward, backward = check_fused(function, values)
    assert [buffer.name for buffer in backward.outputs] == ["grad_gates", "grad_c"]
    assert len(forward.with_role("parallel")) == 2
    loads = [line for line in function.kernels(*values).backward[0].ir.splitlines() if " load " in line]
    assert loads and not any("where" in line for line in loads)


@pytest.mark.parametrize(
    "body",
    [
        "x[:, :20] * x[:, 20:]",
        "x[:, 20:] * x[:, :20] + x[:, :20]",
        "x[:, :8] * x[:, 32:]",
        "x[:, :30] * x[:, 10:]",
        "x[:, :10].sum() * x[:, 10:]",
        "x[:, :20] * x[:, 20:] * x.sum()",
        "x[0] * x[1] + x[2] * x[3]",
        "x[0] * x[1] + x[2]",
        "x[:, 0] * x[:, 1]",
        "x[:2] * x[2:4] * x[:2, :1]",
        "x[:, :20] * x[:, 20:].float()",
    ],
)
def test_sums_of_slices(body: str) -> None:
    check_fused(of(f"def f(x):\n    return {body}\n"), [draw(4, 40)])


@pytest.mark.parametrize("shape", [(2, 3, 5, 16), (1, 4), (3, 5, 2)])
def test_interleaved_halves(shape: tuple[int, ...]) -> None:
    half = (*shape[-2:-1], shape[-1] // 2)
    kernels = check_fused(of(INTERLEAVED), [draw(*shape), draw(*half), draw(*half)])
    assert len([kernel for kernel in kernels if kernel.name.startswith("f_forward")]) == 1


@pytest.mark.parametrize("part", ["0:40:3", "1:40:3", "2:38:4", "39:40:7", "5:5:2", "3:40:40", ":-1:2"])
def test_a_part_with_steps_is_put_back_where_it_was(part: str) -> None:
    source = f"def f(x, y):\n    z = x * 2\n    z[:, {part}] = y.sum() * z[:, {part}]\n    return z.sin()\n"
    check_fused(of(source), [draw(3, 40), draw(2)])


@pytest.mark.parametrize("start", [None, 1, -4])
@pytest.mark.parametrize("end", [None, 5, -1])
def test_bounds_that_are_optional_are_known_at_each_call_alone(start: int | None, end: int | None) -> None:
    """The second derivative adds up two gradients that are put where such bounds say."""
    parameters = "x, y, g, start: Optional[int], end: Optional[int]"
    source = (
        f"def f({parameters}):\n    z = torch.slice_scatter(x, y, 0, start, end, 1)\n    return (z * z * g).sum()\n"
    )
    values = [draw(6, 3), draw(6, 3)[slice(start, end)], draw(6, 3)]
    with gs.settings.backend("c"):
        first, pull_back = gs.vjp(gs.grad(of(source), (0, 1)), *values, start, end)
        second = pull_back((values[0], values[1]))[:3]
    x, y, g = (torch.from_numpy(value).requires_grad_() for value in values)
    z = torch.slice_scatter(x, y, 0, start, end, 1)
    wanted = torch.autograd.grad((z * z * g).sum(), [x, y], create_graph=True)
    again = torch.autograd.grad(wanted, [x, y, g], [x, y])
    for have, want in zip((*first, *second), (*wanted, *again), strict=True):
        np.testing.assert_allclose(have, want.detach(), atol=1e-12)


def test_gates_that_are_chunks_are_summed_where_they_are_written() -> None:
    function = of("""
def f(x, weight, bias):
    enter, keep = (x @ weight + bias).chunk(2, -1)
    return (torch.tanh(enter) * torch.sigmoid(keep)).square().sum()
""")
    values = [draw(6, 8), draw(8, 32), draw(32)]
    (kernel,) = function.kernels(*values).backward
    # The gradient of the gates, which products of matrices read, and that of the bias.
    assert kernel.ir.splitlines()[0].count(" out") == 2
    x, weight, bias = given = [torch.tensor(value, requires_grad=True) for value in values]
    enter, keep = (x @ weight + bias).chunk(2, -1)
    wanted = torch.autograd.grad((torch.tanh(enter) * torch.sigmoid(keep)).square().sum(), given)
    with gs.settings.backend("c"):
        found = gs.grad(function, argnums=(0, 1, 2))(*values)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-12, atol=1e-12)


def test_sums_of_gates_go_on_adding_up_where_these_are_written() -> None:
    function = of("""
def f(enter, keep, weight, total):
    both = torch.cat([torch.tanh(enter), torch.sigmoid(keep)], 1)
    return (both @ weight).detach(), (total + both.sum(0)).detach(), both.t().detach()
""")
    values = [draw(6, 16), draw(6, 16), draw(32, 3), draw(32)]
    # One kernel writes what products read, what it is turned, and the sums.
    listing = function.kernels(*values)
    assert len(listing.forward) == 1
    assert listing.forward[0].ir.splitlines()[0].count(" out") == 2
    enter, keep, weight, total = map(torch.tensor, values)
    both = torch.cat([torch.tanh(enter), torch.sigmoid(keep)], 1)
    with gs.settings.backend("c"):
        found = function(*values)
    for one, other in zip(found, (both @ weight, total + both.sum(0), both.t()), strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_parts_of_one_gradient_in_c() -> None:
    """Each goes through an array of its own on its way to memory."""
    function, x = of("def f(x):\n    return x[:2] * x[2:4] * x[:2, :1]\n"), draw(4, 40)
    with gs.settings.backend("numpy"):
        wanted = gs.vjp(function, x)[1](np.ones((2, 40)))[0]
    with gs.settings.backend("c"):
        found = gs.vjp(function, x)[1](np.ones((2, 40)))[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
