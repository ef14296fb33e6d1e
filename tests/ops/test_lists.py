"""List ops: Python's semantics, and never a change in place."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.ops import OPS


def run(name: str, *arguments: Any) -> Any:
    return OPS.named(name if "::" in name else f"aten::{name}").evaluate(*arguments)


CASES = [
    ("len.t", ([1, 2],), 2),
    ("len.Tensor", (np.ones((3, 2)),), 3),
    ("len.str", ("abc",), 3),
    ("__getitem__.t", ([1, 2, 3], -1), 3),
    ("slice.t", ([1, 2, 3, 4], None, -1, 2), [1, 3]),
    ("slice.t", ([1, 2, 3], None, None, -1), [3, 2, 1]),
    ("append.t", ([1], 2), [1, 2]),
    ("_set_item.t", ([1, 2, 3], -2, 9), [1, 9, 3]),
    ("_set_slice.t", ([1, 2, 3, 4], [8, 9], 1, 3), [1, 8, 9, 4]),
    ("_set_slice.t", ([1, 2, 3], [8, 9], None, None, -2), [9, 2, 8]),
    ("insert.t", ([1, 2], 1, 9), [1, 9, 2]),
    ("extend.t", ([1], [2, 3]), [1, 2, 3]),
    ("pop.t", ([1, 2, 3],), 3),
    ("_without.t", ([1, 2, 3], 0), [2, 3]),
    ("reverse.t", ([1, 2],), [2, 1]),
    ("clear.t", ([1],), []),
    ("sorted.int", ([3, 1, 2],), [1, 2, 3]),
    ("sort.float", ([3.0, 1.0], True), [3.0, 1.0]),
    ("add.t", ([1], [2]), [1, 2]),
    ("mul.left_t", ([0], 3), [0, 0, 0]),
    ("mul.right_", (2, [1, 2]), [1, 2, 1, 2]),
    ("eq.int_list", ([1, 2], [1, 2]), True),
    ("ne.float_list", ([1.0], [2.0]), True),
    ("__contains__.int_list", ([1, 2], 2), True),
    ("index.list_int", ([5, 6], 6), 1),
    ("count.int", ([1, 2, 1], 1), 2),
    ("remove.int", ([1, 2, 1], 1), [2, 1]),
    ("copy.t", ([1],), [1]),
    ("eq.list", ([[1], [2, 3]], [[1], [2, 3]]), True),
    ("eq.list", ([np.array(1.0)], [np.array(2.0)]), False),
    ("ne.list", ([(1, "a")], [(1, "a"), (2, "b")]), True),
    ("__contains__.list", ([(1, "a"), (2, "b")], (2, "b")), True),
    ("index.list", ([np.array(5.0), np.array(6.0)], np.array(6.0)), 1),
    ("count.list", ([[1], [2], [1]], [1]), 2),
    ("remove.list", ([(1, 2), (3, 4), (1, 2)], (1, 2)), [(3, 4), (1, 2)]),
    ("sorted.list", ([(2, "a"), (1, "b"), (1, "a")],), [(1, "a"), (1, "b"), (2, "a")]),
    ("sorted.list", ([[1, 2], [1], []],), [[], [1], [1, 2]]),
    ("_sorted_order", ([3, 1, 3, 2], True), [0, 2, 3, 1]),
    ("_ordered", (["a", "b", "c"], [2, 0, 1]), ["c", "a", "b"]),
    ("list", ("ab",), ["a", "b"]),
    ("prim::min.self_int", ([3, 1],), 1),
    ("prim::max.self_float", ([3.0, 1.0],), 3.0),
    ("sum.int", ([1, 2],), 3),
    ("all.bool", ([True, False],), False),
    ("rangelist", (3,), [0, 1, 2]),
    ("range_list.step", (5, 0, -2), [5, 3, 1]),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES, ids=[case[0] for case in CASES])
def test_value_and_nothing_changes(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    before = [list(a) if isinstance(a, list) else a for a in arguments]
    result = run(name, *arguments)
    assert result == expected
    assert all(a is b or a == b for a, b in zip(arguments, before, strict=True))
    assert not any(result is a for a in arguments if isinstance(a, list))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("__getitem__.t", ([1], 1), IndexError),
        ("_set_item.t", ([1], -2, 0), IndexError),
        ("pop.t", ([],), IndexError),
        ("_without.t", ([], 0), IndexError),
        ("_set_slice.t", ([1, 2], [3], 0, 2), ValueError),
        ("slice.t", ([1], None, None, 0), ValueError),
        ("index.list_int", ([1], 2), ValueError),
        ("remove.int", ([1], 2), ValueError),
        ("index.list", ([(1, 2)], (2, 1)), ValueError),
        ("sorted.list", ([np.ones(2), np.ones(2)],), ValueError),
        ("prim::min.self_int", ([],), ValueError),
        ("range_list.step", (0, 1, 0), ValueError),
        ("len.Tensor", (np.array(1),), TypeError),
    ],
)
def test_errors_say_why(name: str, arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"\w"):
        run(name, *arguments)


def test_what_is_the_same_object_is_in_the_list_be_it_nan() -> None:
    unit = gs.CompilationUnit(
        "def held(x):\n    l = [x * 2, x]\n    return x in l, l.index(x), l.count(x), [x] == [x], x not in l[:1]\n"
    )
    expected = (True, 1, 1, True, True)
    x = torch.tensor(float("nan"))
    assert (x in [x * 2, x], [x * 2, x].index(x), [x * 2, x].count(x), [x] == [x], x not in [x * 2]) == expected
    assert unit.held(np.array(np.nan)) == expected
    assert unit.held(x) == expected
