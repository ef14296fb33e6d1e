"""Chains of shifts, turns and writes: what one element takes may double with each step, so some goes into memory."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.fusion.fuse import pair_gradient, planned_pair
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.types.dtypes import FLOAT64

SHAPE = (6, 35)
PROGRAMS = {
    "shifts": """
def f(x, n: int):
    for i in range(n):
        x = torch.sin(x) + torch.roll(x, 2 * i + 1, 0) * torch.flip(x, [1])
    return x
""",
    "sums of shifts": """
def f(x, n: int):
    for i in range(n):
        x = 0.5 * x + 0.25 * torch.roll(x, 1, 0) + 0.25 * torch.roll(x, -1, 0)
    return (x * x).sum(0)
""",
    "writes of rows": """
def f(x, n: int):
    out = torch.tanh(x)
    for i in range(n):
        out = out.clone()
        out[::2] = x[:3]
        out[i % 6] = torch.sin(out[(i + 1) % 6].clone()) * out[(i + 4) % 6].clone()
    return out
""",
    "shifts, and a weight in each": """
def f(x, n: int):
    w = x[0] * 0.5
    for i in range(n):
        x = 0.9 * torch.roll(x, 1, 0) + w
    return x
""",
    "turns": """
def f(x, n: int):
    for i in range(n):
        x = x.reshape(5, 7, 6).transpose(0, 2).flip([1]).reshape(7, 6, 5).transpose(0, 1).reshape(6, 35)
    return torch.sin(x)
""",
}


def kernels_of(name: str, count: int) -> list[int]:
    """How long the text of each kernel is, of both passes."""
    given = [Layout.contiguous(Meta(SHAPE, FLOAT64)), count]
    gradient = pair_gradient(gs.CompilationUnit(PROGRAMS[name]).f.callee.graph, given, [True, False])
    pair = planned_pair(gradient, given, lambda primitive, dtype: True, split_for_cpu)
    backward = pair.backward(pair.usual_seeds())
    return [len(kernel.body) for kernel in (*pair.forward.kernels, *backward.kernels)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_grows_with_what_is_computed(name: str) -> None:
    short, long = kernels_of(name, 4), kernels_of(name, 12)
    assert max(short) < 250
    assert max(long) < 500
    assert sum(long) < 5 * sum(short) + 250


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_follows_from_many_places(name: str) -> None:
    names = {"torch": torch}
    exec(PROGRAMS[name], names)
    inputs = [torch.linspace(-0.9, 1.1, 210, dtype=torch.float64).reshape(SHAPE).requires_grad_() for _ in range(2)]
    found = []
    for function, x in zip((names["f"], gs.CompilationUnit(PROGRAMS[name]).f), inputs, strict=True):
        with gs.settings.backend("c"):
            value = function(x, 3)
            (first,) = torch.autograd.grad((value * value).sum(), x, create_graph=True)
            found.append((value, first, *torch.autograd.grad((first * first).sum(), x)))
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


BOXES = """
def overlap(a, b):
    left, top, right, bottom = a.unbind(-1)
    other_left, other_top, other_right, other_bottom = b.unbind(-1)
    width = torch.relu(torch.minimum(right, other_right) - torch.maximum(left, other_left))
    height = torch.relu(torch.minimum(bottom, other_bottom) - torch.maximum(top, other_top))
    both = width * height
    either = (right - left) * (bottom - top) + (other_right - other_left) * (other_bottom - other_top) - both
    across = torch.maximum(right, other_right) - torch.minimum(left, other_left)
    around = across * (torch.maximum(bottom, other_bottom) - torch.minimum(top, other_top))
    return (1 - (both / (either + 1e-7) - (around - either) / (around + 1e-7))).mean()
"""


def test_one_element_for_each_part_of_a_stack_is_not_computed_again() -> None:
    """What the gradients of eight columns have in common is asked for once for each, at the same place."""
    a, b = np.zeros((65_536, 4), np.float32), np.zeros((65_536, 4), np.float32)
    assert len(gs.CompilationUnit(BOXES).overlap.kernels(a, b).backward) == 1
