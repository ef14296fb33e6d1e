"""A cache directory that cannot be used: texts are had all the same, and what needs a file says what to do."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.cache.folder import cache_directory, process_directory
from gradscript.runtime.kernels.cache.store import KernelStore
from gradscript.runtime.kernels.failure import KernelFailure


@pytest.fixture(params=["a file in its place", "a file above it", "no home"])
def unusable(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    if request.param == "no home":
        monkeypatch.delenv("GRADSCRIPT_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

        def nowhere() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", staticmethod(nowhere))
        return
    below = "below" if request.param == "a file above it" else ""
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "file" / below))


@pytest.mark.usefixtures("unusable")
def test_nothing_is_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    store = KernelStore("kind")
    store.put("name", b"content")
    assert store.get("name") is None
    for write in (cache_directory, process_directory, lambda: store.directory):
        with pytest.raises(OSError):
            write()
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.usefixtures("unusable")
def test_compiling_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    (info,) = gs.CompilationUnit("def halved(x):\n    return x / 2\n").halved.kernels(np.zeros(9, np.int64)).forward
    assert "def halved(" in info.text
    with pytest.raises(KernelFailure, match=r"no file can be written for a compiled kernel: .*; set GRADSCRIPT_CACHE"):
        info.compile("sm_90")


def test_a_directory_in_the_place_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    store = KernelStore("kind")
    store.put("name", b"content")
    (path,) = store.directory.iterdir()
    path.unlink()
    path.mkdir()
    store.put("name", b"content")
    assert store.get("name") is None and path.is_dir()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_leaves_the_files_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    code = (
        "import os, sys\n"
        "from gradscript.runtime.kernels.cache.folder import process_directory\n"
        "mine = process_directory()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert process_directory() != mine\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0 and mine.exists()\n"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
    assert [path for path in tmp_path.iterdir() if path.name.startswith("process-")] == []
