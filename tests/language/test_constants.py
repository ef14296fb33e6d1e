"""Constants of a file's outermost level, defaults that are computed, and what names keep of what is folded."""

from __future__ import annotations

import math
from typing import Any

import gradscript as gs
import numpy as np
import pytest

VALUES = {
    "1e-6": 1e-6,
    "2 * 3 + 4": 10,
    "math.pi / 2": math.pi / 2,
    "-(1 - 3) ** 2": -4,
    "7 // 2 % 2": 1,
    "2**10": 1024,
    "2**-1": 0.5,
    "float('inf')": math.inf,
    "ABOVE * 2": 6.0,
    "-9223372036854775808": -(2**63),
    "-2**63": -(2**63),
    "2**64 - 2**63 - 1": 2**63 - 1,
}


@pytest.mark.parametrize(("expression", "value"), VALUES.items())
def test_values(expression: str, value: float) -> None:
    text = f"import math\nABOVE = 3.0\nC = {expression}\n\n\ndef f(x, y: float = {expression}):\n    return x * C - y\n"
    unit = gs.CompilationUnit(text)
    assert unit.f.schema.arguments[1].default == pytest.approx(value)
    assert unit.f(2.0, 1.0) == pytest.approx(2 * value - 1, abs=1e-12)
    assert gs.CompilationUnit(unit.code).code == unit.code


def test_every_kind() -> None:
    text = (
        "NAME = 'sum'\nFLAG: bool = True\nNONE = None\nSHAPE = (2, 3)\n\n\n"
        "def f(x, name: str = NAME, none: Optional[Tensor] = NONE, shape: List[int] = SHAPE):\n"
        "    if FLAG and name == NAME and none is NONE:\n        return x.reshape(shape) * SHAPE[1]\n    return x\n"
    )
    unit = gs.CompilationUnit(text)
    assert [argument.default for argument in unit.f.schema.arguments[1:]] == ["sum", None, (2, 3)]
    np.testing.assert_array_equal(unit.f(np.ones(6)), np.full((2, 3), 3.0))


def test_a_variable_hides_a_constant() -> None:
    unit = gs.CompilationUnit("x = 5.0\ny = 7.0\n\n\ndef f(x):\n    y = x * 2\n    return y\n")
    assert unit.f(1.0) == 2.0


def test_in_closures() -> None:
    text = "K = 3.0\n\n\ndef f(x):\n    def backward(g):\n        return g * K\n\n    return x * K, backward\n"
    unit = gs.CompilationUnit(text)
    assert gs.check(unit.f).ok
    assert unit.f.pair is not None and not unit.f.pair.context


WRONG = {
    "A = torch.zeros(3)": ("E104", "'A' is no constant"),
    "A = B": ("E104", "'A' is no constant"),
    "A = 2**64": ("E104", "'A' is no constant: is no int of 64 bits"),
    "A = 3**99999999999": ("E104", "'A' is no constant: is no int of 64 bits"),
    "A = 1 / 0": ("E104", "'A' is no constant: division by zero"),
    "A = (-8) ** 0.5": ("E104", "'A' is no constant: is no real number"),
    "A = 10.0 ** 400": ("E104", None),
    "A = -True": ("E104", "'A' is no constant"),
    "A = 1\nA = 2": ("E105", "constant 'A' is defined twice"),
    "A, B = 1, 2": ("E104", "only functions and constants can stand outside a function"),
    "A += 1": ("E104", "only functions and constants can stand outside a function"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_none(text: str) -> None:
    code, message = WRONG[text]
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"{text}\n\n\ndef f(x):\n    return x\n")
    assert caught.value.code == code
    assert message is None or caught.value.message == message
    assert caught.value.diagnostics[0].notes


KEPT = """
def negated(x):
    h = 2.0
    k = -(+h)
    n = 3
    l = [n, -n]
    return x * -h + h, h, -(-h), +h, k, l[-n + 2]


def captured(x):
    h = 2.0

    def backward(grad_output):
        return grad_output * h

    scaled = lambda v, by=h: v * -by + by
    return scaled(x) * -1.0 + h, backward


def several(x, y):
    a, b = c, d = x, y
    (p, q), r = t = (x + 1, y), y
    s = u, v = (x, x * 2)
    return a, b, c, d, p, q, r, *t[0], t[1], *s, u, v
"""


def _as_python(name: str, *args: Any) -> Any:
    names: dict[str, Any] = {}
    exec(KEPT, names)
    return names[name](*args)


@pytest.mark.parametrize(("name", "args"), [("negated", (3.0,)), ("several", (3.0, 5.0))])
def test_as_in_python(name: str, args: tuple[float, ...]) -> None:
    unit = gs.CompilationUnit(KEPT)
    expected = _as_python(name, *args)
    for again in (unit, gs.CompilationUnit(unit.code)):
        found = getattr(again, name)(*args)
        assert [float(value) for value in found] == [float(value) for value in expected]


def test_what_a_closure_captures() -> None:
    value, pullback = gs.vjp(gs.CompilationUnit(KEPT).captured, 3.0)
    assert (value, *pullback(1.0)) == (6.0, 2.0)


@pytest.mark.parametrize("text", ["-9223372036854775808", "-0x8000000000000000", "- (9223372036854775808)", "-2**63"])
def test_the_least_int(text: str) -> None:
    unit = gs.CompilationUnit(f"def f(n: int = {text}):\n    return n, {text}, f'{{{text}}}'\n")
    assert unit.f() == (-(2**63), -(2**63), str(-(2**63)))
    assert gs.CompilationUnit(unit.code).code == unit.code
    assert str(gs.parse_ir(str(unit.f.graph))) == str(unit.f.graph)


@pytest.mark.parametrize("text", ["9223372036854775808", "n - 9223372036854775808", "-9223372036854775808 ** n"])
def test_one_past_the_largest_int_is_refused(text: str) -> None:
    with pytest.raises(gs.CompileError, match="integer literal too large") as caught:
        gs.CompilationUnit(f"def f(n: int):\n    return {text}\n")
    assert len(caught.value.diagnostics) == 1
    assert caught.value.span.text == "9223372036854775808"


@pytest.mark.parametrize("returned", ["C", "(x, C)", "x, C, backward"])
def test_a_constant_is_returned_by_its_name(returned: str) -> None:
    text = f"C = -3\n\n\ndef f(x):\n    def backward(g):\n        return g\n    return {returned}\n"
    unit = gs.CompilationUnit(text if "backward" in returned else f"C = -3\n\n\ndef f(x):\n    return {returned}\n")
    found = unit.f(2.0)
    assert (found[1] if isinstance(found, tuple) else found) == -3
