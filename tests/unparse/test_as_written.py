"""Source is printed as people write it: operators, methods, keywords, subscripts."""

from __future__ import annotations

import gradscript as gs
import pytest
from roundtrip import check_unit

SAME = [
    "x + y * x - y / x",
    "(x + y) * (x - y)",
    "x - (y - x)",
    "x / (y / x) / y",
    "1 - x",
    "2 / x",
    "x * 2",
    "2 * x",
    "s * x + x * s",
    "x ** 2 ** x",
    "(x ** 2) ** x",
    "2 ** x",
    "(-2) ** x",
    "-x ** 2",
    "(-x) ** 2",
    "x @ y.t()",
    "x // y % 2",
    "~(x > y) | (x <= 2) & (y != x) ^ (x == 3)",
    "(x < y) == (y < x)",
    "n - x * (n + 1)",
    "(n + 1) * x",
    "(n + 1) / x",
    "x.reciprocal() * (n + 1)",
    "(x + y).sum()",
    "torch.sum(x)",
    "x.sum(0)",
    "x.sum(dim=0, keepdim=True)",
    "torch.softmax(x, dim=-1)",
    'F.gelu(x, approximate="tanh")',
    "torch.add(x, y, alpha=2)",
    "torch.where(x > 0, y, 0)",
    "x[0] + x[:, n] + x[..., -1]",
    "x[:n] + x[n + 1:]",
    "x.to(y.dtype) + x.T",
    "x * max(0, n) * min(n, 2)",
    "x.reshape([n, -1]).transpose(0, 1)",
]
"""Expressions that are printed as they stand."""

OTHER = {
    "x[1:, None, ::2]": "x[1:].unsqueeze(1)[:, :, ::2]",
    "torch.mul(torch.mul(x, y), torch.rsub(y, 1))": "x * y * (1 - y)",
    "torch.neg(torch.lt(x, 3))": "-(x < 3)",
    "3 > x": "x < 3",
    "((x))": "x",
    "x.sum([1], True)": "x.sum(1, keepdim=True)",
    "torch.select(x, 1, n)": "x[:, n]",
}
"""Expressions, and how they are printed."""


def _printed(expression: str) -> str:
    text = check_unit(f"def f(x, y, n: int, s: float):\n    return {expression}\n")
    return text.rpartition("    return ")[2].strip()


@pytest.mark.parametrize("expression", SAME)
def test_printed_as_it_stands(expression: str) -> None:
    assert _printed(expression) == expression


@pytest.mark.parametrize(("expression", "printed"), OTHER.items())
def test_printed_as_people_write_it(expression: str, printed: str) -> None:
    assert _printed(expression) == printed


def test_operands_keep_their_order() -> None:
    text = "def g(x):\n    print(1)\n    return x\n\n\ndef f(x, y):\n    a = x - g(y)\n    return g(x) * g(y) - g(a)\n"
    check_unit(text)


def test_docstrings_stay() -> None:
    text = 'def f(x):\n    """One, "two", \\\\ and\n    \\"\\"\\" three\\""""\n    return x\n'
    unit = gs.CompilationUnit(text)
    again = gs.CompilationUnit(unit.code)
    assert again.code == unit.code
    assert again.f.__doc__ == unit.f.__doc__ == 'One, "two", \\ and\n    """ three"'
    assert '"""One, "two"' in unit.f.code


def test_dtypes_are_written_by_name() -> None:
    """Wherever they stand; a number that is used as one stays."""
    text = """\
def f(x: Tensor, mask: Tensor, n: int = 6) -> Tensor:
    assert mask.dtype == torch.bool
    y = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    if x.dtype in [torch.float16, torch.bfloat16] or n == 6:
        y = y * 6
    if n > 2:
        d = x.dtype
    else:
        d = torch.float64
    return y.to(d) + torch.zeros([6], dtype=torch.float32)
"""
    assert gs.CompilationUnit(text).f.code == text.rstrip()
