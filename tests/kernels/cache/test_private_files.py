"""What somebody else may have put into the cache is neither read nor written to, and nothing waits for it."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gradscript.runtime.kernels.cache import private_files
from gradscript.runtime.kernels.cache.folder import open_cache, process_directory
from gradscript.runtime.kernels.cache.private_files import PrivateFolder, UnsafeFolder
from gradscript.runtime.kernels.cache.store import KernelStore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and links of POSIX")
CONTENT = b"content of a kernel"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store(cache: Path) -> KernelStore:
    store = KernelStore("kind")
    store.put("name", CONTENT)
    assert store.get("name") == CONTENT
    return store


@pytest.fixture
def stored(store: KernelStore) -> Path:
    (path,) = store.directory.iterdir()
    return path


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Inodes that belong to somebody else."""
    inodes: set[int] = set()
    found = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = found(descriptor)
        if status.st_ino not in inodes:
            return status
        return os.stat_result([*status[:4], status.st_uid + 1, *status[5:10]])

    monkeypatch.setattr(private_files.os, "fstat", fstat)
    return inodes


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    def descriptors() -> set[str]:
        """Locks of processes' folders stay."""
        links = (Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
        return {os.readlink(link) for link in links if link.is_symlink() and not os.readlink(link).endswith(".lock")}

    if not Path("/proc/self/fd").exists():
        yield
        return
    before = descriptors()
    yield
    assert not {name for name in descriptors() - before if "/" in name}


def link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(elsewhere)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def listening(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        above = os.open(path.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{above}/{path.name[:20]}")
        os.close(above)
    (path.parent / path.name[:20]).rename(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def endless(path: Path) -> None:
    """No content that anybody would wait for."""
    path.unlink()
    path.symlink_to("/dev/stdin")


@pytest.mark.parametrize("put", [link, pipe, listening, device, endless, lambda path: path.chmod(0o620)])
def test_what_is_no_file_of_ours_is_replaced(put: Callable[[Path], None], store: KernelStore, stored: Path) -> None:
    put(stored)
    assert store.get("name") is None
    store.put("name", CONTENT)
    assert store.get("name") == CONTENT
    assert stat.S_ISREG(stored.lstat().st_mode) and stat.S_IMODE(stored.lstat().st_mode) == 0o600


def test_files_of_others_are_replaced(store: KernelStore, stored: Path, others: set[int]) -> None:
    others.add(stored.stat().st_ino)
    assert store.get("name") is None
    store.put("name", CONTENT)
    assert store.get("name") == CONTENT


def test_nothing_is_written_through_links(store: KernelStore, stored: Path, tmp_path: Path) -> None:
    for make in (Path.symlink_to, Path.hardlink_to):
        (tmp_path / "precious").write_bytes(b"precious")
        stored.unlink()
        make(stored, tmp_path / "precious")
        assert store.get("name") is None
        store.put("name", CONTENT)
        assert (tmp_path / "precious").read_bytes() == b"precious" and store.get("name") == CONTENT


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_write_to_is_refused(mode: int, store: KernelStore) -> None:
    store.directory.chmod(mode)
    for use in (lambda: store.get("name"), lambda: store.put("name", CONTENT)):
        with pytest.raises(UnsafeFolder, match="cache/kind can be written to by others"):
            use()


def test_a_folder_that_others_planted_is_refused(cache: Path, others: set[int]) -> None:
    """While the cache's own folder was open to them."""
    cache.mkdir()
    cache.chmod(0o777)
    (cache / "kind").mkdir()
    others.add((cache / "kind").stat().st_ino)
    store = KernelStore("kind")
    for use in (lambda: store.get("name"), lambda: store.put("name", CONTENT)):
        with pytest.raises(UnsafeFolder, match="cache/kind belongs to another user"):
            use()
    assert not list((cache / "kind").iterdir()) and stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (lambda path, outside: path.symlink_to(outside), "is a link"),
        (lambda path, outside: path.symlink_to("/nowhere"), "is a link"),
        (lambda path, outside: os.mkfifo(path), "is no folder"),
        (lambda path, outside: path.write_bytes(b""), "is no folder"),
    ],
)
def test_what_is_no_folder_is_refused(
    plant: Callable[[Path, Path], None], message: str, store: KernelStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    directory = store.directory
    shutil.copytree(directory, outside)
    shutil.rmtree(directory)
    plant(directory, outside)
    before = sorted(outside.iterdir())
    for use in (lambda: store.get("name"), lambda: store.put("name", b"other"), lambda: store.directory):
        with pytest.raises(UnsafeFolder, match=message):
            use()
    assert sorted(outside.iterdir()) == before and stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_cache_that_is_a_link_or_of_others_is_refused(cache: Path, tmp_path: Path, others: set[int]) -> None:
    (tmp_path / "outside").mkdir(mode=0o755)
    cache.symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafeFolder, match="cache is a link"):
        process_directory()
    cache.unlink()
    cache.mkdir(mode=0o755)
    others.add(cache.stat().st_ino)
    with pytest.raises(UnsafeFolder, match="cache belongs to another user"):
        process_directory()
    assert not list((tmp_path / "outside").iterdir()) and not list(cache.iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "outside", cache)] == [0o755, 0o755]


def test_a_file_that_is_replaced_while_it_is_read(
    store: KernelStore, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and reading: what was opened is what is checked and given."""
    opened = os.open

    def replaced(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        descriptor = opened(name, flags, mode, dir_fd=dir_fd)
        if name == stored.name:
            stored.unlink()
            stored.write_bytes(b"something else")
        return descriptor

    monkeypatch.setattr(private_files.os, "open", replaced)
    assert store.get("name") == CONTENT
    assert store.get("name") is None


def test_a_store_in_a_folder_that_is_fought_over(store: KernelStore, stored: Path) -> None:
    """Somebody replaces the file all the time: what is given is what was put, or nothing."""
    fought = threading.Event()

    def fight() -> None:
        spoilt = stored.read_bytes()[:-1] + b"?"
        for turn in itertools.count():
            if fought.is_set():
                return
            (link, pipe, listening, lambda path: path.write_bytes(spoilt), Path.unlink)[turn % 5](stored)
            store.put("name", CONTENT)

    thread = threading.Thread(target=fight)
    thread.start()
    try:
        given = [store.get("name") for _ in range(500)]
    finally:
        fought.set()
        thread.join()
    assert set(given) <= {CONTENT, None} and store.get("name") == CONTENT


def test_a_folder_that_is_replaced_while_it_is_used(cache: Path, tmp_path: Path) -> None:
    with open_cache() as folder, folder.folder("kind") as kind:
        kind.write("name", CONTENT, folder)
        (cache / "kind").rename(tmp_path / "moved")
        (cache / "kind").symlink_to(tmp_path)
        kind.write("other", CONTENT, folder)
        assert kind.read("name") == kind.read("other") == CONTENT
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == ["name", "other"]
    assert not (tmp_path / "other").exists()


def test_names_lead_nowhere_else(cache: Path, tmp_path: Path) -> None:
    """A name with a slash would be a path: no store makes one."""
    store = KernelStore("kind")
    store.put("../../outside", CONTENT)
    store.put("/outside", CONTENT)
    assert store.get("../../outside") == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["cache"] and len(list(store.directory.iterdir())) == 2


def test_a_folder_is_closed(cache: Path) -> None:
    with open_cache() as folder:
        assert isinstance(folder, PrivateFolder)
    with pytest.raises(OSError):
        os.fstat(folder.descriptor)
