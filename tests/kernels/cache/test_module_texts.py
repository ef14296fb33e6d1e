"""Modules of generated text are compiled from memory: nothing is read from disk for them, and nothing written."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import marshal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.triton.compile import compile_offline, kernel_function, load_module

TEXT = "def halved(x):\n    return x / 2\n\n\ndef failing():\n    raise ValueError('it fails')\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fresh(text: str) -> ModuleType:
    sys.modules.pop(load_module(text).__name__)
    return load_module(text)


def test_nothing_is_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert fresh(TEXT).halved(3.0) == 1.5
    assert not list(cache.rglob("*"))


def test_one_text_is_one_module() -> None:
    assert load_module(TEXT) is load_module(TEXT) and load_module(TEXT) is not load_module(TEXT + "\n")
    before = set(sys.modules)
    with pytest.raises(SyntaxError):
        load_module("def (:\n")
    with pytest.raises(ZeroDivisionError):
        load_module("1 / 0\n")
    assert set(sys.modules) == before


@pytest.mark.parametrize("forget", [lambda: None, linecache.checkcache, linecache.clearcache])
def test_python_knows_the_lines(forget: Callable[[], None]) -> None:
    module = fresh(TEXT)
    forget()
    assert inspect.getsource(module.halved) == "def halved(x):\n    return x / 2\n"
    try:
        module.failing()
    except ValueError:
        assert "raise ValueError('it fails')" in traceback.format_exc()


def test_planted_bytecode_is_not_found(cache: Path) -> None:
    """Wherever an import would look for it."""
    module = fresh(TEXT)
    code = compile("def halved(x):\n    return 'planted'\n", "planted", "exec")
    content = importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)
    for folder in (cache, cache / "cache", cache / "cache" / "modules", cache / "gradscript"):
        (folder / "__pycache__").mkdir(parents=True)
        for stem in (module.__name__, module.__name__.replace("gradscript_", "k")):
            (folder / f"{stem}.py").write_text("def halved(x):\n    return 'planted'\n", encoding="utf-8")
            (folder / "__pycache__" / f"{stem}.{sys.implementation.cache_tag}.pyc").write_bytes(content)
    assert fresh(TEXT).halved(3.0) == 1.5
    assert not Path(module.__file__ or "").parent.is_dir()


def test_triton_reads_kernels_from_memory(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    (info,) = gs.CompilationUnit("def halved(x):\n    return x / 2\n").halved.kernels(np.zeros(9, np.float32)).forward
    function = kernel_function(info.text, info.name)
    assert "def halved_forward(" in function.src and function.src in info.text
    linecache.clearcache()
    assert "def halved_forward(" in inspect.getsource(function.fn)
    assert not list(cache.rglob("*.py")) and not list(cache.rglob("*.pyc"))
    compile_offline(info.text, info.name, info.signature, "sm_90")
    assert not list(cache.rglob("*.py")) and not list(cache.rglob("*.pyc"))
