# ruff: noqa: E501 (programs in one line)
"""Strings, orders of lists, identities and assertions: each program gives what Python gives of the same text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
from scripted import check_with_python

WORDS = ("Grad Script", "", "  tab\tbed \n", "key=value=", "ab1", "ÄÖ_ß")
METHODS = (
    *("upper", "lower", "swapcase", "capitalize", "title", "casefold", "strip", "lstrip", "rstrip", "isupper"),
    *("islower", "isdigit", "isdecimal", "isnumeric", "isspace", "isalpha", "isalnum", "istitle", "isidentifier"),
    *("isprintable", "isascii", "split", "rsplit", "splitlines", "expandtabs"),
)
CALLS = (
    *("s.strip(' G')", "s.split('=')", "s.rsplit(sep='=', maxsplit=1)", "s.splitlines(True)", "s.partition('=')"),
    *("s.rpartition(' ')", "s.center(14)", "s.ljust(14, '*')", "s.rjust(14, '.')", "s.zfill(14)", "s.expandtabs(2)"),
    *("s.find('a')", "s.rfind('a', 3)", "s.count('e', 0, -1)", "s.startswith('G')", "s.endswith('=', 2)"),
    *("s.removeprefix('ab')", "s.removesuffix('=')", "s.replace('a', 'bb', 1)", "'-'.join(s.split())"),
    *("str.upper(s)", "[c for c in s]", "[(i, c) for i, c in enumerate(s)]", "list(reversed(s))", "min(s, 'b')"),
    *("[ord(c) for c in s]", "chr(len(s) + 97)", "hex(len(s)), oct(len(s)), bin(len(s))", "max(s, 'a', 'b')"),
)


@pytest.mark.parametrize("part", range(4))
def test_strings(tmp_path: Path, part: int) -> None:
    calls = [*(f"s.{name}()" for name in METHODS), *CALLS][part::4]
    text = f"def f(s: str):\n    return {', '.join(f'({call})' for call in calls)}\n"
    check_with_python(tmp_path, text, [(word,) for word in WORDS])


LISTS = "def f(a: List[int], b: List[int]):\n    return a < b, a <= b, a > b, a >= b, min(a, b, [2]), max(a, b)\n"
PROGRAMS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "lists are ordered by their first difference": (
        LISTS,
        [([1, 8], [2]), ([2, 1], [2]), ([], []), ([1], []), ([3], [3])],
    ),
    "lists of lists": (
        LISTS.replace("List[int]", "List[List[str]]").replace("[2]", '[["c"]]'),
        [([["b"]], [["b", "a"]])],
    ),
    "NaN is neither less nor more": (
        LISTS.replace("int", "float").replace("[2]", "[2.0]"),
        [([1.0, float("nan")], [1.0, 3.0])],
    ),
    "tuples": (
        "def f(a: Tuple[int, int]):\n    return a < (1, 3), (1, 2) <= (1, 2, 0), max(a, (1, 3))\n",
        [((1, 2),), ((2, 0),)],
    ),
    "what is chosen is the object": (
        "def f(n: int):\n    a, b = [n], [2]\n    c = min(a, b)\n    c.append(7)\n    return c, len(a) + len(b)\n",
        [(1,), (3,)],
    ),
    "bools are one": (
        "def f(a: bool, b: bool, n: int):\n    return a is b, a is not True, False is a, a is n, [1] is [1], [n] is not a\n",
        [(True, True, 1), (True, False, 0), (False, False, 2)],
    ),
    "a tuple of a list that is written there": ("def f(n: int):\n    return tuple([n, 2]), tuple([n])[0]\n", [(3,)]),
    "checks": (
        "def f(x: Tensor, n: int):\n    torch._check(bool(x.sum() > n), 'too small')\n    torch._check(message='m', cond=n > 0)\n"
        "    torch._check(n < 9)\n    return x * n\n",
        [(torch.ones(3), 2), (torch.ones(12), 8)],
    ),
    "messages": (
        "def f(n: int):\n    if n == 1:\n        raise ValueError(n)\n    if n == 2:\n        raise ValueError('a', n)\n"
        "    assert n > 3, n\n    return n\n",
        [(1,), (2,), (3,), (4,)],
    ),
    "lists of what is in a tensor": (
        "def f(x: Tensor, n: Tensor) -> Tuple[List[List[float]], List[int], Tensor]:\n    y = x.sum(0)\n    values: List[float] = y.tolist()\n"
        "    for v in values:\n        y = y * v\n    return x.tolist(), n.tolist(), y * torch.jit.annotate(bool, (n > 2).any().tolist())\n",
        [
            (torch.arange(6.0).reshape(2, 3), torch.tensor([1, 3])),
            (torch.ones(0, 2), torch.zeros(0, dtype=torch.int64)),
        ],
    ),
    "places in lists": (
        "def f(x: Tensor):\n    y = x.clone()\n    y[[[0, 1], [2, 0]], 0] = 7.0\n    return x[[[0, 1], [2, 2]], :], x[:, [[1], [0]]], x[[True, False, True]], y\n",
        [(torch.arange(6.0).reshape(3, 2),)],
    ),
    "numbers of math": (
        "def f(n: int, m: int):\n    return math.gcd(n, m), math.lcm(n, m), math.factorial(n), math.isqrt(n), math.comb(n, 2), math.perm(n, 1)\n",
        [(12, 18), (5, -15), (0, 0), (-3, 1)],
    ),
    "where a tensor is": (
        "def f(x: Tensor):\n    return x.is_meta, x.is_nested, x.is_sparse_csr, x.is_quantized, x.is_cpu, x.mH, x.itemsize\n",
        [(torch.ones(2, 3),)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path: Path, name: str) -> None:
    check_with_python(tmp_path, *PROGRAMS[name])


@pytest.mark.parametrize(("n", "told"), [(5, "RuntimeError: too small"), (0, "RuntimeError: m"), (9, "to be True")])
def test_failing_checks(n: int, told: str) -> None:
    """A message is told, which eager torch takes for no function and tells of that."""
    text, _ = PROGRAMS["checks"]
    with pytest.raises(gs.RuntimeFailure, match=told):
        gs.CompilationUnit(text).f(torch.ones(3 if n == 5 else 12), n)


REFUSED = (
    ("s.uper()", "a str has no method 'uper'", "did you mean 'upper'"),
    ("s.index('z')", "substring not found", ""),
    ("n.add(1)", "int has no method 'add'", "torch.add"),
    ("n is 1", "`is` compares with None", "=="),
    ("[1] < (1, 2)", "does not take a list and a tuple", "in brackets"),
    ("(1, s) < (2, s)", "does not take", ""),
    ("torch._check(x > 0)", "unknown operator", ""),
    ("x.tolist()", "what tolist() gives depends on the tensor", "List[float]"),
    ("torch.jit.annotate(List[List[float]], x.tolist())", "a tensor of 2 dimensions of floats", "float32[1]"),
    ("torch.jit.annotate(List[int], x.tolist())", "a tensor of 1 dimensions of ints", ""),
    ("torch.jit.annotate(List[str], x.tolist())", "tolist() does not give a List[str]", ""),
    ("x[[[0], [0]]]", "a list of lists for an index of each dimension", "torch.tensor"),
    ("x.upper()", "a Tensor has no method 'upper'", ""),
)


@pytest.mark.parametrize(("expression", "message", "note"), REFUSED)
def test_refusals(expression: str, message: str, note: str) -> None:
    with pytest.raises((gs.CompileError, gs.RuntimeFailure)) as refused:
        gs.CompilationUnit(f"def f(x, s: str, n: int):\n    return {expression}\n").f(torch.ones(1), "a", 1)
    assert message in str(refused.value) and note in str(refused.value)
