"""What is missing at the end of a line is told at the end of that line, whatever comes after it."""

from __future__ import annotations

import gradscript as gs
import pytest

BODIES = ("y = x +", "y = x.", "for i in", "if x >", "y = 1 if x", "y = not", "while", "assert", "y: ", "def", "y +=")
TAILS = ("", "\n", "\n\n\n    return y\n", "\r\n    return y\r\n", " \n      z = 1\n", " \\\n\n    return x\n")


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("body", BODIES)
def test_the_caret_is_on_the_line(body: str, tail: str) -> None:
    with pytest.raises(gs.CompileError) as error:
        gs.CompilationUnit(f"def f(x):\n    {body}{tail}")
    found = [
        d for d in error.value.diagnostics if "the end of the line" in d.message or "the end of the file" in d.message
    ]
    assert found
    for diagnostic in found:
        assert (diagnostic.span.line, diagnostic.span.end_line) == (2, 2)
        assert diagnostic.span.column >= 5 + len(body.rstrip())
