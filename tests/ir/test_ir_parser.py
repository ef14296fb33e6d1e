from __future__ import annotations

import pytest
from gradscript.compiler.parse_ir import parse_ir
from gradscript.lang.diagnostics import CODES, CompileError


def _error(text: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        parse_ir(text)
    assert caught.value.code in CODES
    return caught.value


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        ("", "E501", "expected 'graph', found the end of the text", (1, 1)),
        ("graph f()", "E501", "expected ':', found the end of the text", (1, 10)),
        ("graph f():\n  return (%x)", "E502", "unknown value '%x'", (2, 11)),
        ("graph f(%x : Tensor, %x : int):\n  return ()", "E502", "%x is defined twice", (1, 22)),
        ("graph f(%x : Tensr):\n  return ()", "E503", "unknown type 'Tensr'", (1, 14)),
        ("graph f(%x : Tensor[float65]):\n  return ()", "E503", "unknown dtype 'float65'", (1, 21)),
        ("graph f(%x : Tensor[rank=True]):\n  return ()", "E005", "True is no rank", (1, 26)),
        ("graph f():\n  block():\n", "E501", "a block without a node that it belongs to", (2, 3)),
        ("graph f():\n  return ()\n)", "E501", "expected the end of the text, found ')'", (3, 1)),
        ("graph f():\n  prim::X[a=1, a=2]()", "E501", "attribute 'a' is given twice", (2, 16)),
        ("graph f():\n  prim::X[a=b]()", "E501", "expected a constant, found 'b'", (2, 13)),
        ('graph f():\n  prim::X[a="\\q"]()', "E005", "unknown escape \\q in a string", (2, 13)),
        ("graph f():\n  $", "E001", "unexpected character", (2, 3)),
        ('graph f():\n  "open', "E001", "unexpected character", (2, 3)),
        ("graph f():\n  %1 : int = prim::Constant[value=1.5]()\n  return ()", "E504", "the constant is no int", (2, 3)),
    ],
)
def test_errors_point_at_the_text(text: str, code: str, message: str, place: tuple[int, int]) -> None:
    error = _error(text)
    assert (error.code, error.message) == (code, message)
    assert (error.span.line, error.span.column) == place


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("graph f(%x : Tensor):\n  %1 : Tensor = aten::mull.Tensor(%x, %x)\n  return ()", "aten::mul.Tensor"),
        ("graph f(%x : Tensor):\n  %1 : int = prim::Constnt[value=1]()\n  return ()", "prim::Constant"),
        ("graph f(%self : Tensor):\n  return (%slf)", "%self"),
        ("graph f(%x : Tensr):\n  return ()", "Tensor"),
    ],
)
def test_advice(text: str, near: str) -> None:
    assert _error(text).diagnostics[0].notes == (f"did you mean '{near}'?",)


@pytest.mark.parametrize(
    "text",
    [
        "graph f(%x : " + "List[" * 100_000,
        "graph f(%x : " + "Tuple[" * 100_000,
        "graph f(): prim::X[a=" + "[" * 100_000,
        "graph f(): prim::X[a=" + "9" * 100_000 + "]()",
        "graph f(): return (%" + "x" * 1_000_000 + ")",
        "graph f(): " + "prim::x" * 100_000,
        "graph f():\n" + "block():" * 100_000,
        "\0\ufeff\ud800",
        "graph f(): %1 : int = prim::Constant[value=-0x]() return (%1)",
    ],
)
def test_extremes_are_reported(text: str) -> None:
    _error(text)


def test_layout_carries_no_meaning() -> None:
    text = "graph f(%c : bool): # a comment\n%1 : int = prim::If(%c) block():\r\n return (%2)"
    good = "graph f(%c : bool, %2 : int):\n%1:int=prim::If(%c)block():return(%2)block():return(%2)return(%1)"
    _error(text)
    assert str(parse_ir(good)) == (
        "graph f(%c : bool, %1 : int):\n"
        "  %2 : int = prim::If(%c)\n"
        "    block():\n      return (%1)\n"
        "    block():\n      return (%1)\n"
        "  return (%2)\n"
    )
