"""Types in comments mean what annotations mean; what stands elsewhere, or is no type, is reported."""

from __future__ import annotations

import itertools
import random
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.lang.diagnostics import Diagnostics
from gradscript.lang.dump import dump
from gradscript.lang.parser import parse
from gradscript.lang.source import Source

TYPES = ("Tensor", "int", "float", "List[int]", "Optional[Tensor]", "Tuple[int, List[float]]", "None", "torch.Tensor")


def signature(text: str) -> str:
    return str(gs.CompilationUnit(text)["f"].schema)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x, n):\n    # type: (Tensor, int) -> Tensor\n    return x * n\n",
        "def f(x, n):  # type: (Tensor, int) -> Tensor\n    return x * n\n",
        "def f(x, n):\n    '''# type: (int) -> int'''\n    # type: (Tensor, int) -> Tensor  # said\n    return x * n\n",
        "def f(x, n):\n    y = x * n\n    # type: (Tensor, int) -> Tensor\n    return y\n",
        "def f(x, n): return x * n  # type: (Tensor, int) -> Tensor",
        "def f(x,  # type: Tensor\n      n   # type: int\n      ):\n    # type: (...) -> Tensor\n    return x * n\n",
        "def f(\n    x,  # type: Tensor\n    n,  # type: int\n):\n    # type: (...) -> Tensor\n\n    return x * n\n",
        "def f(x, n  # type: int\n      ):\n    return x * n  # type: ignore[operator]\n",
        "def f(x, n: int):\n    #type: (...) -> Tensor\n    return x * n\n",
    ],
)
def test_every_place_of_a_signature(text: str) -> None:
    assert signature(text) == "f(Tensor x, int n) -> Tensor"


def written(names: list[str], types: list[str], defaults: list[str], form: int) -> str:
    """A function with its parameters' types as annotations (0), a signature (1), and comments behind each (2)."""
    values = [f" = {d}" if d else "" for d in defaults]
    if form == 0:
        return f"def f({', '.join(f'{n}: {t}{v}' for n, t, v in zip(names, types, values, strict=True))}):\n    pass\n"
    if form == 1:
        parameters = ", ".join(f"{n}{v}" for n, v in zip(names, values, strict=True))
        return f"def f({parameters}):\n    # type: ({', '.join(types)}) -> None\n    pass\n"
    lines = "".join(f"    {n}{v},  # type: {t}\n" for n, t, v in zip(names, types, values, strict=True))
    return f"def f(\n{lines}):\n    # type: (...) -> None\n    pass\n"


def test_comments_give_the_schema_that_annotations_give() -> None:
    random.seed(7)
    for count, _ in itertools.product(range(1, 5), range(25)):
        types = [random.choice(TYPES) for _ in range(count)]
        names = [f"p{i}" for i in range(count)]
        required = random.randrange(count + 1)
        defaults = ["" if i < required else default_of(t) for i, t in enumerate(types)]
        if "" in defaults[required:]:
            defaults = [""] * count
        schemas = {signature(written(names, types, defaults, form)) for form in range(3)}
        assert len(schemas) == 1, schemas


def default_of(type: str) -> str:
    return {"int": "3", "float": "0.5", "List[int]": "[1, 2]", "Optional[Tensor]": "None"}.get(type, "")


def test_closures_have_signatures_of_their_own() -> None:
    cu = gs.CompilationUnit("""
def f(x, n):
    # type: (Tensor, int) -> Tensor
    def backward(grad):
        # type: (Tensor) -> Tuple[Tensor, None]
        return grad * n, None
    return x * n, backward
""")
    assert str(cu.f.schema) == "f(Tensor x, int n) -> Tensor"
    assert float(gs.grad(cu.f)(2.0, 3)) == 3.0


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("y = []  # type: List[int]\n    y.append(3)\n    return y", [3]),
        ("y = None  # type: Optional[int]\n    if x.sum() > 0:\n        y = 4\n    return y", 4),
        (
            "a, b = [], []  # type: List[int], List[str]\n    a.append(1)\n    b.append('s')\n    return a, b",
            ([1], ["s"]),
        ),
        ("a = 1; b = []  # type: List[float]\n    b.append(0.5)\n    return a, b", (1, [0.5])),
        ("y = [\n        1,\n    ]  # type: List[int]\n    return y", [1]),
        ("y = []  # type: ignore\n    return len(y)", 0),
    ],
)
def test_assignments(statements: str, expected: Any) -> None:
    cu = gs.CompilationUnit(f"def f(x):\n    {statements}\n")
    assert cu.f(np.ones(2)) == expected
    assert gs.CompilationUnit(cu.code).code == cu.code


def test_the_declared_result_types_what_is_returned() -> None:
    cu = gs.CompilationUnit("""
def f(x, short):
    # type: (Tensor, bool) -> Tuple[List[int], Optional[int]]
    if short:
        return [], None
    return [x.dim()], 1
""")
    assert cu.f(1.0, True) == ([], None)
    assert cu.f(1.0, False) == ([0], 1)
    assert gs.CompilationUnit(cu.code).code == cu.code


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "def f(x, n):\n    # type: (Tensor) -> Tensor\n    return x",
            2,
            "the type comment has 1 type for 2 parameters",
        ),
        ("def f(x):\n    # type: () -> Tensor\n    return x", 2, "the type comment has 0 types for 1 parameter"),
        ("def f(x: int):\n    # type: (int) -> int\n    return x", 2, "'x' has a type comment and an annotation"),
        (
            "def f(x) -> int:\n    # type: (int) -> int\n    return x",
            2,
            "the result has a type comment and an annotation",
        ),
        (
            "def f(x,  # type: int\n      ):\n    # type: (int) -> int\n    return x",
            3,
            "give the parameters their types twice",
        ),
        ("def f(x):\n    # type: (int) -> int\n    # type: (int) -> int\n    return x", 3, "a second signature"),
        ("def f(  # type: int\n      x):\n    return x", 1, "a type comment behind no parameter"),
        ("def f(x,  # type: int\n      # type: int\n      ):\n    return x", 2, "a type comment behind no parameter"),
        ("def f(x):\n    # type: see below\n    return x", 2, "this type comment has no type"),
        ("def f(x):\n    # type: (int -> int\n    return x", 2, "this type comment has no type"),
        ("def f(x):\n    # type: int -> int\n    return x", 2, "this type comment has no type"),
        ("def f(x):\n    y = [] # type: List[int\n    return x", 2, "this type comment has no type"),
        ("def f(x):\n    y = []  # type:\n    return x", 2, "this type comment has no type"),
        ("# type: int\ndef f(x):\n    return x", 1, "this type comment says the type of nothing"),
        ("def f(x):\n    # type: List[int]\n    y = []\n    return x", 2, "this type comment says the type of nothing"),
        ("def f(x):\n    for i in [1]:  # type: int\n        pass\n    return x", 2, "says the type of nothing"),
        ("def f(x):\n    x += 1  # type: int\n    return x", 2, "this type comment says the type of nothing"),
        (
            "def f(x):\n    y = (  # type: int\n        1)\n    return x",
            2,
            "this type comment says the type of nothing",
        ),
        ("def f(x):\n    # type: (Tensor) -> innt\n    return x", 2, "unknown type 'innt'"),
        ("def f(x):\n    # type: (innt) -> int\n    return x", 2, "unknown type 'innt'"),
        ("def f(x):\n    y = 1.5  # type: int\n    return x", 2, "the value is a float, not a int"),
        ("def f(x):\n    # type: (Tensor) -> int\n    return x", 2, "'f' returns a Tensor, not a int"),
    ],
)
def test_what_is_reported(text: str, line: int, message: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(text)
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert found.span.line == line
    assert found.notes or found.code == "E301"


def test_a_mistake_below_which_comments_were_not_read_is_reported_alone() -> None:
    found = []
    for comment in ("# type: (int) -> int", "# nothing"):
        with pytest.raises(gs.CompileError) as caught:
            gs.CompilationUnit(f"def f(x:\n    {comment}\n    return x\n")
        found.append([(d.code, d.message, d.span.line) for d in caught.value.diagnostics])
    assert found[0] == found[1]


def test_what_looks_like_a_type_comment_and_is_none() -> None:
    text = 'def f(x):\n    y = "# type: int"\n    # see # type: int\n    # types: none\n    return x, y\n'
    assert signature(text) == "f(Tensor x) -> (Tensor, str)"


@gs.script
def scripted(x, n):
    # type: (Tensor, int) -> Tensor
    rest = []  # type: List[int]
    rest.append(n)
    return x * rest[0]


def test_python_functions_keep_their_comments() -> None:
    assert str(scripted.schema) == "scripted(Tensor x, int n) -> Tensor"
    assert float(scripted(2.0, 3)) == 6.0


def test_the_tree_shows_the_types() -> None:
    tree = dump(parse(Source("def f(n):\n    # type: (int) -> List[int]\n    return [n]\n"), Diagnostics()))
    assert "parameters: Parameter n 1:7-1:8\n      annotation: Name int 2:14-2:17" in tree
    assert "returns: Subscript 2:22-2:31" in tree


def test_many_comments_take_no_longer_than_the_text() -> None:
    count = 3000
    lines = "".join(f"    x{i} = []  # type: List[int]\n" for i in range(count))
    text = f"def f(x):\n    # type: (int) -> int\n{lines}    return x\n"
    problems = Diagnostics()
    (function,) = parse(Source(text), problems).functions
    assert not problems.found
    assert len(function.body) == count + 1
