"""Types that grow with each statement: a result, or E004, and never work that doubles with each."""

from __future__ import annotations

import gradscript as gs
import pytest

HEAD = "def f(x, b: bool):\n"
TWICE = {
    "tuple": "    t = (t, t)\n",
    "list": "    t = [(t, t)]\n",
    "sum": "    t = t + t\n",
    "augmented": "    t += t\n",
    "comprehension": "    t = ([(t, t) for i in range(2)], 1)\n",
    "zip": "    t = (list(zip([t], [t])), 1)\n",
    "conditional": "    t = (t, t) if b else (t, t)\n",
    "branch": "    if b:\n        t = (t, t)\n    else:\n        t = (t, t)\n",
}


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in TWICE.items()])
def test_a_type_that_doubles_is_refused(line: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(HEAD + "    t = (x, x)\n" + line * 40 + "    return x\n")
    assert {d.code for d in caught.value.diagnostics} <= {"E004", "E301", "E304"}
    assert caught.value.diagnostics[0].span.line < 4 + 4 * 20


def test_calls_that_double_a_type_are_refused() -> None:
    text = "def g0(x):\n    return x, x\n"
    text += "".join(f"def g{i + 1}(x):\n    return g{i}(x), g{i}(x)\n" for i in range(28))
    with pytest.raises(gs.CompileError, match="E004"):
        gs.CompilationUnit(text)


def test_annotations_that_are_too_large_are_refused() -> None:
    for annotation in ("List[" * 40 + "Tensor" + "]" * 40, f"Tuple[{', '.join(['int'] * 30_000)}]"):
        with pytest.raises(gs.CompileError, match="E004"):
            gs.CompilationUnit(f"def f(x: {annotation}):\n    return x\n")


def test_large_types_below_the_limit_compile() -> None:
    gs.CompilationUnit(HEAD + "    t = (x, x)\n" + TWICE["tuple"] * 12 + "    return x\n")
    assert gs.CompilationUnit(HEAD + f"    t = ({'x, ' * 10_000})\n    return t[9999]\n").f(3.0, True) == 3.0


def test_nested_loops_over_tuples_have_a_limit() -> None:
    text = "def f(x):\n    t = (x, {items})\n"
    text += "    for a in t:\n        for b in t:\n            x = x + a * b\n    return x\n"
    with pytest.raises(gs.CompileError, match=r"E004.*loops over tuples with more than"):
        gs.CompilationUnit(text.format(items="x, " * 200))
    assert gs.CompilationUnit(text.format(items="x, x, x")).f(1.0) == 17.0
    after = text.replace("    return x", "    for a in t:\n        x = x + a\n    return x")
    assert gs.CompilationUnit(after.format(items="x, x, x")).f(1.0) == 21.0


def test_text_that_doubles_compiles() -> None:
    gs.CompilationUnit("def f(x):\n    s = 'a'\n" + "    s = f'{s}{s}'\n" * 60 + "    return s\n")
    f = gs.CompilationUnit("def f(x):\n    s = 'a'\n" + "    s = f'{s}{s}'\n" * 19 + "    return s\n").f
    assert f(1.0) == "a" * 2**19
