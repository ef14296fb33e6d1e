"""Function, CompilationUnit and gs.script: what they offer, and the errors of their own."""

from __future__ import annotations

import functools
import linecache
import subprocess
import sys
from typing import Any

import gradscript as gs
import numpy as np
import pytest

SOURCE = '''# The demo of the documentation.
def mul(self, other):
    """A product."""
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        # a comment inside
        grad_other = (grad_output * self).sum_to_size(other.size())

        return grad_self, grad_other
    return self * other, backward

def double(x):
    def backward(grad):
        return grad * 2.0
    return x + x, backward

def both(x, n: int):
    def backward(g, h):
        return g + h, None
    return x + 1.0, x - 1.0, backward

def code(x):
    return mul(x, double(x))
'''
UNIT = gs.CompilationUnit(SOURCE, "demo.grad")
X = np.arange(1.0, 5.0).reshape(2, 2)


# --- running ---


def test_the_closure_is_dropped() -> None:
    np.testing.assert_array_equal(UNIT.mul(X, X), X * X)
    first, second = UNIT.both(X, 2)
    np.testing.assert_array_equal(first - second, np.full((2, 2), 2.0))


def test_the_lifted_halves_run_by_hand() -> None:
    out, context = UNIT.mul.forward(X, other=X + 1)
    np.testing.assert_array_equal(out, X * (X + 1))
    assert isinstance(context, tuple)
    assert len(context) == 2
    grads = UNIT.mul.backward(context, X)
    np.testing.assert_array_equal(grads[0], X * (X + 1))
    np.testing.assert_array_equal(grads[1], X * X)


def test_a_single_input_has_a_tuple_of_one_gradient() -> None:
    out, context = UNIT.double.forward(X)
    np.testing.assert_array_equal(out, 2 * X)
    assert context == ()
    (grad,) = UNIT.double.backward(context, X)
    np.testing.assert_array_equal(grad, 2 * X)


def test_several_outputs_take_several_gradients() -> None:
    outs, context = UNIT.both.forward(X, 1)
    assert len(outs) == 2
    grad, none = UNIT.both.backward(context, X, X)
    np.testing.assert_array_equal(grad, 2 * X)
    assert none is None


def test_the_wrong_number_of_gradients() -> None:
    with pytest.raises(gs.RuntimeFailure, match=r"both\.backward: behind the context come 'g', 'h': not 1 gradient"):
        UNIT.both.backward((), X)


def test_no_pair() -> None:
    assert UNIT["code"].pair is None
    with pytest.raises(ValueError, match=r"'code' has no backward of its own"):
        UNIT["code"].forward(X)


# --- stages ---


def test_source_is_the_authors_text() -> None:
    text = UNIT.mul.show("source")
    assert text.startswith("def mul(self, other):\n")
    assert text.endswith("    return self * other, backward\n")
    assert "# a comment inside" in text
    assert "double" not in text


def test_stages_of_text() -> None:
    assert UNIT.mul.show("ast").startswith("FunctionDef mul ")
    assert UNIT.mul.show("ir") == str(UNIT.mul.graph)
    assert UNIT.mul.show("gradient").count("graph mul") == 2


def test_an_unknown_stage_lists_the_stages() -> None:
    with pytest.raises(ValueError, match=r"no stage 'gradeint'; did you mean 'gradient'\?; the stages are source, ast"):
        UNIT.mul.show("gradeint")


@pytest.mark.parametrize("stage", ["closure"])
def test_a_stage_that_does_not_apply(stage: str) -> None:
    with pytest.raises(ValueError, match="'code' returns no closure"):
        UNIT["code"].show(stage)


# --- units ---


def test_a_unit_holds_functions() -> None:
    assert list(UNIT) == list(UNIT.functions) == ["mul", "double", "both", "code"]
    assert len(UNIT) == 4
    assert UNIT.mul is UNIT["mul"] is UNIT.functions["mul"]
    assert "mul" in UNIT
    assert "nul" not in UNIT
    assert "mul" in dir(UNIT)
    assert repr(UNIT) == "<CompilationUnit mul, double, both, code>"
    assert repr(UNIT.mul) == "<Function mul(Tensor self, Tensor other) -> Tensor>"
    assert (UNIT.mul.__name__, UNIT.mul.__doc__) == ("mul", "A product.")


def test_a_name_that_is_an_attribute_too() -> None:
    np.testing.assert_array_equal(UNIT["code"](X), X * 2 * X)
    assert not isinstance(gs.CompilationUnit.code, gs.Function)


def test_an_unknown_function() -> None:
    with pytest.raises(AttributeError, match=r"no function 'mull'; did you mean 'mul'\?"):
        _ = UNIT.mull
    with pytest.raises(KeyError, match=r"no function 'dubble'; did you mean 'double'\?"):
        _ = UNIT["dubble"]


def test_bad_source() -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit("def f(x):\n    return y\ndef g(x):\n    return z\n")
    assert [d.code for d in caught.value.diagnostics] == ["E201", "E201"]
    with pytest.raises(TypeError, match="source is a str, not bytes"):
        gs.CompilationUnit(b"")  # type: ignore[arg-type]


# --- script ---


def bare(x, n: int = 2):  # type: ignore[no-untyped-def]
    """Doc."""
    return x * n


def decorated(function: Any) -> Any:
    return gs.script(function)


def test_script_compiles_a_python_function() -> None:
    function = gs.script(bare)
    np.testing.assert_array_equal(function(X), X * 2)
    assert function.name == "bare"
    assert function.__doc__ == "Doc."


def test_script_as_a_decorator_in_an_indented_place() -> None:
    @decorated
    @gs.script if False else (lambda function: function)
    def inner(x):  # type: ignore[no-untyped-def]
        # a comment

        def backward(grad):  # type: ignore[no-untyped-def]
            return grad * 3.0

        return x * 3.0, backward

    np.testing.assert_array_equal(inner(X), X * 3)
    np.testing.assert_array_equal(inner.backward(inner.forward(X)[1], X)[0], X * 3)


def test_script_keeps_what_decorators_below_it_say() -> None:
    import torch

    @gs.script
    @torch.no_grad()
    def below(x):  # type: ignore[no-untyped-def]
        return (x * x).sum()

    @torch.no_grad()
    def passed(x):  # type: ignore[no-untyped-def]
        return (x * x).sum()

    for function in (below, gs.script(passed)):
        assert function(X) == (X * X).sum()
        value = torch.tensor(X, requires_grad=True)
        assert not function(value).requires_grad
        assert gs.vjp(function, X)[1](np.ones(())) == (None,)


def test_script_refuses_an_unknown_decorator_below_it() -> None:
    def doubling(function: Any) -> Any:
        @functools.wraps(function)
        def doubled(*args: Any) -> Any:
            return function(*args) * 2

        return doubled

    with pytest.raises(gs.CompileError, match="decorators are not supported") as caught:

        @decorated
        @doubling
        def inner(x):  # type: ignore[no-untyped-def]
            return x

    assert "@decorated" in str(caught.value)


def test_script_points_into_the_file() -> None:
    def wrong(x):  # type: ignore[no-untyped-def]
        return x + undefined_name  # noqa: F821

    with pytest.raises(gs.CompileError) as caught:
        gs.script(wrong)
    first = wrong.__code__.co_firstlineno
    assert (caught.value.span.line, caught.value.span.column) == (first + 1, 20)
    lines = str(caught.value).splitlines()
    assert lines[1].endswith(f"test_function.py:{first + 1}:20")
    assert lines[2].endswith("|         return x + undefined_name  # noqa: F821")
    assert lines[3].endswith("|" + " " * 20 + "^" * 14)


def test_script_without_source() -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x\n", names)
    with pytest.raises(ValueError, match="Python keeps no source of 'f'"):
        gs.script(names["f"])
    with pytest.raises(TypeError, match="not a lambda"):
        gs.script(lambda x: x)
    with pytest.raises(TypeError, match="not a type: compile its methods one by one"):
        gs.script(int)


class _History:
    """What Python's prompt leaves of what was typed."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    def get_current_history_length(self) -> int:
        return len(self.lines)

    def get_history_item(self, index: int) -> str:
        return self.lines[index - 1]


TYPED = """\
def f(x):
    return x * 3
@gs.script
def f(x):
    # the one that is meant
    y = x * 2
    return y
class Holder:
    def scaled(self, x):
        return x * self.factor
def f(x):
    return x * 4
"""


def test_script_at_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Python 3.13 the source is that of the prompt's history that compiles to the function's code."""
    monkeypatch.setitem(sys.modules, "readline", _History(TYPED))
    typed = "def f(x):\n    # the one that is meant\n    y = x * 2\n    return y\n"
    typed += "class Holder:\n    def scaled(self, x):\n        return x * self.factor\n"
    names: dict[str, Any] = {}
    exec(compile(typed, "<stdin>", "exec"), names)
    assert gs.script(names["f"])(2.0) == 4.0
    holder = names["Holder"]()
    holder.factor = 5.0
    assert gs.script(holder.scaled)(2.0) == 10.0
    exec(compile("def f(x):\n    return x * 7\n", "<stdin>", "exec"), names)
    with pytest.raises(ValueError, match="Python keeps no source of 'f'"):
        gs.script(names["f"])


def test_script_in_a_notebook() -> None:
    """A cell's text is where Python looks for lines of files."""
    cell = "@gs.script\ndef f(x):\n    return x * FACTOR\n\n\ndef wrong(x):\n    return x * nothing\n"
    name = "<ipython-input-3-0123456789ab>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    names: dict[str, Any] = {"gs": gs, "FACTOR": 3.0}
    exec(compile(cell, name, "exec"), names)
    assert names["f"](2.0) == 6.0
    with pytest.raises(gs.CompileError) as caught:
        gs.script(names["wrong"])
    assert f"--> {name}:7:16" in str(caught.value)


# --- the package ---


def test_the_public_names() -> None:
    for name in gs.__all__:
        assert getattr(gs, name) is not None
        assert name in dir(gs)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gs.nothing


GIVEN = """import gradscript as gs
FACTOR = 3.0
def helper(x):
    return x * 2
class Holder:
    @staticmethod
    def plain(x):
        return helper(x) + 1
@gs.script
def f(x):
    return helper(x) * FACTOR
print(f(2.0), gs.script(Holder.plain)(1.0), gs.script(Holder.__dict__['plain'])(2.0))
names = {}
exec('def other(x): return x', names)
try:
    gs.script(names['other'])
except ValueError as error:
    print(error)
exec(chr(10) * 2 + 'def helper(x): return x', names)
try:
    gs.script(names['helper'])
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("options", [["-c"], ["-W", "ignore", "-c"], ["-Ic"]])
def test_script_of_what_python_is_given(options: list[str]) -> None:
    done = subprocess.run([sys.executable, *options, GIVEN], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.splitlines()
    assert first == "12.0 3.0 5.0"
    assert third.startswith("Python keeps no source of 'helper'")
    assert second.startswith("Python keeps no source of 'other'")
