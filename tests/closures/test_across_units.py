"""Functions of one source text used by another: by units and by `gs.script`, with their backwards."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
import torch as th
import torch.nn.functional as nnf
from amounts import some
from random_units import random_units
from torch.nn.functional import softplus

POINT = np.array([0.5, -1.25, 2.0])
HALF = 0.5
SCALES = (2, (0.25, "mean"))
WORDS = ["a", "list"]
STEPS = 3

LIBRARY = gs.CompilationUnit(
    """
def helper(x):
    return x * 3.0


def square(x):
    def backward(grad):
        return helper(grad) * 2.0 / 3.0 * x
    return x * x, backward


def swapped(x, y):
    return y, x
""",
    "library.grad",
)


@gs.script
def doubled_slope(x):  # type: ignore[no-untyped-def]
    """Its gradient is meant to be another: what uses it shows whose backward ran."""

    def backward(grad):  # type: ignore[no-untyped-def]
        return grad * 2

    return x, backward


def helper(x):  # type: ignore[no-untyped-def]
    return nnf.relu(x) + softplus(x) * SCALES[1][0]


@gs.script
def used(x, scale: float = HALF):  # type: ignore[no-untyped-def]
    y = LIBRARY.square(x) * scale + doubled_slope(x)
    if SCALES[1][1] == "mean":
        y = y + helper(x) * SCALES[0]
    return (y * math.pi).to(th.float64).sum()


def used_in_torch(x: Any) -> Any:
    y = x * x * HALF + (2 * x - x.detach())
    return ((y + (torch.relu(x) + softplus(x) * 0.25) * 2) * math.pi).sum()


def held_to_torch(function: Any, eager: Callable[..., Any], point: Any = POINT) -> None:
    x = torch.tensor(point, requires_grad=True)
    expected = eager(x)
    expected.backward()
    value, pullback = gs.vjp(function, point)
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(pullback(1.0)[0], x.grad, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(gs.grad(function)(point), x.grad, rtol=1e-11, atol=1e-13)


# --- gs.script ---


def test_names_around_a_function_mean_what_they_mean_to_python() -> None:
    held_to_torch(used, used_in_torch)


def test_on_torch_tensors() -> None:
    x, y = (torch.tensor(POINT, requires_grad=True) for _ in range(2))
    used(x).backward()
    used_in_torch(y).backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_its_code_stands_alone() -> None:
    unit = gs.CompilationUnit(used.code)
    assert unit.code == used.code
    assert {"used", "square", "helper", "doubled_slope", "helper_1"} == {*unit}
    held_to_torch(unit.used, used_in_torch)


def test_its_graph_as_text_stands_alone() -> None:
    again = gs.Function.of_graph(gs.parse_ir(str(used.graph)))
    np.testing.assert_allclose(again(POINT, HALF), used(POINT))
    np.testing.assert_allclose(gs.grad(again)(POINT, HALF), gs.grad(used)(POINT))


def test_its_gradient_as_source() -> None:
    text = gs.grad(used).code
    unit = gs.CompilationUnit(text)
    assert unit.code == text
    np.testing.assert_allclose(unit["grad_used"](POINT), gs.grad(used)(POINT))


def test_what_a_function_closes_over() -> None:
    factor = 3.0
    square = LIBRARY.square

    @gs.script
    def outer(x):  # type: ignore[no-untyped-def]
        def backward(grad):  # type: ignore[no-untyped-def]
            return grad * 2 * factor * x

        return square(x) * factor, backward

    np.testing.assert_allclose(gs.vjp(outer, POINT)[1](np.ones(3))[0], 6 * POINT)


def test_a_gradient_is_a_function_as_others_are() -> None:
    slope = gs.grad(used)

    @gs.script
    def of_slope(x):  # type: ignore[no-untyped-def]
        return (slope(x) * x).sum()

    x = torch.tensor(POINT, requires_grad=True)
    (first,) = torch.autograd.grad(used_in_torch(x), x, create_graph=True)
    np.testing.assert_allclose(of_slope(POINT), (first * x).sum().item())
    assert gs.CompilationUnit(of_slope.code).code == of_slope.code


def test_a_local_name_hides_one_from_around() -> None:
    @gs.script
    def local(x):  # type: ignore[no-untyped-def]
        HALF = x * 2.0  # noqa: N806
        return HALF

    np.testing.assert_array_equal(local(POINT), POINT * 2)


def no_gradient(x):  # type: ignore[no-untyped-def]
    with torch.no_grad():
        y = LIBRARY.square(x) + helper(x)
    return (x * y).sum()


def test_functions_from_outside_where_no_gradient_flows() -> None:
    held_to_torch(gs.script(no_gradient), lambda x: (x * (x * x + torch.relu(x) + softplus(x) * 0.25).detach()).sum())


def even(x):  # type: ignore[no-untyped-def]
    return odd(x) + 1


def odd(x):  # type: ignore[no-untyped-def]
    return even(x) - 1


def uses_numpy(x):  # type: ignore[no-untyped-def]
    return np.tanh(x)


def uses_list(x):  # type: ignore[no-untyped-def]
    return x if WORDS[0] == "a" else -x


def uses_broken(x):  # type: ignore[no-untyped-def]
    return broken(x)


def broken(x):  # type: ignore[no-untyped-def]
    return x.no_such_method()


def uses_class(x):  # type: ignore[no-untyped-def]
    return Holder(x)


def uses_unit(x):  # type: ignore[no-untyped-def]
    return LIBRARY.cube(x)


def uses_value(x):  # type: ignore[no-untyped-def]
    return x + doubled_slope


def uses_number(x):  # type: ignore[no-untyped-def]
    return HALF(x)


def uses_later(x):  # type: ignore[no-untyped-def]
    return defined_later(x)  # type: ignore[name-defined]  # noqa: F821


class Holder:
    def method(self, x):  # type: ignore[no-untyped-def]
        return x


@pytest.mark.parametrize(
    ("function", "code", "message", "line"),
    [
        (even, "E407", "recursion: even → odd → even", "    return even(x) - 1"),
        (uses_numpy, "E201", "'np.tanh' is a function of Python's", "    return np.tanh(x)"),
        (uses_list, "E201", "'WORDS' is a list of Python's", '    return x if WORDS[0] == "a" else -x'),
        (uses_broken, "E202", "a Tensor has no method 'no_such_method'", "    return x.no_such_method()"),
        (uses_class, "E201", "'Holder' is the Python class 'Holder'", "    return Holder(x)"),
        (uses_unit, "E201", "'LIBRARY.cube' is no function of the unit 'LIBRARY'", "    return LIBRARY.cube(x)"),
        (uses_value, "E202", "'doubled_slope' is a function and is not called", "    return x + doubled_slope"),
        (uses_number, "E204", "'HALF' is 0.5, not a function", "    return HALF(x)"),
        (uses_later, "E201", "undefined name 'defined_later'", "    return defined_later(x)"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_cannot_be_used_is_told_where_it_stands(
    function: Callable[..., Any], code: str, message: str, line: str
) -> None:
    with pytest.raises(gs.CompileError) as raised:
        gs.script(function)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == code and message in diagnostic.message
    source = diagnostic.span.source
    assert source.filename == __file__
    assert source.line(diagnostic.span.line).startswith(line)


@th.no_grad()
def detached(x: th.Tensor):  # type: ignore[no-untyped-def]
    return x * 2


def test_a_function_that_another_one_wraps_is_told_of_in_its_own_file() -> None:
    with pytest.raises(gs.CompileError, match="decorators are not supported") as raised:
        gs.script(detached)
    assert raised.value.span.source.filename == __file__


def test_types_of_a_module_under_another_name() -> None:
    def typed(x: th.Tensor, y: th.Tensor | None = None) -> th.Tensor:
        return x * 2

    np.testing.assert_array_equal(gs.script(typed)(POINT), POINT * 2)


def test_methods_are_refused() -> None:
    with pytest.raises(TypeError, match=r"'Holder\.method' is a method: compile it of an object"):
        gs.script(Holder.method)
    with pytest.raises(TypeError, match="not a builtin_function_or_method"):
        gs.script(POINT.sum)


class Layer(torch.nn.Module):
    sizes = (2, 3)

    def __init__(self) -> None:
        super().__init__()
        self.eps = 0.5
        self.mode = "sum"
        self.bias = None
        self.weight = torch.nn.Parameter(torch.ones(3))

    def helper(self, x, n: int = 2):  # type: ignore[no-untyped-def]
        return x * self.eps * n

    def forward(
        self,
        x,  # type: ignore[no-untyped-def]
        factor: int = 3,
    ):
        if self.mode == "sum":
            x = self.helper(x) + self.sizes[1] * HALF
        if self.bias is not None:
            x = x + self.bias
        return (torch.sin(x) * factor).sum()

    @classmethod
    def made(cls, x):  # type: ignore[no-untyped-def]
        return x * cls.sizes[0]

    def weighted(self, x):  # type: ignore[no-untyped-def]
        return x * self.weight

    def unknown(self, x):  # type: ignore[no-untyped-def]
        return x + self.nothing

    def whole(self, x):  # type: ignore[no-untyped-def]
        return doubled_slope(self)

    def recursive(self, x):  # type: ignore[no-untyped-def]
        return self.recursive(x) * 2


def test_methods_of_an_object() -> None:
    layer = Layer()
    function = gs.script(layer.forward)
    assert str(function.schema).startswith("forward(Tensor x, int factor=3) -> Tensor")
    held_to_torch(function, lambda x: layer(x))
    assert gs.CompilationUnit(function.code).forward(POINT) == function(POINT)
    for method in (layer.made, Layer.made):
        np.testing.assert_allclose(gs.script(method)(POINT), POINT * 2)


@pytest.mark.parametrize(
    ("name", "message", "line"),
    [
        ("weighted", "'self.weight' is a tensor, whose elements may change", "        return x * self.weight"),
        ("unknown", "'self.nothing' is no attribute of the object 'self'", "        return x + self.nothing"),
        ("whole", "'self' is the object that the method is of", "        return doubled_slope(self)"),
        ("recursive", "recursion: recursive → recursive", "        return self.recursive(x) * 2"),
    ],
)
def test_what_a_method_cannot_use_is_told_where_it_stands(name: str, message: str, line: str) -> None:
    with pytest.raises(gs.CompileError) as raised:
        gs.script(getattr(Layer(), name))
    (diagnostic,) = raised.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.span.source.line(diagnostic.span.line).startswith(line)


def test_a_failure_at_run_time_points_into_the_file_of_the_function() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return lib.square(x) @ x[:2]\n", "user.grad", scope={"lib": LIBRARY})
    with pytest.raises(gs.RuntimeFailure, match=r"user\.grad:2:"):
        unit.f(POINT)
    outer = gs.CompilationUnit("def g(x):\n    return f(x)\n", "outer.grad", scope={"f": unit.f})
    with pytest.raises(gs.RuntimeFailure, match=r"user\.grad:2:"):
        outer.g(POINT)


# --- units ---


def test_a_unit_is_given_functions_units_modules_and_constants() -> None:
    text = """
def helper(x):
    return x + offset

def f(x):
    y, z = lib.swapped(helper(x), square(x))
    return (y * z * kinds[0] + compute.exp(x)).sum()
"""
    scope = {"lib": LIBRARY, "square": LIBRARY.square, "offset": 1.5, "kinds": (2, "x"), "compute": torch, "unused": []}
    unit = gs.CompilationUnit(text, scope=scope)
    held_to_torch(unit.f, lambda x: ((x + 1.5) * x * x * 2 + torch.exp(x)).sum())
    assert list(unit) == ["helper", "f"]
    assert list(gs.CompilationUnit(unit.code)) == ["helper", "f", "square", "swapped", "helper_1"]
    assert gs.CompilationUnit(unit.code).code == unit.code


def test_globals_are_a_scope() -> None:
    unit = gs.CompilationUnit("def f(x, n: int = STEPS):\n    return helper(x) * n\n", scope=globals())
    np.testing.assert_allclose(unit.f(POINT), gs.script(helper)(POINT) * 3)


def test_a_function_of_the_unit_hides_one_that_is_given() -> None:
    unit = gs.CompilationUnit("def square(x):\n    return x\n\ndef f(x):\n    return square(x)\n", scope=globals())
    np.testing.assert_array_equal(unit.f(POINT), POINT)


def test_a_scope_is_a_mapping() -> None:
    with pytest.raises(TypeError, match="scope is a dict of names, not list"):
        gs.CompilationUnit("def f(x):\n    return x\n", scope=[LIBRARY])  # type: ignore[arg-type]


def test_a_name_that_a_unit_is_not_given() -> None:
    with pytest.raises(gs.CompileError, match="undefined name 'square'"):
        gs.CompilationUnit("def f(x):\n    return square(x)\n", scope={"lib": LIBRARY})


@pytest.mark.parametrize("seed", range(some(24)))
def test_random_units(seed: int) -> None:
    units = random_units(seed)
    held_to_torch(units.loss, units.eager)
    again = gs.CompilationUnit(units.unit.code)
    assert again.code == units.unit.code
    held_to_torch(again.loss, units.eager)
    held_to_torch(gs.Function.of_graph(gs.parse_ir(str(units.loss.graph))), units.eager)
    held_to_torch(gs.trace(lambda x: units.loss(x), POINT), units.eager)


# --- traces ---


def test_a_trace_keeps_the_backward_of_a_backward_where_names_collide() -> None:
    """Two units call theirs by the same name, and one backward calls a pair."""
    text = """
def inner(x):
    def backward(grad):
        return grad * {slope}
    return x * 1.0, backward

def outer(x):
    def backward(grad):
        return inner(grad * x) * 2.0
    return x * x, backward
"""
    one, two = (gs.CompilationUnit(text.format(slope=slope)) for slope in (3.0, 5.0))
    traced = gs.trace(lambda x: one.outer(x) + two.outer(x), POINT)
    # The first gradient is right; the second goes by the inner pairs, whose slopes are not their derivatives.
    np.testing.assert_allclose(gs.vjp(traced, POINT)[1](np.ones(3))[0], 4 * POINT)
    summed = gs.CompilationUnit("def f(x):\n    return t(x).sum()\n", scope={"t": traced}).f
    first = gs.grad(summed)
    np.testing.assert_allclose(first(POINT), 4 * POINT)
    np.testing.assert_allclose(gs.vjp(first, POINT)[1](np.ones(3))[0], np.full(3, 2 * 3.0 + 2 * 5.0))


def test_nothing_of_torch_is_asked_of_the_modules_that_are_there() -> None:
    """A scope asks modules for what they have, and never imports one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = set(sys.modules)
        gs.script(helper)
        assert {name for name in sys.modules if name not in before and name.startswith("torch")} == set()
