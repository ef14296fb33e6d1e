"""Any text gets an answer: in memory, without an exception or a hang."""

from __future__ import annotations

import random
import string
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import pytest
from amounts import some
from gradscript.lang import ast
from gradscript.lang.dump import dump
from lang_support import parse_text, parse_valid

# Of processor time: what tells a hang, on any machine, from the second or less that each of these takes.
SECONDS = 60.0
MEGABYTES = 512
N = 10_000
MANY = some(1_000_000)
"""So many that work which grows with the square would take minutes."""
FUNCTION = "def f(x):\n    return "

VALID = {
    "parentheses": FUNCTION + "(" * N + "x" + ")" * N,
    "sum": FUNCTION + " + ".join("x" * N),
    "power": FUNCTION + " ** ".join("x" * N),
    "unary minuses": FUNCTION + "-" * N + "x",
    "nots": FUNCTION + "not " * N + "x",
    "comparisons": FUNCTION + " < ".join("x" * N),
    "ands": FUNCTION + " and ".join("x" * N),
    "subscripts": FUNCTION + "x[" * N + "0" + "]" * N,
    "chained subscripts": FUNCTION + "x" + "[0]" * N,
    "lists": FUNCTION + "[" * N + "]" * N,
    "chained calls": FUNCTION + "x" + ".relu()" * 5_000,
    "nested calls": FUNCTION + "f(" * N + ")" * N,
    "conditionals": FUNCTION + "x if x else " * N + "x",
    "conditionals inside": FUNCTION + "x if (" * N + "x" + ") else x" * N,
    "tuple targets": "def f(x):\n    " + "(" * N + "x," + ")," * N + " = x",
    "assignment chain": "def f(x):\n    " + "x = " * N + "x",
    "long line": FUNCTION + "+".join(["xyz"] * 25_000),
    "elifs": "def f(x):\n    if x: pass\n" + "    elif x: pass\n" * N,
    "99 levels": "".join("\t" * depth + "def f(x):\n" for depth in range(99)) + "\t" * 99 + "pass",
    "blank lines": "\n" * MANY,
    "comments": "# comment\n" * 100_000,
    "white space": " " * MANY,
}

INVALID = {
    "100 levels": "".join(" " * depth + "def f(x):\n" for depth in range(100)) + " " * 100 + "pass",
    "brackets": "(" * MANY,
    "closing brackets": ")" * MANY,
    "mismatched brackets": "(]" * (MANY // 2),
    "mixed brackets": "([)" * 300_000,
    "bracket lines": "([)\n" * 250_000,
    "open headers": "def f(\n" * (MANY // 7),
    "quotes": "'" * 1_000_001,
    "triple quotes": "'''a\n" * 200_001,
    "escapes": "'" + "a\\" * (MANY // 2),
    "quote lines": '"\n' * (MANY // 2),
    "NUL": "\0" * MANY,
    "lone surrogates": "\ud800" * MANY,
    "backslashes": "\\" * MANY,
    "continuations": "\\\n" * (MANY // 2),
    "dollars": "$ " * (MANY // 2),
    "semicolons": ";" * (MANY // 2),
    "names": "x " * (MANY // 2),
    "headers": "if x:\n" * (MANY // 7),
    "ragged indentation": "".join(" " * (line * 7 % 11) + "x\n" for line in range(MANY // 7)),
    "ragged tabs": "".join("\t" * (line % 7) + " " * (line % 5) + "x\n" for line in range(MANY // 7)),
    "huge int": FUNCTION + "9" * 5_001,
    "longer int": FUNCTION + "9" * MANY,
    "huge hexadecimal": FUNCTION + "0x" + "f" * MANY,
}


def timed(text: str) -> tuple[ast.Module, int, float]:
    start = time.process_time()
    module, found = parse_text(text)
    return module, len(found), time.process_time() - start


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    parse_valid("def f(x): return x")


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    _, found, seconds = timed(VALID[name])
    assert not found
    assert seconds < SECONDS


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    _, found, seconds = timed(INVALID[name])
    assert found
    assert seconds < SECONDS


@pytest.mark.parametrize("alphabet", ["printable", "bytes", "code points", "words"])
def test_garbage(alphabet: str) -> None:
    chance = random.Random(alphabet)
    choose = {
        "printable": lambda: chance.choice(string.printable),
        "bytes": lambda: chr(chance.randrange(256)),
        "code points": lambda: chr(chance.randrange(0x110000)),
        "words": lambda: chance.choice(
            ["def ", "if ", "(", ") ", "x ", "1 ", ":", "\n", "\n    ", "=", ", ", "for ", "["]
        ),
    }[alphabet]
    _, found, seconds = timed("".join(choose() for _ in range(MANY)))
    assert found
    assert seconds < SECONDS


@pytest.mark.parametrize("name", ["parentheses", "sum", "conditionals inside", "names", "brackets", "lone surrogates"])
def test_memory(name: str) -> None:
    text = {**VALID, **INVALID}[name][:200_000]
    tracemalloc.start()
    try:
        parse_text(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The text is at most a fifth of the megabyte that the limit is for.
    assert peak < MEGABYTES * 2**20 / 5


@pytest.mark.parametrize(
    "name", ["sum", "unary minuses", "subscripts", "conditionals inside", "elifs", "chained calls"]
)
def test_dump_of_deep_trees(name: str) -> None:
    assert len(dump(parse_valid(VALID[name]))) > N


def test_work_is_linear(steps: Callable[[Callable[[], object]], int]) -> None:
    def work(statements: int) -> int:
        body = "".join(f"    x{line} = x * {line} + y[{line}]\n" for line in range(statements))
        return steps(lambda: parse_text("def f(x, y):\n" + body))

    assert work(800) < 4.4 * work(200)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "\ufeff", "\ufeff\n", "# c", "  # c\n\n", "'''doc'''", "pass\n", "\f", "\r\n\r\n", "\\\n\n"],
)
def test_empty_files(text: str) -> None:
    module, found = parse_text(text)
    assert module.functions == ()
    assert not found or text.startswith("\\")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end: str) -> None:
    lines = [
        "def f(x):",
        "    '''a",
        "    b'''",
        "",
        "    # c",
        "    y = (x +",
        "  1)",
        "    return y \\",
        "      + 2",
        "",
    ]
    module = parse_valid(end.join(lines))
    (function,) = module.functions
    assert function.docstring == "a\n    b"
    assert len(function.body) == 2


def test_a_byte_order_mark_and_form_feeds() -> None:
    module = parse_valid("\ufeffdef f(x):\n    return x\f\n\n\f\ndef g(x):\n\f    return x\n")
    assert [function.name for function in module.functions] == ["f", "g"]


def test_a_file_indented_as_a_whole() -> None:
    module = parse_valid("\n  # c\n        def f(x):\n            return x\n\n        def g(x): return x\n    ")
    assert [function.name for function in module.functions] == ["f", "g"]


def test_float_overflow_is_infinite() -> None:
    (function,) = parse_valid(FUNCTION + "1e999").functions
    match function.body:
        case (ast.Return(value=ast.Constant(value=value)),):
            assert value == float("inf")
        case _:
            pytest.fail("not a return of a constant")


def test_importing_the_parser_does_not_load_lark() -> None:
    script = "import sys, gradscript.lang.parser; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
