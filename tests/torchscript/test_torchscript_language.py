# ruff: noqa: E501 (programs in one line)
"""Programs in TorchScript's language: each gives what torch.jit.script gives, or what Python gives where it refuses."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from scripted import copied, python_function, same

X = torch.tensor([1.0, -2.0, 3.0])
M = torch.arange(6.0).reshape(2, 3)
ONE, TWO = torch.tensor(1.0), torch.tensor(2.0)

SCRIPTED: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("def f(x, n):\n    # type: (Tensor, int) -> Tensor\n    return x * (n // 2)", [(X, 3)]),
    (
        "def f(x,  # type: Tensor\n      n  # type: int\n      ):\n    # type: (...) -> Tensor\n    return x.sum(n)",
        [(M, 1)],
    ),
    ("def f(x, y=2):\n    # type: (Tensor, int) -> Tuple[Tensor, int]\n    return x + y, y", [(X,), (X, 3)]),
    (
        "def f(x: List[int]):\n    y = torch.jit.annotate(List[int], [])\n    for i in x:\n        y.append(i)\n    return y",
        [([1, 2],), ([],)],
    ),
    (
        "def f(x: Tensor):\n    y = torch.jit.annotate(Optional[Tensor], None)\n    if bool(x.sum() > 0):\n        y = x\n"
        "    return y",
        [(X,), (-X,)],
    ),
    ("def f(x: Tensor):\n    if torch.jit.is_scripting():\n        return x\n    return [x, 1].whatever", [(X,)]),
    ("def f(x: Tensor):\n    if not torch.jit.is_scripting():\n        x = x.whatever\n    return x", [(X,)]),
    ("def f(x: Optional[Tensor]):\n    return torch.jit._unwrap_optional(x) + 1", [(X,), (None,)]),
    (
        "def f(x: Tensor):\n    if isinstance(x, int):\n        return x + 1\n    elif isinstance(x, Tensor):\n"
        "        return x + 2\n    return x",
        [(X,)],
    ),
    ("def f(x: Tensor):\n    if isinstance(x, Tensor):\n        return x + 1", [(X,)]),
    ("def f(x: Tensor, n: int):\n    if n > 1:\n        return x\n    if torch.jit.is_scripting():\n        return x * n", [(X, 1), (X, 2)]),
    (
        "def f(x: Tensor, n: int):\n    if x is not None:\n        for i in range(n):\n            if i == 2:\n"
        "                return x * i\n        return x",
        [(X, 1), (X, 3)],
    ),
    ("def f(x: Optional[Tensor]):\n    if isinstance(x, Tensor):\n        return x + 1\n    return X0", [(X,), (None,)]),
    ("def f(x: Optional[int]) -> int:\n    if isinstance(x, (int, float)):\n        return x\n    return 5", [(3,), (None,)]),
    ("def f(x: Optional[Tensor]):\n    assert isinstance(x, Tensor)\n    return x + 1", [(X,), (None,)]),
    ("def f(x: Optional[int]):\n    if not isinstance(x, int):\n        return 0\n    return x + 1", [(4,), (None,)]),
    ("def f(x: List[int]):\n    return isinstance(x, list), isinstance(x, (int, tuple)), isinstance(x, List[int])", [([3],)]),
    ("def f(x: Tuple[int, str]):\n    return isinstance(x, tuple), isinstance(x, list), isinstance(x[0], int)", [((3, "a"),)]),
    ("def f(x: bool):\n    return isinstance(x, int), isinstance(x, bool)", [(True,)]),
    ("def f(k: BroadcastingList3[float]):\n    return k", [(1.5,), ([1.0, 2.0, 3.0],)]),
    ("def f(x: Tensor, k: BroadcastingList2[int]):\n    return F.avg_pool2d(x, k)", [(M.reshape(1, 2, 3), [1, 2]), (M.reshape(1, 2, 3), 2)]),
    ("def f(x: Tensor, n: Tensor):\n    return torch.zeros(n, 2), x.view(n, -1), x.expand(2, n), x.new_ones(2, n)", [(X, torch.tensor(3))]),
    ("def f(x: Tensor):\n    t = (x, 1, 2.0, True)\n    return t[1:], t[:-1], t[::2], t[-2:], t[1:3]", [(X,)]),
    ("def f(x: Tensor):\n    t = (x, 1) + (2.0,)\n    return t + t[:1]", [(X,)]),
    ("def f(a: int):\n    return (a, 1) == (2, 1), (a, 1) != (2, 1)", [(2,), (3,)]),
    ("def f(x: Tensor):\n    return len((1, 2, x)), len('abc')", [(X,)]),
    ("def f(t: Tuple[int, int, int], i: int):\n    return t[i]", [((4, 5, 6), 1), ((4, 5, 6), -1), ((4, 5, 6), 3)]),
    ("def f(x: Tensor):\n    return x[slice(1, 3)], x[slice(2)], x[slice(0, 3, 2)]", [(X,)]),
    ("def f(x: Tensor):\n    s = slice(1, 3)\n    return x[s], x[None, s]", [(X,)]),
    ("def f(x: Tensor):\n    i = slice(None, 1)\n    return x[..., i], x[Ellipsis, 0]", [(M,)]),
    ("def f(a: int, b: int):\n    return divmod(a, b)", [(7, 2), (-7, 2), (7, -2), (7, 0)]),
    ("def f(a: float, b: float):\n    return divmod(a, b)", [(7.5, 2.0), (-7.5, 2.0)]),
    ("def f(a: int, b: float):\n    return divmod(a, b), divmod(b, a)", [(7, 2.0)]),
    (
        "def f(x: List[int]):\n    s = 0\n    for i, v in enumerate(x, start=2):\n        s += i * v\n    return s",
        [([3, 4],), ([],)],
    ),
    (
        "def f(x: List[int], y: List[float]):\n    s = 0.0\n    for i, (v, w, u) in enumerate(zip(x, y, x)):\n"
        "        s += i * v * w * u\n    return s",
        [([3, 4], [1.0, 2.0]), ([3, 4, 5], [2.0])],
    ),
    (
        "def f(x: List[int], y: List[float]):\n    s = 0.0\n    for (i, v), w in zip(enumerate(x, 5), y):\n"
        "        s += i * v * w\n    return s",
        [([3, 4], [1.0, 2.0])],
    ),
    ("def f(x: Tensor):\n    y = x + 1\n    z = y * 2\n    del y\n    return z", [(X,)]),
    ("def f(x: List[int]):\n    y = x + [1, 2]\n    del y[0]\n    return y", [([1],)]),
    ("def f(x: List[float]):\n    return sorted(x)", [([3.0, 1.0, 2.0],)]),
    ("def f(x: List[Tensor]):\n    return sorted(x)", [([TWO, ONE],), ([X, X],)]),
    ("def f(x: List[Tuple[int, str]]):\n    return sorted(x)", [([(2, "a"), (1, "b"), (1, "a")],)]),
    ("def f(x: List[int]):\n    y = list(x)\n    y.sort(reverse=True)\n    return y", [([3, 1, 2],)]),
    ("def f(x: List[Tensor]):\n    y = x.copy()\n    y.sort(reverse=True)\n    return y", [([ONE, TWO],)]),
    ("def f(x: List[Tuple[int, float]]):\n    y = x.copy()\n    y.sort()\n    return y", [([(2, 1.0), (1, 3.0)],)]),
    ("def f(x: List[Tensor], t: Tensor):\n    return x.count(t), x.index(t)", [([TWO, ONE, ONE], ONE), ([TWO], ONE)]),
    ("def f(x: List[str], t: str):\n    return x.count(t), x.index(t), t in x", [(["a", "b", "b"], "b")]),
    ("def f(x: List[Tensor], t: Tensor):\n    y = x.copy()\n    y.remove(t)\n    return y", [([TWO, ONE], ONE), ([TWO], ONE)]),
    ("def f(x: List[Tensor], y: List[Tensor]):\n    return x == y, x != y", [([ONE], [ONE]), ([ONE], [TWO]), ([ONE], [])]),
    ("def f(n: int):\n    return list(range(n)), list(range(2, n, 3))", [(9,), (0,)]),
    ("def f(x: List[int], y: List[int]):\n    return list(zip(x, y)), list(enumerate(x))", [([1, 2], [3, 4])]),
    ("def f(x: Tensor) -> List[int]:\n    return []", [(X,)]),
]  # fmt: skip
"""What torch.jit.script compiles."""

PLAIN: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("def f(x: List[int]):\n    return sorted(x, reverse=True)", [([3, 1, 2],)]),
    ("def f(x: List[int]):\n    return list(reversed(x)), [a for a in reversed(x)]", [([1, 2, 3],), ([],)]),
    ("def f(n: int):\n    s = 0\n    for i in reversed(range(n)):\n        s = s * 10 + i\n    return s", [(4,), (0,)]),
    (
        "def f(x: List[int], n: int):\n    s = 0\n    for i, v in enumerate(reversed(x)):\n        s += i * v * n\n    return s",
        [([1, 2, 3], 2)],
    ),
    ("def f(t: Tuple[int, float]):\n    s = 0.0\n    for v in reversed(t):\n        s = s * 2 + v\n    return s", [((1, 2.5),)]),
    ("def f(x: List[Tuple[int, int]], t: Tuple[int, int]):\n    return t in x, x.count(t), x.index(t)", [([(1, 2), (3, 4)], (3, 4))]),
    ("def f(a: Tuple[int, float], b: Tuple[int, float]):\n    return a == b, a != b", [((1, 2.0), (1, 2.0)), ((1, 2.0), (1, 3.0))]),
    ("def f(a: List[List[int]], b: List[List[int]]):\n    return a == b, b[0] in a", [([[1], []], [[1], []]), ([[1]], [[2]])]),
    ("def f(x: Tuple[int, int]):\n    return list(x)", [((4, 5),)]),
    ("def f(n: int):\n    x = [i for i in range(n)]\n    y = x[slice(1, None)]\n    del x[-1], y[0]\n    return x, y", [(4,)]),
    ("def f(x: Tensor):\n    s = (slice(None), 1)\n    e = Ellipsis\n    return x[s], x[e, 0], x[e]", [(M,)]),
    ("def f(x: Tensor, n: int):\n    s = (Ellipsis, slice(n, None), None)\n    n = 7\n    return x[s]", [(M, 1)]),
    ("def f(x: Tensor):\n    y = x.clone()\n    s = (1, slice(1, 3))\n    y[s] = 0\n    y[s] += 2\n    return y", [(M,)]),
    (
        "def f(x: Tensor):\n    y = x.clone()\n    for at in [(0, 1), (1, 0), (-1, -1)]:\n        y[at] += y[0, 0]\n"
        "        y[at] = y[at] * 2\n    return y",
        [(M,)],
    ),
    ("def f(x: Tensor):\n    i = (torch.tensor([0, 1]), torch.tensor([2, 0]))\n    return x[i], x[(x > 1,)]", [(M,)]),
    ("def f(x: Tensor):\n    return x[torch.where(x > 1)], x[torch.nonzero(x > 1, as_tuple=True)]", [(M,)]),
    ("def f(x: Tensor):\n    y = x.clone()\n    at = torch.where(x > 1)\n    y[at] = 0\n    y[at] += 2\n    return y", [(M,)]),
    ("def f(x: Tensor, n: Tensor):\n    return x[:n], x[n:, ::n], x[slice(n, None)]", [(M, torch.tensor(1)), (M, torch.tensor([1]))]),
    ("def f(l: List[int], n: Tensor):\n    return l[n:], l[:n], (1, 2, 3)[n]", [([5, 6, 7], torch.tensor(1))]),
    ("def f(x: Tensor):\n    y = x.clone()\n    y.real[0] = 5\n    return y, x.real", [(M,)]),
    ("def f(x: Tensor, how: Literal['mean', 'sum'] = 'mean'):\n    return x.mean() if how == 'mean' else x.sum()", [(X,), (X, "sum")]),
    ("def f(x: Tensor, n: Literal[1, 2, None] = None):\n    return x if n is None else x * n", [(X,), (X, 2)]),
    ("def f(x: Tensor, flag: Literal[True, False] = True):\n    return x if flag else -x", [(X,), (X, False)]),
    ("def f(x: Tensor, ns: Sequence[int], ys: Sequence[Tensor]):\n    return x * ns[1] + ys[0]", [(X, [1, 2], [X, X])]),
    ("def f(x: Tensor, k: Union[int, float, None] = None):\n    return x if k is None else x * k", [(X,), (X, 2), (X, 2.5)]),
    ("def f(x: Tensor, k: int | float | None = None):\n    return x if k is None else x * k", [(X,), (X, 2), (X, 2.5)]),
    ("def f(x: Tensor, k: Optional[Union[int, float]] = None):\n    return x if k is None else x * k", [(X,), (X, 2)]),
    (
        "def g(x: Tensor, n: int) -> None:\n    if n > 2:\n        return\n    if n < 0:\n        raise ValueError('n')\n\n"
        "def f(x: Tensor, n: int):\n    g(x, n)\n    return x * n",
        [(X, 1), (X, 3)],
    ),
    (
        "def g(n: int):\n    for i in range(n):\n        while n > 3:\n            if i == 2:\n                return None\n            n -= 1\n\n"
        "def f(x: Tensor, n: int):\n    a = g(n)\n    return x * n if a is None else x",
        [(X, 1), (X, 5)],
    ),
    ("def f(x: Tensor, n: int) -> Optional[Tensor]:\n    if n > 2:\n        return x", [(X, 1), (X, 3)]),
    ("def f(x: Tensor, n: int) -> Optional[Tensor]:\n    for i in range(n):\n        if i == 2:\n            return x * i", [(X, 1), (X, 3)]),
    ("def f(x: Tensor, dtype: torch.dtype = torch.float64):\n    return x.to(dtype), torch.zeros(2, dtype=dtype)", [(X,), (X, torch.int32)]),
    (
        "def f(x: Tensor, a: Optional[str] = None, n: Optional[int] = None, m: Optional[float] = None):\n"
        "    if a == 'mean':\n        x = x * 2\n    elif a != 'sum':\n        x = x * 3\n"
        "    return x, n == m, m != 2, 2 == n, 'mean' != a, n == (m if a == 'sum' else None)",
        [(X, *given) for given in itertools.product((None, "mean", "sum"), (None, 2, 3), (None, 2.0))],
    ),
    ("def g(size: torch.Size, n: int = 2):\n    return size[0] * n\n\ndef f(x: Tensor):\n    return x * g(x.shape)", [(M,)]),
    (
        "def f(x: Tensor, n: int):\n    def check(k: int):\n        if k < 3:\n            return\n        assert k < 9\n"
        "    check(n)\n    return x * n",
        [(X, 1), (X, 5)],
    ),
]  # fmt: skip
"""What Python runs and torch.jit.script refuses."""


def check(text: str, expected: Any, calls: list[tuple[Any, ...]]) -> None:
    unit = gs.CompilationUnit(text)
    assert gs.CompilationUnit(unit.code).code == unit.code
    for function in (unit.f, gs.CompilationUnit(unit.code).f):
        for arguments in calls:
            try:
                wanted = expected(*copied(arguments))
            except Exception:
                with pytest.raises(gs.RuntimeFailure):
                    function(*copied(arguments))
                continue
            found = function(*copied(arguments))
            assert same(wanted, found), (wanted, found)


@pytest.mark.parametrize(("text", "calls"), SCRIPTED, ids=range(len(SCRIPTED)))
def test_as_torchscript(text: str, calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    text = text.replace("X0", "torch.zeros(2)")
    check(text, torch.jit.script(python_function(tmp_path, text)), calls)


@pytest.mark.parametrize(("text", "calls"), PLAIN, ids=range(len(PLAIN)))
def test_as_python(text: str, calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    check(text, python_function(tmp_path, text), calls)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("return slice(1)", "E301", "a slice stands outside a subscript"),
        ("s = slice(1)\n    return s", "E301", "'s' is a slice"),
        ("return x[slice(1, 2, 3, 4)]", "E204", "slice() takes one to three bounds"),
        ("return x[slice(1.5)]", "E301", "a slice's bound must be int, not a float"),
        ("s = (slice(1), 0)\n    return s", "E301", "'s' is a slice"),
        ("s = (slice(1), 0)\n    return x[s, 0]", "E301", "'s' is a slice"),
        ("s = (0, 'a')\n    return x[s]", "E301", "a tensor cannot be indexed by a str"),
        ("return (x, 1)[:n]", "E301", "the bounds of a tuple's slice must be literal ints"),
        ("return (x, 1)[::0]", "E301", "the step of a slice is not 0"),
        ("return (x, 1)[n]", "E301", "the index of this tuple must be a literal int"),
        ("return (x, 1)[2]", "E301", "the tuple has 2 elements, there is no [2]"),
        ("return (x, 1)[1.0]", "E301", "a tuple's index must be an int, not a float"),
        ("return divmod(x, 2)", "E204", "divmod() takes numbers, not a Tensor"),
        ("return divmod(n)", "E204", "divmod() takes two numbers"),
        ("return isinstance(x)", "E204", "isinstance() takes a value and a type"),
        ("while True:\n        x = x * 2", "E306", "no `break` or `return` leaves this loop"),
        ("while 1:\n        raise ValueError('no')\n    return x", "E306", "no `break` or `return` leaves this loop"),
        ("for i in range(n):\n        while True:\n            n += 1\n    return x", "E306", "leaves this loop"),
        ("def backward(g):\n        if n:\n            return\n    return x, backward", "E306", "'backward' returns a value on some"),
        ("def backward(g) -> Optional[Tensor]:\n        if n:\n            return g\n    return x, backward", "E306", "'backward' returns"),
        ("if isinstance(x, int):\n        return x", "E306", "'f' returns a value on some paths only"),
        ("if isinstance(x, Tensor):\n        if n:\n            return x", "E306", "on some paths only"),
        ("if isinstance(x, Tensor):\n        for i in range(n):\n            return x", "E306", "on some paths only"),
        ("return isinstance(x, foo)", "E302", "unknown type 'foo'"),
        ("return torch.jit.annotate(Literal[()], x)", "E302", "unknown type 'Literal[()]'"),
        ("return torch.jit.annotate(Literal[x], x)", "E302", "Literal takes strings, ints, bools and None"),
        ("return torch.jit.annotate(Literal[1, 'a'], 1)", "E302", "the only union is with None"),
        ("return torch.jit.annotate(Union[int, str, None], 1)", "E302", "the only union is with None"),
        ("y = n if n > 1 else 1.5\n    return isinstance(y, int)", "E301", "known only when it runs"),
        ("return torch.jit.annotate(int)", "E204", "torch.jit.annotate() takes a type and a value"),
        ("return torch.jit.annotate(int, 1.5)", "E301", "the value is a float, not a int"),
        ("return torch.jit.annotate(innt, 1)", "E302", "unknown type 'innt'"),
        ("for i, v in enumerate(x, begin=2):\n        pass\n    return x", "E204", "enumerate() takes an iterable and a start"),
        ("for i, v in enumerate(x, 1.5):\n        pass\n    return x", "E204", "enumerate() starts at an int"),
        ("for v in reversed(enumerate(x)):\n        pass\n    return x", "E204", "only a range, a list, a tuple or a tensor"),
        ("return reversed([1])", "E102", "reversed() outside a `for`"),
        ("y = x\n    del y\n    return y", "E205", "'y' was deleted"),
        ("y = x\n    if n > 1:\n        del y\n    return y", "E205", "'y' was deleted"),
        ("y = x\n    for i in range(n):\n        del y\n    return x", "E205", "'y', assigned before the loop, is deleted inside"),
        ("del y\n    return x", "E205", "'y'"),
        ("del x[0]\n    return x", "E102", "only names and elements of lists are deleted"),
        ("y = [1, 2]\n    del y[::2]\n    return x", "E102", "deleting a slice of a list with a step"),
        ("return sorted(x, key=1)", "E204", "this expression is not a function"),
        ("return [(1, x)].index((1, 'a'))", "E203", "method 'index' does not take"),
        ("return list(1)", "E203", "list() does not take"),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, code: str, message: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, n: int):\n    {body}\n")
    found = caught.value.diagnostics[0]
    assert found.code == code, str(caught.value)
    assert message in found.message


def test_a_function_of_the_unit_comes_before_a_builtin() -> None:
    cu = gs.CompilationUnit("""
def divmod(a, b):
    return a - b

def len(x: Tuple[int, int]):
    return 7

def f(x):
    return divmod(x, x / 3), len((1, 2))
""")
    assert cu.f(3.0) == (2.0, 7)


def test_lists_of_tensors_keep_their_gradients_when_sorted() -> None:
    cu = gs.CompilationUnit("""
def f(x: List[Tensor], t):
    y = sorted(x, reverse=True)
    total = torch.zeros([])
    for i, v in enumerate(y, start=1):
        total = total + v * v * i
    z = list(x)
    z.remove(t)
    z.sort()
    return total + z[0] * 10 * x.count(t)
""")
    values = [np.array(v) for v in (3.0, 1.0, 2.0)]
    gradients = gs.grad(cu.f)(values, np.array(1.0))
    assert [float(g) for g in gradients] == [6.0, 6.0, 18.0]
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (3.0, 1.0, 2.0)]
    cu.f(tensors, torch.tensor(1.0, dtype=torch.float64)).backward()
    assert [float(t.grad) for t in tensors] == [6.0, 6.0, 18.0]


def test_one_number_stands_for_a_list_where_the_annotation_says_so() -> None:
    cu = gs.CompilationUnit("""
def g(x, k: Optional[BroadcastingList2[int]] = None, *, s: BroadcastingList3[float] = 1):
    return x * len(s), k, s

def f(x):
    return g(x, 3)[1], g(x, [4, 5], s=2)[2]
""")
    assert cu.f(1.0) == ([3, 3], [2.0, 2.0, 2.0])
    assert cu.g(1.0)[1:] == (None, [1.0, 1.0, 1.0])
    assert cu.g(1.0, 7, s=[1, 2, 3])[1:] == ([7, 7], [1.0, 2.0, 3.0])
    assert "k: Optional[BroadcastingList2[int]] = None" in cu.code
    with pytest.raises(gs.RuntimeFailure, match=r"a List\[int\] is needed"):
        cu.g(1.0, "x")
    with pytest.raises(gs.CompileError, match="BroadcastingList2 takes int or float"):
        gs.CompilationUnit("def f(k: BroadcastingList2[str]):\n    return k\n")
