"""Every formula of ops on whole arrays against torch eager: value, first and second derivative.

Products, solvers, shapes, indexing, conversions, convolution, pooling, attention. Each op's own samples are taken in
several memory layouts; a sample in which an argument's gradient is not zero proves that a wrong one would be seen.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from agreement import EPSILON, ROUNDINGS, losses_of_digits
from amounts import some_of
from gradscript.compiler.formulas.library import compile_formula, formula_name, formula_names
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.types import dtypes
from gradscript.stdlib_grads import formula_files
from samples import array_cases as cases
from samples.array_calls import module_of
from samples.array_derivatives import Derivatives, differentiated, is_float, ours, reference
from samples.arrays import LAYOUTS

OPS_BY_NAME: dict[str, Op] = {cases.op_key(op): op for op in cases.differentiable_ops()}
NAMES = sorted(OPS_BY_NAME)
RTOL, ATOL = 1e-7, 1e-9
"""For float64; second derivatives of solvers lose half of its digits to conditioning."""
OTHER_LAYOUTS = ("transposed", "reversed", "strided", "expanded")
NARROWING = {"_autocast_to_reduced_precision"}
"""Ops whose result has fewer digits than their argument."""
MORE_ROUNDINGS = {
    "scaled_dot_product_attention": 32,
    "einsum_adjoint": 16,
    "interpolate": 16,
    "interpolate_adjoint": 16,
}
"""Scores as large as 10 lose ten roundings before they are exponentiated; sums cancel; positions are rounded too."""


def _arguments(op: Op, number: int, dtype: dtypes.DType, layout: str) -> list[Any]:
    name = cases.op_key(op)
    return cases.calls(op)[number].arguments(op, dtype, zlib.crc32(f"{name}{number}".encode()), LAYOUTS[layout])


def _wrt(op: Op, arguments: Sequence[Any]) -> list[int]:
    return differentiated(op, arguments, cases.FIXED.get(cases.op_key(op), frozenset()))


@cache
def _both(name: str, number: int, layout: str) -> tuple[Derivatives, Derivatives] | None:
    """Our derivatives and torch's; None for a call without a gradient."""
    op = OPS_BY_NAME[name]
    arguments = _arguments(op, number, dtypes.FLOAT64, layout)
    wrt = _wrt(op, arguments)
    if not wrt or not any(is_float(o) for o in _outputs(op, arguments)):
        return None
    squared = name in cases.SIGN_FREE
    mine, weights, cotangents = ours(op, arguments, wrt, np.random.default_rng(number), squared)
    theirs = reference(op, arguments, wrt, weights, cotangents, cases.reference_call(op), squared)
    return mine, theirs


def _outputs(op: Op, arguments: Sequence[Any]) -> list[Any]:
    result = op.evaluate(*arguments)
    return list(result) if isinstance(result, list | tuple) else [result]


def _assert_close(mine: Sequence[Any], theirs: Sequence[Any]) -> None:
    floats = [value for value in mine if is_float(value)]
    expected = [value for value in theirs if is_float(value)]
    assert len(floats) == len(expected)
    for ours_, torchs in zip(floats, expected, strict=True):
        assert ours_.shape == torchs.shape
        assert ours_.dtype == torchs.dtype
        rtol = RTOL if ours_.dtype == np.float64 else 2e-2
        np.testing.assert_allclose(
            ours_.astype(np.float64), torchs.astype(np.float64), rtol=rtol, atol=max(ATOL, 1e-2 * (rtol - RTOL))
        )


def _layouts(name: str) -> tuple[str, ...]:
    return tuple(layout for layout in OTHER_LAYOUTS if layout != "expanded" or name not in cases.RIGID_OPS)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_match_torch(name: str) -> None:
    numbers = range(len(cases.calls(OPS_BY_NAME[name])))
    layouts = _layouts(name)
    runs = [(n, "contiguous") for n in numbers] + [(n, layouts[n % len(layouts)]) for n in numbers]
    runs += [(0, layout) for layout in layouts if (0, layout) not in runs]
    found = [_both(name, number, layout) for number, layout in [runs[0], *some_of(runs[1:])]]
    assert any(found), f"no sample of {name} has a gradient"
    for pair in found:
        if pair is not None:
            mine, theirs = pair
            if name not in cases.SIGN_FREE:
                _assert_close(mine.values, theirs.values)
            _assert_close(mine.first, theirs.first)
            _assert_close(mine.second, theirs.second)


ZERO_GRADIENTS = {
    "copy": ("self",),
    "fill.Scalar": ("self",),
    "fill.Tensor": ("self",),
    "view_as": ("other",),
    "reshape_as": ("other",),
    "expand_as": ("other",),
    "_expand_into": ("other",),
    "to.other": ("other",),
    "type_as": ("other",),
    "max_pool2d_with_indices_backward": ("self",),
    "avg_pool2d_backward": ("self",),
    "_adaptive_avg_pool2d_backward": ("self",),
    "_adaptive_avg_pool3d_backward": ("self",),
}
"""Arguments of which only the size or the dtype matters."""


@pytest.mark.parametrize("name", some_of(NAMES))
def test_an_error_of_one_percent_would_be_seen(name: str) -> None:
    """Every gradient that a formula gives is nonzero in some sample, and fails when multiplied by 1.01."""
    op = OPS_BY_NAME[name]
    seen: set[int] = set()
    wanted: set[int] = set()
    for number in range(len(cases.calls(op))):
        pair = _both(name, number, "contiguous")
        if pair is None:
            continue
        arguments = _arguments(op, number, dtypes.FLOAT64, "contiguous")
        wrt = _wrt(op, arguments)
        positions = [i for i in wrt for leaf in _leaves(arguments[i]) if is_float(leaf)]
        mine, theirs = pair
        wanted |= set(positions)
        for i, gradient, expected in zip(positions, mine.first, theirs.first, strict=True):
            if _fails(gradient.astype(np.float64) * 1.01, expected):
                seen.add(i)
    without = {i for i in wanted if op.schema.arguments[i].name in ZERO_GRADIENTS.get(name, ())}
    assert seen == wanted - without, f"{name}: {[op.schema.arguments[i].name for i in wanted - without - seen]}"


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]


def _fails(wrong: Any, expected: Any) -> bool:
    try:
        np.testing.assert_allclose(wrong, np.asarray(expected, np.float64), rtol=RTOL, atol=ATOL)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_one_gradient_alone_is_the_same(name: str) -> None:
    op = OPS_BY_NAME[name]
    arguments = _arguments(op, 0, dtypes.FLOAT64, "contiguous")
    wrt = _wrt(op, arguments)
    squared = name in cases.SIGN_FREE
    if len(wrt) > 1:
        together = ours(op, arguments, wrt, np.random.default_rng(0), squared, order=1)[0].first
        alone = [ours(op, arguments, [i], np.random.default_rng(0), squared, order=1)[0].first for i in wrt]
        for one, expected in zip([g for found in alone for g in found], together, strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", some_of(NAMES))
def test_shorter_floats_are_as_exact_as_their_digits(name: str) -> None:
    """Value and first derivative: the first call in each float, the others in one."""
    op = OPS_BY_NAME[name]
    squared = name in cases.SIGN_FREE

    def run(arguments: list[Any]) -> list[Any]:
        found, _, _ = ours(op, arguments, _wrt(op, arguments), np.random.default_rng(0), squared, order=1)
        return [*([] if squared else found.values), *found.first]

    numbers, floats = range(len(cases.calls(op))), [*EPSILON]
    for number, dtype in [*((0, dtype) for dtype in floats), *((n, floats[n % len(floats)]) for n in numbers[1:])]:
        short = _arguments(op, number, dtype, "contiguous")
        decomposes = dtype.is_half and module_of(op) == "linalg.solvers"
        if decomposes or name in NARROWING or not _wrt(op, short) or not _takes(op, short):
            continue
        lost = losses_of_digits(run, short, dtype, MORE_ROUNDINGS.get(name, ROUNDINGS))
        assert not lost, f"{name}, call {number}: {lost}"


def _takes(op: Op, arguments: Sequence[Any]) -> bool:
    """Whether the op takes this dtype and gives something floating."""
    try:
        return any(is_float(output) for output in _outputs(op, arguments))
    except RuntimeError:
        return False


# --- completeness ---


def test_every_differentiable_op_has_a_formula() -> None:
    missing = [name for name, op in OPS_BY_NAME.items() if formula_name(op.schema) is None]
    assert not missing, f"write formulas for {missing}"


def _own_functions() -> list[str]:
    """The functions of FILES, formulas and helpers."""
    own = "\n".join(formula_files()[f"{file}.grad"] for file in cases.FILES)
    return [name for name in formula_names() if f"\ndef {name}(" in own]


def test_every_function_is_a_formula_or_is_called() -> None:
    formulas = {formula_name(op.schema) for op in OPS.all()}
    everything = "\n".join(formula_files().values())
    for name in _own_functions():
        # What derived texts have in place of a formula is named after it.
        is_formula = name.removeprefix("filled_") in formulas
        assert is_formula or everything.count(f"{name}(") > 1, f"{name} is the formula of no op"


@pytest.mark.parametrize("name", _own_functions())
def test_compiles(name: str) -> None:
    assert compile_formula(name).graph.outputs


# --- where torch has no derivative, or another ---


def _unit(text: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(text)


def test_det_of_a_singular_matrix_has_a_gradient() -> None:
    unit = _unit("def det(x):\n    return torch.det(x)\n")
    x = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, 1.0, -1.0]])
    # The rows of the cofactor matrix are cross products of the other two rows.
    cofactors = [np.cross(x[1], x[2]), np.cross(x[2], x[0]), np.cross(x[0], x[1])]
    np.testing.assert_allclose(gs.grad(unit.det)(x), cofactors, atol=1e-12)


def test_embedding_scales_its_gradient_by_frequency() -> None:
    unit = _unit("def f(w, i, g):\n    return (torch.embedding(w, i, 2, True) * g).sum()\n")
    weight, index, g = np.ones((4, 2)), np.array([0, 1, 1, 2, 2]), np.arange(10.0).reshape(5, 2)
    leaf = torch.from_numpy(weight).requires_grad_()
    looked_up = torch.embedding(leaf, torch.from_numpy(index), 2, True)
    (expected,) = torch.autograd.grad((looked_up * torch.from_numpy(g)).sum(), leaf)
    np.testing.assert_allclose(gs.grad(unit.f)(weight, index, g), expected)


def test_a_source_larger_than_its_index_gets_zeros_where_it_was_not_read() -> None:
    unit = _unit("def f(x, index, src, g):\n    return (x.scatter_add(0, index, src) * g).sum()\n")
    index = np.array([[0, 1], [2, 2]])
    g = np.arange(9.0).reshape(3, 3)
    grad = gs.grad(unit.f, argnums=2)(np.zeros((3, 3)), index, np.zeros((4, 3)), g)
    np.testing.assert_array_equal(grad, [[0, 4, 0], [6, 7, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(("mode", "rows"), [("r", 3), ("complete", 4)])
def test_qr_modes_without_a_gradient_say_so(mode: str, rows: int) -> None:
    unit = _unit(f'def f(x):\n    return torch.linalg.qr(x, "{mode}")[1].sum()\n')
    with pytest.raises(gs.RuntimeFailure, match="linalg"):
        gs.grad(unit.f)(np.eye(rows, 3))


def test_equal_eigenvalues_leave_a_finite_gradient() -> None:
    unit = _unit("def f(x):\n    return torch.linalg.eigvalsh(x).sum() + torch.linalg.svd(x)[1].sum()\n")
    np.testing.assert_allclose(gs.grad(unit.f)(np.eye(3)), 2 * np.eye(3), atol=1e-12)
