"""print, warnings.warn and text made of values: what Python says, once and in order, on every road."""

from __future__ import annotations

import random
import warnings
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some
from eager_programs import check, eager

X, W = np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.5])
SOURCE = """
def helper(v, n: int):
    print("helping", n)
    return v * v


def told(x, w):
    n = x.size(0)
    print("start", n, x.shape[0], end="; ")
    y = helper(x, n) * w
    for i in range(3):
        print(f"round {i}: {'odd' if i % 2 else 'even'}")
        y = y * w + helper(y, i)
        if i == 1:
            print("one")
    print("done", "%d/%s" % (n, "x"), "{:>5}|{}".format(n, [n]), sep="-")
    return y


def chosen(x, w):
    y = x * w
    if bool(x.sum() > 100):
        print("large")
        return y
    print("small")
    while bool(y.sum() < 40):
        y = y * y + x
        print(int(y.size(0)))
    print("end")
    return y


def alone(x, w):
    print("only this")
    print("only this")
    return x * 1
"""


@pytest.mark.parametrize("name", ("told", "chosen", "alone"))
def test_roads(name: str) -> None:
    check(SOURCE, name, X, W)


def test_gradient_functions() -> None:
    unit = gs.CompilationUnit("def f(x):\n    print('once')\n    return (x * x * x).sum()\n")
    with redirect_stdout(StringIO()) as printed:
        gs.grad(unit.f)(X)
    assert printed.getvalue() == "once\n"


FAILING = """
def inner(x, n: int):
    print("inner")
    assert n < 2, f"n is {n}"
    return x * x


def f(x, n: int):
    print("before")
    y = inner(x, n)
    print("after")
    return y.view(2, 3)
"""


@pytest.mark.parametrize(("n", "told", "line"), [(1, "before\ninner\nafter\n", 12), (3, "before\ninner\n", 4)])
def test_what_fails_is_told_once(n: int, told: str, line: int) -> None:
    function = gs.CompilationUnit(FAILING).f
    roads: list[Any] = [
        lambda: function(X, n),
        lambda: function(torch.tensor(X), n),
        lambda: function(torch.tensor(X, requires_grad=True), n),
        lambda: function(gs.tape.Variable(X), n),
        lambda: gs.vjp(function, X, n),
    ]
    for road in roads:
        with redirect_stdout(StringIO()) as printed, pytest.raises(gs.RuntimeFailure) as caught:
            road()
        assert printed.getvalue() == told
        assert caught.value.span.line == line


def test_warnings() -> None:
    source = (
        "def f(x, n: int):\n    if n > 1:\n        warnings.warn(f'{n} is much', RuntimeWarning)\n    return x * x\n"
    )
    unit = gs.CompilationUnit(source)
    for made in (unit, gs.CompilationUnit(unit.code)):
        for call in (lambda f: f(X, 2), lambda f: gs.vjp(f, X, 2), lambda f: f(torch.tensor(X), 2)):
            with pytest.warns(RuntimeWarning, match="2 is much") as told:
                call(made.f)
            assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made.f(X, 1)


# --- text ---

PARAMETERS = "n: int, k: int, c: float, s: str, b: bool, o: Optional[int], l: List[int], m: List[float], x: Tensor"
NAMES = ("n", "k", "c", "s", "b", "o", "l", "m", "x", "n + 1", "(n, s)", "[x, x]", "c * 2", "s[0]", "None")
FORMATS = {
    "n": ("", "d", "03d", "+d", ">6", "<4d", "x", ",", ".2f", "e"),
    "k": ("b", "o", "#x", "^7d"),
    "c": ("", ".3f", "8.2f", "e", "g", "+.1f", ".0f", "%"),
    "s": ("", ">5", "<3", "^9", ".1"),
    "b": ("", "d"),
}
PERCENT = {"n": "dixXofe", "k": "d5", "c": "fegd", "s": "sr", "b": "sd", "l": "sr", "x": "s", "m": "r"}


def _field(rng: random.Random) -> str:
    if rng.random() < 0.4:
        name = rng.choice([*FORMATS])
        spec = rng.choice(FORMATS[name])
        return f"{{{name}:{spec}}}"
    return f"{{{rng.choice(NAMES)}{rng.choice(('', '', '', '!r', '!s', '!a', '='))}}}"


def _text(rng: random.Random) -> str:
    return rng.choice(("", " ", "a b", "{{", "}}", "é\\n", ", ", "%", "100%", "\\t"))


def _percent(rng: random.Random) -> str:
    names = [rng.choice([*PERCENT]) for _ in range(rng.choice((1, 2, 3)))]
    specs = []
    for name in names:
        kind = rng.choice(PERCENT[name])
        flags = rng.choice(("", "", "5", "-6", "03", "+", ".2", "8.3")) if name in ("n", "c") and kind != "5" else ""
        specs.append(f"%{flags}{kind if kind != '5' else '5d'}")
    values = names[0] if len(names) == 1 and names[0] not in ("l", "m") else f"({', '.join(names)},)"
    return f"'{rng.choice(('<', '%%', ''))}{' '.join(specs)}' % {values}"


def _dotted(rng: random.Random) -> str:
    names = [rng.choice([*FORMATS]) for _ in range(rng.choice((1, 2)))]
    fields = [rng.choice((f"{{:{rng.choice(FORMATS[name])}}}", "{}", "{!r}")) for name in names]
    return f"'{'|'.join(fields)} {{{{q={{q}}'.format({', '.join(names)}, q={rng.choice(names)})"


def _program(rng: random.Random) -> str:
    texts = []
    for _ in range(4):
        kind = rng.random()
        if kind < 0.6:
            texts.append("f'" + "".join(_text(rng) + _field(rng) for _ in range(rng.choice((1, 2, 3)))) + "'")
        elif kind < 0.8:
            texts.append(_percent(rng))
        else:
            texts.append(_dotted(rng))
    lines = [f"def f({PARAMETERS}):", f"    t = {texts[0]}", f"    print({', '.join(texts[1:])}, t)"]
    lines += ["    if t == 'a' or t < 'b' + s:", "        print('less')", "    return t + s"]
    return "\n".join([*lines, ""])


VALUES: tuple[Any, ...] = (7, 255, -2.5, "ab", True, None, [1, 2], [0.5, 1e-9])


@pytest.mark.parametrize("seed", range(some(150)))
def test_generated(seed: int) -> None:
    rng = random.Random(seed)
    source = _program(rng)
    x: Any = np.asarray(rng.choice((2.5, [1.0, -2.25], [[1, 2], [3, 4]])), rng.choice((np.float32, np.float64)))
    expected: Any = None
    with redirect_stdout(StringIO()) as printed:
        try:
            expected = eager(source)["f"](*VALUES, torch.tensor(x))
        except (TypeError, ValueError) as error:
            expected = error
    unit = gs.CompilationUnit(source)
    assert gs.CompilationUnit(unit.code).code == unit.code
    for made in (unit, gs.CompilationUnit(unit.code)):
        with redirect_stdout(StringIO()) as ours:
            if isinstance(expected, Exception):
                with pytest.raises(gs.RuntimeFailure):
                    made.f(*VALUES, x)
            else:
                assert made.f(*VALUES, x) == expected, source
        assert isinstance(expected, Exception) or ours.getvalue() == printed.getvalue(), source


@pytest.mark.parametrize("seed", range(some(30)))
def test_numbers_that_change_from_call_to_call_are_written(seed: int) -> None:
    """What is planned for numbers that are open writes those of each call, in lists and tuples too."""
    rng = random.Random(seed)
    fields = [rng.choice(("n", "n * k", "[n, k]", "(n, 1)", "c", "[c, c * 2]", "-k", "n // 2", "n % 3")) for _ in "ab"]
    how = rng.choice(("f'{{{}}} {{{}}}'", "str({}) + repr({})", "'%s|%r' % (({}), ({}))", "'{{}} {{}}'.format({}, {})"))
    source = f"def f(n: int, k: int, c: float):\n    return {how.format(*fields)}, n**2.0, n**2\n"
    python, function = eager(source)["f"], gs.CompilationUnit(source).f
    for n, k, c in ((7, 3, 0.5), (8, 3, 0.5), (9, 5, 1.5), (-4, 6, 2.5), (10, 5, 0.1)):
        with gs.settings.backend("c"):
            found = function(n, k, c)
        expected = python(n, k, c)
        assert found == expected and [*map(type, found)] == [*map(type, expected)], source


@pytest.mark.parametrize("seed", range(some(60)))
def test_tensors_are_written_as_torch_writes_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [int(rng.choice((0, 1, 2, 3, 5, 13))) for _ in range(seed % 4)]
    if seed % 10 == 9:
        shape = [int(rng.choice((40, 7, 1001))), 30]
    array = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7))
    if seed % 3 == 0:
        array = np.round(array)
    if seed % 7 == 0:
        array = np.where(rng.random(shape) < 0.3, rng.choice((np.inf, -np.inf, np.nan, 0.0)), array)
    dtypes = (torch.float32, torch.float64, torch.int64, torch.bool, torch.float16, torch.int32)
    with np.errstate(all="ignore"):
        tensor = torch.tensor(np.nan_to_num(array)).to(dtypes[seed % len(dtypes)])
    function = gs.CompilationUnit("def f(x):\n    return str(x)\n").f
    assert function(tensor.numpy()) == repr(tensor)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("f'{x'", "E003"),
        ("f'{}'", "E101"),
        ("f'a}'", "E101"),
        ("f'{x!z}'", "E101"),
        ("f'{x:{n:{n}}}'", "E102"),
        ("f'{lambda: 1}'", "E101"),
        ("f'{(lambda: 1)}'", "E102"),
        ("f'{(x}'", "E003"),
        ("f'{x y}'", "E101"),
        ("f'{n +}'", "E101"),
        ("b'abc'", "E102"),
        ("'%d %d' % n", "E203"),
        ("'%(n)d' % n", "E203"),
        ("'%*d' % (n, n)", "E203"),
        ("'%y' % n", "E203"),
        ("'%' % n", "E203"),
        ("s % n", "E203"),
        ("s.format(n)", "E203"),
        ("'{} {}'.format(n)", "E203"),
        ("'{n'.format(n)", "E203"),
        ("'{} {0}'.format(n, n)", "E203"),
        ("'{1} {}'.format(n, n)", "E203"),
        ("'{0.real}'.format(n)", "E203"),
        ("print(n, file=n)", "E204"),
        ("print(n, sep=n)", "E301"),
        ("warnings.warn()", "E204"),
        ("warnings.warn('a', n)", "E201"),
        ("warnings.war('a')", "E202"),
    ],
)
def test_what_makes_no_sense(line: str, code: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, n: int, s: str):\n    y = {line}\n    return y\n")
    assert caught.value.code == code
    assert caught.value.span.line == 2
