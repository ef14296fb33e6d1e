"""The modules of one program are built by compilers that run at the same time, and end with whoever waits for them."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import library
from gradscript.runtime.kernels.failure import KernelFailure

pytestmark = pytest.mark.skipif(compilers.compiler() is None, reason="there is no compiler of C")
SEVERAL = """
def several(x, w):
    y = torch.tanh(x * {number}) @ w
    z = torch.exp(y - {number}) @ w
    return torch.sigmoid(z) * {number}
"""
TOGETHER = """
echo > "{folder}/$$"
for k in $(seq 200); do [ $(ls {folder} | wc -l) -ge 2 ] && break; sleep 0.1; done
[ $(ls {folder} | wc -l) -ge 2 ] || echo > "{folder}/alone"
"""
"""Waits for another of its kind, twenty seconds at most."""


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No library and no cache of before, and two processors."""
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_LOADED", dict(library._LOADED))
    monkeypatch.setattr(library, "processors", lambda: 2)
    with gs.settings.backend("c"):
        yield


def install(monkeypatch: pytest.MonkeyPatch, path: Path, script: str) -> None:
    real = shutil.which("cc") or shutil.which("gcc")
    path.write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n', encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setenv("CC", str(path))


def text(number: int) -> str:
    return f"double side_{number}(void) {{ return {number}; }}\n"


def test_both_halves_of_a_gradient_are_built_at_the_same_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    install(monkeypatch, tmp_path / "cc", TOGETHER.format(folder=begun))
    function = gs.CompilationUnit("def both(x, w):\n    return torch.tanh(x * 0.40625) * w\n").both
    x, w = np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(0, 2, 4)
    y, pull_back = gs.vjp(function, x, w)
    built = {path.name for path in begun.iterdir()}
    assert len(built) >= 2
    assert "alone" not in built
    slope = 0.40625 * (1 - np.tanh(x * 0.40625) ** 2) * w
    np.testing.assert_allclose(pull_back(np.ones_like(y))[0], slope, rtol=1e-12)
    assert {path.name for path in begun.iterdir()} == built


def test_modules_of_a_program_are_built_at_the_same_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    install(monkeypatch, tmp_path / "cc", TOGETHER.format(folder=begun))
    function = gs.CompilationUnit(SEVERAL.format(number=0.4375)).several
    x, w = np.linspace(-1, 1, 32).reshape(4, 8), np.linspace(0, 1, 64).reshape(8, 8)
    found = function(x, w)
    names = {path.name for path in begun.iterdir()}
    assert len(names) >= 2
    assert "alone" not in names
    with gs.settings.backend("numpy"):
        np.testing.assert_allclose(found, function(x, w), rtol=1e-12)


def test_each_is_loaded_once_and_the_first_failure_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = {text(1): ["side_1"], "int broken = first;\n": [], "int broken = second;\n": [], text(2): ["side_2"]}
    with pytest.raises(KernelFailure, match="first"):
        library.load_libraries(wanted)
    library.load_libraries({text(1): ["side_1"], text(2): ["side_2"]})
    install(monkeypatch, tmp_path / "cc", "exit 1")
    assert library.load_module(text(1), ["side_1"]) is library.load_module(text(1), ["side_1"])


def test_who_is_interrupted_waits_for_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    install(monkeypatch, tmp_path / "cc", f'echo > "{begun}/$$"; sleep 100')

    def interrupt() -> None:
        while len([*begun.iterdir()]) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=interrupt)
    # Who is started in the background is not told of interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        other.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            library.load_libraries({text(number): [f"side_{number}"] for number in range(10, 15)})
        other.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 50
    assert len([*begun.iterdir()]) == 2
    for path in begun.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)
