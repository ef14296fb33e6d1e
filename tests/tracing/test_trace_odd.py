"""Odd things that Python code does while it is traced: they work, or are refused in words."""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest

X = np.arange(6.0).reshape(2, 3) + 1
Y = X[::-1] * 0.5
W = np.arange(6.0).reshape(3, 2)
Pair = namedtuple("Pair", "left right")

UNIT = gs.CompilationUnit(
    """
def looped(x, n: int):
    for i in range(n):
        x = x * 2.0
    return x

def total(xs: List[Tensor]):
    t = xs[0]
    for i in range(1, len(xs)):
        t = t + xs[i]
    return t

def two(x):
    return x + 1, x * 2

def biased(x, b: Optional[Tensor] = None):
    if b is not None:
        x = x + b
    return x

def fails(x):
    y = x * 2
    return y.view(7)

def converted(x, d: int):
    return x.to(d)

def chosen(x, mode: str = "a"):
    return x if mode == "a" else x * 2

def nested(x):
    return (x, [x, x * 2])

def scalar(p: Tuple[Tensor, int]):
    a, n = p
    return a * n

def square(x):
    return (x * x).sum()
"""
)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.TracerWarning)
        yield


class Model:
    def __init__(self) -> None:
        self.weight = W

    def forward(self, x: Any) -> Any:
        return x @ self.weight

    __call__ = forward


def _recursive(x: Any, depth: int = 5) -> Any:
    return x if depth == 0 else _recursive(x * 2, depth - 1)


def _assigns(x: Any) -> Any:
    x = x * 1
    x += 1
    x *= x
    return x


def _catches(x: Any) -> Any:
    try:
        return UNIT.fails(x)
    except gs.RuntimeFailure:
        return x + 1


def _in_a_thread(x: Any) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(x * 2))
    thread.start()
    thread.join()
    return results[0]


_SAME: dict[str, Callable[..., Any]] = {
    "keyword-only": lambda x, *, k=2.0: x * k,
    "a default": lambda x, k=2.0: x * k,
    "varargs": lambda *xs: xs[0] * 2,
    "keywords": lambda x, **options: x * 2,
    "a method": Model().forward,
    "an object that is called": Model(),
    "a partial": functools.partial(lambda x, k: x * k, k=3.0),
    "a partial by place": functools.partial(lambda k, x: x * k, 3.0),
    "a builtin": abs,
    "a ufunc": np.exp,
    "recursion": _recursive,
    "augmented assignment": _assigns,
    "the input": lambda x: x,
    "the input twice": lambda x: (x, x),
    "a number": lambda x: 3,
    "an infinite number": lambda x: (x, float("inf")),
    "an array from around": lambda x: W,
    "nothing": lambda x: None,
    "nothing beside something": lambda x: (x, None),
    "an empty tuple": lambda x: (),
    "an empty list": lambda x: [],
    "a string": lambda x: "a",
    "a list": lambda x: [x, x * 2],
    "a named tuple": lambda x: tuple(Pair(x, x * 2)),
    "a shape": lambda x: list(np.shape(x)),
    "numbers of two types": lambda x: [1, 2.5],
    "a rank decides": lambda x: x if x.ndim == 2 else -x,
    "a dtype decides": lambda x: x if x.dtype == np.float64 else -x,
    "an array on the left": lambda x: Y * x,
    "a NumPy scalar on the left": lambda x: np.float64(2) * x,
    "hashing": lambda x: {x.tobytes() if isinstance(x, np.ndarray) else x: 1} and x * 2,
    "a copy": lambda x: copy.copy(x) * 2,
    "a deep copy": lambda x: copy.deepcopy([x])[0] * 2,
    "text": lambda x: x * len(f"{x}"[:0]),
    "another name of to": lambda x: x.astype(np.float32) + x.astype("float32"),
    "is not None": lambda x: x if x is not None else x * 2,
    "slices": lambda x: x[:, 1:] + x[0, 0] + x[..., -1:] + x[None, :, 0:1][0],
    "a list of indices": lambda x: x[[1, 0]],
    "an array of indices": lambda x: x[np.array([1, 0])],
    "a mask": lambda x: x[x > 2],
    "transposed": lambda x: x.T @ x,
    "axis and keepdims": lambda x: x.sum(axis=1, keepdims=True),
    "a product of shapes": lambda x: x.reshape(np.size(x)),
    "a list of functions": lambda x: [f(x) for f in (np.sin, np.cos, np.tanh)],
}
"""What is the same for the array itself."""


@pytest.mark.parametrize("name", _SAME)
def test_as_without_a_trace(name: str) -> None:
    traced = gs.trace(_SAME[name], X)
    for array in (X, Y):
        found, expected = traced(array), _SAME[name](array)
        assert type(found) is type(expected) or isinstance(expected, np.generic | np.ndarray)
        for mine, theirs in zip(_leaves(found), _leaves(expected), strict=True):
            if theirs is None or isinstance(theirs, str):
                assert mine == theirs
            else:
                np.testing.assert_allclose(mine, theirs, rtol=1e-7)


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list | tuple) else [value]


_CALLS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "a list": (lambda x: UNIT.total([x, x * 2, Y]), lambda x: 3 * x + Y),
    "several results": (lambda x: UNIT.two(x)[0] * UNIT.two(x)[1], lambda x: (x + 1) * x * 2),
    "a default": (lambda x: UNIT.biased(x), lambda x: x),
    "by name": (lambda x: UNIT.biased(x, b=x), lambda x: 2 * x),
    "None": (lambda x: UNIT.biased(x, None), lambda x: x),
    "a tuple": (lambda x: UNIT.scalar((x, 2)), lambda x: 2 * x),
    "a string": (lambda x: UNIT.chosen(x, "b") + UNIT.chosen(x, mode="a"), lambda x: 3 * x),
    "a dtype": (lambda x: UNIT.converted(x, np.float32), lambda x: x.astype(np.float32)),
    "a NumPy int": (lambda x: UNIT.looped(x, np.int64(3)), lambda x: 8 * x),
    "a size": (lambda x: UNIT.looped(x, x.size(0)), lambda x: 4 * x),
    "nested results": (lambda x: UNIT.nested(x)[1][1], lambda x: 2 * x),
    "a gradient": (lambda x: gs.grad(UNIT.square)(x), lambda x: 2 * x),
    "in a try": (_catches, lambda x: x + 1),
    "in a thread": (_in_a_thread, lambda x: 2 * x),
}


@pytest.mark.parametrize("name", _CALLS)
def test_calls_of_compiled_functions(name: str) -> None:
    function, expected = _CALLS[name]
    traced = gs.trace(function, X)
    np.testing.assert_allclose(traced(Y), expected(Y))


@pytest.mark.parametrize(
    "example",
    [np.array(3.0), np.float32(3), np.zeros((0, 3)), np.arange(4), np.array([True, False]), X.astype(">f4"), 2, 2.5],
    ids=repr,
)
def test_examples_of_every_kind(example: Any) -> None:
    np.testing.assert_allclose(gs.trace(lambda x: x + x, example)(example), example + example)


def test_examples_that_nest() -> None:
    traced = gs.trace(lambda xs, p, n: xs[0][0] + xs[1][0] + p[0] * p[1][0] * n[1], [[X], [X]], (X, (2.0, 3)), [1, 2])
    assert [str(a.type) for a in traced.schema.arguments] == [
        "List[List[Tensor]]",
        "Tuple[Tensor, Tuple[float, int]]",
        "List[int]",
    ]
    np.testing.assert_allclose(traced([[X], [Y]], (Y, (3.0, 1)), [1, 5]), X + Y + Y * 15)
    assert gs.trace(lambda xs: xs, [])([X, Y])[1] is not None


_REFUSED: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "a dict": (lambda x: {"x": x}, TypeError, "returns a value of type dict: a trace returns arrays"),
    "a set": (lambda x: {1}, TypeError, "returns a value of type set"),
    "an object": (lambda x: [object()], TypeError, "returns a value of type object"),
    "a generator": (lambda x: (x for _ in "ab"), TypeError, "returns a value of type generator"),
    "complex numbers": (lambda x: np.ones(2) * 1j, TypeError, "dtype complex128 is not supported: a trace returns"),
    "a mixed list": (lambda x: [x, 1], TypeError, "a list has elements of one type, not Tensor and int"),
    "an item set": (lambda x: x.__setitem__(0, 1.0), TypeError, "not changed in place"),
    "an item deleted": (lambda x: x.__delitem__(0), AttributeError, "no attribute or method '__delitem__'"),
    "an in-place method": (lambda x: x.add_(1), AttributeError, "did you mean 'add'"),
    "out=": (lambda x: np.add(x, 1, out=x), TypeError, "np.add with out= does not take"),
    "into an array": (lambda x: Y.copy().__iadd__(x), TypeError, "np.add with out= does not take"),
    "reduce": (lambda x: np.add.reduce(x), TypeError, "np.add.reduce does not take"),
    "where=": (lambda x: np.sum(x, where=x > 1), TypeError, "np.sum with where= does not take"),
    "order=": (lambda x: np.reshape(x, (3, 2), order="F"), TypeError, "np.reshape with order="),
    "no axis": (lambda x: np.concatenate([x, x], axis=None), TypeError, "np.concatenate without an axis"),
    "one argument": (lambda x: np.where(x > 0), TypeError, "np.where without x="),
    "many dimensions": (lambda x: np.dot(x[None], x.T), TypeError, "np.dot of more than two dimensions"),
    "another of the name": (lambda x: np.linalg.norm(x), TypeError, "np.norm does not take"),
    "an attribute set": (lambda x: setattr(x, "foo", 1), AttributeError, "foo"),
    "an unknown method": (lambda x: x.tobytes(), AttributeError, "no attribute or method 'tobytes'"),
    "numbers of elements": (lambda x: x.tolist(), gs.RuntimeFailure, r"what tolist\(\) gives depends on the tensor"),
    "an object as operand": (lambda x: x + object(), TypeError, "a value of type object is no operand"),
    "a string as operand": (lambda x: x + "a", gs.RuntimeFailure, r"operator '\+' does not take \(Tensor, str\)"),
    "None as operand": (lambda x: x + None, gs.RuntimeFailure, r"does not take \(Tensor, None\)"),
    "a dtype that is not there": (lambda x: x + np.ones(3, np.uint32), gs.RuntimeFailure, "_: dtype uint32 is not"),
    "several truths": (lambda x: x and x, gs.RuntimeFailure, "only a tensor of one element is a number"),
    "several floats": (lambda x: x * float(x), gs.RuntimeFailure, r"not one of shape \[2, 3\]"),
    "several ints": (lambda x: x[int(x) :], gs.RuntimeFailure, "only a tensor of one element"),
    "several indices": (lambda x: [1, 2, 3][x], gs.RuntimeFailure, "only a tensor of one element"),
    "several numbers as text": (lambda x: f"{x:.2f}", gs.RuntimeFailure, "only a tensor of one element"),
    "in": (lambda x: 3.0 in x, gs.RuntimeFailure, "operator 'in' does not take"),
    "a gradient by hand": (lambda x: gs.vjp(UNIT.square, x), gs.RuntimeFailure, "call what gs.grad gives"),
    "a missing argument": (lambda x: UNIT.looped(x), gs.RuntimeFailure, "argument 'n' missing"),
    "an unknown argument": (lambda x: UNIT.looped(x, m=1), gs.RuntimeFailure, "no argument 'm'"),
    "a float for an int": (lambda x: UNIT.looped(x, x.sum().item()), gs.RuntimeFailure, "an int is needed, not the"),
    "too few examples": (lambda x, y: x, TypeError, "1 examples do not fit 'traced': missing a required argument: 'y'"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_refused_is_told(name: str) -> None:
    function, kind, message = _REFUSED[name]
    with pytest.raises(kind, match=message):
        gs.trace(function, X)
    assert gs.trace(lambda x: x * 2, X)(Y).shape == (2, 3), "the next trace is not affected"


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"a": X}, "a Tensor is needed, not a value of type dict; keep it out of the arguments"),
        ("a", "not the str 'a'; keep it out"),
        (None, "not None; keep it out"),
        (X * 1j, "dtype complex128 is not supported"),
        (np.ma.array(X), "a masked array"),
        ([X, (X, X)], r"a list has elements of one type, not Tensor and Tuple\[Tensor, Tensor\]"),
    ],
    ids=["dict", "str", "None", "complex", "masked", "mixed list"],
)
def test_examples_that_are_refused(example: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        gs.trace(lambda x: x, example)


def test_what_the_function_raises_is_its_own() -> None:
    def fails(x: Any) -> Any:
        raise LookupError("of the user's")

    with pytest.raises(LookupError, match="of the user's"):
        gs.trace(fails, X)


def test_the_data_are_those_of_the_example() -> None:
    with pytest.warns(gs.TracerWarning, match=r"`\.data` of a tracing value: the array is kept"):
        traced = gs.trace(lambda x: x * x.data, X, check=False)
    np.testing.assert_array_equal(traced(Y), Y * X)
    assert gs.trace(lambda x: x * len(f"{x.sum().item():.1f}"), X, check=False)(Y).shape == (2, 3)


def test_a_loop_that_ends_for_the_example_only() -> None:
    """On negated numbers it would go on for ever: the check leaves that out."""

    def doubled(x: Any) -> Any:
        while x.sum() < 100:
            x = x * 2
        return x

    with pytest.warns(gs.TracerWarning, match=r"bool\(\)"):
        traced = gs.trace(doubled, X)
    np.testing.assert_array_equal(traced(X), X * 8)


def test_the_check_runs_what_was_traced() -> None:
    """With tracing values, so that what a function asks about its arguments has the same answers."""
    seen: list[str] = []

    def asks(x: Any) -> Any:
        seen.append(type(x).__name__)
        return x if x.shape == [2, 3] else -x

    with pytest.warns(gs.TracerWarning) as caught:
        gs.trace(asks, X)
    assert set(seen) == {"TracedValue"} and len(caught) == 1


def test_results_in_the_other_order_of_bytes() -> None:
    traced = gs.trace(lambda x: np.arange(3.0).astype(">f8"), 1.0)
    np.testing.assert_array_equal(traced(2.0), np.arange(3.0))


def test_traces_in_threads() -> None:
    wrong: list[Any] = []

    def work(k: int) -> None:
        for i in range(5):
            traced = gs.trace(lambda x: (x * k).tanh() + i, X, check=False)  # noqa: B023 - called at once
            if not np.allclose(traced(Y), np.tanh(Y * k) + i):
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_units_of_the_same_names() -> None:
    def make(k: float) -> gs.CompilationUnit:
        return gs.CompilationUnit(
            f"def f(x):\n    def backward(g):\n        return g * {k}\n    return x * {k}, backward\n"
        )

    units = [make(k) for k in (1.0, 10.0, 100.0)]
    traced = gs.trace(lambda x: sum(unit.f(x) for unit in units).sum(), X)
    np.testing.assert_allclose(gs.grad(traced)(Y), np.full_like(Y, 111.0))


def test_a_long_trace() -> None:
    def long(x: Any) -> Any:
        for _ in range(600):
            x = x * 0.999 + 0.001
        return x

    traced = gs.trace(long, X, check=False)
    np.testing.assert_allclose(traced(Y), long(Y), rtol=1e-9)


def test_a_list_in_itself_is_no_result() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="in themselves"):
        gs.trace(lambda x: endless, np.ones(2))
