"""What is kept on disk is checked before it is used: truncated, altered and swapped files are made again."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gradscript.runtime.kernels.cache.folder import cache_directory, process_directory
from gradscript.runtime.kernels.cache.store import KernelStore


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def only_file(store: KernelStore) -> Path:
    (path,) = store.directory.iterdir()
    return path


def test_what_is_put_is_found(directory: Path) -> None:
    store = KernelStore("kind")
    assert store.get("name") is None
    store.put("name", b"content")
    assert store.get("name") == b"content" and KernelStore("kind").get("name") == b"content"
    assert KernelStore("other").get("name") is None and store.get("other") is None
    store.put("empty", b"")
    assert store.get("empty") == b""


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-1], lambda b: b[:10], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]]
)
def test_spoilt_files_are_not_found(directory: Path, spoil: object) -> None:
    store = KernelStore("kind")
    store.put("name", b"content of a kernel")
    path = only_file(store)
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]
    assert store.get("name") is None
    store.put("name", b"content of a kernel")
    assert store.get("name") == b"content of a kernel"


def test_swapped_files_are_not_found(directory: Path) -> None:
    store = KernelStore("kind")
    store.put("a", b"kernel a")
    first = only_file(store)
    held = first.read_bytes()
    store.put("b", b"kernel b")
    (second,) = set(store.directory.iterdir()) - {first}
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)
    assert store.get("a") is None and store.get("b") is None


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_directory_is_private(directory: Path) -> None:
    assert stat.S_IMODE(cache_directory().stat().st_mode) == 0o700
    directory.chmod(0o777)
    assert stat.S_IMODE(cache_directory().stat().st_mode) == 0o700
    assert stat.S_IMODE(KernelStore("kind").directory.stat().st_mode) == 0o700


def test_a_full_disk_is_no_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    store = KernelStore("kind")
    _ = store.directory
    monkeypatch.setattr(os, "replace", fail)
    store.put("name", b"content")
    assert store.get("name") is None
    assert list(store.directory.iterdir()) == []
    assert [path.name for path in process_directory().iterdir()] == [".lock"]


def test_many_processes_write_one_file(directory: Path) -> None:
    code = (
        "from gradscript.runtime.kernels.cache.store import KernelStore\n"
        "for _ in range(200):\n"
        "    s = KernelStore('kind'); s.put('name', b'x' * 100_000); assert s.get('name') == b'x' * 100_000\n"
    )
    environment = {**os.environ, "GRADSCRIPT_CACHE": str(directory)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(list(KernelStore("kind").directory.iterdir())) == 1
