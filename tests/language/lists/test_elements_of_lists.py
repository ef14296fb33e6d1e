"""Elements that were taken out of a list, and views of them, stay what they were where their list goes on to change."""

from __future__ import annotations

from itertools import product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of

MADE = (
    "[x.clone() for _ in range(3)]",
    "[x * (i + 1) for i in range(4)][1:]",
    "[x * 2 for i in range(2)] + [x * 1]",
    "[x.clone(), x * 1, x + 0]",
)
CHANGES = (
    "l[1] = x * 9",
    "l[n] = x * 9",
    "l.insert(0, x * 5)",
    "l.reverse()",
    "w = l.pop(0)",
    "l[0], l[1] = l[1], l[0]",
    "l = l[::-1]",
    "k = l\n    k[1] = x * 4",
    "l.append(v)\n    l[1] = x * 6",
    "for j in range(2):\n        l[j] = x * (j + 3)",
)
VIEWS = ("v[0]", "v[0][1:]", "v[:, 0]", "v.t()[1]", "first_row(v)", "v.view(-1)")


@pytest.mark.parametrize(("made", "change"), some_of([*product(MADE, CHANGES)]))
def test_a_write_through_a_view_of_one_reaches_what_was_taken(made: str, change: str) -> None:
    """Or is refused by name; never another element of the list."""
    x = np.arange(1.0, 5.0).reshape(2, 2)
    ran = 0
    for view in VIEWS:
        text = f"def f(x, n: int):\n    l = {made}\n    v = l[1]\n    {change}\n    {view}.fill_(-7.0)\n    return l\n"
        source = f"def first_row(t):\n    return t[0]\n\n\n{text}"
        scope: dict[str, Any] = {"torch": torch}
        exec(source, scope)
        wanted = scope["f"](torch.tensor(x), 1)
        try:
            found = gs.CompilationUnit(source).f(x, 1)
        except gs.CompileError as error:
            assert [d.code for d in error.diagnostics] == ["E305"]
            continue
        ran += 1
        np.testing.assert_array_equal(np.stack(found), torch.stack(wanted).numpy())
    assert ran == len(VIEWS) or change != CHANGES[0]


@pytest.mark.parametrize("change", ["l[0][1] = x * 9", "w = l[0].pop(0)", "l[0].insert(0, x * 5)", "l[0].reverse()"])
@pytest.mark.parametrize("write", ["v", *VIEWS])
def test_lists_in_lists(change: str, write: str) -> None:
    made = "[[x * (i + j + 1) for i in range(n)] for j in range(n)]"
    text = f"    l = {made}\n    v = l[0][1]\n    {change}\n    {write}.fill_(-7.0)\n    return l[0], l[1], v\n"
    source = f"def first_row(t):\n    return t[0]\n\n\ndef f(x, n: int):\n{text}"
    x = np.arange(1.0, 5.0).reshape(2, 2)
    scope: dict[str, Any] = {"torch": torch}
    exec(source, scope)
    wanted = scope["f"](torch.tensor(x), 2)
    try:
        found = gs.CompilationUnit(source).f(x, 2)
    except gs.CompileError as error:
        assert [d.code for d in error.diagnostics] == ["E305"]
        return
    for mine, theirs in zip([*found[0], *found[1], found[2]], [*wanted[0], *wanted[1], wanted[2]], strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())


def test_a_list_in_a_list_grows_by_its_name() -> None:
    source = """\
def f(x, n: int):
    l = [[x.clone() for _ in range(n)] for _ in range(n)]
    a = l[0]
    a.append(x * 3)
    a.append(x * 4)
    return l
"""
    assert [len(row) for row in gs.CompilationUnit(source).f(np.ones(2), 2)] == [4, 2]
