"""List ops: Python's semantics, and never a change in place."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
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


SAME_OBJECT = ("x in [x]", "x in [x * 1]", "[x].index(x)", "[x].count(x * 1)", "[x] == [x]", "(x, 1) == (x, 1)")


@pytest.mark.parametrize("expression", [*SAME_OBJECT, "x not in (x, 2 * x)", "[(x, 1)] != [(x, 1)]"])
@pytest.mark.parametrize("type", ["Tensor", "float"])
def test_whether_two_nan_are_one_object_is_asked_in_vain(expression: str, type: str) -> None:
    """Python compares objects first, and values have no such identity."""
    f = gs.CompilationUnit(f"def f(x: {type}):\n    return {expression}\n").f
    with pytest.raises(gs.RuntimeFailure, match="only where it is the same object"):
        f(np.array(np.nan) if type == "Tensor" else np.nan)
    f(np.array(1.0) if type == "Tensor" else 1.0)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x in [y, y]", False),
        ("y in [x, y]", True),
        ("[x, y] == [x, 3.0 * y]", False),
        ("[x, y] == [x]", False),
        ("(x, y) != (x, y + 1.0)", True),
        ("[x, y].index(y)", 1),
        ("[x, y, y].count(y)", 2),
    ],
)
@pytest.mark.parametrize("type", ["Tensor", "float"])
def test_nan_that_decides_nothing_is_in_the_way_of_nothing(expression: str, expected: Any, type: str) -> None:
    f = gs.CompilationUnit(f"def f(x: {type}, y: {type}):\n    return {expression}\n").f
    x, y = (np.array(np.nan), np.array(2.0)) if type == "Tensor" else (np.nan, 2.0)
    assert f(x, y) == expected == eval(expression, {"x": x, "y": y})
