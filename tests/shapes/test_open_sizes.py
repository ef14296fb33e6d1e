"""Open sizes: whatever is computed of them holds for all sizes for which their guards do."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from amounts import some
from gradscript.compiler.kernel_ir.layout import Layout, contiguous_strides, views_of
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.ops.registry import OPS
from gradscript.compiler.types.dtypes import FLOAT32
from gradscript.compiler.types.guards import LEAST, values_of_atoms
from gradscript.compiler.types.open_sizes import (
    Symbols,
    closed,
    common_divisor,
    greatest,
    is_open,
    least,
    next_power,
    whole,
)


def quotient(a: int, b: int) -> int:
    return a // b if b != 0 else a


def rest(a: int, b: int) -> int:
    return a % b if b != 0 else a


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    quotient,
    rest,
    min,
    max,
    least,
    lambda a, b: a if a < b else b - 1,
    lambda a, b: a + 1 if a == b else a - b,
    lambda a, b: a if b else b,
    lambda a, b: abs(a),
    lambda a, b: next_power(abs(b)),
    lambda a, b: (a if a > 0 else 3).bit_length(),
    lambda a, b: [a, b].index(b),
    lambda a, b: sum(range(a % 5)) if a > b else b,
    lambda a, b: len(str(a % 3)) + b,
]


def expression(leaves: Sequence[int], draw: random.Random, depth: int) -> Any:
    """Some number that follows from the leaves."""
    if not depth:
        return draw.choice(leaves) if draw.random() < 0.7 else draw.randint(-5, 9)
    operation = draw.choice(OPERATIONS)
    return operation(expression(leaves, draw, depth - 1), expression(leaves, draw, depth - 1))


def test_what_follows_from_sizes_does_so_for_all_for_which_the_guards_hold() -> None:
    tried = 0
    for seed in range(some(1500)):
        draw = random.Random(seed)
        given, depth = [draw.randint(4, 70) for _ in range(2)], draw.randint(1, 4)
        symbols = Symbols(given)
        found = expression(symbols.sizes, random.Random(seed), depth)
        guards = symbols.noted
        others = [[draw.randint(4, 90), draw.randint(4, 90)] for _ in range(8)]
        others += [[max(size + draw.randint(-2, 2), 4) for size in given] for _ in range(8)]
        for sizes in [given, *others]:
            atoms = values_of_atoms(symbols, sizes)
            if guards.hold(atoms):
                tried += 1
                assert closed(found, atoms) == expression(sizes, random.Random(seed), depth), (seed, given, sizes)
            else:
                assert sizes != given, seed
    assert tried > some(1500) * 4


def test_sizes_count_as_integers() -> None:
    (n,) = Symbols([64]).sizes
    assert isinstance(n, int) and n == 64 and n // 2 * 2 + 1 == 65
    assert [7, 8, 9][n % 3] == 8 and list(range(n))[-1] == 63


def test_what_follows_by_algebra_alone_is_not_asked() -> None:
    symbols = Symbols([64, 48])
    n, m = symbols.sizes
    assert n * 1024 // 1024 is n and (n * m) % m == 0 and n * m // m is n and (n + m - n) is m
    assert n > 1 and n != 0 and n * m >= 0 and (n * 8 + 7) // 8 is n and (n * 8 - 1) // 8 == n - 1
    assert common_divisor(n * 6, n * m * 4) == n * 2 and -1 // n == -1
    assert not symbols.noted.guards and symbols.noted.bounds == ((LEAST, float("inf")),) * 2


def test_the_greater_and_the_lesser_of_two_ask_nothing() -> None:
    symbols = Symbols([64, 48])
    n, m = symbols.sizes
    found = [greatest(n, m), greatest(n // 8, 16), least(n * 3, m), greatest(n, 1), least(next_power(n), 8)]
    assert found[3] is n and not symbols.noted.guards
    assert closed(found, values_of_atoms(symbols, [5, 200])) == [200, 16, 15, 5, 8]
    assert greatest(n, 7) > 6 and least(n, 7) < 8 and not symbols.noted.guards


def test_texts_that_name_sizes_ask_nothing() -> None:
    symbols = Symbols([64])
    (n,) = symbols.sizes
    with symbols.named():
        assert n != 64 and n - 64 >= 0 and f"{n}" == "<1·s0>"
    assert symbols.noted.bounds == ((LEAST, float("inf")),) and not symbols.noted.guards


def test_shapes_of_other_ranks_differ_whatever_their_sizes_are() -> None:
    symbols = Symbols([64])
    (n,) = symbols.sizes
    assert Meta((n, 8), FLOAT32) != Meta((8,), FLOAT32) and not symbols.noted.guards


def test_a_text_a_float_and_a_place_ask_for_the_number() -> None:
    for asks in (str, float, "{:d}".format, lambda n: [0] * n, lambda n: np.zeros(n), lambda n: n / 3):
        symbols = Symbols([64])
        asks(symbols.sizes[0])
        assert symbols.noted.are_exact


def test_a_second_round_of_questions_is_noted_apart() -> None:
    symbols = Symbols([64])
    (n,) = symbols.sizes
    assert n > 32
    before = symbols.noted
    with symbols.for_others([100], before):
        assert n > 90 and n % 4 == 0
        assert not symbols.noted.hold(values_of_atoms(symbols, [96 + 2])) and symbols.noted.hold(
            values_of_atoms(symbols, [96])
        )
    assert symbols.noted == before and n < 65


VIEWS: list[tuple[str, list[Any]]] = [
    ("aten::transpose.int", [0, 1]),
    ("aten::permute", [[2, 0, 1]]),
    ("aten::unsqueeze", [-1]),
    ("aten::squeeze.dim", [0]),
    ("aten::select.int", [1, -2]),
    ("aten::slice.Tensor", [0, 1, -1, 2]),
    ("aten::slice.Tensor", [0, -5, None, 1]),
    ("aten::slice.Tensor", [1, 2, 100, 3]),
    ("aten::narrow", [0, 2, 3]),
    ("aten::flatten.using_ints", [0, 1]),
    ("aten::flatten.using_ints", [0, -1]),
    ("aten::reshape", [[-1, 6]]),
    ("aten::reshape", [[-1, 2, 4, 3, 2]]),
    ("aten::ravel", []),
    ("aten::unfold", [0, 3, 2]),
    ("aten::diagonal", [1, 0, 2]),
    ("aten::diagonal", [-2, 1, 0]),
    ("aten::chunk", [2, 0]),
    ("aten::split.Tensor", [3, 1]),
    ("aten::movedim.int", [0, 2]),
    ("aten::mT", []),
    ("aten::numpy_T", []),
    ("aten::unflatten.int", [1, [2, -1]]),
]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize(("name", "rest"), VIEWS)
def test_views_of_open_sizes_are_those_of_arrays(name: str, rest: list[Any], order: tuple[int, ...]) -> None:
    """Each view of a tensor of open sizes, turned about, closed for the sizes at hand and for others."""
    op, known = OPS.named(name), 0
    for given in ([10, 8], [64, 8], [7, 16]):
        symbols = Symbols(given)

        def layout(sizes: Sequence[int]) -> Layout:
            shape = [*sizes, 6]
            strides = contiguous_strides(shape)
            return Layout(tuple(shape[i] for i in order), FLOAT32, tuple(strides[i] for i in order))

        found = views_of(op, [layout(symbols.sizes).meta, *rest], 0, layout(symbols.sizes))
        for sizes in (given, [12, 8], [33, 24], [128, 16]):
            atoms = values_of_atoms(symbols, sizes)
            if symbols.noted.hold(atoms):
                wanted = views_of(op, [layout(sizes).meta, *rest], 0, layout(sizes))
                assert (found is None) == (wanted is None)
                for have, want in zip(found or [], wanted or [], strict=True):
                    assert closed((have.shape, have.offset), atoms) == (want.shape, want.offset)
                    assert _moving(closed(have.strides, atoms), want.shape) == _moving(want.strides, want.shape)
                known += not symbols.noted.are_exact
    assert known > 3, "each asked for the sizes themselves"


def _moving(strides: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Strides along which there is more than one element."""
    return [stride for stride, size in zip(strides, shape, strict=True) if size > 1]


def test_what_is_closed_has_no_open_size() -> None:
    symbols = Symbols([64])
    (n,) = symbols.sizes
    nested = [n, (n * 2, [n // 3]), "text", None]
    assert is_open(nested) and not is_open(closed(nested, values_of_atoms(symbols, [64])))


def test_a_count_that_is_a_float_is_passed_as_an_int() -> None:
    (n,) = Symbols([64]).sizes
    assert whole(40.0) == 40 and type(whole(40.0)) is int and whole(n) is n


def test_long_computations_end_in_the_numbers_at_hand() -> None:
    """Each round uses what was computed twice, so that what stands for it would double."""

    def rounds(n: Any, p: Any) -> tuple[Any, Any]:
        for _ in range(200):
            n = n // 2 + n % 3 + n * n % 7 + 9
            p = p * 0.5 + p * 0.25 + 0.1
            if p < 0.01 or next_power(n) > n * 2:
                n, p = 1, 1.0
        return n, p

    symbols = Symbols([64, 0.3])
    found, guards = rounds(*symbols.sizes), symbols.noted
    for given in ([64, 0.3], [64, 0.7], [65, 0.3], [9, 0.5]):
        atoms = values_of_atoms(symbols, given)
        if guards.hold(atoms):
            assert tuple(closed(part, atoms) for part in found) == rounds(*given)
        else:
            assert given != [64, 0.3]
