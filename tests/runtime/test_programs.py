"""Compiled programs against the same text run by Python on NumPy."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest

X = np.arange(6.0).reshape(2, 3)

PROGRAMS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "straight": ("def f(x, y):\n    z = x * y\n    return z + x, z - y\n", [(X, X + 1)]),
    "branch": (
        """
def f(x, n: int):
    if n > 2:
        y = x * 2.0
        x = y
    elif n == 0:
        return x
    else:
        x = x - 1.0
    return x * x
""",
        [(X, 0), (X, 1), (X, 5)],
    ),
    "for": (
        """
def f(x, n: int):
    total = x
    for i in range(1, n, 2):
        total = total * 2.0 + i
    return total
""",
        [(X, 0), (X, 1), (X, 9)],
    ),
    "swap": (
        """
def f(a, b, n: int):
    for i in range(n):
        a, b = b, a
    return a, b
""",
        [(X, X + 1, 0), (X, X + 1, 3), (X, X + 1, 4)],
    ),
    "fibonacci": (
        """
def f(n: int):
    a = 0
    b = 1
    while a < n:
        a, b = b, a + b
    return a, b
""",
        [(0,), (1,), (1000,)],
    ),
    "break and continue": (
        """
def f(x, n: int):
    for i in range(n):
        if i == 2:
            continue
        if i > 5:
            break
        x = x * 2.0 + i
    return x
""",
        [(X, 0), (X, 3), (X, 10)],
    ),
    "return inside loops": (
        """
def f(x, n: int):
    for i in range(n):
        for j in range(i):
            if i * j == 6:
                return x * i - j
            x = x + 1.0
    return x * 0.0
""",
        [(X, 2), (X, 10)],
    ),
    "nested loops": (
        """
def f(x, n: int):
    y = x
    for i in range(n):
        z = y * 2.0
        for j in range(i):
            y = y + z * j
            if j > 1:
                z = z - y
        y = y - z
    return y
""",
        [(X, 0), (X, 5)],
    ),
    "optional": (
        """
def f(x, y: Optional[Tensor] = None, z: Optional[Tensor] = None):
    if y is None:
        if z is not None:
            return x * z
        return x
    if z is not None and x is not None:
        return y + z
    return x + y
""",
        [(X,), (X, X), (X, X, X + 2), (X, None, X)],
    ),
    "lists": (
        """
def f(xs: List[Tensor], n: int):
    ys = [x * 2.0 for x in xs]
    ks = [i * i for i in range(n) if i != 1]
    total = ys[0]
    for i, y in enumerate(ys):
        total = total + y * i
    for k, y in zip(ks, ys):
        total = total - y * k
    return total, len(ks), ks
""",
        [([X, X + 1, X + 2], 4)],
    ),
    "calls": (
        """
def g(x, n: int):
    if n > 3:
        return x * 2.0, n
    return x, n + 1

def f(x, n: int):
    y, m = g(x, n)
    z, k = g(y, m)
    return y + z, k
""",
        [(X, 1), (X, 3), (X, 9)],
    ),
    "tuples": (
        """
def f(x, n: int):
    pair = (x, n)
    if n > 0:
        pair = (x + 1.0, n + 1)
    a, b = pair
    return a, b, pair[0]
""",
        [(X, 0), (X, 1)],
    ),
    "numbers": (
        """
def f(n: int, s: float, b: bool):
    a = n // 3 + n % 3
    c = s * a if b else s / 2
    return a, c, not b, -n, n < s < 10 or b
""",
        [(7, 2.5, True), (-7, 0.5, False)],
    ),
    "assert": ("def f(n: int):\n    assert n > 0, 'positive'\n    return n * 2\n", [(3,)]),
}


def run_as_python(source: str, arguments: tuple[Any, ...]) -> Any:
    from typing import Optional

    names: dict[str, Any] = {"Tensor": np.ndarray, "Optional": Optional, "List": list, "Tuple": tuple}
    exec(source, names)
    return names["f"](*arguments)


def assert_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(actual, expected)
        assert actual.dtype == expected.dtype
    else:
        assert type(actual) is type(expected)
        assert actual == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_as_python_does(name: str) -> None:
    source, cases = PROGRAMS[name]
    function = gs.CompilationUnit(source).f
    for arguments in cases:
        assert_same(function(*arguments), run_as_python(source, arguments))


def test_a_function_without_a_result_gives_none() -> None:
    assert gs.CompilationUnit("def f(x):\n    pass\n").f(X) is None


def test_a_list_in_the_source_is_the_callers_own() -> None:
    function = gs.CompilationUnit("def f():\n    return [1, 2]\n").f
    function().append(3)
    assert function() == [1, 2]
