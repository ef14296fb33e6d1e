"""Long functions and deep nests print in time that grows with their size."""

from __future__ import annotations

import pytest
from amounts import some
from gradscript.compiler.unparse import unparse_unit
from roundtrip import check_unit, compiled

COUNT = some(10_000)


def straight() -> str:
    lines = "".join(f"    x = torch.add(x, {i})\n" for i in range(COUNT))
    return f"def f(x):\n{lines}    return x\n"


def branches() -> str:
    lines = "".join(f"    if n > {i}:\n        x = torch.add(x, {i})\n" for i in range(COUNT // 4))
    return f"def f(x, n: int):\n{lines}    return x\n"


def checked_optional() -> str:
    lines = "".join(f"    if y is not None:\n        x = torch.add(x, y)\n    z = x + {i}\n" for i in range(COUNT // 4))
    return f"def f(x, y: Optional[Tensor]):\n{lines}    return x, z\n"


def one_list() -> str:
    return f"def f(x, n: int):\n    return [{', '.join(f'n + {i}' for i in range(COUNT))}]\n"


def chain() -> str:
    return f"def f(x, n: int):\n    return x + ({' + '.join(['n'] * COUNT)})\n"


@pytest.mark.parametrize("source", [straight, branches, checked_optional, one_list, chain], ids=lambda f: f.__name__)
def test_long(source: object) -> None:
    callees = compiled(source())  # type: ignore[operator]
    text = unparse_unit(callees)
    assert unparse_unit(compiled(text)) == text


@pytest.mark.parametrize("opening", ["if n > {i}:", "for i{i} in range(n):", "while n > {i}:"])
def test_deep(opening: str) -> None:
    depth = 80
    lines = [f"{'    ' * (i + 1)}{opening.format(i=i)}" for i in range(depth)]
    body = f"{'    ' * (depth + 1)}x = x + 1\n{'    ' * (depth + 1)}n = n - 1"
    check_unit("\n".join(["def f(x, n: int):", *lines, body, "    return x, n\n"]))


def test_long_else_chain() -> None:
    lines = "".join(f"    {'el' if i else ''}if n == {i}:\n        x = x * {i}\n" for i in range(90))
    text = check_unit(f"def f(x, n: int):\n{lines}    return x\n")
    assert text.count("elif") == 89
