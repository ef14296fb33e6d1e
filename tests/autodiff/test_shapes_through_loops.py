"""Sums to sizes are left out where nothing was broadcast, through loops, branches and lists, and nowhere else."""

from __future__ import annotations

import itertools
from typing import Any, Optional

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.analysis.same_shapes import SameShapes

SUMS = "aten::sum_to_size"
PROGRAMS = {
    "carried": """
def f(x, w, n: int):
    for i in range(n):
        x = torch.tanh(x * w) + x
    return (x * x).sum()
""",
    "first round broadcasts": """
def f(x, w, n: int):
    y = w
    for i in range(n):
        y = y * x + w
    return (y * y).sum()
""",
    "grows": """
def f(x, w, n: int):
    y = x * w
    for i in range(n):
        z = torch.cat([y, y])
        y = z * z * 0.5
    return (y * y).sum()
""",
    "list of all rounds": """
def f(x, w, n: int):
    ys = [x]
    for i in range(n):
        ys.append(ys[i] * w)
    s = (ys[0] * w).sum()
    for i in range(n):
        s = s + (ys[i] * ys[i + 1] * w).sum()
    return s
""",
    "list of several shapes": """
def f(x, w, n: int):
    ys = [x, w, x.sum()]
    for i in range(n):
        ys.append(ys[i] * w)
    s = x.sum()
    for i in range(n):
        s = s + (ys[i] * ys[i + 2]).sum()
    return s
""",
    "two lists in step": """
def f(x, w, n: int):
    ys = [x]
    zs = [w]
    y = x
    for i in range(n):
        y = torch.cat([y, y])
        z = y * 2
        ys.append(y)
        zs.append(z)
    s = x.sum()
    for i in range(n):
        s = s + (ys[i + 1] * zs[i + 1]).sum() + (ys[i + 1].sum() * zs[n - i]).sum()
    return s
""",
    "branch": """
def f(x, w, n: int):
    y = x
    if n > 2:
        y = x * w
    for i in range(n):
        if i % 2 == 0:
            y = y * w
        else:
            y = y + x
    return (y * y * x).sum()
""",
    "swapped": """
def f(x, w, n: int):
    a = x
    b = w
    for i in range(n):
        a, b = b, a * b
    return (a * b * a).sum()
""",
    "loop in a loop": """
def f(x, w, n: int):
    y = x
    for i in range(n):
        z = y * w
        for j in range(i):
            z = z * y
        y = torch.sin(z + x)
    return (y * w).sum()
""",
    "while": """
def f(x, w, n: int):
    y = x
    while n > 0:
        y = torch.tanh(y * w)
        n -= 1
    return (y * y).sum()
""",
    "a number among them": """
def f(x, w, n: int):
    s = x.sum()
    for i in range(n):
        s = s * 0.5 + (torch.sin(x * s) * w).sum()
    return s
""",
}
SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((), ()), ((), (3,)), ((3,), ()), ((0,), (0,)), ((1,), (1,))]


def _array(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(0.5, 1.2, shape)


def _eager(name: str, arrays: list[np.ndarray[Any, Any]], trips: int) -> tuple[float, list[np.ndarray[Any, Any]]]:
    namespace: dict[str, Any] = {"torch": torch}
    exec(PROGRAMS[name], namespace)
    tensors = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
    value = namespace["f"](*tensors, trips)
    found = torch.autograd.grad(value, tensors, allow_unused=True)
    zeros = [np.zeros(array.shape) for array in arrays]
    return value.item(), [z if g is None else g.numpy() for g, z in zip(found, zeros, strict=True)]


# In C, where the rounds change from call to call, plans are for open ones.
@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_torchs_whatever_is_broadcast(name: str, backend: str) -> None:
    if backend == "c" and "list" not in name and "loop" not in name:
        pytest.skip("no list is carried, and each shape is compiled")
    f = gs.CompilationUnit(PROGRAMS[name]).f
    grad = gs.grad(f, (0, 1))
    with gs.settings.backend(backend):
        for (left, right), trips in itertools.product(SHAPES if backend == "numpy" else SHAPES[:2], (0, 1, 3, 2)):
            if "cat" in PROGRAMS[name] and () in (left, right):
                continue
            arrays = [_array(left, 0), _array(right, 1)]
            value, expected = _eager(name, arrays, trips)
            found, pullback = gs.vjp(f, *arrays, trips)
            np.testing.assert_allclose(found, value, rtol=1e-12)
            for mine in (pullback(np.ones(()))[:2], grad(*arrays, trips)):
                for got, want in zip(mine, expected, strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12, err_msg=f"{left} {right} {trips}")


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("name", ["carried", "while", "swapped"])
def test_nothing_is_summed_where_all_has_one_shape(name: str) -> None:
    f = gs.CompilationUnit(PROGRAMS[name]).f
    x = _array((2, 3), 0)
    gs.grad(f, (0, 1))(x, x, 3)
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None and SUMS not in {node.kind for node in graph.all_nodes()}
    gs.grad(f, (0, 1))(x, x[0], 3)
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None and SUMS in {node.kind for node in graph.all_nodes()}


def test_what_is_made_in_a_round_is_another_value_in_the_next() -> None:
    source = PROGRAMS["two lists in step"]
    graph = gs.CompilationUnit(source).f.graph
    shapes = SameShapes(graph)
    shapes.solve()
    items = [node for node in graph.all_nodes() if node.kind == "aten::__getitem__.t"]
    assert items and all(shapes.of(node.output) == {node.output} for node in items)


OPTIONAL = """
def f(x, low: Optional[Tensor], high: Optional[Tensor] = None, dims: Optional[List[int]] = None):
    y = torch.clamp(x, low, high)
    return y.sum() if dims is None else (y.sum(dims) * 2).sum()
"""


@pytest.mark.parametrize("dims", [None, [], [0], [1, 0]])
def test_what_may_be_left_out_is_asked_too(dims: list[int] | None) -> None:
    """First all of one shape, so that a plan for that is there."""
    f = gs.CompilationUnit(OPTIONAL).f
    namespace: dict[str, Any] = {"torch": torch, "Optional": Optional, "List": list, "Tensor": torch.Tensor}
    exec(OPTIONAL, namespace)
    for shapes in ([(2, 2)] * 3, [(2, 2), (2,), (2, 1)], [(2, 2), (), (2, 2)], [(2, 2), (2, 2), None]):
        arrays = [None if shape is None else _array(shape, i) for i, shape in enumerate(shapes)]
        given = [array for array in arrays if array is not None]
        tensors = [torch.from_numpy(array.copy()).requires_grad_() for array in given]
        want = torch.autograd.grad(namespace["f"](*tensors, dims=dims), tensors)
        _, pullback = gs.vjp(f, *given, dims=dims)
        mine = [pullback(np.ones(())), gs.grad(f, tuple(range(len(given))))(*given, dims=dims)]
        for found in mine:
            for have, expected in zip(found, want, strict=False):
                np.testing.assert_allclose(have, expected.numpy(), rtol=1e-12)


BRANCHES = """
def f(x):
    l = x
    if x.size(1) > 1:
        return l, x * x.sum(), x
    return x, x, x
"""


@pytest.mark.parametrize("columns", [1, 2])
def test_shapes_are_asked_of_what_is_there(columns: int) -> None:
    """The branch that is not taken has made nothing, and of some results there is no gradient."""
    x = _array((3, columns), 0)
    namespace: dict[str, Any] = {"torch": torch}
    exec(BRANCHES, namespace)
    f = gs.CompilationUnit(BRANCHES).f
    for given in itertools.product((True, False), repeat=3):
        tensor = torch.from_numpy(x.copy()).requires_grad_()
        seeds = [_array(x.shape, 1 + i) if there else None for i, there in enumerate(given)]
        results = zip(namespace["f"](tensor), seeds, strict=True)
        total = [(result * torch.from_numpy(seed)).sum() for result, seed in results if seed is not None]
        _, pullback = gs.vjp(f, x)
        (found,) = pullback(tuple(seeds))
        if total:
            np.testing.assert_allclose(found, torch.autograd.grad(sum(total), tensor)[0].numpy(), rtol=1e-12)
        else:
            assert found is None
