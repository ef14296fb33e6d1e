"""`key=` of sorted, max, min and list.sort: a function that is called for each element, as Python has it."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch

RETURNED = (
    "sorted(l, key=lambda v: -v)",
    "sorted(l, key=abs, reverse=True)",
    "sorted(l, reverse=True, key=lambda v: v % 2)",
    "sorted(l, key=None)",
    "sorted((3, 1, 2), key=squared)",
    "sorted(range(5), key=lambda v: -v)",
    "max(l, key=squared)",
    "min(l, key=inner)",
    "max(1, -3, 2, key=abs)",
    "max((v * 2 for v in l), key=lambda v: (v % 3, v))",
    "sorted(names, key=len)",
    "sorted(names, key=lambda s: (len(s), s.lower()))",
    "sorted(pairs, key=lambda p: p[1])",
)
HEAD = "def squared(v: int):\n    return v * v\n\n\n"
ARGUMENTS = [3, 1, -4, 2], ["bb", "a", "CC"], [(1, "b"), (2, "a"), (0, "a")]


@pytest.mark.parametrize("returned", RETURNED)
def test_elements_are_compared_by_it(returned: str) -> None:
    parameters = "l: List[int], names: List[str], pairs: List[Tuple[int, str]]"
    body = f"    def inner(v: int):\n        return -v\n    return {returned}\n"
    meant: dict[str, Any] = {"List": list, "Tuple": tuple}
    exec(f"{HEAD}def f({parameters}):\n{body}", meant)
    unit = gs.CompilationUnit(f"{HEAD}def f({parameters}):\n{body}")
    assert unit.f(*ARGUMENTS) == meant["f"](*ARGUMENTS)
    assert gs.CompilationUnit(unit.code).code == unit.code


def test_gradients_go_where_the_order_sends_them() -> None:
    source = """
def f(a, b):
    s = sorted([a, b], key=lambda v: -v.sum())
    t = [a * 1, b * 1]
    t.sort(key=torch.sum)
    t[0].mul_(5)
    return s[0] * 2 + s[1] * 3 + max(a, b, key=lambda v: v.sum()) + t[0]
"""
    a, b = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    found = torch.autograd.grad(gs.CompilationUnit(source).f(a, b).sum(), (a, b))
    assert [gradient.tolist() for gradient in found] == [[8, 8], [3, 3]]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("max(l, key=abs, default=3)", "has no argument 'default'"),
        ("sorted(l, key=3)", "is not a function"),
        ("sorted(key=abs)", "takes a list and a key"),
        ("sorted(l, key=nowhere)", "undefined name 'nowhere'"),
        ("sum(l, key=abs)", "'abs' is a function, and used as a value"),
    ],
)
def test_what_is_wrong_is_told(returned: str, message: str) -> None:
    with pytest.raises(gs.CompileError, match=message):
        gs.CompilationUnit(f"def f(l: List[int]):\n    return {returned}\n")
