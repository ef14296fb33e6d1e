"""Bools, zeros of either sign, infinities, empty and 0-d tensors: expressions beside eager torch, on both roads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from amounts import some_of
from enumeration import differences, is_compared, name_of
from samples.arrays import to_numpy
from samples.torch_database import database

INF = float("inf")
TENSORS: dict[str, torch.Tensor] = {
    "x": torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64),
    "m": torch.tensor([True, False, True]),
    "w": torch.arange(6, dtype=torch.float64).reshape(2, 3),
    "yes": torch.tensor(True),
    "no": torch.tensor(False),
    "rows": torch.tensor([[True, False], [True, True]]),
    "z": torch.tensor([0.0, -0.0, -1.0, 1.0]),
    "o": torch.tensor([-0.0, 0.0, 1.0, 1.0]),
    "ends": torch.tensor([-INF, INF, float("nan"), 0.0, -0.0, -0.5]),
    "half": torch.tensor([-INF, INF, 0.0, -0.0, 4.0], dtype=torch.float16),
    "huge": torch.tensor([1.7e308, -1.7e308, 1.7e308], dtype=torch.float64),
    "double": torch.tensor(2.0, dtype=torch.float64),
    "single": torch.tensor([1.0, 2.0]),
    "u": torch.zeros(2, dtype=torch.uint8),
    "none": torch.zeros(0, dtype=torch.int64),
    "small": torch.tensor([1e-310, 0.0, 2.0], dtype=torch.float64),
}
VALUES = (
    # --- bools beside bools, and beside numbers ---
    *("x[m & True]", "m ^ True", "m | False", "True & m", "m + True", "m * False", "m ** True", "m == True"),
    *("torch.where(m, True, False)", "torch.where(m, m, True)", "torch.where(m, 1, True)", "torch.full([2], True)"),
    *("torch.bitwise_and(m, True)", "torch.full_like(x, True)", "m.new_full([2], True)", "x + True"),
    # --- masks of any rank beside other indices ---
    *("w[yes, 0]", "w[no, 0]", "w[yes, 1:]", "w[no, 1:]", "w[..., yes]", "w[..., no, 0]", "w[0, yes]", "w[1:, yes, 1]"),
    *(
        "w[True]",
        "w[False, 0]",
        "w[yes, None]",
        "w[:, yes]",
        "w[yes, yes]",
        "w[0, yes, 0]",
        "w[None, no]",
        "w[yes, m[:2]]",
    ),
    "torch.stack([w[:, :2], w[:, 1:]])[:, rows, None][..., 0]",
    # --- zeros of either sign ---
    *("torch.relu(z)", "torch.clamp(z, 0, 1)", "torch.clamp(z, -0.0, 1)", "torch.clamp(z, max=0.0)", "F.relu6(z)"),
    *("torch.fmax(z, o)", "torch.fmin(z, o)", "torch.maximum(z, o)", "torch.minimum(z, o)", "F.hardtanh(z, 0.0, 1.0)"),
    *("torch.cumsum(o, 0)", "torch.logcumsumexp(o, 0)", "torch.sum(o[:1])"),
    *("torch.cumsum(o[0], 0)", "torch.logcumsumexp(o[0], 0)", "torch.erfinv(o)"),
    # --- infinities ---
    *("torch.lgamma(ends)", "half ** 0.5", "half ** -0.5", "ends ** 0.5", "torch.trapezoid(ends[1:])"),
    *("torch.std(huge)", "torch.trapezoid(ends[1:2])"),
    # --- nothing, 0-d, and several dtypes ---
    *(
        "torch.trapezoid(none)",
        "torch.trapezoid(none, none)",
        "torch.cumulative_trapezoid(none)",
        "torch.softmax(none, 0)",
    ),
    *("torch.polygamma(170, x)", "torch.polygamma(300, double)", "torch.polygamma(10**9, double)"),
    *("none.to(torch.int8).median()", "none.median()", "none.to(torch.int16).nanmedian()"),
    *("torch.inner(double, double)", "torch.inner(double, single)", "F.mse_loss(double, single)"),
    *("F.l1_loss(single, double)", "torch.einsum('i,j->ij', x, single)", "torch.diff(m)", "torch.einsum('i->', u)"),
    # --- what fits a dtype ---
    *("torch.full_like(u, -2)", "u.new_full([2], -2)", "torch.full([2], -2, dtype=torch.uint8)", "u + 300"),
    *("torch.tensor([-1], dtype=torch.uint8)", "torch.full([1], 70000.0, dtype=torch.float16)"),
    # --- numbers, and Python's functions ---
    *("2 ** -3", "(-2) ** -3", "pow(2, -1)", "2 ** 3", "torch.add(1, 2)", "torch.mul(2, 3.0)", "torch.div(2, 3)"),
    *("sum(w)", "sum(m)", "sum(u)", "all(m)", "any(m)", "all(w[:0])", "sum(x, 2)"),
    # --- steps with fractions, counted in integers ---
    *("torch.arange(-0.9, 2.1, 2.0, dtype=torch.int64)", "torch.arange(-0.9, 2.1, 2.0, dtype=torch.int32)"),
    *("torch.arange(0, 3, 0.5, dtype=torch.int32)", "torch.arange(0.5, 5.5, 1.5, dtype=torch.uint8)"),
    *("torch.arange(5, 0.5, -1.2, dtype=torch.int64)", "torch.arange(2.1, 2.9, dtype=torch.int64)"),
    *("torch.arange(2.9, dtype=torch.int64)", "torch.arange(0, 3, 0.5)", "torch.arange(3, 3, -2)"),
    *("torch.linspace(50, -1.5, 300, dtype=torch.int64)", "torch.linspace(float('nan'), 1, 5)"),
    *("torch.linspace(0, float('inf'), 5)", "torch.linspace(3, 7, 1)", "torch.logspace(2.7, 1, 1, dtype=torch.int32)"),
    *("torch.logspace(0.5, 3.5, 4, dtype=torch.int64)", "torch.linspace(0.9, 9.9, 4, dtype=torch.uint8)"),
    # --- triangles, also of rows without number that hold none ---
    *("torch.tril_indices(4, 3, -1)", "torch.triu_indices(3, 4, 2)", "torch.tril_indices(2, 3, 5)"),
    *("torch.triu_indices(2**40, 2)", "torch.tril_indices(0, 2**40)", "torch.triu_indices(2, 3, -4)"),
    # --- the dtype of a result ---
    *("yes.sum_to_size([])", "u[0].sum_to_size([])", "u.sum_to_size([])", "single.sum_to_size([1])"),
    *("F.soft_margin_loss(single, double)", "F.soft_margin_loss(double, single[0])"),
    "F.soft_margin_loss(single, w[0, 1:], reduction='none')",
)
REFUSED = (
    *("max(w)", "max(x, x)", "min(x, 1.0)", "torch.arange(2, dtype=torch.bool)", "torch.arange(0, 3, 0.0)"),
    *("torch.arange(0, 3, 0.5, dtype=torch.int64)", "torch.arange(2.9, 2.1)", "torch.arange(0, float('inf'))"),
    *("m - True", "m // True", "torch.full_like(u, 300)", "x.masked_fill(m, 1).int().masked_fill(m, 1e10)"),
    *("torch.tensor([None])", "torch.tensor([[1], [None]])", "all(w)", "any(w)", "all(double)", "sum(double)"),
    *(
        "x.to(foo=3)",
        "x.to(torch.float32, inplace=False)",
        "x.to(generator=None)",
        "x.to(torch.int32, requires_grad=False)",
    ),
    *(
        "torch.add(x, x, inplace=False)",
        "torch.relu(x, generator=None)",
        "u.clamp(300)",
        "torch.einsum('i,i->', x, x.float())",
    ),
)


def _torchs(text: str, tensors: dict[str, Any]) -> Any:
    return eval(text, {"torch": torch, "F": F, **tensors})


def _ours(text: str) -> Any:
    return gs.CompilationUnit(f"def f({', '.join(TENSORS)}):\n    return {text}\n").f


def _same(mine: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(mine, wanted, strict=True):
            _same(one, other)
    elif isinstance(wanted, torch.Tensor):
        assert isinstance(mine, np.ndarray | torch.Tensor)
        array = mine if isinstance(mine, np.ndarray) else mine.numpy()
        expected = wanted.numpy()
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(array, expected, rtol=1e-6)
        zero = expected == 0
        assert (np.signbit(array[zero]) == np.signbit(expected[zero])).all() or expected.dtype.kind != "f"
    else:
        assert type(mine) is type(wanted) and mine == wanted


@pytest.mark.parametrize("text", VALUES)
def test_the_value_is_torchs(text: str) -> None:
    function, wanted = _ours(text), _torchs(text, TENSORS)
    _same(function(*(tensor.numpy() for tensor in TENSORS.values())), wanted)
    _same(function(*TENSORS.values()), wanted)


@pytest.mark.usefixtures("op_by_op")
def test_what_overflows_on_the_way_does_so_in_torchs_steps() -> None:
    """Variances are sums of squares in kernels, which overflow to infinity, where the steps of eager torch give NaN."""
    text = "torch.var_mean(huge)"
    _same(_ours(text)(*(tensor.numpy() for tensor in TENSORS.values())), _torchs(text, TENSORS))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_integers_and_ties_in_kernels(backend: str) -> None:
    """A difference of bytes is none of theirs; of two that are equal the first has the gradient, in any order."""
    source = "def f(b):\n    return torch.logsumexp(b, 0)\n\ndef g(y, x):\n    return torch.fmin(x, y)\n"
    unit, tensor = gs.CompilationUnit(source), torch.tensor([0, 7, 200, 3], dtype=torch.uint8)
    given = [torch.tensor([[0.5, 1.0]], dtype=torch.float64), torch.tensor([0.5, 2.0], dtype=torch.float16)]
    y, x = (one.requires_grad_() for one in given)
    with gs.settings.backend(backend):
        np.testing.assert_allclose(unit.f(tensor.numpy()), torch.logsumexp(tensor, 0), rtol=1e-6)
        found = torch.autograd.grad(unit.g(y, x).sum(), given)
    wanted = torch.autograd.grad(torch.fmin(x, y).sum(), given)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("text", REFUSED)
def test_what_torch_refuses_is_refused(text: str) -> None:
    with pytest.raises((TypeError, RuntimeError, ValueError, NotImplementedError)):
        _torchs(text, TENSORS)
    with pytest.raises((gs.CompileError, gs.RuntimeFailure)):
        _ours(text)(*(tensor.numpy() for tensor in TENSORS.values()))


GRADIENTS = (
    *(
        "w[yes, 0]",
        "w[no, 1:]",
        "w[..., yes]",
        "w[True]",
        "F.kl_div(x, double, reduction='sum')",
        "F.mse_loss(double, single)",
    ),
    *("F.kl_div(x, double, log_target=True, reduction='sum')", "torch.inner(double, double)", "torch.nextafter(x, x)"),
    *(
        "double.scatter_reduce(0, torch.tensor(0), x[0], 'mean')",
        "torch.cumsum(x, 0).flip(0)",
        "torch.copysign(ends, o[0])",
    ),
    *(
        "torch.einsum('i,j->ij', x, single)",
        "torch.diff(x)",
        "torch.trapezoid(x)",
        "sum(w)",
        "torch.relu(z)",
        "torch.acosh(z - 1)",
        "torch.logit(z)",
        "F.smooth_l1_loss(ends, ends * 2, reduction='sum')",
        "torch.cumsum(double, 0)",
    ),
)


@pytest.mark.parametrize("text", GRADIENTS)
def test_the_gradient_is_torchs(text: str) -> None:
    leaves = {k: v.clone().requires_grad_(v.is_floating_point()) for k, v in TENSORS.items()}
    wanted = _torchs(text, leaves)
    wrt = [leaf for leaf in leaves.values() if leaf.requires_grad]
    expected = torch.autograd.grad(wanted.sum(), wrt, allow_unused=True, materialize_grads=True)
    value, pullback = gs.vjp(_ours(text), *(tensor.numpy() for tensor in TENSORS.values()))
    found = [g for g, v in zip(pullback(np.ones_like(value)), TENSORS.values(), strict=True) if v.is_floating_point()]
    for mine, other in zip(found, expected, strict=True):
        array = np.zeros(other.shape, other.numpy().dtype) if mine is None else mine
        assert (array.dtype, array.shape) == (other.numpy().dtype, tuple(other.shape))
        np.testing.assert_allclose(array, other.numpy(), rtol=1e-6)


# At a kink a second derivative is that of the side torch's own takes, and infinities make no NaN of it.
SECOND = (
    *(
        "F.elu(ends[3:])",
        "F.selu(z)",
        "F.celu(z, 0.5)",
        "F.hardswish(ends[:2])",
        "F.huber_loss(z, o * 0, reduction='sum')",
    ),
    *("torch.special.i1(small)", "torch.special.i0e(small)", "torch.nansum(ends) * x"),
)


@pytest.mark.parametrize("text", SECOND)
def test_the_second_derivative_is_torchs(text: str) -> None:
    names = [name for name in TENSORS if re.search(rf"\b{name}\b", text)]
    leaves = [TENSORS[name].double().requires_grad_() for name in names]
    value = _torchs(text, dict(zip(names, leaves, strict=True)))
    first = torch.autograd.grad((value + torch.atan(value)).sum(), leaves, create_graph=True, materialize_grads=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in first), leaves, materialize_grads=True)
    body = f"    v = {text}\n    return (v + torch.atan(v)).sum()\n"
    loss = gs.CompilationUnit(f"def loss({', '.join(names)}):\n{body}").loss
    found, pull_back = gs.vjp(gs.grad(loss, list(range(len(names)))), *(leaf.detach().numpy() for leaf in leaves))
    slopes = tuple(2 * g for g in found)
    for mine, other in zip([*found, *pull_back(slopes)], [*first, *second], strict=True):
        np.testing.assert_allclose(0.0 if mine is None else mine, other.detach().numpy(), rtol=1e-6)


def test_negative_strides_of_a_result_on_torch_tensors() -> None:
    leaf = torch.ones(3, requires_grad=True)
    result = gs.CompilationUnit("def f(x):\n    return torch.cumsum(x.flip(0), 0).flip(0)\n").f(leaf)
    torch.testing.assert_close(result, torch.tensor([3.0, 2.0, 1.0]), check_dtype=True)
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    torch.testing.assert_close(gradient, torch.tensor([1.0, 2.0, 3.0]))


SOME = [op for op in database() if is_compared(op)][::14]


@pytest.mark.parametrize("op", some_of(SOME), ids=name_of)
@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_torchs_own_samples(op: Any, dtype: str) -> None:
    """A few of the entries; `make enumerate` compares all of them, with changed samples too."""
    found = differences(op, dtype, "none", 2)
    wrong = found.refused + found.different
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("power", [0.5, -0.5])
@pytest.mark.parametrize("spelled", ["x ** {power}", "x ** p", "torch.pow(x, p)", "torch.pow(x, {power})"])
def test_powers_that_are_roots(spelled: str, power: float, dtype: torch.dtype) -> None:
    """torch takes a root for the power by a half, but of float16: that of -inf is NaN."""
    x = torch.tensor([-math.inf, math.inf, -1.0, 0.0, -0.0, 4.0, math.nan], dtype=dtype)
    f = gs.CompilationUnit(f"def f(x, p: float):\n    return {spelled.format(power=power)}\n").f
    expected = torch.pow(x, power).double().numpy()
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            found = f(x, power).double().numpy()
        np.testing.assert_array_equal(found, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


BASES = [-math.inf, math.inf, -1.0, 0.0, -0.0, 4.0, math.nan]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("power", [0.5, -0.5, 1.5, 2.5, 3.0])
@pytest.mark.parametrize("shape", [(), (1,), (len(BASES),)], ids=str)
def test_powers_by_tensors_are_no_roots(shape: tuple[int, ...], power: float, backend: str) -> None:
    """torch takes roots for powers by a number alone, and so do the gradients of both orders."""
    by_tensor = gs.CompilationUnit("def f(x, p):\n    return torch.pow(x, p)\n").f
    by_number = gs.CompilationUnit("def f(x, p: float):\n    return torch.pow(x, p)\n").f
    tensor = torch.full(shape, power, dtype=torch.float64)
    for f, exponent in ((by_tensor, tensor), (by_number, power)):
        expected = _power_and_slopes(torch.pow, exponent)
        with gs.settings.backend(backend):
            found = _power_and_slopes(f, exponent)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0, equal_nan=True)


def _power_and_slopes(f: Callable[..., torch.Tensor], exponent: Any) -> list[torch.Tensor]:
    x = torch.tensor(BASES, dtype=torch.float64, requires_grad=True)
    value = f(x, exponent)
    (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    return [value, slope, curvature]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_integers_have_no_negative_powers_by_numbers(dtype: torch.dtype, backend: str) -> None:
    x = torch.tensor([1, 2]).to(dtype)
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x**-2
    f = gs.CompilationUnit("def f(x, p: int):\n    return x**p + 1\n").f
    with gs.settings.backend(backend):
        for _ in range(2):
            with pytest.raises(gs.RuntimeFailure, match=r"integers have no power -2: write `x.float\(\) \*\* -2`"):
                f(x, -2)
        assert torch.equal(f(x, 2), x**2 + 1)


@pytest.mark.parametrize("index", [1.0, -1.2, np.array(1.5), np.array(0.0, np.float32)])
def test_no_number_with_a_fraction_is_an_index(index: object) -> None:
    unit = gs.CompilationUnit(
        "def read(x, i):\n    return x[torch.arange(2), i]\n\n\n"
        "def written(x, i):\n    y = x.clone()\n    y[torch.arange(2), i] = 0\n    return y\n"
    )
    for function in (unit.read, unit.written):
        with pytest.raises(gs.RuntimeFailure, match="must be of integer"):
            function(np.ones((2, 3)), index)


SOLVERS = {
    "torch.addbmm(a, b, c)": (
        *(((3, 5), (2, 3, 4), (2, 4, 5)), ((5,), (2, 3, 4), (2, 4, 5)), ((3, 5), (0, 3, 4), (0, 4, 5))),
        *(((3, 5), (1, 3, 4), (2, 4, 5)), ((3, 5), (2, 3, 4), (1, 4, 5))),
    ),
    "torch.cholesky_solve(a, b)": (
        *(((3, 2), (4, 3, 3)), ((2, 3, 2), (3, 3)), ((3, 3), (3, 3, 3)), ((2, 3), (2, 3, 3))),
        *(((3, 2), (3,)), ((3,), (3, 3)), ((4, 3, 2), (2, 3, 3))),
    ),
    "torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True)": (
        *(((2, 3, 3), (3, 2)), ((3, 3), (4, 3, 2)), ((3, 3, 3), (3, 3)), ((2, 3, 3), (2, 3))),
        *(((3, 3), (3,)), ((3,), (3, 3)), ((1, 3), (3, 2))),
    ),
}
"""Shapes that torch takes, and such as it refuses."""


@pytest.mark.parametrize("text", SOLVERS)
def test_solvers_take_the_shapes_that_torch_takes(text: str) -> None:
    for shapes in SOLVERS[text]:
        given = [torch.rand(shape, dtype=torch.float64) for shape in shapes]
        tensors = [x + 3 * torch.eye(x.shape[-1]) if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x for x in given]
        names = "abc"[: len(tensors)]
        f = gs.CompilationUnit(f"def f({', '.join(names)}):\n    return {text}\n").f
        try:
            expected = eval(text, {"torch": torch, **dict(zip(names, tensors, strict=True))})
        except RuntimeError:
            with pytest.raises(gs.RuntimeFailure):
                f(*tensors)
            continue
        torch.testing.assert_close(f(*tensors), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_towards_the_other_zero(dtype: torch.dtype) -> None:
    """Of two that are equal it is the second, by its sign, in halves too."""
    zeros = torch.tensor([0.0, -0.0] * 8, dtype=dtype)
    found = gs.CompilationUnit("def f(x):\n    return torch.nextafter(x, -x)\n").f(to_numpy(zeros))
    assert found.tobytes() == to_numpy(torch.nextafter(zeros, -zeros)).tobytes()
