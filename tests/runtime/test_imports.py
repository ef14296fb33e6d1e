"""Files that take functions from files beside them."""

from __future__ import annotations

from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from click.testing import CliRunner
from gradscript.authoring.cli.main import main
from gradscript.lang.imports import relative_imports
from gradscript.lang.source import Source

SQUARE = "def square(x):\n    def backward(g):\n        return g * 2 * x\n\n    return x * x, backward\n"


def _write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.grad"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from .square import square", "square"),
        ("from .square import square as sq", "sq"),
        ("from . import square", "square.square"),
        ("from . import square as s", "s.square"),
        ("from .square import (\n    square,  # kept\n)", "square"),
        ("from .deep.square import square", "square"),
        ("from .deep.inner.up import square", "square"),
        ("from .deep import square", "square.square"),
        ("from .deep.inner import up as u", "u.square"),
    ],
)
def test_imports(tmp_path: Path, line: str, call: str) -> None:
    _write(tmp_path, square=SQUARE, deep__square=SQUARE)
    _write(tmp_path, deep__inner__up="from ...square import square as s\n\n\ndef square(x):\n    return s(x)\n")
    _write(tmp_path, main=f"{line}\n\n\ndef f(x):\n    return {call}(x) + 1\n")
    unit = gs.load(tmp_path / "main.grad")
    assert list(unit) == ["f"]
    np.testing.assert_allclose(unit.f(3.0), 10.0)
    np.testing.assert_allclose(gs.grad(unit.f)(3.0), 6.0)
    assert gs.CompilationUnit(unit.code).f(3.0) == 10.0


def test_a_file_is_compiled_once(tmp_path: Path) -> None:
    _write(tmp_path, square=SQUARE, left="from .square import square\n\n\ndef left(x):\n    return square(x)\n")
    text = "from .left import left\nfrom .square import square\n\n\ndef f(x):\n    return left(x) + square(x)\n"
    _write(tmp_path, main=text)
    assert gs.load(tmp_path / "main.grad").f.code.count("def square") == 1


def test_a_long_chain(tmp_path: Path) -> None:
    _write(tmp_path, f0="def f(x):\n    return x\n")
    for i in range(1, 300):
        _write(tmp_path, **{f"f{i}": f"from .f{i - 1} import f as g\n\n\ndef f(x):\n    return x + 1\n"})
    assert gs.load(tmp_path / "f299.grad").f(1.0) == 2.0


@pytest.mark.parametrize(
    ("texts", "code", "message", "file"),
    [
        ({"a": "from .a import f\n"}, "E407", "files import each other: a.grad → a.grad", "a.grad"),
        (
            {"a": "from .b import f\n", "b": "from .c import f\n", "c": "from .b import f\n"},
            "E407",
            "files import each other: b.grad → c.grad → b.grad",
            "c.grad",
        ),
        ({"a": "from .b import f\n"}, "E201", "no file for the import of '.b'", "a.grad"),
        (
            {"a": "from .b import squar\n", "b": SQUARE},
            "E201",
            "'.b' has no function and no constant 'squar'",
            "a.grad",
        ),
        ({"a": "from .b import f\n", "b": "\n\ndef f(x):\n    return y\n"}, "E201", "undefined name 'y'", "b.grad"),
    ],
)
def test_what_is_wrong_is_told_where_it_is(
    tmp_path: Path, texts: dict[str, str], code: str, message: str, file: str
) -> None:
    _write(tmp_path, **texts)
    with pytest.raises(gs.CompileError) as caught:
        gs.load(tmp_path / "a.grad")
    assert (caught.value.code, caught.value.message) == (code, message)
    assert Path(caught.value.span.source.filename).name == file
    assert caught.value.span.line == (4 if message.startswith("undefined") else 1)


def test_a_text_is_beside_no_file() -> None:
    with pytest.raises(gs.CompileError, match="is beside no file") as caught:
        gs.CompilationUnit("from .norms import f\n\n\ndef g(x):\n    return f(x)\n")
    assert "gs.load" in str(caught.value)


def test_only_lines_of_the_file_are_imports() -> None:
    text = 'def f(x):\n    """\nfrom .a import b\n    """\n    return x\n# from .c import d\nfrom .e import g, h as i\n'
    (found,) = relative_imports(Source(text))
    assert (found.text, [(n.name, n.called) for n in found.names]) == (".e", [("g", "g"), ("h", "i")])


def test_commands_follow_imports(tmp_path: Path) -> None:
    _write(tmp_path, square=SQUARE, main="from .square import square\n\n\ndef f(x):\n    return square(x) * 2\n")
    path = str(tmp_path / "main.grad")
    assert CliRunner().invoke(main, ["run", path, "f", "--arg", "3.0"]).exit_code == 0
    assert CliRunner().invoke(main, ["check", path, "f"]).exit_code == 0


def test_constants_are_taken_too(tmp_path: Path) -> None:
    _write(
        tmp_path,
        limits="EPS = 1e-3\nTWICE = 2 * EPS\n\n\ndef f(x):\n    return x * EPS\n",
        between="from .limits import TWICE, EPS as E\n\nMORE = TWICE + E\n",
        main="from .between import MORE\nfrom .limits import f, EPS\n\n\ndef g(x, eps: float = EPS):\n"
        "    return f(x) + MORE + eps\n",
    )
    unit = gs.load(tmp_path / "main.grad")
    assert unit.g(1.0) == pytest.approx(1e-3 + 3e-3 + 1e-3)
    assert unit.g.schema.arguments[1].default == 1e-3


def test_a_star_is_told_what_to_write(tmp_path: Path) -> None:
    _write(tmp_path, a="from .b import *\n", b=SQUARE)
    with pytest.raises(gs.CompileError) as caught:
        gs.load(tmp_path / "a.grad")
    assert "from .norms import rms_norm" in str(caught.value)
