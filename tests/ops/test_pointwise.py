"""Every pointwise op against torch eager: values, dtypes, special values, layouts, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gradscript.compiler.ops import OPS, Op, Trait
from gradscript.compiler.ops.arrays import dtype_of
from gradscript.compiler.types.types import FLOAT, INT, NONE, NUMBER, STR, TensorType, strip_optional
from samples.pointwise import (
    BFLOAT16,
    DTYPES,
    FLOATS,
    INEXACT_IN_TORCH,
    OPS_UNDER_TEST,
    TOLERANCE,
    call_torch,
    calls,
    differs_knowingly,
    evaluate,
    in_float64,
    is_close,
    is_identical,
    tensor_positions,
)

each_op = pytest.mark.parametrize("op", OPS_UNDER_TEST, ids=lambda op: op.schema.full_name.removeprefix("aten::"))

NARROWER_IN_TORCH = {
    "special_erfcx": "no halves",
    "special_ndtri": "no halves",
    "special_log_ndtr": "no halves",
    "special_zeta": "no halves",
    "hardtanh": "no uint8 with a negative bound",
    "threshold": "no bool",
    "clamp": "no bool with two tensors as bounds",
    "gelu_backward": "no gradient smaller than the result",
    "isclose": "no nan that is equal where a tensor is broadcast, in some versions",
}
"""Calls that torch refuses on a CPU and that have an obvious meaning."""
NARROWED_IN_TORCH = {"gelu_backward": 8e-3}
"""Relative error of torch's own result where dtypes are mixed: it rounds some arguments to the shorter one."""


def expected_or_none(op: Op, arguments: list[Any]) -> np.ndarray | None:
    try:
        return call_torch(op, arguments)
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def mismatches(op: Op, arguments: list[Any], actual: np.ndarray, expected: np.ndarray, dtype: Any) -> np.ndarray:
    """Where our result is not torch's; of a half neither torch's nor the exact one, rounded."""
    inexact = INEXACT_IN_TORCH.get(op.schema.base_name, 0.0)
    if dtype in FLOATS[2:]:
        close = is_identical(actual, expected) | is_close(actual, in_float64(op, arguments), inexact)
    else:
        close = is_close(actual, expected, inexact)
    return ~(close | differs_knowingly(op, arguments))


@each_op
def test_values_and_dtypes_are_torchs(op: Op) -> None:
    compared = 0
    for dtype in DTYPES:
        for arguments in calls(op, dtype):
            expected = expected_or_none(op, arguments)
            if expected is None:
                if op.schema.base_name not in NARROWER_IN_TORCH:
                    with pytest.raises((TypeError, ValueError, ZeroDivisionError)):
                        evaluate(op, arguments)
                continue
            actual = evaluate(op, arguments)
            assert type(actual) is np.ndarray
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
            wrong = mismatches(op, arguments, actual, expected, dtype)
            assert not wrong.any(), _describe(arguments, actual, expected, wrong)
            compared += 1
    assert compared


def _describe(arguments: list[Any], actual: np.ndarray, expected: np.ndarray, wrong: np.ndarray) -> str:
    place = tuple(np.argwhere(wrong)[0])
    elements = [np.broadcast_to(a, wrong.shape)[place] if isinstance(a, np.ndarray) else a for a in arguments]
    return f"{wrong.sum()} of {wrong.size}: {elements} gives {actual[place]!r}, torch says {expected[place]!r}"


@each_op
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_one_percent_off_does_not_pass(op: Op, dtype: Any) -> None:
    arguments = next(calls(op, dtype))
    expected = expected_or_none(op, arguments)
    if expected is None or expected.dtype.kind not in "fV":
        pytest.skip("torch gives no float here")
    if op.schema.base_name == "nextafter":
        pytest.skip("differs from its argument by less than that")
    with np.errstate(all="ignore"):
        actual = (in_float64(op, arguments) * 1.01).astype(expected.dtype)
        large_enough = np.abs(expected.astype(np.float64)) > 1e3 * TOLERANCE[expected.dtype.name][1]
    considered = np.isfinite(expected) & large_enough & ~np.asarray(differs_knowingly(op, arguments))
    wrong = mismatches(op, arguments, actual, expected, dtype)
    assert considered.any() and wrong[considered].all()


SMALL = np.array([1, 2, 1])


def mixtures(op: Op) -> Any:
    """Calls whose tensors differ in dtype and in whether they have dimensions, with numbers of three kinds."""
    positions = [i for i in tensor_positions(op) if op.schema.arguments[i].name not in op.scalar.conditions]
    numbers = [i for i, a in enumerate(op.schema.arguments) if strip_optional(a.type) == NUMBER]
    pairs = itertools.product(DTYPES, DTYPES) if len(positions) > 1 else zip(DTYPES, DTYPES, strict=True)
    ranks = [(1, 1), (1, 0), (0, 1), (0, 0)] if len(positions) > 1 else [(1, 1), (0, 0)]
    for dtypes, (first, second), number in itertools.product(pairs, ranks, [2, 1.5] if numbers else [None]):
        arguments = list(next(calls(op, FLOATS[0])))
        for i, argument in enumerate(op.schema.arguments):
            if argument.name in op.scalar.conditions:
                arguments[i] = np.array([True, False, True])
            elif i in positions:
                array = SMALL.astype(dtypes[i != positions[0]])
                arguments[i] = array if (second if i != positions[0] else first) else array[:1].reshape(())
            elif i in numbers:
                arguments[i] = number
        yield arguments


def argument_type(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return TensorType(dtype_of(value), value.ndim)
    return {type(None): NONE, str: STR, int: INT, float: FLOAT}.get(type(value), NUMBER)


@each_op
def test_promotion_is_torchs_and_the_type_rule_foresees_it(op: Op) -> None:
    for arguments in mixtures(op):
        expected = expected_or_none(op, arguments)
        if expected is None:
            continue
        actual = evaluate(op, arguments)
        described = [(a.dtype.name, a.ndim) if isinstance(a, np.ndarray) else a for a in arguments]
        assert actual.dtype == expected.dtype, described
        inexact = INEXACT_IN_TORCH.get(op.schema.base_name, 0.0)
        rounding = TOLERANCE[actual.dtype.name][0] if actual.dtype in FLOATS[2:] else 0.0
        if len({a.dtype for a in arguments if isinstance(a, np.ndarray)}) > 1:
            rounding += NARROWED_IN_TORCH.get(op.schema.base_name, 0.0)
        assert is_close(actual, expected, inexact + rounding).all(), described

        (known,) = op.result_types([argument_type(a) for a in arguments])
        assert known == TensorType(dtype_of(actual), actual.ndim), described


@each_op
def test_types_that_know_less_promise_no_more(op: Op) -> None:
    for arguments in itertools.islice(mixtures(op), 0, None, 7):
        if expected_or_none(op, arguments) is None:
            continue
        actual = evaluate(op, arguments)
        types = [argument_type(a) for a in arguments]
        no_ranks = [TensorType(t.dtype) if isinstance(t, TensorType) else t for t in types]
        no_tensors = [TensorType() if isinstance(t, TensorType) else t for t in types]
        no_numbers = [NUMBER if t in (INT, FLOAT) else t for t in types]
        for given in (no_ranks, no_tensors, no_numbers):
            (known,) = op.result_types(given)
            assert known.dtype in (None, dtype_of(actual)), given


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same six elements, or a part of them, in several layouts."""
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "transposed": array.T,
        "negative strides": array[::-1, ::-1],
        "expanded": np.broadcast_to(array[:1], array.shape),
        "every second": np.repeat(array, 2, axis=1)[:, ::2],
        "read-only": frozen,
        "empty": array[:0],
        "row": array[0],
        "0-d": array[:1, :1].reshape(()),
    }


@each_op
def test_layouts(op: Op) -> None:
    dtype = next(dtype for dtype in DTYPES if expected_or_none(op, next(calls(op, dtype))) is not None)
    base = np.array([[1, 2, 3], [2, 3, 1]]).astype(dtype)
    positions = tensor_positions(op)
    for name in layouts(base):
        arguments = list(next(calls(op, dtype)))
        for i in positions:
            is_condition = op.schema.arguments[i].name in op.scalar.conditions
            array = layouts(base > 1)[name] if is_condition else layouts(base)[name]
            only_0d = op.schema.full_name == "aten::masked_fill.Tensor" and i == positions[-1]
            arguments[i] = base[:1, :1].reshape(()) if only_0d else array
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        actual, expected = evaluate(op, arguments), call_torch(op, arguments)
        assert type(actual) is np.ndarray and actual.shape == expected.shape, name
        assert is_close(actual, expected).all(), name
        assert all(np.array_equal(b, a) for b, a in zip(before, arguments, strict=True) if b is not None), name


@each_op
def test_traits(op: Op) -> None:
    assert op.schema.arguments and op.scalar is not None
    if op.has(Trait.COMMUTATIVE):
        assert len(op.schema.arguments) == 2
        dtype = next(dtype for dtype in DTYPES if expected_or_none(op, next(calls(op, dtype))) is not None)
        left, right = next(calls(op, dtype))
        np.testing.assert_array_equal(evaluate(op, [left, right]), evaluate(op, [right, left]))
    gives_bool = op.result_types([TensorType()] * len(op.schema.arguments))[0].dtype is not None
    if gives_bool and "float_power" not in op.schema.name:
        assert op.has(Trait.NONDIFFERENTIABLE)


# --- what the loop above cannot see ---


def run(name: str, *arguments: Any) -> np.ndarray:
    return evaluate(OPS.named(f"aten::{name}"), list(arguments))


@pytest.mark.parametrize("name", ["floor_divide", "remainder.Tensor", "fmod.Tensor"])
def test_integers_divided_by_zero(name: str) -> None:
    with pytest.raises(ZeroDivisionError):
        run(name, np.array([1, 2]), np.array([1, 0]))
    with pytest.raises(ZeroDivisionError):
        run("div.Tensor_mode", np.array([1]), np.array([0]), "trunc")


def test_large_integers_stay_exact() -> None:
    big = np.array([2**62 + 1])
    assert run("add.Tensor", big, np.array([1]), 1)[0] == 2**62 + 2
    assert run("mul.Tensor", np.array([2**31 + 1]), np.array([2**31 - 1]))[0] == 2**62 - 1


def test_integers_wrap_around() -> None:
    np.testing.assert_array_equal(run("add.Scalar", np.array([200], np.uint8), 100, 1), np.array([44], np.uint8))


def test_halves_are_rounded_once() -> None:
    x, y = np.array([2048], np.float16), np.array([1], np.float16)
    assert (
        run("add.Tensor", x, y, 1.5)[0] == 2050
    )  # 2049.5 in float32; 1.5 * y, then the sum, in float16 gives 2050 too
    assert run("addcmul", x, np.array([0.5], np.float16), np.array([3.0], np.float16), 1)[0] == 2050
    third = np.array([1 / 3]).astype(BFLOAT16)
    exact = third.astype(np.float32) * third.astype(np.float32) + third.astype(np.float32)
    assert run("addcmul", third, third, third, 1)[0] == exact.astype(BFLOAT16)[0]


def test_python_numbers_stand_in_for_tensors() -> None:
    result = run("div.Tensor", 1.0, np.array([2, 4], np.float32))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [0.5, 0.25])


def test_a_number_does_not_widen_a_narrow_array() -> None:
    assert run("mul.Scalar", np.ones(2, np.float32), 1e300).dtype == np.float32
    assert run("where.Scalar", np.array([True]), 1, 2).dtype == np.int64
    assert run("where.Scalar", np.array([True]), 1, 2.0).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sub.Tensor", (np.array([True]), np.array([True]), 1)),
        ("sub.Tensor", (np.array([True]), np.array([1.0]), 1)),
        ("add.Tensor", (np.array([1]), np.array([1]), 1.5)),
        ("leaky_relu", (np.array([1]), 0.1)),
        ("bitwise_and.Tensor", (np.array([1.0]), np.array([1.0]))),
        ("lerp.Tensor", (np.array([1.0]), np.array([1.0], np.float32), np.array([1.0]))),
    ],
)
def test_dtypes_that_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        run(name, *arguments)


def test_values_that_are_refused() -> None:
    x = np.ones(2)
    for name, arguments in {
        "clamp": (x, None, None),
        "gelu": (x, "tan"),
        "div.Tensor_mode": (x, x, "up"),
        "polygamma": (-1, x),
        "masked_fill.Tensor": (x, x > 0, x),
        "prelu": (np.ones((2, 3)), x),
    }.items():
        with pytest.raises(ValueError, match=r"\S"):
            run(name, *arguments)


def test_prelu_has_a_weight_per_channel() -> None:
    x = np.array([[[-1.0, 2.0], [-3.0, 4.0]]])
    for weight in (np.array([0.5, 0.25]), np.array([0.5]), np.array(0.5)):
        np.testing.assert_array_equal(run("prelu", x, weight), call_torch(OPS.named("aten::prelu"), [x, weight]))


def test_one_primitive_is_called_at_once() -> None:
    for name in ("mul.Tensor", "add.Tensor", "sub.Scalar", "exp", "tanh", "lt.Tensor", "maximum", "div.Tensor"):
        assert OPS.named(f"aten::{name}").evaluate.__name__ == "shortcut"


def test_aliases() -> None:
    for alias, name in {
        "multiply": "mul",
        "special_expit": "sigmoid",
        "__and__": "bitwise_and",
        "clip": "clamp",
    }.items():
        assert {op.schema.base_name for op in OPS.overloads(alias) if op.scalar} == {name}
