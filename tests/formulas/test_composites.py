"""Every op that is written in the language against torch: value and two derivatives, in every float and layout.

Nothing here is per op: the ops come from the registry, their calls from composite_cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from agreement import EPSILON, ROUNDINGS, differences, losses_of_digits
from amounts import some_of
from composite_references import DEFINITIONS, NOT_DIFFERENTIATED_IN_TORCH, torch_function
from gradscript.compiler.ops import Op, Trait
from gradscript.compiler.types.dtypes import FLOAT64, DType
from gradscript.compiler.types.types import OptionalType, is_tensor, strip_optional
from samples.array_derivatives import (
    Derivatives,
    differentiated,
    flat,
    is_float,
    op_function,
    ours,
    reference,
    skipped_where_torch_has_none,
)
from samples.arrays import LAYOUTS, Call, Leaf, to_numpy, to_torch
from samples.composites import CASES, DECOMPOSING, FIXED, FLAT, MORE_ROUNDINGS, RIGID, composites

OPS_BY_NAME = composites()
DIFFERENTIABLE = [name for name, op in OPS_BY_NAME.items() if not op.has(Trait.NONDIFFERENTIABLE)]
RTOL, ATOL = 1e-8, 1e-9


def _arguments(name: str, number: int, dtype: DType = FLOAT64, layout: str = "contiguous") -> list[Any]:
    seed = zlib.crc32(f"{name}{number}".encode())
    return CASES[name][number].arguments(OPS_BY_NAME[name], dtype, seed, LAYOUTS[layout])


def _wrt(op: Op, arguments: Sequence[Any]) -> list[int]:
    return differentiated(op, arguments, FIXED.get(_key(op), frozenset()))


def _key(op: Op) -> str:
    return op.schema.full_name.partition("::")[2]


def _draw() -> np.random.Generator:
    return np.random.default_rng(7)


def _both(name: str, arguments: Sequence[Any]) -> tuple[Derivatives, Derivatives]:
    """Ours and torch's; the second derivatives are those of the definition where torch has none of them."""
    op = OPS_BY_NAME[name]
    wrt = _wrt(op, arguments)
    found, weights, cotangents = ours(op, arguments, wrt, _draw(), False)
    definition = DEFINITIONS.get(name)
    if definition is None:
        with skipped_where_torch_has_none():
            return found, reference(op, arguments, wrt, weights, cotangents, torch_function(op))
    expected = reference(op, arguments, wrt, weights, cotangents, definition)
    if name not in NOT_DIFFERENTIATED_IN_TORCH:
        own = reference(op, arguments, wrt, weights, [], torch_function(op))
        expected = replace(own, second=expected.second)
    return found, expected


def _layouts(name: str) -> list[str]:
    return [layout for layout in LAYOUTS if layout != "expanded" or name not in RIGID]


def test_every_composite_has_calls() -> None:
    assert set(CASES) == set(OPS_BY_NAME)


@pytest.mark.parametrize("name", OPS_BY_NAME)
def test_every_optional_tensor_is_given_and_left_out(name: str) -> None:
    op = OPS_BY_NAME[name]
    for i, argument in enumerate(op.schema.arguments):
        if isinstance(argument.type, OptionalType) and is_tensor(strip_optional(argument.type)):
            given = {_given(call, i, argument.name) for call in CASES[name]}
            assert given == {True, False}, f"{argument.name} of {name}"


def _given(call: Call, position: int, name: str) -> bool:
    value = call.args[position] if position < len(call.args) else call.kwargs.get(name)
    return isinstance(value, Leaf)


@pytest.mark.parametrize("name", [name for name in OPS_BY_NAME if name not in DIFFERENTIABLE])
def test_value_is_that_of_torch(name: str) -> None:
    op = OPS_BY_NAME[name]
    for number in range(len(CASES[name])):
        for layout in LAYOUTS:
            arguments = _arguments(name, number, layout=layout)
            expected = torch_function(op)(*map(to_torch, arguments))
            np.testing.assert_equal(flat([op.evaluate(*arguments)]), flat([to_numpy(expected)]))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_those_of_torch(name: str) -> None:
    """Read-only arrays in every layout: the first call in each, the others in one beside the contiguous."""
    layouts = _layouts(name)
    runs = [(i, "contiguous") for i in range(len(CASES[name]))]
    runs += [(0, layout) for layout in layouts[1:]]
    runs += [(i, layouts[1 + i % (len(layouts) - 1)]) for i in range(1, len(CASES[name]))]
    for number, layout in [runs[0], *some_of(runs[1:])]:
        found, expected = _both(name, _arguments(name, number, layout=layout))
        where = f"{name}, call {number}, {layout}"
        assert not differences(found.values, expected.values, RTOL, ATOL), f"value of {where}"
        assert not differences(found.first, expected.first, RTOL, ATOL), f"first derivative of {where}"
        assert not differences(found.second, expected.second, RTOL, ATOL), f"second derivative of {where}"


@pytest.mark.parametrize("name", some_of(DIFFERENTIABLE))
def test_one_percent_more_is_noticed(name: str) -> None:
    """In some call, torch's gradient of each argument, made 1 % larger, is not ours."""
    op = OPS_BY_NAME[name]
    noticed: dict[int, bool] = {}
    for number in range(len(CASES[name])):
        arguments = _arguments(name, number)
        found, expected = _both(name, arguments)
        pairs = iter(zip(found.first, expected.first, strict=True))
        for position in _wrt(op, arguments):
            for _ in filter(is_float, flat(arguments[position])):
                mine, theirs = next(pairs)
                wrong = bool(differences([mine], [theirs * 1.01], RTOL, ATOL))
                noticed[position] = noticed.get(position, False) or wrong
    assert noticed
    assert {position for position, wrong in noticed.items() if not wrong} == FLAT.get(name, frozenset())


@pytest.mark.parametrize("name", some_of(DIFFERENTIABLE))
def test_shorter_floats_are_as_exact_as_their_digits(name: str) -> None:
    """Value and first derivative of every call; where a decomposition has no halves, the op says so."""
    op = OPS_BY_NAME[name]

    def run(arguments: list[Any]) -> list[Any]:
        found, _, _ = ours(op, arguments, _wrt(op, arguments), _draw(), False, 1)
        return [*filter(is_float, found.values), *found.first]

    for number in range(len(CASES[name])):
        for dtype in EPSILON:
            arguments = _arguments(name, number, dtype)
            if dtype.is_half and name in DECOMPOSING and _is_refused(op, arguments):
                continue
            lost = losses_of_digits(run, arguments, dtype, MORE_ROUNDINGS.get(name, ROUNDINGS))
            assert not lost, f"{name}, call {number}"


def _is_refused(op: Op, arguments: Sequence[Any]) -> bool:
    try:
        op.evaluate(*arguments)
    except RuntimeError as error:
        return "expected float32 or float64" in str(error)
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_results_have_the_dtype_of_torch(name: str) -> None:
    op = OPS_BY_NAME[name]
    for dtype in EPSILON:
        arguments = _arguments(name, 0, dtype)
        try:
            expected = flat(to_numpy(torch_function(op)(*map(to_torch, arguments))))
        except RuntimeError:
            continue  # torch has no kernel for this dtype
        found = op_function(op)(*arguments)
        found = flat(list(found) if isinstance(found, tuple) else found)
        assert [value.dtype for value in found] == [value.dtype for value in expected]


def _several() -> list[str]:
    return [name for name in DIFFERENTIABLE if len(_wrt(OPS_BY_NAME[name], _arguments(name, 0))) > 1]


@pytest.mark.parametrize("name", _several())
def test_a_gradient_does_not_depend_on_which_others_are_asked_for(name: str) -> None:
    op = OPS_BY_NAME[name]
    arguments = _arguments(name, 0)
    wrt = _wrt(op, arguments)
    together, _, _ = ours(op, arguments, wrt, _draw(), False, 1)
    # Of a list there is one for each tensor.
    found = [gradient for position in wrt for gradient in ours(op, arguments, [position], _draw(), False, 1)[0].first]
    for alone, expected in zip(found, together.first, strict=True):
        np.testing.assert_array_equal(alone, expected)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
