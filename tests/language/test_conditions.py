"""Lists, strings, optionals and tensors as conditions, and operands of `and` and `or` as values: Python's meaning."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from eager_programs import check, eager

SOURCE = """
def walked(x, w):
    l = [x, w]
    e = l[:0]
    r = x * 1
    if l and not e:
        r = r + 1
    while l:
        r = r * l.pop()
    return r if not l else x


def chosen(x, w):
    e = [x][:0]
    y = e or [w * 3]
    n = 0 or 7
    return y[0] * n * (x.sum() and w.sum())


def filtered(x, w):
    counts = [n for n in [1, 0, 2] if n]
    assert counts, "none left"
    return x * len(counts) * w


def optional(x, w):
    o: Optional[Tensor] = None
    if bool(x.sum() > 0):
        o = w.sum()
    z = o or x.sum()
    return z * w + x if o else z
"""


@pytest.mark.parametrize("name", ("walked", "chosen", "filtered", "optional"))
def test_roads(name: str) -> None:
    check(SOURCE, name, np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.5]))


PARAMETERS = "a: int, b: int, c: float, s: str, t: str, l: List[int], k: List[int], o: Optional[int], x: Tensor"
OPERANDS = {
    "int": ("a", "b", "len(l)"),
    "str": ("s", "t"),
    "list": ("l", "k", "l[1:]"),
    "bool": ("a > 1", "not s", "o is None", "not l", "1 < a < 4", "x.size(0) == 1"),
    "any": ("a", "c", "s", "l", "k", "o", "x", "(a, b)", "()", "None", "not o", "a == b", "(s or t)", "(a and b)"),
}


def _expression(rng: random.Random, kind: str, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(OPERANDS[kind])
    count = rng.choice((2, 2, 3))
    parts = [_expression(rng, kind, depth - 1) for _ in range(count)]
    text = "(" + f" {rng.choice(['and', 'or'])} ".join(parts) + ")"
    return f"(not {text})" if kind in ("bool", "any") and rng.random() < 0.2 else text


def _program(rng: random.Random) -> str:
    lines = [f"def f({PARAMETERS}):"]
    for name, kind in (("i", "int"), ("u", "str"), ("m", "list"), ("p", "bool")):
        lines.append(f"    {name} = {_expression(rng, kind, 2)}")
    test = _expression(rng, "any", 2)
    lines += ["    r = 0", f"    if {test}:", "        r = 1", f"    v = 3 if {_expression(rng, 'any', 2)} else 4"]
    return "\n".join([*lines, "    return i, u, m, p, r, v", ""])


VALUES: list[tuple[Any, ...]] = [
    *product((0, 2), (0, 3), (0.0, 1.5), ("", "s"), ("", "t"), ([], [1]), ([], [0, 2]), (None, 0, 4), (0.0, 1.0))
]


@pytest.mark.parametrize("seed", range(60))
def test_generated(seed: int) -> None:
    rng = random.Random(seed)
    source = _program(rng)
    unit = gs.CompilationUnit(source)
    printed = gs.CompilationUnit(unit.code)
    assert printed.code == unit.code
    for values in rng.sample(VALUES, 12):
        *rest, x = values
        expected = eager(source)["f"](*rest, torch.tensor([x]))
        for made in (unit, printed):
            found = made.f(*rest, np.array([x]))
            assert found == expected, (source, values)
            assert [type(v) for v in found] == [type(v) for v in expected]


@pytest.mark.parametrize("array", (np.ones(2), np.ones(0)))
def test_a_tensor_of_other_than_one_element_fails(array: Any) -> None:
    unit = gs.CompilationUnit("def f(x):\n    if x:\n        return x\n    return x * 2\n")
    with pytest.raises(gs.RuntimeFailure) as caught:
        unit.f(array)
    assert caught.value.span.line == 2


@pytest.mark.parametrize(
    ("line", "code"), [("x and n", "E304"), ("n or s", "E304"), ("x or None or s", "E304"), ("s and l", "E304")]
)
def test_operands_of_two_types(line: str, code: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, n: int, s: str, l: List[int]):\n    y = {line}\n    return y\n")
    assert caught.value.code == code


CHAINS = """
def listed(l: List[int], i: int):
    return 0 <= i < len(l) != l[i]


def divided(x, n: int):
    if 0 < n < 10 // n:
        x = x * x
    return x


def is_in_it(x, n: int):
    return 0 < n is n
"""


def test_a_chain_goes_no_further_than_it_holds() -> None:
    unit = gs.CompilationUnit(CHAINS[: CHAINS.index("def is_in_it")])
    for again in (unit, gs.CompilationUnit(unit.code)):
        assert [again.listed([5, 2], i) for i in (-1, 0, 1, 2)] == [False, True, False, False]
        assert [again.divided(3.0, n) for n in (0, 2, 9)] == [3.0, 9.0, 3.0]
        assert [gs.grad(again.divided)(3.0, n) for n in (0, 2)] == [1.0, 6.0]
    with pytest.raises(gs.CompileError, match="inside a chain"):
        gs.CompilationUnit(CHAINS)
