"""Matrices in the memory of tensors are multiplied by torch's BLAS: in any layout, to the same bits on every road."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.ops import libraries
from gradscript.compiler.ops.families.linalg.batches import add_product_in_place
from gradscript.runtime.torch.routines.products import LEAST_BYTES, LEAST_MULTIPLIED, Blas, blas, on_tensors

SOURCE = """
def product(x, y):
    return torch.matmul(x, y)

def layer(x, w, b):
    return torch.tanh(F.linear(x, w, b)) @ w

def convolved(x, w):
    return F.conv2d(x, w)
"""
LAYOUTS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "rows": lambda a: a,
    "columns": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "padded": lambda a: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(3, 5)])[..., 3:-5],
    "gaps": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: a[..., ::-1, :].copy()[..., ::-1, :],
    "mirrored": lambda a: a[..., ::-1].copy()[..., ::-1],
}
SHAPES = [
    ((190, 170), (170, 150)),
    ((190, 1), (1, 900)),
    ((2, 700), (700, 9000)),
    ((9000, 700), (700, 2)),
    ((5, 60, 70), (5, 70, 80)),
    ((3, 1, 60, 70), (4, 70, 80)),
    ((7, 30, 70), (70, 90)),
    ((190, 64), (3, 64, 150)),
]


def _library() -> Blas:
    found = blas()
    assert isinstance(found, Blas)
    return found


def test_torch_has_one() -> None:
    _library()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layouts", [(a, b) for a in LAYOUTS for b in LAYOUTS], ids="-".join)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_are_right_in_any_layout(shapes: Any, layouts: tuple[str, str], dtype: Any) -> None:
    rng = np.random.default_rng(1)
    left, right = (
        LAYOUTS[layout](rng.standard_normal(shape).astype(dtype)) for shape, layout in zip(shapes, layouts, strict=True)
    )
    found = _library().multiply(left, right)
    wanted = np.matmul(left.astype(np.float64), right.astype(np.float64))
    assert found is not None
    assert found.dtype == dtype
    scale = np.matmul(abs(left.astype(np.float64)), abs(right.astype(np.float64)))
    # Every sum of n products is off by no more than n roundings of what is added.
    assert (abs(found - wanted) <= (left.shape[-1] + 2) * np.finfo(dtype).eps * scale).all()


def test_what_is_broadcast_lies_nowhere() -> None:
    row = np.broadcast_to(np.arange(170.0), (190, 170))
    column = np.broadcast_to(np.arange(170.0)[:, None], (170, 150))
    np.testing.assert_array_equal(_library().multiply(row, column), row @ column)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_added_to_what_is_there(layout: str) -> None:
    rng = np.random.default_rng(2)
    left, right = (LAYOUTS[layout](rng.integers(-9, 9, s).astype(np.float32)) for s in ((190, 70), (70, 150)))
    total = rng.integers(-9, 9, (190, 150)).astype(np.float32)
    wanted = total + left @ right
    assert on_tensors(add_product_in_place, total, left, right) is total
    np.testing.assert_array_equal(total, wanted)


@pytest.mark.parametrize(
    "make", [lambda t: t[::2], lambda t: t.T, lambda t: t[:, ::-1]], ids=["gaps", "turned", "back"]
)
def test_what_lies_otherwise_is_added_to_by_parts(make: Callable[[Any], Any]) -> None:
    total = make(np.zeros((300, 300), np.float32))
    left, right = np.ones((total.shape[0], 90), np.float32), np.ones((90, total.shape[1]), np.float32)
    assert not _library().add_product(total, left, right)
    on_tensors(add_product_in_place, total, left, right)
    assert (total == 90).all()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.zeros((1, 400)), np.zeros((400, 900))),
        (np.zeros((900, 400)), np.zeros((400, 1))),
        (np.zeros((90, 0)), np.zeros((0, 900))),
        (np.zeros(400), np.zeros((400, 900))),
        (np.zeros((90, 400)), np.zeros((401, 90))),
        (np.zeros((2, 90, 400)), np.zeros((3, 400, 90))),
        (np.zeros((90, 400)), np.zeros((400, 90), np.float32)),
        (np.zeros((90, 400), ">f8"), np.zeros((400, 90), ">f8")),
        (np.zeros((90, 400), np.int64), np.zeros((400, 90), np.int64)),
        (np.zeros((20, 400)), np.zeros((400, 20))),
    ],
)
def test_what_is_left_to_numpy(left: Any, right: Any) -> None:
    """Which it multiplies, or refuses; the last has few results."""
    assert _library().multiply(left, right) is None


def test_few_elements_are_numpys_as_on_bare_memory() -> None:
    from gradscript.runtime.kernels.c.memory.bare import _MOST_BYTES

    assert LEAST_BYTES == _MOST_BYTES
    side = round(LEAST_MULTIPLIED ** (1 / 3))
    assert _library().multiply(np.zeros((side, side)), np.zeros((side, side))) is None


@pytest.mark.parametrize("shapes", [((16, 512), (512, 512)), ((80, 80), (80, 80)), ((3, 80, 80), (80, 80))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_elements_of_many_factors_are_multiplied_by_one_library(shapes: Any, dtype: Any) -> None:
    """NumPy's BLAS would have threads of its own there, which wait for those of torch's."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    found = _library().multiply(left, right)
    assert found is not None
    np.testing.assert_allclose(found, left.astype(float) @ right.astype(float), rtol=1e-4, atol=1e-4)
    function = gs.CompilationUnit("def f(x, y):\n    return torch.tanh(x @ y)\n").f
    x, y = torch.from_numpy(left), torch.from_numpy(right)
    for backend in ("c", "numpy"):
        with gs.settings.backend(backend):
            # The first call, those that prepare what follows, and what is prepared.
            results = [function(x, y) for _ in range(5)]
        assert all(torch.equal(result, results[0]) for result in results)


# --- which library it is follows from the arguments ---


class Counting:
    """A library that multiplies as another one, and counts."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.count = 0

    def run(self, op: Any, arguments: Any) -> Any:
        return NotImplemented

    def multiply(self, left: Any, right: Any) -> Any:
        found = self._library.multiply(left, right)
        self.count += found is not None
        return found

    def add_product(self, total: Any, left: Any, right: Any) -> bool:
        found: bool = self._library.add_product(total, left, right)
        self.count += found
        return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counting:
    from gradscript.runtime.torch.routines import products

    library = Counting(_library())
    monkeypatch.setattr(products, "blas", lambda: library)
    return library


def _inputs() -> list[torch.Tensor]:
    torch.manual_seed(3)
    return [torch.randn(shape) for shape in ((190, 170), (210, 170), (210,))]


def _with_gradients(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    result = function(*leaves)
    return [result.detach(), *torch.autograd.grad(result.square().sum(), leaves)]


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_tensors_are_multiplied_by_it_on_every_road(backend: str, counted: Counting) -> None:
    """Called for the first time and again, recorded or not, by name: to the same bits.

    From some call on lists of what a plan does reach the library by its address, past who counts.
    """
    function = gs.CompilationUnit(SOURCE).layer
    op = gs.torch_op(function, f"blas_{backend}::layer")
    tensors = _inputs()
    with gs.settings.backend(backend):
        plain, recorded = [], []
        for call in (*[function] * 5, *[op] * 5):
            before = counted.count
            with torch.no_grad():
                plain.append(call(*tensors))
            assert plain[1:] or counted.count >= before + 2
            before = counted.count
            recorded.append(_with_gradients(call, tensors))
            assert recorded[1:] or counted.count >= before + 5
    for results in zip(*recorded, strict=True):
        assert all(torch.equal(results[0], result) for result in results)
    assert all(torch.equal(recorded[0][0], result) for result in plain)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_arrays_are_multiplied_by_numpy(backend: str, counted: Counting) -> None:
    """Also by what calls on tensors have left behind."""
    function = gs.CompilationUnit(SOURCE).layer
    arrays = [t.numpy() for t in _inputs()]
    with gs.settings.backend(backend):
        before = [np.asarray(function(*arrays)) for _ in range(3)]
        _with_gradients(function, _inputs())
        met = counted.count
        after = [np.asarray(function(*arrays)) for _ in range(3)]
        gs.vjp(function, *arrays)[1](before[0])
    assert met >= 5
    assert counted.count == met
    for result in [*before, *after]:
        np.testing.assert_array_equal(result, before[0])


def test_convolutions_are_products(counted: Counting) -> None:
    x, w = torch.randn(4, 8, 30, 30), torch.randn(16, 8, 3, 3)
    found = _with_gradients(gs.CompilationUnit(SOURCE).convolved, [x, w])
    assert counted.count >= 2
    wanted = _with_gradients(torch.nn.functional.conv2d, [x.double(), w.double()])
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


def test_autocast_and_modes_have_no_say_in_it(counted: Counting) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    function = gs.CompilationUnit(SOURCE).product
    x, y = torch.randn(190, 170), torch.randn(170, 150)
    plain = function(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(function(x, y), plain)
    with FlopCounterMode(display=False):
        assert torch.equal(function(x, y), plain)
    # By kernels a first call may multiply once more, to be written down.
    assert counted.count >= 3


def test_without_one_numpy_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradscript.runtime.torch.routines import products

    monkeypatch.setattr(products, "_of_torch", lambda: "/nowhere/libtorch_cpu.so")
    assert products.blas.__wrapped__() is None
    monkeypatch.setattr(products, "blas", lambda: None)
    function, (x, w, b) = gs.CompilationUnit(SOURCE).layer, _inputs()
    wanted = torch.tanh(torch.nn.functional.linear(x, w, b)) @ w
    # Of 190 and 210 terms of size 1, added up in another order.
    torch.testing.assert_close(function(x, w, b), wanted, rtol=1e-5, atol=1e-4)
    assert libraries._CHOSEN.get() is None
