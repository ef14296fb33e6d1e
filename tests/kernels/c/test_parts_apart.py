"""Tensors that are put together, in C: a kernel for each part, or an element of each in turn where these lie side by
side. Many that are reduced over are put together in memory before."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.fusion.fuse import fuse
from gradscript.compiler.fusion.in_place import donating
from gradscript.compiler.fusion.program import ExternStep, Program
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.scheduling.pieces import LEAST_RUN, parts_apart
from gradscript.runtime.kernels.listing import known_layout
from kernel_reference import run_program

ROWS = {
    # The text, the shapes of parts, how many kernels there are, and whether elements are still looked for.
    "along rows": ("torch.cat(xs) * 2 + 1", [(12, 40), (7, 40), (30, 40)], 3, False),
    "along columns": ("torch.cat(xs, 1).tanh()", [(20, 40), (20, 33), (20, 64), (20, 32)], 4, False),
    "reduced along others": ("torch.softmax(torch.cat(xs), 1)", [(12, 40), (7, 40)], 2, False),
    "many": ("torch.cat(xs) * 2", [(8, 40)] * 12, 12, False),
    "stacked": ("torch.stack(xs, 1) * xs[0].sum()", [(20, 40)] * 3, 4, False),
    "side by side": ("torch.stack(xs, -1) ** 2", [(20, 40)] * 5, 1, False),
    "few columns": ("torch.cat(xs, 1) ** 2", [(20, 3), (20, 1), (20, 4)], 1, False),
    "short": ("torch.cat(xs) * 2", [(1, 40), (40, 40)], 1, True),
    "reduced over": ("(torch.cat(xs, 1) * 2).sum(1)", [(20, 40), (20, 64)], 1, True),
    "a sum besides": ("torch.cat(xs) * xs[0].sum(0)", [(12, 40), (13, 40)], 3, False),
}


def _program(text: str, shapes: Any) -> tuple[Program, list[Any], Any]:
    names = [f"x{number}" for number in range(len(shapes))]
    text = text.replace("xs[0]", "x0").replace("xs", f"[{', '.join(names)}]")
    function = gs.CompilationUnit(f"def f({', '.join(names)}):\n    return {text}\n").f
    values = [np.random.default_rng(number).normal(size=shape) for number, shape in enumerate(shapes)]
    given = [known_layout(value, settled=False) for value in values]
    return fuse(function.graph, given, lambda primitive, dtype: True, split_for_cpu), values, function(*values)


def _chooses(kernel: Kernel) -> bool:
    return any(getattr(s, "primitive", "") == "where" or getattr(s, "conditions", ()) for s in kernel.body)


@pytest.mark.parametrize("name", ROWS)
def test_parts_are_computed_apart_where_that_pays(name: str) -> None:
    text, shapes, count, chooses = ROWS[name]
    program, values, wanted = _program(text, shapes)
    assert len(program.kernels) == count
    assert any(map(_chooses, program.kernels)) is chooses
    for kernel in program.kernels:
        verify_kernel(kernel)
    (found,) = run_program(program, values)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(_in_c(text, shapes), wanted, rtol=1e-12)


def _in_c(text: str, shapes: Any) -> Any:
    with gs.settings.backend("c"):
        return _program(text, shapes)[2]


@pytest.mark.parametrize(("text", "count", "is_before"), [("cat", 8, False), ("sum", 3, False), ("sum", 8, True)])
def test_many_that_are_reduced_over_are_in_memory(text: str, count: int, is_before: bool) -> None:
    """Of so many a kernel looks for each in each position, that reads them all."""
    text = {"cat": "torch.cat(xs, 1) * 2", "sum": "(torch.cat(xs, 1) * 2).tanh().sum(1)"}[text]
    program, values, wanted = _program(text, [(20, 40)] * count)
    assert any(isinstance(step, ExternStep) for step in program.steps) is is_before
    np.testing.assert_allclose(run_program(program, values)[0], wanted, rtol=1e-12)


def test_a_gradient_of_parts_lies_where_its_argument_did() -> None:
    """Each kernel writes what it alone reads; what another part reads would be written too early."""
    shapes = [(20, 73), (20, 40), (20, 33)]
    program, values, wanted = _program("torch.cat([x1, x2], 1) * x0", shapes)
    assert len(program.kernels) == 2
    moved = donating(program, {0: 0})
    assert all(any(buffer.place_of for buffer in kernel.outputs) for kernel in moved.kernels)
    with gs.settings.backend("c"):
        unit = gs.CompilationUnit("def f(x, a, b):\n    return (torch.cat([a, b], 1) * x * x).sum()\n")
        gradient = gs.grad(unit.f, argnums=(0,), donate_argnums=(0,))
        for _ in range(2):
            given = [value.copy() for value in values]
            (found,) = gradient(*given)
            assert np.shares_memory(found, given[0])
            np.testing.assert_allclose(found, 2 * wanted, rtol=1e-12)


KERNEL = """
kernel put(%a : float64[{n}] in, %b : float64[{n}] in, %total : float64[8] out, %result : float64[8, {m}] out)
  axes k < 8 parallel, i < {m} parallel
  %a : float64 [i] = load %a[i] where 0 <= i < {n} else 0
  %b : float64 [i] = load %b[i - {n}] where {n} <= i < {m} else 0
  %at : int64 [i] = position i
  %c : bool [i] = lt(%at, {n})
  %d : float64 [i] = where(%c, %a, %b)
  {rest}store %result[{m}*k + i], %d
"""


@pytest.mark.parametrize(
    ("length", "rest", "count"),
    [(LEAST_RUN, "", 2), (LEAST_RUN - 1, "", 1), (LEAST_RUN, "store %total[k], 2\n  ", 1)],
    ids=["parts", "too short", "a result besides"],
)
def test_nothing_is_computed_twice(length: int, rest: str, count: int) -> None:
    kernel = parse_kernel(KERNEL.format(n=length, m=2 * length, rest=rest))
    parts = parts_apart(kernel)
    assert len(parts) == count
    arrays = {"a": np.arange(float(length)), "b": -np.arange(float(length))}
    # Of each, what it does not write is zero.
    result = np.zeros((8, 2 * length))
    for part in parts:
        verify_kernel(part)
        given = {buffer.name: arrays[buffer.name] for buffer in part.inputs}
        result += run_kernel(part, given)["result"]
    np.testing.assert_array_equal(result, np.tile(np.concatenate([arrays["a"], arrays["b"]]), (8, 1)))


def test_what_elements_decide_the_shape_of_is_multiplied_too() -> None:
    """No sum of products of streams is looked for where shapes are not told."""
    function = gs.CompilationUnit("def f(x, w):\n    return (x[x > 0] * w).sum()\n").f
    x = np.random.default_rng(0).normal(size=(4, 3))
    with gs.settings.backend("c"):
        gradients = gs.grad(function, argnums=(0, 1))(x, np.float64(3.0) * np.ones(1))
    np.testing.assert_allclose(gradients[0], 3.0 * (x > 0))
    np.testing.assert_allclose(gradients[1], [x[x > 0].sum()])
