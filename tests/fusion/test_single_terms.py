"""Sums of a number among zeros are that number, or 0 where it stands outside of the row."""

from __future__ import annotations

import numpy as np
import pytest
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Kernel, Reduce
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.printer import print_kernel
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.compiler.scheduling.one_hot import pick_single_terms

TEXT = """kernel picked(%t : int64[5] in, %x : float32[5] in, %y : float32[5, 7] in, %result : float32[5] out)
  axes i < 5 parallel, j < 7 reduction
  %p : int64 [j] = position j
  %t : int64 [i] = load %t[i]
  %hit : bool [i, j] = eq(%p, %t)
  %x : float32 [i] = load %x[i]
  %g : float32 [i, j] = where(%hit, %x, 0)
  %s : float32 [i] = reduce sum %g over j
  store %result[i], %s
"""
PICKED = """kernel picked(%t : int64[5] in, %x : float32[5] in, %y : float32[5, 7] in, %result : float32[5] out)
  axes i < 5 parallel, j < 7 reduction
  %t : int64 [i] = load %t[i]
  %x : float32 [i] = load %x[i]
  %v0 : bool [i] = ge(%t, 0)
  %v1 : bool [i] = lt(%t, 7)
  %t_inside : bool [i] = and(%v0, %v1)
  %s : float32 [i] = where(%t_inside, %x, 0)
  store %result[i], %s
"""
INPUTS = {
    "t": np.array([0, 6, -100, 7, 3]),
    "x": np.array([1.5, -2.25, 8, 9, np.inf], np.float32),
    "y": np.arange(35, dtype=np.float32).reshape(5, 7),
}


def kernel_of(text: str) -> Kernel:
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    return kernel


def result_of(kernel: Kernel) -> np.ndarray:
    return np.asarray(run_kernel(kernel, INPUTS, {})["result"])


def test_a_number_among_zeros_is_its_sum() -> None:
    kernel = kernel_of(TEXT)
    picked = pick_single_terms(kernel)
    verify_kernel(picked)
    assert print_kernel(picked) == PICKED
    np.testing.assert_array_equal(result_of(picked), [1.5, -2.25, 0, 0, np.inf])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("eq(%p, %t)", "eq(%t, %p)"),
        (
            "%s : float32 [i] = reduce sum %g",
            "%h : bfloat16 [i, j] = cast %g\n  %w : float32 [i, j] = cast %h\n  %s : float32 [i] = reduce sum %w",
        ),
    ],
    ids=["operands exchanged", "rounded on the way"],
)
def test_spellings_of_it_are_known(old: str, new: str) -> None:
    kernel = kernel_of(TEXT.replace(old, new))
    picked = pick_single_terms(kernel)
    verify_kernel(picked)
    assert not any(isinstance(s, Reduce) for s in picked.body)
    np.testing.assert_array_equal(result_of(picked), result_of(kernel))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reduce sum", "reduce max"),
        ("where(%hit, %x, 0)", "where(%hit, %x, 1)"),
        ("%x : float32 [i] = load %x[i]", "%x : float32 [i, j] = load %y[7*i + j]"),
        ("position j", "position 2*j"),
        ("eq(%p, %t)", "lt(%p, %t)"),
    ],
    ids=["a maximum", "among ones", "numbers of columns", "every other position", "several positions"],
)
def test_other_reductions_stay(old: str, new: str) -> None:
    kernel = kernel_of(TEXT.replace(old, new))
    assert pick_single_terms(kernel) == kernel


SCALED = TEXT.replace(
    "%s : float32 [i] = reduce sum %g over j",
    "%h : float32 [i, j] = mul(%g, -0.5)\n  %n : float32 [i, j] = neg(%h)\n  %s : float32 [i] = reduce sum %n over j",
)


def test_numbers_that_are_scaled_are_so_once() -> None:
    kernel = kernel_of(SCALED)
    found = pick_single_terms(kernel)
    verify_kernel(found)
    assert not any(isinstance(statement, Reduce) for statement in found.body)
    np.testing.assert_array_equal(run_kernel(found, INPUTS)["result"], run_kernel(kernel, INPUTS)["result"])


@pytest.mark.parametrize("factor", ["inf", "nan", "%x"])
def test_zeros_that_are_none_once_they_are_scaled_are_summed(factor: str) -> None:
    kernel = kernel_of(SCALED.replace("-0.5", factor))
    assert any(isinstance(statement, Reduce) for statement in pick_single_terms(kernel).body)


def test_one_number_of_all_rows_is_scaled_once() -> None:
    """It varies along no axis, and nor does what is made of it."""
    one = SCALED.replace("%x : float32 [i] = load %x[i]", "%x : float32 [] = load %x[0]")
    picked = pick_single_terms(kernel_of(one))
    verify_kernel(picked)
    assert not any(isinstance(statement, Reduce) for statement in picked.body)
    np.testing.assert_array_equal(result_of(picked), result_of(kernel_of(one)))
