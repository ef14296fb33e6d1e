"""Units as people keep them: files, units that grow, and signatures that editors read."""

from __future__ import annotations

import inspect
import os
import threading
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest

X = np.array([1.0, 2.0])


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "norms.grad"
    path.write_text("def twice(x):\n    return x * FACTOR\n", encoding="utf-8")
    assert gs.load(path, scope={"FACTOR": 2.0}).twice(X).tolist() == [2.0, 4.0]
    with pytest.raises(gs.CompileError, match=r"norms\.grad:2:16"):
        gs.load(str(path))
    with pytest.raises(FileNotFoundError):
        gs.load(tmp_path / "none.grad")


def test_text_that_is_no_utf8_is_told_by_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "latin.grad"
    path.write_bytes(b"def f(x):\n    return x * '\xe9'\n")
    with pytest.raises(gs.CompileError, match=r"latin\.grad:2"):
        gs.load(path)


def test_a_unit_grows() -> None:
    unit = gs.CompilationUnit(scope={"HALF": 0.5})
    assert len(unit) == 0
    unit.define("def square(x):\n    def backward(grad):\n        return grad * 20 * x\n    return x * x, backward\n")
    unit.define("def energy(x):\n    return (square(x) * HALF).sum()\n")
    assert list(unit) == list(unit.functions) == ["square", "energy"]
    assert gs.grad(unit.energy)(X).tolist() == [10.0, 20.0]
    assert gs.grad(gs.CompilationUnit(unit.code).energy)(X).tolist() == [10.0, 20.0]


def test_what_is_wrong_adds_nothing() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return x\n")
    with pytest.raises(gs.CompileError, match=r"E105.*has a function 'f' already(.|\n)*more\.grad:4:5"):
        unit.define("def g(x):\n    return f(x)\n\ndef f(x):\n    return -x\n", "more.grad")
    with pytest.raises(gs.CompileError, match="E2"):
        unit.define("def h(x):\n    return unknown(x)\n")
    with pytest.raises(TypeError, match="source is a str"):
        unit.define(b"def h(x):\n    return x\n")  # type: ignore[arg-type] # what is tested
    assert list(unit) == ["f"] and unit.f(X).tolist() == X.tolist()


def test_signatures() -> None:
    unit = gs.CompilationUnit(
        "def f(x, ys: List[Tensor], n: int = 2, *, eps: Optional[float] = None) -> Tuple[Tensor, int]:\n"
        "    return x * n, n\n"
    )
    signature = inspect.signature(unit.f)
    assert str(signature) == (
        "(x: 'Tensor', ys: 'List[Tensor]', n: 'int' = 2, *, eps: 'Optional[float]' = None) -> 'Tuple[Tensor, int]'"
    )
    assert signature.bind(X, [], eps=1.0).arguments["eps"] == 1.0
    unit.define("def loss(x):\n    return x.sum()\n")
    assert str(inspect.signature(gs.grad(unit.loss))) == "(x: 'Tensor') -> 'Tensor'"


def test_what_is_no_file_of_source_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "norms.grad").write_text("def f(x):\n    return x\n", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'norms\.grad'\?.*norm\.grad"):
        gs.load(tmp_path / "norm.grad")
    (tmp_path / "dangling.grad").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match=r"directory: .*dangling"):
        gs.load(tmp_path / "dangling.grad")
    with pytest.raises(IsADirectoryError, match=r"a folder, not a file; it holds dangling\.grad, norms\.grad"):
        gs.load(tmp_path)
    for path in ("norms\0.grad", "\ud800.grad"):
        with pytest.raises(OSError, match="no path of a file"):
            gs.load(path)
    os.mkfifo(tmp_path / "pipe.grad")
    with pytest.raises(OSError, match="nothing is written"):
        gs.load(tmp_path / "pipe.grad")
    with pytest.raises(OSError, match="that source may have"):
        gs.load("/dev/zero")


def test_a_pipe_that_is_written_into_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.grad"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)
    os.write(holder, b"def f(x):\n    return x * 2\n")
    closing = threading.Timer(0.05, os.close, [holder])
    closing.start()
    assert gs.load(pipe).f(X).tolist() == [2.0, 4.0]
    closing.join()


@pytest.mark.parametrize(
    "given", [(3, {}), ((X,), None), ((X,), [("n", 1)]), ((X,), {}, X), ((X,), {1: X}), ((X,), {}, 5)]
)
def test_what_are_no_arguments_is_not_bound(given: Any) -> None:
    function = gs.CompilationUnit("def f(x):\n    return x\n").f
    with pytest.raises(TypeError, match="bind"):
        function.bind(*given)
    assert len(function.bind([X], {})) == 1
