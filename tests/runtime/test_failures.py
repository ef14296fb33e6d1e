"""What goes wrong with data: the texts, the attributes, and that nothing else is raised."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest

SOURCE = """def product(a, b):
    return a @ b

def outer(x, n: int):
    y = x
    if n > 2:
        y = product(x, x)
    return y

def checked(x, n: int):
    assert n > 0, "n must be positive"
    if n > 10:
        raise ValueError("n is too large")
    return x

def divide(n: int, m: int):
    return n // m

def pick(xs: List[int], i: int):
    return xs[i]

def power(n: int, m: int):
    return n ** m

def scale(x, factor: float = 1.0, *, bias: Optional[Tensor] = None, sizes: List[int] = [1, 2]):
    return x * factor
"""
UNIT = gs.CompilationUnit(SOURCE, "model.grad")
X = np.zeros((2, 3))


def failure(call: Any) -> gs.RuntimeFailure:
    with pytest.raises(gs.RuntimeFailure) as caught:
        call()
    return caught.value


def test_an_op_that_does_not_fit_its_data() -> None:
    error = failure(lambda: UNIT.outer(X, 3))
    assert error.op == "aten::matmul"
    assert error.argument is None
    assert error.span.text == "a @ b"
    assert error.__cause__ is not None
    lines = str(error).splitlines()
    assert lines[0].startswith("error[R101]: aten::matmul: ")
    assert lines[1:] == [
        "  --> model.grad:2:12",
        "   2 |     return a @ b",
        "     |            ^^^^^",
        "  note: self: float64[2, 3], other: float64[2, 3]",
        "  note: called from outer at model.grad:7:13",
    ]


def test_a_failed_assert() -> None:
    assert str(failure(lambda: UNIT.checked(X, 0))) == (
        "error[R102]: checked: AssertionError: n must be positive\n"
        "  --> model.grad:11:5\n"
        '  11 |     assert n > 0, "n must be positive"\n'
        "     |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_a_raise() -> None:
    assert str(failure(lambda: UNIT.checked(X, 11))) == (
        "error[R102]: checked: ValueError: n is too large\n"
        "  --> model.grad:13:9\n"
        '  13 |         raise ValueError("n is too large")\n'
        "     |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


@pytest.mark.parametrize(
    ("name", "arguments", "cause"),
    [
        ("divide", (1, 0), ZeroDivisionError),
        ("pick", ([1, 2], 2), IndexError),
        ("power", (2, -1), ValueError),
    ],
)
def test_python_errors_are_told_in_place(name: str, arguments: tuple[Any, ...], cause: type[Exception]) -> None:
    error = failure(lambda: UNIT[name](*arguments))
    assert error.code == "R101"
    assert isinstance(error.__cause__, cause)
    assert error.span.source.filename == "model.grad"


def test_memory_has_a_code_of_its_own() -> None:
    error = failure(lambda: gs.CompilationUnit("def f(n: int):\n    return torch.zeros([n, n, n])\n").f(2**20))
    assert error.code == "R103"


def test_many_calls_are_cut_short() -> None:
    source = "".join(f"def f{i}(n: int):\n    return f{i - 1}(n)\n" for i in range(1, 9))
    unit = gs.CompilationUnit("def f0(n: int):\n    return 1 // n\n" + source)
    notes = failure(lambda: unit.f8(0)).notes
    assert notes[1].startswith("called from f1 at ")
    assert notes[-1] == "and 3 more calls before that"


def test_huge_ints_are_described_by_their_size() -> None:
    unit = gs.CompilationUnit("def f(n: int, m: int):\n    return (n ** m) // (m - m)\n")
    assert "an int of 66439 bits" in str(failure(lambda: unit.f(10, 20_000)))


# --- binding ---

BINDING = {
    "missing": (lambda: UNIT.scale(), "x", "error[R001]: scale: argument 'x' missing"),
    "two missing": (lambda: UNIT.divide(), "n", "error[R001]: divide: arguments 'n' and 'm' missing"),
    "too many": (
        lambda: UNIT.scale(X, 1.0, X),
        None,
        "error[R001]: scale: 3 positional arguments, and at most 2 are taken",
    ),
    "unknown": (lambda: UNIT.scale(X, factr=1.0), "factr", "error[R001]: scale: there is no argument 'factr'"),
    "twice": (lambda: UNIT.scale(X, x=X), "x", "error[R001]: scale: argument 'x' is given twice"),
    "list for a tensor": (
        lambda: UNIT.scale([1.0]),
        "x",
        "error[R002]: scale: argument 'x': a Tensor is needed, not a list",
    ),
    "none": (lambda: UNIT.scale(None), "x", "error[R002]: scale: argument 'x': a Tensor is needed, not None"),
    "str": (
        lambda: UNIT.scale(X, "a"),
        "factor",
        "error[R002]: scale: argument 'factor': a float is needed, not the str 'a'",
    ),
    "bool": (
        lambda: UNIT.divide(True, 1),
        "n",
        "error[R002]: divide: argument 'n': an int is needed, not the bool True",
    ),
    "float": (
        lambda: UNIT.divide(1.0, 1),
        "n",
        "error[R002]: divide: argument 'n': an int is needed, not the float 1.0",
    ),
    "complex": (
        lambda: UNIT.scale(X.astype(complex)),
        "x",
        "error[R003]: scale: argument 'x': dtype complex128 is not supported",
    ),
    "element": (
        lambda: UNIT.pick([1, 2.5], 0),
        "xs",
        "error[R002]: pick: argument 'xs': element 1: an int is needed, not the float 2.5",
    ),
}


@pytest.mark.parametrize("name", BINDING)
def test_wrong_arguments(name: str) -> None:
    call, argument, text = BINDING[name]
    error = failure(call)
    assert str(error).splitlines()[0] == text
    assert error.argument == argument
    assert error.op == text.split(": ")[1]
    assert "model.grad" in str(error)


def test_the_signature_is_shown() -> None:
    assert str(failure(lambda: UNIT.scale(X, factr=2.0))) == (
        "error[R001]: scale: there is no argument 'factr'\n"
        "  --> model.grad:25:1\n"
        "  25 | def scale(x, factor: float = 1.0, *, bias: Optional[Tensor] = None, sizes: List[int] = [1, 2]):\n"
        "     | " + "^" * 95 + "\n"
        "  note: did you mean 'factor'?\n"
        "  note: it takes (x: Tensor, factor: float = 1.0, *, bias: Optional[Tensor] = None, "
        "sizes: List[int] = (1, 2))"
    )
