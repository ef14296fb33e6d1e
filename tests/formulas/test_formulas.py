"""Formulas of pointwise ops, reductions, softmax, normalization, losses and lists against torch's autograd.

For every op, in float64: the value, the first and the second derivative, at inputs of every layout, broadcast, 0-d
and empty. In the shorter floats: the first derivative, against ours in float64 at the same numbers.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from agreement import EPSILON, differences, losses_of_digits
from amounts import some_of
from gradscript.compiler.formulas.library import formula_name, formula_names
from gradscript.compiler.ops import OPS, Op, Trait
from gradscript.compiler.types.dtypes import FLOAT64, DType
from gradscript.compiler.types.types import ListType, OptionalType, TensorType, Type, VariableType
from gradscript.stdlib_grads import formula_files
from samples.array_derivatives import Derivatives, differentiated, flat, is_float, ours, skipped_where_torch_has_none
from samples.array_derivatives import reference as torch_derivatives
from samples.table import LAYOUTS, Call, calls, constants, key, reference, tensor_positions

FILES = ("pointwise", "comparison", "activations", "special", "reduction", "softmax", "norms", "losses", "lists")
UNLIKE_TORCH = frozenset(
    (
        *("floor_divide", "floor_divide.Scalar", "floor_divide.Scalar_Tensor"),
        *("remainder.Scalar_Tensor", "hardsigmoid"),
    )
)
"""Ops of which torch has no derivative, or no second one; ours are checked in tests of their own."""
INEXACT_IN_TORCH = {"polygamma": 1e-7, "digamma": 1e-7, "lgamma": 1e-7, "hardsigmoid": 1e-7}
"""Relative error of torch's own result: its trigamma has nine digits, its sixth is a float32."""
WITHOUT = {
    "aten::special_zeta.other_scalar": "there is no closed form, nor has torch one",
}
"""Differentiable by their types, and without a formula for a reason."""


@cache
def _ops() -> dict[str, Op]:
    """The ops whose formulas stand in FILES."""
    texts = formula_files()
    names = {name for file in FILES for name in re.findall(r"^def (\w+)\(", texts[f"{file}.grad"], re.MULTILINE)}
    return {key(op): op for op in OPS.all() if formula_name(op.schema) in names}


def _arguments(op: Op, sample: Call, dtype: DType = FLOAT64, layout: str = "contiguous", seed: int = 0) -> list[Any]:
    return sample.arguments(op, dtype, seed + zlib.crc32(key(op).encode()) % 1000, LAYOUTS[layout])


def _layouts(op: Op) -> list[str]:
    """Every layout; the one with equal elements only where no extreme, order or running total is made of them."""
    return [name for name in LAYOUTS if name != "expanded" or op.has(Trait.POINTWISE)]


def _draw() -> np.random.Generator:
    return np.random.default_rng(5)


def _has_gradient(op: Op, arguments: Sequence[Any]) -> bool:
    """Whether there is something to differentiate: not, for instance, in a sum that is asked for as integers."""
    with np.errstate(all="ignore"):
        outputs = op.evaluate(*arguments)
    return any(map(is_float, flat(list(outputs) if isinstance(outputs, tuple) else outputs)))


def _both(op: Op, arguments: Sequence[Any], order: int = 2) -> tuple[Derivatives, Derivatives]:
    wrt = differentiated(op, arguments, constants(op))
    found, weights, cotangents = ours(op, arguments, wrt, _draw(), False, order)
    with skipped_where_torch_has_none():
        return found, torch_derivatives(op, arguments, wrt, weights, cotangents, reference(op))


# --- every op ---


def test_every_differentiable_op_has_a_formula() -> None:
    missing = {
        op.schema.full_name
        for op in OPS.all()
        if not op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY)
        and op.schema.name.startswith(("aten::", "gs::"))
        and any(_may_hold_tensors(a.type) for a in op.schema.arguments)
        and any(_may_hold_tensors(r.type) for r in op.schema.returns)
        and formula_name(op.schema) is None
    }
    assert missing - {"aten::_unwrap_optional"} == set(WITHOUT)


def _may_hold_tensors(type: Type) -> bool:
    while isinstance(type, OptionalType | ListType):
        type = type.element
    return isinstance(type, TensorType | VariableType)


def test_every_formula_is_used() -> None:
    """A function is the formula of one op, or a part of some that is named like no op."""
    of = {}
    for op in OPS.all():
        name = formula_name(op.schema)
        if name is not None:
            of.setdefault(name, []).append(op.schema.full_name)
    assert {name: ops for name, ops in of.items() if len(ops) > 1} == {}
    orphans = {name for name in formula_names() if name not in of and OPS.overloads(name.rstrip("_0123456789"))}
    assert orphans == set()


@pytest.mark.parametrize("name", [name for name in _ops() if name not in UNLIKE_TORCH])
def test_derivatives_are_those_of_torch(name: str) -> None:
    op = _ops()[name]
    layouts = _layouts(op)
    rtol = INEXACT_IN_TORCH.get(op.schema.base_name, 1e-9)
    samples = calls(op)
    cases = [*((i, "contiguous") for i in range(len(samples))), *((0, layout) for layout in layouts[1:])]
    for i, layout in [cases[0], *some_of(cases[1:])]:
        sample = samples[i]
        arguments = _arguments(op, sample, layout=layout, seed=i)
        if not _has_gradient(op, arguments):
            continue
        found, expected = _both(op, arguments)
        where = f"{name}, sample {i}, {layout}"
        assert not differences(found.values, expected.values, rtol), f"value of {where}"
        assert not differences(found.first, expected.first, rtol), f"first derivative of {where}"
        assert not differences(found.second, expected.second, rtol), f"second derivative of {where}"


@pytest.mark.parametrize("name", some_of(_ops()))
def test_one_percent_more_is_noticed(name: str) -> None:
    """Some sample of every op has gradients that are not zero, and the comparison tells 1.01 of them apart."""
    op = _ops()[name]
    noticed: dict[int, bool] = {}
    for i, sample in enumerate(calls(op)):
        arguments = _arguments(op, sample, seed=i)
        if not _has_gradient(op, arguments):
            continue
        wrt = differentiated(op, arguments, constants(op))
        found, _, _ = ours(op, arguments, wrt, _draw(), False, 1)
        gradients = iter(found.first)
        for position in wrt:
            for _ in flat(arguments[position]):
                gradient = next(gradients)
                wrong = bool(differences([gradient * 1.01], [gradient]))
                noticed[position] = noticed.get(position, False) or wrong
    assert {position for position, wrong in noticed.items() if not wrong} == set(FLAT.get(name, ()))


FLAT = {
    **dict.fromkeys(("grad_list", "grad_fit", "grad_spread", "remove.list"), (1,)),
    **dict.fromkeys(("sign", "sgn", "floor", "ceil", "trunc", "round", "round.decimals"), (0,)),
    "floor_divide": (0, 1),
    "floor_divide.Scalar": (0,),
    "floor_divide.Scalar_Tensor": (1,),
    "copysign.Tensor": (1,),
    "nextafter": (1,),
}
"""By op, the arguments in which it is piecewise constant."""


def _ops_of_several_tensors() -> list[str]:
    tensor_counts = {name: len(tensor_positions(op)) for name, op in _ops().items()}
    return [name for name, count in tensor_counts.items() if count > 1]


@pytest.mark.parametrize("name", _ops_of_several_tensors())
def test_a_gradient_does_not_depend_on_which_others_are_asked_for(name: str) -> None:
    op = _ops()[name]
    arguments = _arguments(op, calls(op)[0])
    wrt = differentiated(op, arguments, constants(op))
    together, _, _ = ours(op, arguments, wrt, _draw(), False, 1)
    for position, expected in zip(wrt, together.first, strict=True):
        alone, _, _ = ours(op, arguments, [position], _draw(), False, 1)
        np.testing.assert_array_equal(alone.first[0], expected)


# --- shorter floats ---


@pytest.mark.parametrize("name", some_of(_ops()))
def test_shorter_floats_are_as_exact_as_their_digits(name: str) -> None:
    """Value and first derivative, which has the dtype of its argument: the first call in each float, others in one."""
    op = _ops()[name]

    def run(arguments: list[Any]) -> list[Any]:
        wrt = differentiated(op, arguments, constants(op))
        found, _, _ = ours(op, arguments, wrt, _draw(), False, 1)
        primals = filter(is_float, flat([arguments[i] for i in wrt]))
        assert [gradient.dtype for gradient in found.first] == [primal.dtype for primal in primals]
        return [*found.values, *found.first]

    samples, floats = calls(op), [*EPSILON]
    cases = [*((0, dtype) for dtype in floats), *((i, floats[i % len(floats)]) for i in range(1, len(samples)))]
    for number, dtype in cases:
        short = _arguments(op, samples[number], dtype, seed=number)
        if _has_gradient(op, short):
            lost = losses_of_digits(run, short, dtype)
            assert not lost, f"{name}, sample {number}: {lost}"


# --- kinks and borders ---

INF, NAN = math.inf, math.nan
KINKS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("abs", ([0.0, -0.0, INF],)),
    ("sqrt", ([0.0],)),
    ("rsqrt", ([0.0],)),
    ("reciprocal", ([0.0],)),
    ("hypot", ([0.0, 3.0], [0.0, 0.0])),
    ("atan2", ([0.0, 1.0, 0.0], [0.0, 0.0, -1.0])),
    ("maximum", ([1.0, 0, NAN, 1], [1.0, 1, 1, NAN])),
    ("minimum", ([1.0, 0, NAN, 1], [1.0, 1, 1, NAN])),
    ("max.other", ([1.0, 0, NAN, 1], [1.0, 1, 1, NAN])),
    ("fmax", ([1.0, 0, NAN, 1, NAN], [1.0, 1, 1, NAN, NAN])),
    ("fmin", ([1.0, 0, NAN, 1, NAN], [1.0, 1, 1, NAN, NAN])),
    ("pow.Tensor_Tensor", ([0.0, 0, 0, -1, 0, 2, -2], [0.0, 2, -1, 2, 1, 0, 3])),
    ("pow.Tensor_Scalar", ([0.0, -2, 2], 0)),
    ("pow.Tensor_Scalar", ([0.0, -2, 2], 1)),
    ("pow.Tensor_Scalar", ([0.0, 2], 0.5)),
    ("pow.Tensor_Scalar", ([0.0, 2], -1)),
    *(("pow.Tensor_Scalar", ([-INF, INF, -0.0, 0.0, 4.0], power)) for power in (0.5, -0.5, 1.5, 3, -1, -2)),
    ("pow.Scalar", (0, [0.0, 2, -1])),
    ("pow.Scalar", (-2, [0.0, 2, -1])),
    ("float_power.Tensor_Tensor", ([0.0, 0, 0, -1], [0.0, 2, -1, 2])),
    ("logaddexp", ([INF, -INF, 1.0, 800.0], [INF, -INF, INF, -800.0])),
    ("logaddexp2", ([INF, -INF, 1.0, 3000.0], [INF, -INF, INF, -3000.0])),
    ("log", ([0.0],)),
    ("copysign.Tensor", ([0.0, -1, 2], [1.0, 1, -0.0])),
    ("nan_to_num", ([NAN, INF, -INF, 1.0], None, None, None)),
    ("where.self", (np.array([True, False]), [1.0, NAN], [INF, 2.0])),
    ("clamp", ([1.0, 2, 0, 3, NAN], 1, 2)),
    ("clamp", ([1.0, 2, 0, 1.5], 2, 1)),
    ("clamp.Tensor", ([1.0, 2, 3, 0, NAN, 1, 0], [1.0, 1, 1, 1, 0, 3, 3], [3.0, 3, 3, 3, 1, 2, 2])),
    ("clamp.Tensor", ([1.0, 2, 0, NAN], [1.0, 1, 1, 1], None)),
    ("clamp.Tensor", ([1.0, 2, 0, NAN], None, [1.0, 1, 1, 1])),
    ("clamp_min", ([1.0, 2, 0, NAN], 1)),
    ("clamp_max.Tensor", ([1.0, 2, 0, NAN], [1.0, 1, 1, 1])),
    ("relu", ([0.0, -1, NAN, 1],)),
    ("relu6", ([0.0, 6, NAN, 3],)),
    ("hardtanh", ([-1.0, 1, NAN, 0], -1, 1)),
    ("hardsigmoid", ([-3.0, 3, NAN, 0],)),
    ("hardswish", ([-3.0, 3, NAN, -4, 4, 0],)),
    ("hardshrink", ([-0.5, 0.5, NAN, 0.6], 0.5)),
    ("softshrink", ([-0.5, 0.5, NAN, 0.6], 0.5)),
    ("threshold", ([1.0, NAN, 2], 1, 2)),
    ("leaky_relu", ([0.0, NAN, -1], 0.1)),
    ("elu", ([0.0, NAN, -1, 1000], 1, 1, 1)),
    ("_prelu_kernel", ([0.0, -1, NAN], [0.2, 0.2, 0.2])),
    ("softplus", ([20.0, 20.5, 1000, NAN], 1, 20)),
    ("silu", ([0.0, 800, -800],)),
    ("sinc", ([0.0],)),
    ("logit", ([0.0, 1, 2, -1, 0.5], None)),
    ("logit", ([0.0, 1, 2, -1, 0.1, 0.9, 0.5], 0.1)),
    ("special_entr", ([0.0, -1, 1],)),
    ("special_i1", ([0.0],)),
    ("special_i1e", ([0.0],)),
    ("special_i0e", ([0.0],)),
    ("xlogy.Tensor", ([0.0, 0, 0, 2], [0.0, 1, -1, 3])),
    ("xlogy.Scalar_Other", ([0.0, 2], 0)),
    ("special_xlog1py", ([0.0, 0, 2], [-1.0, 1, 2])),
    ("max", ([1.0, 1, 0],)),
    ("max", ([1.0, NAN, NAN],)),
    ("amax", ([1.0, 1, 0], [0], False)),
    ("amin", ([1.0, NAN, NAN], [0], False)),
    ("aminmax", ([1.0, 1, 2, 2], None, False)),
    ("median", ([1.0, 1, 3, 1],)),
    ("nanmedian", ([1.0, NAN, 3, 1],)),
    ("cummax", ([1.0, 1, 2, 2, 0], 0)),
    ("nansum", ([1.0, NAN, 2], None, False, None)),
    ("nanmean", ([1.0, NAN, 2], None, False, None)),
    ("logsumexp", ([-INF, -INF], [0], False)),
    ("logsumexp", ([INF, 1.0], [0], False)),
    ("var", ([1.0], True)),
    ("std", ([1.0], True)),
    ("std", ([1.0, 1.0], True)),
    ("norm.Scalar", ([0.0, 0.0], 2)),
    ("norm.Scalar", ([0.0, -1.0], 1)),
    ("norm.Scalar", ([1.0, -1, 0], INF)),
    ("norm.Scalar", ([1.0, -1, 2], -INF)),
    ("norm.Scalar", ([1.0, -1, 0], 0.5)),
    ("norm.Scalar", ([0.0, 0.0], 3)),
    ("norm.Scalar", ([0.0, 0.0], 0.5)),
    ("norm.Scalar", ([0.0, 2.0], 0)),
    ("dist", ([1.0, 0], [1.0, 0], 2)),
    ("prod", ([0.0, 2, 3],)),
    ("prod", ([0.0, 0, 3],)),
    ("cumprod", ([3.0, 0, 2, 0, 5], 0)),
    ("l1_loss", ([1.0, 0], [0.0, 0], 2)),
    ("smooth_l1_loss", ([1.0, 0, -3], [0.0, 0, 0], 2, 1.0)),
    ("huber_loss", ([1.0, 0, -3], [0.0, 0, 0], 2, 1.0)),
)
"""Ops and arguments at which a derivative jumps, is infinite, or is not there."""


@pytest.mark.parametrize(("name", "values"), KINKS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(KINKS)])
def test_kinks_are_those_of_torch(name: str, values: tuple[Any, ...]) -> None:
    op = _ops()[name]
    rest = [a.default for a in op.schema.arguments[len(values) :]]
    arguments = [np.array(v) if isinstance(v, list) and isinstance(v[0], float) else v for v in (*values, *rest)]
    found, expected = _both(op, arguments, order=1)
    rtol = INEXACT_IN_TORCH.get(name, 1e-9)
    assert not differences(found.values, expected.values, rtol)
    assert not differences(found.first, expected.first, rtol)


@pytest.mark.parametrize(
    ("name", "rest"), (("prod", [None]), ("prod.dim_int", [0, True, None]), ("cumprod", [0, None]))
)
def test_products_with_zeros_have_second_derivatives(name: str, rest: list[Any]) -> None:
    for values in ([0.0, 2, 3, 4], [0.0, 2, 0, 3], [1.0, 0, 2, 5]):
        found, expected = _both(_ops()[name], [np.array(values), *rest])
        assert not differences(found.first, expected.first)
        assert not differences(found.second, expected.second)


# --- where torch has no derivative, or one that is not that of the op ---


@pytest.mark.parametrize("name", ("floor_divide", "floor_divide.Scalar", "floor_divide.Scalar_Tensor"))
def test_a_rounded_quotient_is_flat(name: str) -> None:
    op = _ops()[name]
    arguments = _arguments(op, calls(op)[0])
    wrt = differentiated(op, arguments, constants(op))
    found, _, _ = ours(op, arguments, wrt, _draw(), False, 1)
    assert all(not gradient.any() for gradient in found.first)


def test_remainder_of_a_number() -> None:
    """z = c - y floor(c / y)."""
    divisors = np.array([1.5, -0.75, 2.0, 4.0])
    found, weights, _ = ours(_ops()["remainder.Scalar_Tensor"], [7.0, divisors], [1], _draw(), False)
    np.testing.assert_allclose(found.first[0], -weights[0] * np.floor(7.0 / divisors))
    assert not found.second[0].any()


def test_hardsigmoid_has_no_curvature() -> None:
    inputs = np.array([-4.0, -1.0, 2.0, 5.0])
    found, weights, _ = ours(_ops()["hardsigmoid"], [inputs], [0], _draw(), False)
    np.testing.assert_allclose(found.first[0], weights[0] * np.array([0, 1, 1, 0]) / 6)
    assert not found.second[0].any()


def test_kl_div_of_an_impossible_outcome_is_a_limit() -> None:
    """The derivative of y log(y) at 0 is -infinity; torch's is NaN, for it divides 0 by 0."""
    arguments = [np.array([1.0, 0.5]), np.array([0.0, 0.5]), 2, False]
    found, weights, _ = ours(_ops()["kl_div"], arguments, [0, 1], _draw(), False, 1)
    np.testing.assert_allclose(found.first[1], weights[0] * np.array([-INF, math.log(0.5) + 0.5]))


def test_second_derivatives_do_not_overflow_in_the_branch_not_taken() -> None:
    """torch's elu and softplus agree: a large input has curvature 0, not NaN."""
    for name, rest in (("elu", [1, 1, 1]), ("softplus", [1, 20]), ("logaddexp", [np.array([-900.0])])):
        found, _, _ = ours(_ops()[name], [np.array([900.0]), *rest], [0], _draw(), False)
        assert not found.second[0].any()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
