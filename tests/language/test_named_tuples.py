"""Named tuples of a text, of a scope and around a script: tuples whose elements have names, as in Python."""

from __future__ import annotations

import typing
from collections import namedtuple
from typing import Any, NamedTuple

import gradscript as gs
import numpy as np
import pytest
import torch

X, Y = np.array([1.0, 2.0]), np.array([0.5, -1.0])
SOURCE = '''
from typing import NamedTuple
from collections import namedtuple


class Point(NamedTuple):
    """Two tensors and a number."""

    x: Tensor
    y: Tensor
    n: int = 2


Pair = namedtuple("Pair", ["a", "b"])
Both = NamedTuple("Both", [("p", Point), ("q", Tensor)])
Three = namedtuple("Three", "a b c", defaults=[3, 2.5])


def made(x, y) -> Point:
    return Point(x * 2, y=y)


def carried(x, y):
    p = made(x, y)
    for i in range(2):
        p = Point(p.x * p.y, p.y + 1, n=p.n + i)
    q = Pair(p.x, p[1])
    if p.n > 2:
        q = Pair(q.b, q.a)
    b = Both(p, q.a)
    u, w, n = p
    t = Three(p.x, c=y)
    return (b.p.x * b.p.n * q.a - b.p.y * b.q + w * n + t.a * t.b * t.c + len(q) * u).sum()


def taken(p: Point, q: Pair):
    return (p.x * p.n * q.a + q.b).sum()


def with_backward(x, y):
    p = Point(x, y)
    return (p.x * p.y).sum()
'''


def _eager() -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor}
    exec(compile(SOURCE, "<program>", "exec"), names)
    return names


def _tensors() -> list[Any]:
    return [torch.tensor(a, requires_grad=True) for a in (X, Y)]


@pytest.mark.parametrize("name", ("carried", "with_backward"))
def test_values_and_gradients(name: str) -> None:
    unit, names = gs.CompilationUnit(SOURCE), _eager()
    assert gs.CompilationUnit(unit.code).code == unit.code
    expected = names[name](*(tensors := _tensors()))
    gradients = torch.autograd.grad(expected, tensors)
    value, found = gs.value_and_grad(unit[name], (0, 1))(X, Y)
    np.testing.assert_allclose(value, expected.item())
    np.testing.assert_allclose(found, gradients)
    recorded = unit[name](*(tensors := _tensors()))
    np.testing.assert_allclose(torch.autograd.grad(recorded, tensors), gradients)
    variables = gs.tape.Variable(X), gs.tape.Variable(Y)
    unit[name](*variables).backward()
    np.testing.assert_allclose([v.grad.data for v in variables], gradients)


def test_as_arguments() -> None:
    unit, names = gs.CompilationUnit(SOURCE), _eager()
    x, y = map(torch.tensor, (X, Y))
    expected = names["taken"](names["Point"](x, y, 2), names["Pair"](y, x)).item()
    for point, pair in ((names["Point"], names["Pair"]), (lambda *values: values, lambda *values: values)):
        assert unit.taken(point(X, Y, 2), pair(Y, X)) == expected
        v = gs.tape.Variable(X)
        unit.taken(point(v, v, 2), pair(v, v)).backward()
        np.testing.assert_allclose(v.grad.data, 4 * X + 1)
        t = torch.tensor(X, requires_grad=True)
        unit.taken(point(t, t, 2), pair(t, t)).backward()
        np.testing.assert_allclose(t.grad, 4 * X + 1)
        assert gs.vjp(unit.taken, point(X, Y, 2), pair(Y, X))[0] == expected


class Place(NamedTuple):
    x: torch.Tensor
    l: typing.List[torch.Tensor]  # noqa: E741, UP006
    o: typing.Optional[torch.Tensor] = None  # noqa: UP045
    n: int = 3


class Deep(NamedTuple):
    p: Place
    q: torch.Tensor


Plain = namedtuple("Plain", "a b", defaults=(3.0,))
Odd = namedtuple("Odd", "a", defaults=(object(),))


@gs.script
def scripted(x, y):
    d = Deep(Place(x, [x, y]), y)
    return d.p.x * d.p.n + d.p.l[1] * Plain(x).b * (1 if d.p.o is None else 2) * Plain(d.q, y).b


def test_pythons_own() -> None:
    np.testing.assert_allclose(scripted(X, Y), X * 3 + Y * 3 * Y)
    unit = gs.CompilationUnit("def f(p: Place) -> Place:\n    return Place(p.x * p.n, p.l)\n", scope={"Place": Place})
    x, l, o, n = unit.f(Place(X, [Y], n=5))  # noqa: E741
    np.testing.assert_allclose(x, X * 5)
    assert (len(l), o, n) == (1, None, 3)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("class A:\n    x: int\n", "E102", "classes are not supported"),
        ("class A(B, C):\n    x: int\n", "E102", "classes are not supported"),
        ("class A(nn.Module):\n    def f(self):\n        return 1\n", "E102", "classes are not supported"),
        ("def f(x):\n    class P(NamedTuple):\n        x: Tensor\n    return x\n", "E104", "outermost level"),
        ("class P(NamedTuple):\n    x: Foo\n", "E302", "unknown type 'Foo'"),
        ("class P(NamedTuple):\n    def f(self):\n        return 1\n", "E102", "fields only"),
        ("P = namedtuple('P', names)\n", "E102", "written out"),
        ("def f(y):\n    return Odd(y).a\n", "E201", "named tuple 'Odd'"),
        ("def f(y):\n    return Place(y).x\n", "E20", "named tuple 'Place'"),
        ("def f(y):\n    return Place\n", "E20", "'Place'"),
        ("def f(y):\n    return Place(y, [y]).z\n", "E202", "no attribute 'z'"),
        ("def f(y):\n    z: int\n    return y\n", "E102", "without a value"),
        ("P = namedtuple('P', ['a', 'a'])\n", "E105", "duplicate field 'a'"),
        ("P = namedtuple('P', 'a class')\n", "E102", "'class' is no name of a field"),
        ("P = namedtuple('P', ['_a'])\n", "E102", "'_a' is no name of a field"),
        ("P = namedtuple('P', ['a b'])\n", "E102", "'a b' is no name of a field"),
        ("class P(NamedTuple):\n    a: Tensor\n    a: int\n", "E105", "duplicate field 'a'"),
        ("class P(NamedTuple):\n    a: int = 1\n    b: Tensor\n", "E101", "field 'b' without a default follows"),
        ("class P(NamedTuple):\n    a: int\n\ndef P(x):\n    return x\n", "E105", "'P' is defined twice"),
        ("P = namedtuple('P', 'a')\nP = namedtuple('P', 'b')\n", "E105", "'P' is defined twice"),
        ("def f(y):\n    return Place(y, [y])._replace(z=y)\n", "E204", "takes fields by their names, not 'z'"),
        ("def f(y):\n    return Place(y, [y])._replace(y)\n", "E204", "not a value without a name"),
        (
            "def f(y):\n    return Place(y, [y])._asdict()\n",
            "E202",
            r"no method '_asdict'(?s:.)*elements are x, l, o, n",
        ),
    ],
)
def test_what_is_refused(text: str, code: str, says: str) -> None:
    with pytest.raises(gs.CompileError, match=says) as caught:
        gs.CompilationUnit(text, scope={"Odd": Odd, "Place": Place})
    assert caught.value.code.startswith(code)
    assert len(caught.value.diagnostics) == 1


def test_other_values_for_some_fields() -> None:
    unit = gs.CompilationUnit(
        """
P = namedtuple("P", ["a", "b"])


def f(x, y):
    p = P(x * 2, y)
    q = p._replace(b=p.a * 3)
    return q.a * q.b * p.b + p._replace(b=y, a=x).a
"""
    )
    np.testing.assert_allclose(unit.f(X, Y), 12 * X * X * Y + X)
    assert gs.CompilationUnit(unit.code).code == unit.code
