"""Programs of every kind of statement and expression: each prints as source that means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.unparse import unparse_unit
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from roundtrip import check_unit, compiled

PROGRAMS = {
    "early_exits": """\
def f(x, n: int):
    total = x
    for i in range(n):
        if i == 2:
            continue
        if i > 5:
            return total * 2
        total = total + x * i
    return total
""",
    "while_break": """\
def f(x, n: int):
    a, b = 0, 1
    while a < n:
        a, b = b, a + b
        if b > 100:
            break
    return x * a
""",
    "refinement_chain": """\
def f(x, y: Optional[Tensor], z: Optional[Tensor] = None):
    if x is not None and y is not None and z is not None:
        return x + y + z
    elif y is not None:
        return y
    return x
""",
    "test_in_a_variable": """\
def f(x, y: Optional[Tensor]):
    c = y is None
    if c:
        return x
    return x + y.unchecked_unwrap_optional
""",
    "guard": """\
def f(x, y: Optional[Tensor]):
    if y is None:
        raise ValueError("no y")
    return x + y
""",
    "two_names": """\
def f(x, y: Optional[Tensor]):
    w = y
    if y is not None:
        return x + y, w
    return x, w
""",
    "conditional": """\
def f(x, y: Optional[Tensor]):
    z = y if y is not None else x
    return z
""",
    "default_for_none": """\
def f(x, y: Optional[Tensor]):
    if y is None:
        y = torch.zeros_like(x)
    return x * y
""",
    "optional_carried": """\
def f(x, n: int):
    y: Optional[Tensor] = None
    for i in range(n):
        if y is None:
            y = x
        else:
            y = y * x
    return y
""",
    "lists": """\
def f(xs: List[Tensor], n: int):
    out = [v * 2 for v in xs]
    sizes = [v.dim() for v in xs if v.dim() > 1]
    for i, v in enumerate(xs):
        out[i] = v + i
    out.append(xs[-1])
    last = out.pop()
    for a, b in zip(xs, out):
        last = last + a * b
    return last, out[1:], sizes
""",
    "subscripts_and_stores": """\
def f(x, i: int, m):
    y = x[i, 1:, None, ..., 0]
    z = x[m]
    w = x * 1
    w[0] = 1
    w[..., 1:3] = z[:, :, 0:2]
    w[m] = 5
    return y, z, w
""",
    "second_order": """\
def act(x):
    s = torch.sigmoid(x)
    def backward(g):
        gx = g * s * (1 - s)
        def backward2(gg):
            ggrad = gg * s * (1 - s)
            gself = gg * g * s
            return ggrad, gself
        return gx, backward2
    return s, backward
""",
    "keyword_only": """\
def f(self, n: int, p: float = 0.5, *, mean: bool = True, name: str = "a\\"b\\n", d: List[int] = [0], e: float = 1e-5):
    def backward(g):
        if mean:
            r = g * p / n
        else:
            r = g ** n
        return r, None, None, None, None, None, None
    return self.mul(p), backward
""",
    "calls": """\
def g(x, k: int = 2):
    if k == 0:
        raise RuntimeError
    return x + k, x

def f(x):
    a, b = g(x)
    g(x, 0)
    c = g(b, k=3)[0]
    return a * c
""",
    "scalars": """\
def f(x, a: int, b: int, c: bool):
    n = -(a + b) * 2 - (a - (b - 1)) // 3 % 4
    d = a < b < n or not c and a == b
    e = (a if c else b) ** -2.0
    g = not (c and d)
    s = "x" + "y"
    q = 3 in [a, b]
    h = 2 ** a ** b
    k = (2 ** a) ** b
    return x * n * e, d, g, s == "xy", q, h, k, -a ** 2, (-a) ** 2
""",
    "constants": """\
def f(x):
    i = math.inf
    n = -math.inf
    y = x.to(torch.float64)
    z = torch.sum(x, dtype=torch.float32)
    v, idx = x.topk(3, dim=0, largest=False)
    return y, z, v, i, n, torch.linalg.inv(x)
""",
    "named_like_builtins": """\
def f(x, min: Optional[float], max: Optional[float]):
    r = x
    if min is not None:
        r = r.clamp(min=min)
    if max is not None:
        r = torch.clamp(r, max=max)
    return r
""",
    "no_capture": """\
def f(x):
    def backward(g):
        return g
    return torch.relu(x), backward
""",
    "no_parameters": """\
def f():
    return 1
""",
    "endless": """\
def f(x):
    y = x
    while True:
        y = y + 1
        if y.sum() > 10:
            break
    return y
""",
    "tuples": """\
def f(x, t: Tuple[int, Tensor, Tuple[int, int]]):
    a, b, c = t
    u, v = c
    w = (x,)
    return b + a + u + v, w, t[0], ()
""",
    "nested_loops": """\
def f(x, n: int):
    for i in range(n):
        for j in range(i, n, 2):
            if j == 3:
                break
            x = x + j
        if i == 4:
            break
    return x
""",
    "while_condition": """\
def f(x, n: int):
    i = n
    while i > 0 and n < 10:
        i = i - 1
        x = x * i
    return x, i
""",
    "else_chains": """\
def f(x, n: int, l: Optional[List[int]] = None):
    if l is None:
        l = [1]
    else:
        l = l + [2]
    k = l[0]
    assert len(l) > 0
    assert n == 2 or k == 1, "msg"
    if n == 1:
        pass
    elif n == 2:
        x = x + 1
    elif n == 3:
        x = x - 1
    return x * k
""",
    "joined_names": """\
def f(x, n: int):
    y = x * 2
    z = y
    if n > 2:
        y = y + 1
        z = y
    else:
        z = z - 1
    return y, z
""",
    "guard_and_alias": """\
def f(x, y: Optional[Tensor]):
    w = y
    if y is None:
        raise ValueError("a")
    return y, w
""",
    "optional_elements": """\
def f(x, lst: List[Optional[Tensor]]):
    s = x
    for v in lst:
        if v is not None:
            s = s + v
    return s
""",
    "assertion": """\
def f(x, y: Optional[Tensor]):
    assert y is not None
    z = x + y
    return z * y
""",
    "assertion_in_branch": """\
def f(x, y: Optional[Tensor], n: int):
    if n > 1:
        assert y is not None and n > 2, "both"
        x = x + y
    w = y
    return x, w
""",
    "guard_with_alias": """\
def f(x, y: Optional[Tensor]):
    w = y
    if y is None:
        raise ValueError("a")
    return x + y, w
""",
    "absent": """\
def f(x, y: Optional[Tensor]):
    if y is not None:
        raise ValueError("a")
    z = y
    return x if z is None else x + 1
""",
}

X = np.array([[0.5, -1.0], [2.0, 3.0]])
M = np.array([[True, False], [True, True]])
ARGUMENTS: dict[str, list[list[Any]]] = {
    "early_exits": [[X, n] for n in (0, 3, 9)],
    "while_break": [[X, n] for n in (0, 1, 50, 1000)],
    "refinement_chain": [[X, y, z] for y in (None, X) for z in (None, X)],
    "test_in_a_variable": [[X, None], [X, X]],
    "guard": [[X, X]],
    "two_names": [[X, None], [X, X]],
    "conditional": [[X, None], [X, X]],
    "default_for_none": [[X, None], [X, X]],
    "optional_carried": [[X, n] for n in (0, 1, 4)],
    "lists": [[[X, X + 1], 2]],
    "subscripts_and_stores": [[np.ones((2, 3, 4)), 1, np.array([1, 0])]],
    "scalars": [[X, a, b, c] for a in (1, 2) for b in (2, 3) for c in (True, False)],
    "named_like_builtins": [[X, low, high] for low in (None, 0.0) for high in (None, 1.0)],
    "endless": [[X]],
    "tuples": [[X, (1, X, (2, 3))]],
    "nested_loops": [[X, n] for n in (0, 2, 9)],
    "while_condition": [[X, n] for n in (0, 3, 20)],
    "else_chains": [[X, 2, items] for items in (None, [1], [5, 6])],
    "joined_names": [[X, 1], [X, 5]],
    "optional_elements": [[X, [None, X, None]]],
    "assertion": [[X, X]],
    "assertion_in_branch": [[X, X, 3], [X, None, 0]],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trip(name: str) -> None:
    check_unit(PROGRAMS[name])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_execution(name: str) -> None:
    callees = compiled(PROGRAMS[name])
    again = compiled(unparse_unit(callees))
    for arguments in ARGUMENTS[name]:
        expected = results(callees["f"].graph, arguments)
        actual = results(again["f"].graph, arguments)
        np.testing.assert_equal(actual, expected)


def results(graph: Graph, arguments: list[Any]) -> list[Any]:
    return run_plan(build_plan(graph), arguments)


def test_a_loop_over_what_grows_beside_what_does_not_prints_as_text_that_stays() -> None:
    text = """\
def f(x, n: int):
    l = [x * 1]
    for i, a in zip(range(n), l):
        l.append(a * i)
    for a, row in zip(l, x):
        a.mul_(row)
    return l
"""
    printed = unparse_unit(compiled(text))
    again = compiled(printed)
    assert unparse_unit(again) == printed
    for n in (0, 1, 3):
        expected, actual = results(compiled(text)["f"].graph, [X, n]), results(again["f"].graph, [X, n])
        np.testing.assert_equal(actual, expected)
