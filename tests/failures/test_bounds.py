"""What a few characters of source ask for that no memory holds: told at once, folded or run, on every road."""

import math
import time

import gradscript as gs
import pytest

TOO_MUCH = {
    "math.factorial(n)": "an int of more than",
    "math.comb(n, 500000000)": "an int of more than",
    "math.perm(n, 1500000000)": "an int of more than",
    "2 ** n": "an int of more than",
    "(-3) ** n": "an int of more than",
    "1 << n": "an int of more than",
    "'x' * n": "a string of 2000000000 characters",
    "'x'.zfill(n)": "a string of 2000000000 characters",
    "'x'.center(n)": "a string of 2000000000 characters",
    "f'{1:2000000000}'": "a string of 2000000000 characters",
    "f'{1.0:.2000000000f}'": "a string of 2000000000 characters",
    "'%2000000000d' % 3": "a string of 2000000000 characters",
    "('x' * 1000000).replace('x', 'y' * 1000000)": "a string of 1000000000000 characters",
    "('y' * 10000000).join(['x'] * 1000)": "a string of 9990001000 characters",
    "[0] * n": "a list of 2000000000 elements",
    "n * [0]": "a list of 2000000000 elements",
    "(0,) * n": "a list of 2000000000 elements",
    "list(range(n))": "a list of at least",
    "sum(range(0, n, 2))": "a list of at least",
    "[i * 2 for i in range(n)]": "a list of at least",
}


@pytest.mark.parametrize("expression", TOO_MUCH)
def test_too_much_is_told_at_once(expression):
    for source, arguments in (
        (f"def f(n: int):\n    return {expression}\n", (2_000_000_000,)),
        (f"def f():\n    n = 2000000000\n    return {expression}\n", ()),
    ):
        began = time.process_time()
        with pytest.raises(gs.RuntimeFailure, match=TOO_MUCH[expression]):
            gs.CompilationUnit(source).f(*arguments)
        assert time.process_time() - began < 5


@pytest.mark.parametrize("grown", ["a * a", "a << a", "a ** a"])
def test_what_grows_in_a_loop_is_told_too(grown):
    unit = gs.CompilationUnit(f"def f():\n    a = 3\n    for i in range(60):\n        a = {grown}\n    return a\n")
    with pytest.raises(gs.RuntimeFailure, match="an int of more than"):
        unit.f()


def test_what_is_not_too_much_is_computed():
    source = """
def f(n: int):
    a = [math.factorial(n), math.comb(2 * n, n), math.perm(n, n - 1), 3 ** n, 5 << n, 0 << n, 1 ** n, (-1) ** n]
    return a, "ab" * 3 + "c".zfill(4) + "a-b".replace("-", "--") + f"{n:06d}" + ",".join(["x", "y"]), [1] * 3
"""
    ints, text, ones = gs.CompilationUnit(source).f(300)
    assert ints[:4] == [math.factorial(300), math.comb(600, 300), math.perm(300, 299), 3**300]
    assert ints[4:] == [5 << 300, 0, 1, 1]
    assert text == "ababab000ca--b000300x,y"
    assert ones == [1, 1, 1]
    ended = gs.CompilationUnit(
        "def f(n: int):\n    a = [0]\n    while a[-1] < n:\n        a.append(len(a))\n    return a\n"
    )
    assert ended.f(4) == [0, 1, 2, 3, 4]
