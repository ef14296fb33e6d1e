# ruff: noqa: E501 (programs in one line)
"""`*` in displays, arguments and targets: each program gives what Python gives of the same text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
from scripted import check_with_python

X = torch.arange(6.0).reshape(2, 3)
GIVING = "def g(x):\n    return x, x + 1, x * 3\n\n\n"
PROGRAMS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "targets that are tuples": (
        "def f(n: int):\n    a, (b, *c), *d = n, (2, 3, 4), 5, 6\n    *e, g = d\n    h, *i = (n,)\n    c.append(7)\n    return a, b, c, d, e, g, h, len(i)\n",
        [(1,)],
    ),
    "targets that are lists": (
        "def f(l: List[int]):\n    a, *b, c, d = l\n    *e, = b\n    e.append(a)\n    return b, c - d, e, l\n",
        [([1, 2, 3, 4],), ([1, 2, 3],)],
    ),
    "loops": (
        "def f(l: List[Tuple[int, int, int]]):\n    s = 0\n    for a, *b in l:\n        s += a * b[1]\n    return s, [c[0] - d for *c, d in l]\n",
        [([(1, 2, 3), (4, 5, 6)],)],
    ),
    "displays": (
        "def f(l: List[int], t: Tuple[int, int]):\n    return [*l, 9], [0, *l, *l], [*l], [*t, *l], (*t, 1.5), (*t, *t), [*[], *l], [x for x in [*l]]\n",
        [([1, 2], (3, 4)), ([], (3, 4))],
    ),
    "a new list": ("def f(l: List[int]):\n    m = [*l]\n    m.append(1)\n    return l, m\n", [([5],)]),
    "arguments": (
        GIVING + "def h(a, b, c, n: int = 2):\n    return a * b - c * n\n\n\ndef f(x):\n    t = g(x)\n    return h(*t), h(x, *t[1:], n=3), torch.where(x > 1, *t[:2]), max(*(1, 2), 3)\n",
        [(X,)],
    ),
    "results": (GIVING + "def f(x):\n    t = g(x)\n    head, *tail = t\n    return *t, head, tail\n", [(X,)]),
    "sizes": (
        "def f(x):\n    return x.view(*x.shape), x.reshape(*x.shape, 1), torch.zeros(2, *x.shape[1:]), x.permute(*[1, 0]), x.expand(4, *x.size()), x.new_ones((*x.shape, 2))\n",
        [(X,)],
    ),
    "what is written into is the element": (
        "def f(x):\n    y = x.clone()\n    a, *b = (x * 1, y)\n    b[0].add_(1)\n    return y, b[0] + a\n",
        [(X,)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path: Path, name: str) -> None:
    check_with_python(tmp_path, *PROGRAMS[name])


@pytest.mark.parametrize("target", ["a, *b, c", "*b, c, d", "a, c, *b"])
@pytest.mark.parametrize("length", [0, 1])
def test_lists_that_are_too_short(target: str, length: int) -> None:
    """Each name is asked for, as what nothing uses is not computed."""
    names = target.replace("*", "")
    unit = gs.CompilationUnit(f"def f(l: List[int]):\n    {target} = l\n    return {names}\n")
    with pytest.raises(gs.RuntimeFailure, match="out of range"):
        unit.f([7] * length)


def test_gradients() -> None:
    text = "def f(x, y):\n    a, *b = [x, y, x * y]\n    c = [*b, a * 2]\n    return torch.stack(c).prod(0)\n"
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    found = []
    for function in (names["f"], gs.CompilationUnit(text).f):
        x, y = X.clone().requires_grad_(), (X + 1).requires_grad_()
        (first,) = torch.autograd.grad(function(x, y).sum(), x, create_graph=True)
        found.append((first, torch.autograd.grad((first * first).sum(), (x, y))))
    torch.testing.assert_close(found[1], found[0])


REFUSED = (
    ("print(*l)", "E204", "how many arguments a list gives", "pass the list itself"),
    ("torch.cat(*[x])", "E204", "how many arguments a list gives", ""),
    ("torch.sum(*l)", "E204", "how many arguments a list gives", ""),
    ("x.sum(*l)", "E204", "how many arguments a list gives", ""),
    ("x.view(*[x])", "E204", "a List[Tensor] is no size", ""),
    ("(*l, 1)", "E204", "how many elements a list gives", ""),
    ("[*l, x]", "E301", "a list of int cannot hold a Tensor", ""),
    ("[*x]", "E301", "a Tensor is not taken apart by `*`", "a tuple or of a list"),
    ("[a for a in zip(*l)]", "E102", "a `*` is not supported here", "in a tuple"),
    ("l\n    a, *b = 1, 2.5, 'a'", "E301", "what the `*` takes is of several types", "one by one"),
    ("l\n    a, b, *c = (1,)", "E301", "cannot unpack 1 values into 2 names and a list", ""),
    ("l\n    a, *b = 2", "E301", "a int cannot be unpacked", "tensors are unpacked"),
    ("l\n    a, *b, *c = l", "E103", "a second '*' left of '='", "what the other names leave"),
)


@pytest.mark.parametrize(("expression", "code", "message", "note"), REFUSED)
def test_refusals(expression: str, code: str, message: str, note: str) -> None:
    with pytest.raises(gs.CompileError) as refused:
        gs.CompilationUnit(f"def f(x, l: List[int]):\n    y = {expression}\n    return y\n")
    assert refused.value.code == code
    assert message in refused.value.message and note in str(refused.value)
