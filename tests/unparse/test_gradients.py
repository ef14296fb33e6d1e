"""Gradients as source: of branches, loops and lists, and of functions that call what only differentiation makes."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest

SOURCE = """\
def square(x):
    def backward(grad):
        return grad * 2 * x
    return x * x, backward


def cube(x):
    def backward(grad):
        slope = 3 * x * x
        def backward_of_backward(grad_grad):
            return grad_grad * slope, grad_grad * grad * 6 * x
        return grad * slope, backward_of_backward
    return x * x * x, backward


def partial(x):
    def backward(grad):
        slope = torch.cos(x)
        def backward_of_backward(grad_grad):
            return grad_grad * slope
        return grad * slope, backward_of_backward
    return torch.sin(x), backward


def dropped(x):
    mask = (torch.rand_like(x) > 0.5).type_as(x)
    def backward(grad):
        return grad * mask
    return x * mask, backward


def power(x, n: int = 3):
    y = x
    for i in range(n):
        if i % 2 == 0:
            y = y * x
        else:
            y = torch.sin(y)
    return y.sum()


def until(x):
    y = x
    while y.abs().max() < 10.0:
        y = y * x + 1.0
    return y.sum()


def nested(x, n: int = 2):
    total = torch.zeros_like(x)
    for i in range(n):
        for j in range(i + 1):
            if j > 0:
                continue
            total = total + x ** (j + 2)
        if i > 5:
            return total.sum()
    return (total * total).sum()


def gathered(x, n: int = 3):
    parts: List[Tensor] = []
    for i in range(n):
        parts.append(x * i)
    parts[0] = torch.exp(x)
    return torch.stack(parts).prod(0).sum()


def absent(x, y: Optional[Tensor] = None):
    if y is not None:
        x = x * y
    return (x * x).sum()


def through_cube(x):
    return cube(torch.sin(x)).sum()


def through_square(x, n: int = 2):
    for i in range(n):
        x = square(x) * 0.5
    return x.sum()


def through_partial(x):
    return (partial(x) * x).sum()


def through_dropped(x):
    return (dropped(x) * x).sum()


def unread(x, ts: List[Tensor] = [], n: int = 1):
    y = torch.ones_like(x)
    for i in range(n):
        for t in ts:
            x, y = y, x * 0.5
    return (x * y).sum()


def spread(x):
    return torch.var(x) * torch.norm(x)


def slope_of_cube(x):
    return cube(x).sum()


def pair(points: Tuple[Tensor, Tensor], n: int = 2):
    a, b = points
    for i in range(n):
        a = a * b
    return a, (b, a + b)
"""
UNIT = gs.CompilationUnit(SOURCE)
POINT = np.array([1.25, -0.5, 1.5])
NAMES = [
    *("power", "until", "nested", "gathered", "absent", "through_cube", "through_square", "through_partial"),
    *("through_dropped", "spread", "unread"),
]


def again(text: str) -> gs.CompilationUnit:
    """The unit of a text, which prints as that text."""
    unit = gs.CompilationUnit(text)
    assert unit.code == text
    return unit


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        for ours, theirs in zip(found, expected, strict=True):
            same(ours, theirs)
    elif expected is None or found is None:
        assert not np.any(expected if found is None else found)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def called(function: Any, *args: Any) -> Any:
    gs.random.manual_seed(0)
    return function(*args)


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_a_gradient(name: str) -> None:
    for derived in (gs.grad(UNIT[name]), gs.value_and_grad(UNIT[name])):
        unit = again(derived.code)
        same(called(unit[derived.name], POINT), called(derived, POINT))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("through_dropped",)])
def test_the_code_of_a_gradient_is_differentiated_as_the_gradient(name: str) -> None:
    derived = gs.grad(UNIT[name])
    unit = again(derived.code)
    value, pullback = gs.vjp(unit[derived.name], POINT)
    expected, known = gs.vjp(derived, POINT)
    same(value, expected)
    same(pullback(np.ones(3)), known(np.ones(3)))


@pytest.mark.parametrize("name", ["through_cube", "through_partial", "through_square", "power"])
def test_the_code_of_a_second_gradient(name: str) -> None:
    unit = gs.CompilationUnit(f"{SOURCE}\n\ndef slope(x):\n    return {name}(x)\n")
    first = gs.grad(unit["slope"])
    total = gs.CompilationUnit(first.code + "\n\ndef total(x):\n    return grad_slope(x).sum()\n")
    second = gs.grad(total.total)
    same(again(second.code)["grad_total"](POINT), second(POINT))
    _, pullback = gs.vjp(first, POINT)
    same(second(POINT), pullback(np.ones(3))[0])


@pytest.mark.parametrize("name", [*NAMES, "pair"])
def test_a_function_without_a_backward_is_shown_lifted(name: str) -> None:
    function = UNIT[name]
    unit = again(function.show("lifted"))
    argument = (POINT, POINT + 1) if name == "pair" else POINT
    value, pullback = called(gs.vjp, function, argument)
    *outputs, context = called(unit[name], argument)
    same(outputs if len(outputs) > 1 else outputs[0], value)
    if name == "pair":
        first, second, third = POINT, POINT * 2, POINT * 3
        expected = pullback((first, (second, third)))
        gradients = unit["backward"](context, first, second, third)
    else:
        expected, gradients = pullback(1.0), unit["backward"](context, np.array(1.0))
    gradients = gradients if len(function.schema.arguments) > 1 else (gradients,)
    same(gradients[: len(expected)], expected)


def test_loops_keep_lists_and_branches_which_way_they_went() -> None:
    text = UNIT.power.show("lifted")
    forward, backward = text.split("\n\n\n")
    assert forward.startswith("def power(x: Tensor, n: int = 3) -> Tuple[Tensor, Tuple[")
    assert backward.startswith("def backward(context: Tuple[")
    assert "List[Tensor]" in forward and "for " in backward and "else:" in backward
    # Which way a branch goes that the round's number decides, the backward tells from that number.
    assert "List[bool]" not in forward


def test_what_has_no_gradient_says_why() -> None:
    unit = gs.CompilationUnit(
        "def count(x):\n    return x.numel()\n\n\ndef rounded(x):\n    return torch.bernoulli(x)\n"
    )
    with pytest.raises(ValueError, match="'count' has no gradient: no tensor that it takes reaches what it returns"):
        unit["count"].show("lifted")


def test_names_that_no_source_has_become_ones() -> None:
    code = gs.grad(UNIT.through_dropped).code
    assert "def dropped_drawn(x):" in code and "." not in code.split("dropped_drawn(x)")[0].split("def ")[-1]
    # Where a function of the user's has that name, the two are told apart.
    source = SOURCE.replace("square(", "dropped_drawn(").replace("(dropped(x) * x)", "(dropped(x) * dropped_drawn(x))")
    unit = gs.CompilationUnit(source)
    derived = gs.grad(unit["through_dropped"])
    apart = again(derived.code)
    assert {"dropped_drawn", "dropped_drawn_1"} <= {*apart}
    same(called(apart[derived.name], POINT), called(derived, POINT))


def test_a_call_of_a_formula_is_the_op() -> None:
    code = gs.grad(UNIT.spread).code
    assert "torch.linalg.vector_norm(" in code and code.count("def ") == 1


def test_textual_ir_of_a_partial_backward_differentiates() -> None:
    """What the second backward says nothing of is found through the body, also when the text is read again."""
    first = gs.grad(UNIT.through_partial)
    slope = gs.CompilationUnit(first.code)["grad_through_partial"]
    from_text = gs.Function.of_graph(gs.parse_ir(str(first.graph)))
    expected = gs.vjp(first, POINT)[1](np.ones(3))
    same(gs.vjp(from_text, POINT)[1](np.ones(3)), expected)
    same(gs.vjp(slope, POINT)[1](np.ones(3)), expected)
    # d/dx (x sin x) = sin x + x cos x, whose derivative is 2 cos x - x sin x
    np.testing.assert_allclose(expected[0], 2 * np.cos(POINT) - POINT * np.sin(POINT))
