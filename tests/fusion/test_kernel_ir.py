"""Kernel IR: the arithmetic of indices, the text, and what the verifier refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradscript.compiler.kernel_ir.index import Index, axis, constant, value
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Kernel, Load, Operand
from gradscript.compiler.kernel_ir.parser import KernelSyntaxError, parse_kernel
from gradscript.compiler.kernel_ir.printer import print_kernel
from gradscript.compiler.kernel_ir.statements import with_operands
from gradscript.compiler.kernel_ir.verifier import InvalidKernel, verify_kernel
from gradscript.compiler.types.dtypes import BOOL, FLOAT16, FLOAT32, INT64
from gradscript.lang.light_dataclasses import replace
from hypothesis import given
from hypothesis import strategies as st

SIZES = {"i": 5, "j": 4, "k": 3}
SOFTMAX = """kernel softmax(%x : float32[256, 1000] in, %result : float32[256, 1000] out)
  axes i < 256 parallel, j < 1000 reduction
  %x : float32 [i, j] = load %x[1000*i + j]
  %m : float32 [i] = reduce max %x over j
  %1 : float32 [i, j] = sub(%x, %m)
  %e : float32 [i, j] = exp(%1)
  %s : float32 [i] = reduce sum %e over j
  %y : float32 [i, j] = div(%e, %s)
  store %result[1000*i + j], %y
""".replace("%1", "%d")
OTHERS = """kernel others(%x : float32[4, 6; 1, 4] in, %t : int64[4] in, %out : float16[4] out, %lr : float64)
  axes i < 4 parallel dynamic
  %t : int64 [i] = load %t[i]
  %p : int64 [i] = position 2*i + (i + 1)//2 + (3*i + 5)%4 - 3
  %x : float32 [i] = load %x[i + 4*%t] where 0 <= i - 1 < 3, 0 <= %t < 6 else -inf
  %u : float32 [i] = uniform 7 at 3*i
  %c : float32 [] = cast %lr
  %b : bool [i] = lt(%x, 1e-05)
  %w : float32 [i] = where(%b, %u, inf)
  %y : float32 [i] = mul(%w, %c)
  store %out[i], %y where 0 <= i < 4
"""


def evaluate(index: Index, point: dict[str, int]) -> int:
    """By a kernel of one point for each combination of positions, so by another road than simplification."""
    replaced = index.substitute(lambda atom: constant(point[atom.name]) if hasattr(atom, "name") else None, SIZES)
    assert not replaced.terms
    return replaced.constant


@st.composite
def affine(draw: st.DrawFn) -> tuple[Index, dict[str, int], int]:
    terms = {name: draw(st.integers(-12, 12)) for name in SIZES}
    offset = draw(st.integers(-20, 20))
    index = constant(offset)
    for name, coefficient in terms.items():
        index += axis(name) * coefficient
    return index, terms, offset


@given(affine(), st.integers(1, 12), st.integers(1, 6))
def test_quotients_and_remainders(made: tuple[Index, dict[str, int], int], divisor: int, second: int) -> None:
    index, terms, offset = made
    quotient, remainder = index.divided(divisor, SIZES), index.modulo(divisor, SIZES)
    twice = quotient.divided(second, SIZES)
    for i in range(SIZES["i"]):
        for j in range(SIZES["j"]):
            for k in range(SIZES["k"]):
                point = {"i": i, "j": j, "k": k}
                number = offset + sum(terms[name] * at for name, at in point.items())
                assert evaluate(index, point) == number
                assert evaluate(quotient, point) == number // divisor
                assert evaluate(remainder, point) == number % divisor
                assert evaluate(twice, point) == number // divisor // second
    low, high = quotient.range(SIZES)
    assert low <= high


def test_equal_indices_are_equal() -> None:
    assert axis("i") * 2 + axis("j") == axis("j") + axis("i") + axis("i")
    assert (axis("i") * 8 + axis("j")).divided(4, SIZES) == axis("i") * 2
    assert (axis("i") * 8 + axis("j")).modulo(4, SIZES) == axis("j")


@pytest.mark.parametrize("text", [SOFTMAX, OTHERS], ids=["softmax", "others"])
def test_text_reads_back(text: str) -> None:
    kernel = parse_kernel(text)
    assert print_kernel(kernel) == text
    assert parse_kernel(print_kernel(kernel)) == kernel
    verify_kernel(kernel)


def test_softmax_runs() -> None:
    x = np.random.default_rng(0).normal(size=(256, 1000)).astype(np.float32)
    found = run_kernel(parse_kernel(SOFTMAX), {"x": x})["result"]
    exponential = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, exponential / exponential.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel", "expected the kernel's name"),
        ("kernel f(%x : floaty[2] in)", "expected a dtype, not 'floaty'"),
        ("kernel f(%x : float32[2] on)", "expected 'in' or 'out', not 'on'"),
        ("kernel f(%x : float32[2; 1, 1] in)", "expected 1 strides"),
        ("kernel f() axes i < 3 sideways", "expected one of parallel, reduction, serial"),
        ("kernel f() axes i < 3 parallel %y : float32 [i] = load x", "expected a name such as %x, not 'x'"),
        ("kernel f() axes i < 3 parallel %y : float32 [i] = reduce mean %x over i", "expected one of sum"),
        ("kernel f() axes i < 3 parallel %y : int64 [i] = position (i)//0", "expected a positive divisor"),
        ("kernel f() $", "this is no part of a kernel"),
        ("kernel f() axes i < 2.5 parallel", "expected an integer"),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(KernelSyntaxError, match="<kernel>:1:") as caught:
        parse_kernel(text)
    assert message in str(caught.value)


def test_depth_is_bounded() -> None:
    text = "kernel f() axes i < 3 parallel %y : int64 [i] = position " + "(" * 50_000 + "i" + ")//2" * 50_000
    with pytest.raises(KernelSyntaxError, match="at most 50 levels"):
        parse_kernel(text)


def broken(old: str, new: str, text: str = SOFTMAX) -> Kernel:
    assert old in text
    return parse_kernel(text.replace(old, new))


@pytest.mark.parametrize(
    ("kernel", "rule"),
    [
        (broken("sub(%x, %m)", "sub(%x, %q)"), "%q is used before it is defined"),
        (broken("%s : float32 [i]", "%s : float32 [i, j]"), r"the value varies over \[i\]"),
        (broken("load %x[1000*i + j]", "load %x[1000*i + j + 1]"), "elements 1 to 256000 of 0 to 255999"),
        (broken("load %x[", "load %result["), "%result is no input"),
        (broken("store %result", "store %x"), "%x is no output"),
        (broken("store %result[1000*i + j]", "store %result[1000*i]"), "each point writes an element of its own"),
        (broken("%e : float32", "%m : float32"), "%m is defined twice"),
        (broken("exp(%d)", "exponent(%d)"), "exponent is no primitive"),
        (broken("exp(%d)", "exp(%d, %d)"), "exp takes 1 operands"),
        (broken("%e : float32", "%e : float64"), "operands have the dtype of the result"),
        (broken("over j", "over q"), "a reduction is over axes of the kernel"),
        (broken("1000*i + j]", "1000*i + q]"), "q is no axis"),
        (broken("%p : int64", "%p : int32", OTHERS), "a position is an int64"),
        (broken("where(%b", "where(%x", OTHERS), "a condition is a bool"),
        (broken("%b : bool", "%b : float32", OTHERS), "a comparison is of one dtype and gives a bool"),
        (broken("4*%t]", "4*%x]", OTHERS), "%x is used before it is defined|%x is no integer"),
        (broken("%y : float32", "%y : float16", OTHERS), "halves are computed in float32"),
    ],
)
def test_the_verifier_refuses(kernel: Kernel, rule: str) -> None:
    with pytest.raises(InvalidKernel, match=rule):
        verify_kernel(kernel)


def test_names_are_unique() -> None:
    kernel = parse_kernel(SOFTMAX)
    with pytest.raises(InvalidKernel, match="names of their own"):
        verify_kernel(replace(kernel, axes=(*kernel.axes, kernel.axes[0])))


def test_buffers_know_their_bytes() -> None:
    kernel = parse_kernel(OTHERS)
    assert [b.nbytes for b in kernel.buffers] == [96, 32, 8]
    assert kernel.buffer("x").is_contiguous is False and kernel.buffer("out").dtype == FLOAT16
    expanded = replace(kernel.buffer("x"), strides=(0, 1))
    assert expanded.nbytes == 24 and (FLOAT32, INT64, BOOL)[0] == expanded.dtype


class _Unread(dict[str, Operand]):
    """Names of a whole body: to go through them for each statement would take time with the square of its length."""

    def items(self) -> Any:
        raise AssertionError("all names were looked at")


def test_operands_are_replaced_by_looking_at_those_of_a_statement() -> None:
    load = Load("y", FLOAT32, frozenset("i"), "x", axis("i") + value("a"))
    found = with_operands(load, _Unread(a="b", c="d"))
    assert isinstance(found, Load)
    assert found.index == axis("i") + value("b")
