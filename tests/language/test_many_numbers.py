"""`min` and `max` of three numbers and more are Python's."""

from __future__ import annotations

import gradscript as gs
import pytest

CALLS = ("min(3, 1, 2)", "max(1, 2.5, 3)", "max(a, b, 4, 2)", "min(a, x, -1.0)", "max(x, a, b, 7.5)", "min(x, x, x)")


@pytest.mark.parametrize("call", CALLS)
def test_the_first_least_and_greatest(call: str) -> None:
    function = gs.CompilationUnit(f"def f(a: int, b: int, x: float):\n    return {call}\n").f
    for numbers in ((1, 7, 2.5), (-3, -2, -2.5), (9, 8, 0.5)):
        wanted = eval(call, dict(zip("abx", numbers, strict=True)))
        found = function(*numbers)
        assert found == wanted


def test_what_is_no_number_is_told() -> None:
    for call, code in (("min(1, 2, 'a')", "E203"), ("max(1, 2, x)", "E204"), ("max(x, x, x)", "E204")):
        with pytest.raises(gs.CompileError) as error:
            gs.CompilationUnit(f"def f(x):\n    return {call}\n")
        assert error.value.code == code
