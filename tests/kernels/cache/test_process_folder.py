"""Each process has a folder in the cache for what is not finished; those of processes that were killed are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradscript.runtime.kernels.cache import folder as cache_folder
from gradscript.runtime.kernels.cache.folder import process_directory
from gradscript.runtime.kernels.cache.store import KernelStore

pytest.importorskip("fcntl")
WRITER = """
import os, sys
from gradscript.runtime.kernels.cache import private_files
from gradscript.runtime.kernels.cache.folder import process_directory
from gradscript.runtime.kernels.cache.store import KernelStore

def wait(*_, **__):
    print(process_directory(), flush=True)
    sys.stdin.read()

replace, private_files.os.replace = os.replace, wait
KernelStore("kind").put("name", b"half of a file")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of writing a file."""
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process: subprocess.Popen[str] = subprocess.Popen([sys.executable, "-c", WRITER], **given)  # type: ignore[call-overload]
    with process:
        yield process
        process.kill()


def folder_of(writer: subprocess.Popen[str]) -> Path:
    assert writer.stdout is not None
    return Path(writer.stdout.readline().rstrip("\n"))


def start_anew() -> Path:
    """What a process finds that starts now."""
    cache_folder._forget()
    return process_directory()


def test_a_killed_writer_leaves_nothing(writer: subprocess.Popen[str]) -> None:
    left = folder_of(writer)
    assert len(list(left.iterdir())) == 2
    mine = start_anew()
    assert left.exists() and mine != left, "its process lives"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    start_anew()
    assert not left.exists() and not list(KernelStore("kind").directory.iterdir())


def test_a_writer_that_ends_takes_its_folder_along(writer: subprocess.Popen[str]) -> None:
    left = folder_of(writer)
    writer.communicate("")
    assert writer.returncode == 0 and not left.exists()


def test_a_folder_that_is_being_made_is_left(cache: Path) -> None:
    start_anew()
    young, old = cache / "process-young", cache / "process-old"
    for path in (young, old):
        path.mkdir(mode=0o700)
    long_ago = time.time() - 2 * 3600
    os.utime(old, (long_ago, long_ago))
    start_anew()
    assert young.exists() and not old.exists()


def test_leftovers_that_are_not_ours_are_left(cache: Path, tmp_path: Path) -> None:
    """A link, or a folder that others can write to: neither is followed or removed, and nothing waits for a pipe."""
    start_anew()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / ".lock").write_bytes(b"")
    (cache / "process-link").symlink_to(tmp_path / "outside")
    (cache / "process-open").mkdir()
    (cache / "process-open").chmod(0o777)
    (cache / "process-pipe").mkdir(mode=0o700)
    os.mkfifo(cache / "process-pipe" / ".lock")
    (cache / "process-file").write_bytes(b"")
    start_anew()
    assert (tmp_path / "outside" / ".lock").exists()
    assert {"process-link", "process-open", "process-file"} <= {path.name for path in cache.iterdir()}


def test_a_lock_that_was_taken_from_us(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By who removes leftovers, in between: another folder is made."""
    takes, tried = cache_folder._takes, []

    def lost(lock: int) -> bool:
        tried.append(lock)
        return len(tried) > 1 and takes(lock)

    monkeypatch.setattr(cache_folder, "_takes", lost)
    assert start_anew().exists() and len(tried) == 2


def test_a_cache_that_is_cleared_while_it_is_used(cache: Path) -> None:
    import shutil

    store = KernelStore("kind")
    store.put("name", b"content")
    before = process_directory()
    shutil.rmtree(cache)
    assert store.get("name") is None
    store.put("name", b"content")
    assert store.get("name") == b"content"
    assert process_directory().exists() and process_directory() != before


def test_a_folder_that_could_not_be_made_again_is_made_later(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no file is closed meanwhile that got the number of the old one's lock."""
    import shutil

    start_anew()
    shutil.rmtree(cache)
    with monkeypatch.context() as full:
        full.setattr(cache_folder, "_make", lambda cache: os.mkdir("/dev/null/x"))
        with pytest.raises(NotADirectoryError):
            process_directory()
    with open(os.devnull) as other:
        assert process_directory().exists()
        os.fstat(other.fileno())


def test_each_cache_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = process_directory()
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "other"))
    second = process_directory()
    assert (first.parent.name, second.parent.name) == ("cache", "other") and second == process_directory()


def test_a_relative_cache_follows_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", "cache")
    monkeypatch.chdir(tmp_path)
    assert process_directory().parent == tmp_path / "cache"
