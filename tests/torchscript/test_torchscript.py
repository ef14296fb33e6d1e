"""TorchScript's symbolic gradients, read from the installed torch, compile as they stand and give eager's."""

from __future__ import annotations

import os
import warnings
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of, whole_only
from samples.arrays import to_numpy
from torchscript_blocks import blocks, definitions, helper_names, pair_names
from torchscript_differences import DIFFERENCES, PARTLY, Difference
from torchscript_runs import EAGER_INEXACT, NO_SECOND, agree, differences, function, run, units
from torchscript_samples import SAMPLES
from torchscript_table import PAGE, outcomes, page, runs

PAIRS, HELPERS = pair_names(), helper_names()


# --- compiling ---


def test_torch_carries_128_pairs_and_27_helpers() -> None:
    assert (len(PAIRS), len(HELPERS)) == (128, 27)
    assert all(name.startswith("AD_") for name in HELPERS)


@pytest.mark.parametrize("number", range(len(blocks())))
def test_a_block_compiles_as_it_stands(number: int) -> None:
    gs.CompilationUnit(blocks()[number])


@pytest.mark.parametrize("name", definitions())
def test_a_function_is_lifted_if_it_returns_a_closure(name: str) -> None:
    assert (function(name).pair is not None) == (name in PAIRS)


@pytest.mark.parametrize("number", range(len(blocks())))
def test_a_printed_block_prints_as_itself(number: int) -> None:
    code = units()[number].code
    assert gs.CompilationUnit(code).code == code


@pytest.mark.parametrize("name", PAIRS)
def test_a_printed_pair_prints_as_itself(name: str) -> None:
    pair = function(name).pair
    assert pair is not None
    assert gs.CompilationUnit(pair.code).code == pair.code


# --- running ---


def test_every_pair_has_samples() -> None:
    assert set(SAMPLES) == set(PAIRS)
    assert set(EAGER_INEXACT) | set(NO_SECOND) | set(PARTLY) | {d.function for d in DIFFERENCES} <= set(PAIRS)


@pytest.mark.parametrize("name", some_of(PAIRS))
def test_outputs_and_gradients_are_those_of_eager(name: str) -> None:
    assert not any(outcomes(name)), "\n".join(words for sample in outcomes(name) for words in sample)


@pytest.mark.parametrize("name", some_of(PAIRS))
def test_an_error_of_one_percent_would_be_seen(name: str) -> None:
    gradients = [g for found in runs(name) for g in found.eager_gradients if g is not None and g.dtype.itemsize >= 4]
    seen = [g for g in gradients if not agree(g * 1.01, g, g.dtype.itemsize)]
    assert seen or not any(map(np.any, gradients))


def test_dropout_by_a_mask_that_torch_drew() -> None:
    x, g = torch.arange(1.0, 13.0).double().requires_grad_(), np.linspace(-1, 1, 12)
    out, mask = torch.native_dropout(x, 0.5, True)
    (expected,) = torch.autograd.grad(out, x, torch.from_numpy(g))
    dropout = function("dropout")
    _, context = dropout.forward(x.detach().numpy(), 0.0, True)
    assert dropout.pair is not None
    drawn = {"mask": to_numpy(mask), "scale": 1 / (1 - 0.5)}
    context = tuple(drawn[captured.name] for captured in dropout.pair.context)
    np.testing.assert_allclose(dropout.backward(context, g)[0], to_numpy(expected))


def _placed(shape: list[int], where: Any, grad: np.ndarray) -> np.ndarray:
    result = np.zeros(shape, grad.dtype)
    result[where] = grad
    return result


def test_helpers_that_no_pair_calls() -> None:
    g = np.arange(1.0, 4.0)
    select, sliced = function("AD_select_backward"), function("AD_slice_backward")
    np.testing.assert_array_equal(select(g, [2, 3], 0, 1), _placed([2, 3], 1, g))
    np.testing.assert_array_equal(sliced(g, [7], 0, 1, 6, 2), _placed([7], slice(1, 6, 2), g))
    by_index, infer = function("AD_index_select_backward"), function("AD_infer_size")
    np.testing.assert_array_equal(
        by_index(g, 1, np.array([0, 2, 1]), [3, 4], False), _placed([3, 4], (np.arange(3), [0, 2, 1]), g)
    )
    assert infer([3, 1], [1, 4]) == [3, 4]


# --- differing ---


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.script)
@pytest.mark.filterwarnings("ignore")
def test_where_ours_is_not_eagers_it_is_torchscripts(difference: Difference) -> None:
    found = run(difference.function, difference.sample, ones=True, fails=True)
    theirs = _by_torchscript(difference, found.arguments)
    if theirs is None:
        assert not found.by_vjp
        return
    assert differences(found)
    ours = [g for g, e in zip(found.by_vjp, found.eager_gradients, strict=True) if e is not None]
    assert len(ours) == len(theirs)
    assert all(agree(mine, other) for mine, other in zip(ours, theirs, strict=True)), (ours, theirs)


def _by_torchscript(difference: Difference, arguments: list[Any]) -> list[Any] | None:
    """The gradients of TorchScript's own engine; None if it fails. It takes its formulas once it has seen the call."""
    names = [argument.name for argument in function(difference.function).schema.arguments]
    arrays: dict[str, np.ndarray] = {}
    for name, value in zip(names, arguments, strict=True):
        items = {f"{name}{i}": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}
        arrays |= {n: v for n, v in items.items() if isinstance(v, np.ndarray)}
    unit = torch.jit.CompilationUnit(f"def f({', '.join(arrays)}):\n    return {difference.script} * 1.0\n")
    torch._C._debug_set_autodiff_subgraph_inlining(False)
    try:
        for _ in range(4):
            leaves = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays.values()]
            out = unit.f(*leaves)
            grads = torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)
    except RuntimeError:
        return None
    finally:
        torch._C._debug_set_autodiff_subgraph_inlining(True)
    return [None if g is None else to_numpy(g) for g in grads]


# --- the page ---


@whole_only
def test_the_page_is_up_to_date() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = page()
    if os.environ.get("REWRITE_GOLDENS"):
        PAGE.write_text(expected, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected, "run `make torchscript`"
