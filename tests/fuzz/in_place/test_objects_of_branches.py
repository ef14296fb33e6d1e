"""What only one side of a branch made, and what is left of it after: views of it are there where it is."""

from __future__ import annotations

from itertools import product

import pytest
from beside_torch import outcome

TEXT = """
def f(x, w):
    a = x.clone()
    b = w * 2
    v = a
    vs = [v, a]
    k = 1
    if x.sum() > 0.0137:
        k = 0
    if a.mean() < {outer}:
        while bool(a.max() > {inner}):
            made = b * 0.5
            v = made{view}
            vs = [v, made]
            break
        {write}
    {afterwards}
    return v, vs, a
"""
BOUNDS = (9.0137, -9.0137)
VIEWS = (".t()", "[0]", "[1:]", ".view(-1)")
WRITES = ("vs[1] += 2", "vs[k] += 2", "vs[0] += 2", "v += 1", "vs[k].mul_(2)", "v[0] = 3.0")
AFTERWARDS = ("pass", "vs[k] *= 2", "v += 1", "a[1:] = a[:-1] * 2")


@pytest.mark.parametrize("view, write", list(product(VIEWS, WRITES)))
def test_views_of_what_one_side_made_are_there_where_it_is(view: str, write: str) -> None:
    for outer, inner, afterwards in product(BOUNDS, BOUNDS, AFTERWARDS):
        text = TEXT.format(outer=outer, inner=inner, view=view, write=write, afterwards=afterwards)
        assert outcome(text) == "equal", text
