"""f-strings and `with` as Python parses them."""

from __future__ import annotations

import random

import pytest
from gradscript.lang.diagnostics import Diagnostics
from gradscript.lang.parser import parse
from gradscript.lang.source import Source
from lang_support import assert_same_tree

LITERALS = [
    "f''",
    "f'a'",
    'F"{x}"',
    "f'{x}{y}'",
    "f'a{x}b' 'c' f'{y}'",
    "'a' 'b' f'{x}'",
    r"rf'\d{x}\n'",
    "f'\\n{x}\\x41\\N{BULLET}{y}'",
    "f'{{{x}}}'",
    "f'{{}}'",
    "f'{x!r}{y !s}{z!a:>5}'",
    "f'{x:>{n}.{m}f}'",
    "f'{x:}'",
    "f'{x=}{x = }{x + 1=!s}{x=:>4}'",
    "f'{x==y}{x!=y}{x<=y}'",
    "f'{l[1:2]}{g(a, b=1)}'",
    "f'{(1, 2)}{1, 2}{[i for i in x]}'",
    "f'{a if b else c}'",
    "f'{ x }'",
    "f'{f(\"a\")!r}'",
    "f'''{\nx\n+ y}'''",
    "f'{x:%}{y:+}'",
    'f\'{"nested"}\' "{plain}"',
    'f"""{x} "quoted" {y}"""',
    "f'{x:=5}'",
    "f'{-x}{not x}{x ** -y}'",
]


def _checked(text: str) -> None:
    diagnostics = Diagnostics()
    module = parse(Source(text, "model.grad"), diagnostics)
    assert not diagnostics.found, text
    assert_same_tree(text, module)


@pytest.mark.parametrize("literal", LITERALS)
def test_as_python(literal: str) -> None:
    _checked(f"def f(x):\n    y = {literal}\n    return y\n")


@pytest.mark.parametrize("header", ["a.b()", "a, b", "a(), b.c(1)", "(a)"])
def test_with(header: str) -> None:
    _checked(f"def f(x):\n    with {header}:\n        y = 1\n        with a: z = 2\n    return x\n")


@pytest.mark.parametrize("seed", range(40))
def test_broken_ones_are_reported(seed: int) -> None:
    """Whatever is cut out of an f-string or put into it: reported, or read as Python reads it."""
    rng = random.Random(seed)
    for _ in range(40):
        text = list(rng.choice(LITERALS))
        for _ in range(rng.choice((1, 2))):
            place = rng.randrange(len(text))
            text[place : place + rng.choice((0, 1))] = rng.choice(
                ("", "{", "}", "!", ":", "=", "'", "(", "]", "\\", " x", "{x")
            )
            if not text:
                break
        source = f"def f(x):\n    y = {''.join(text)}\n    return y\n"
        diagnostics = Diagnostics()
        module = parse(Source(source, "model.grad"), diagnostics)
        # Python lets a backslash stand in a field from its version 3.12 on.
        if not diagnostics.found and "\\" not in source:
            assert_same_tree(source, module)
