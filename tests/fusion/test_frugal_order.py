"""Rows that one program walks are computed in an order that keeps few values waiting, and means the same."""

from __future__ import annotations

import pytest
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.printer import print_kernel
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.compiler.scheduling.order import DRAWING, frugal_order
from gradscript.compiler.scheduling.pressure import bytes_fetched, words_alive

BUFFERS = (
    "%g : float32[8, 16] in, %x : float32[8, 16] in, %w : float32[16] in, "
    "%y : float32[8, 16] out, %gw : float32[16] out, %gb : float32[16] out"
)
HEAD = f"""kernel dropped_norm({BUFFERS})
  axes r < 8 serial, j < 16 reduction
"""
WRITTEN = """  %g : float32 [r, j] = load %g[16*r + j]
  %w : float32 [j] = load %w[j]
  %gn : float32 [r, j] = mul(%g, %w)
  %s : float32 [r] = reduce sum %gn over j
  %x : float32 [r, j] = load %x[16*r + j]
  %u : float32 [r, j] = uniform 7 at 16*r + j
  %n : float32 [r, j] = mul(%x, %u)
  %a : float32 [r, j] = mul(%gn, %n)
  %t : float32 [r] = reduce sum %a over j
  %b : float32 [r, j] = mul(%g, %n)
  %gw : float32 [j] = reduce sum %b over r
  %gb : float32 [j] = reduce sum %g over r
  %c : float32 [r, j] = sub(%gn, %s)
  %d : float32 [r, j] = mul(%n, %t)
  %y : float32 [r, j] = sub(%c, %d)
  store %y[16*r + j], %y
  store %gw[j], %gw
  store %gb[j], %gb
"""
FRUGAL = """  %u : float32 [r, j] = uniform 7 at 16*r + j
  %x : float32 [r, j] = load %x[16*r + j]
  %n : float32 [r, j] = mul(%x, %u)
  %g : float32 [r, j] = load %g[16*r + j]
  %b : float32 [r, j] = mul(%g, %n)
  %gw : float32 [j] = reduce sum %b over r
  %gb : float32 [j] = reduce sum %g over r
  %w : float32 [j] = load %w[j]
  %gn : float32 [r, j] = mul(%g, %w)
  %a : float32 [r, j] = mul(%gn, %n)
  %t : float32 [r] = reduce sum %a over j
  %s : float32 [r] = reduce sum %gn over j
  %c : float32 [r, j] = sub(%gn, %s)
  %d : float32 [r, j] = mul(%n, %t)
  %y : float32 [r, j] = sub(%c, %d)
  store %y[16*r + j], %y
  store %gw[j], %gw
  store %gb[j], %gb
"""


def ordered(kernel: Kernel) -> Kernel:
    return kernel.with_body(frugal_order(kernel.body, frozenset("j"), frozenset("r")))


def test_draws_and_what_takes_most_come_first() -> None:
    kernel = parse_kernel(HEAD + WRITTEN)
    verify_kernel(kernel)
    found = ordered(kernel)
    verify_kernel(found)
    assert print_kernel(found) == print_kernel(parse_kernel(HEAD + FRUGAL))


def test_an_order_that_is_frugal_stays() -> None:
    kernel = parse_kernel(HEAD + FRUGAL)
    assert ordered(kernel).body == kernel.body


def test_fewer_values_wait() -> None:
    """Carried all along: two sums and the weight. Beside them wait %g, %gn, %x and what a draw takes, or %gn and %n."""
    kernel = parse_kernel(HEAD + WRITTEN)
    assert words_alive(kernel) == 3 + 3 + DRAWING
    assert words_alive(ordered(kernel)) == 3 + 2
    assert bytes_fetched(kernel, frozenset("r")) == 8


SOFTMAX_BACKWARD = """kernel softmax_backward(%g : float32[4, 16] in, %s : float32[4, 16] in, %y : float32[4, 16] out)
  axes i < 4 parallel, j < 16 reduction
  %g : float32 [i, j] = load %g[16*i + j]
  %s : float32 [i, j] = load %s[16*i + j]
  %w : float32 [i, j] = mul(%g, %s)
  %t : float32 [i] = reduce sum %w over j
  %a : float32 [i, j] = mul(%s, %t)
  %y : float32 [i, j] = sub(%w, %a)
  store %y[16*i + j], %y
"""


@pytest.mark.parametrize(("dtype", "words"), [("float32", 2), ("bfloat16", 1.5), ("float64", 4)])
def test_halves_are_half_a_word_until_they_are_used(dtype: str, words: float) -> None:
    """Alive at the sum are %s and %w, of which the one can be widened again."""
    text = SOFTMAX_BACKWARD
    if dtype == "bfloat16":
        text = text.replace("float32[4, 16]", "bfloat16[4, 16]")
        for name in "gs":
            load = f"%{name} : float32 [i, j] = load %{name}[16*i + j]"
            half = load.replace(f"%{name} : float32", f"%{name}_half : bfloat16")
            text = text.replace(load, f"{half}\n  %{name} : float32 [i, j] = cast %{name}_half")
    elif dtype == "float64":
        text = text.replace("float32", "float64")
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert words_alive(kernel) == words


def test_what_is_loaded_for_the_first_reduction_is_on_its_way_at_once() -> None:
    text = SOFTMAX_BACKWARD.replace("%a : float32 [i, j] = mul(%s, %t)", "%a : float32 [i, j] = mul(%w, %t)")
    assert words_alive(parse_kernel(text)) == 2
