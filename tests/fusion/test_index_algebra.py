"""Quotients and remainders of indices: what reshaping leaves behind, put together again."""

from __future__ import annotations

from itertools import product
from random import Random

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused
from gradscript.compiler.kernel_ir.index import AxisAtom, Index, Quotient, Remainder, ValueAtom, axis, constant

SIZES = {"i": 6, "j": 4, "k": 5}


def evaluated(index: Index, point: dict[str, int]) -> int:
    total = index.constant
    for coefficient, atom in index.terms:
        assert not isinstance(atom, ValueAtom)
        if isinstance(atom, AxisAtom):
            found = point[atom.name]
        elif isinstance(atom, Quotient):
            found = evaluated(atom.index, point) // atom.divisor
        else:
            assert isinstance(atom, Remainder)
            found = evaluated(atom.index, point) % atom.divisor
        total += coefficient * found
    return total


def test_parts_of_one_index_are_that_index() -> None:
    i = axis("i")
    low, high = i.modulo(4, SIZES), i.divided(4, SIZES)
    assert low + high * 4 == i and low * 3 + high * 12 + 5 == i * 3 + 5
    assert (-i).modulo(4, SIZES) + (-i).divided(4, SIZES) * 4 == -i
    wide = axis("i") * 7 + axis("j") * 3
    assert wide.modulo(2, SIZES) + wide.divided(2, SIZES).modulo(3, SIZES) * 2 == wide.modulo(6, SIZES)
    assert wide.modulo(6, SIZES).divided(2, SIZES) == wide.divided(2, SIZES).modulo(3, SIZES)
    assert low + high * 3 != i


def test_what_is_smaller_than_a_unit_drops_out() -> None:
    address = axis("i") * 5 + axis("k")
    assert address.divided(10, SIZES) == axis("i").divided(2, SIZES)
    assert address.modulo(10, SIZES) == axis("i").modulo(2, SIZES) * 5 + axis("k")
    assert (address + 1).divided(10, SIZES) != axis("i").divided(2, SIZES)


@pytest.mark.parametrize("seed", range(40))
def test_every_form_means_the_same(seed: int) -> None:
    random = Random(seed)
    points = [dict(zip(SIZES, at, strict=True)) for at in product(*map(range, SIZES.values()))]
    for _ in range(20):
        index = constant(random.choice([0, 0, 1, 7]))
        for name in SIZES:
            index += axis(name) * random.choice([0, 1, 2, 5, 6, 20, -1])
        wanted = [evaluated(index, point) for point in points]
        for _ in range(4):
            a, b = random.choice([2, 3, 4, 5, 10]), random.choice([2, 3, 5])
            kind = random.randrange(4)
            if kind == 0:
                index, wanted = index.divided(a, SIZES), [value // a for value in wanted]
            elif kind == 1:
                index, wanted = index.modulo(a, SIZES), [value % a for value in wanted]
            elif kind == 2:
                index = index.modulo(a, SIZES) + index.divided(a, SIZES).modulo(b, SIZES) * a
                wanted = [value % a + value // a % b * a for value in wanted]
            else:
                index = index.divided(a, SIZES) * a + index.modulo(a, SIZES)
            assert [evaluated(index, point) for point in points] == wanted


def test_groups_of_channels_are_rows() -> None:
    function = gs.CompilationUnit("def f(x, w, b):\n    return F.group_norm(x, 2, w, b)\n").f
    generator = np.random.default_rng(0)
    x, w, b = generator.normal(size=(3, 4, 5, 5)), generator.normal(size=4), generator.normal(size=4)
    kernels = check_fused(function, [x, w, b])
    assert [kernel.name for kernel in kernels if "forward" in kernel.name] == ["f_forward"]
    listing = function.kernels(x, w, b)
    assert "x_ptr + 50 * row + k" in listing.forward[0].text
    assert not any("%" in line.partition("load")[2] for info in listing.forward for line in info.text.splitlines())


def test_quotients_of_values_may_be_any_number() -> None:
    """Of a value of the kernel nothing is known, and of what it is divided into no more."""
    index = Index(((1, Quotient(Index(((4, ValueAtom("v")),), 3), 5)),), 0)
    assert index.range(SIZES) == (float("-inf"), float("inf"))
    assert (index + axis("i")).range(SIZES) == (float("-inf"), float("inf"))
