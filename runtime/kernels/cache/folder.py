"""Where files are kept from one process to the next, and in it one folder of each process that runs.

That is $GRADSCRIPT_CACHE, else `gradscript` in the user's cache directory; nothing is written outside of it. The folder
of a process holds what is not finished, and what has to be found by path. It is removed when the process ends. One
that was killed leaves it behind, and the next process that makes one removes it: which of them live is told by a lock
on a file in each, which the system takes back from the dead.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path
from threading import RLock

from ....lang.light_dataclasses import dataclass
from .private_files import PrivateFolder, UnsafeFolder

_PREFIX = "process-"
_LOCK = ".lock"
_LOCK_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_BEING_MADE = 3600
"""Seconds in which a folder without a lock may be one that is being made."""


def open_cache() -> PrivateFolder:
    """The folder, made if need be, readable by its owner only.

    Raises: UnsafeFolder where it is a link or belongs to somebody else; OSError where it cannot be made.
    """
    given = os.environ.get("GRADSCRIPT_CACHE")
    path = (Path(given) if given else _user_cache() / "gradscript").absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return PrivateFolder.at(path)


def cache_directory() -> Path:
    """The path of that folder; raises as `open_cache` does."""
    with open_cache() as folder:
        return folder.path


def unusable(error: OSError) -> str:
    """Why nothing can be kept, and what to do about it."""
    remove = "remove it, or " if isinstance(error, UnsafeFolder) else ""
    return f"{error}; {remove}set GRADSCRIPT_CACHE to a directory of yours"


def _user_cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError as error:
        raise FileNotFoundError("there is no home directory for a cache") from error


@dataclass(frozen=True, slots=True)
class _Own:
    """The folder of this process in one cache, and the lock that says that the process lives."""

    path: Path
    lock: int

    @property
    def is_there(self) -> bool:
        """False once somebody has cleared the cache."""
        try:
            return os.path.samestat(os.fstat(self.lock), os.lstat(self.path / _LOCK))
        except OSError:
            return False


_own: dict[Path, _Own] = {}
_MAKING = RLock()


def process_directory() -> Path:
    """The path of this process's folder; OSError where the cache cannot be written to."""
    with open_cache() as cache, process_folder(cache) as folder:
        return folder.path


def process_folder(cache: PrivateFolder) -> PrivateFolder:
    """The folder of this process in a cache, made if need be."""
    with _MAKING:
        own = _own.get(cache.path)
        if own is not None and not own.is_there:
            # Forgotten first: should no other be made, its lock's number may be another file's by the next call.
            del _own[cache.path]
            os.close(own.lock)
            own = None
        if own is None:
            own = _own[cache.path] = _make(cache)
            _remove_leftovers(cache)
        return cache.folder(own.path.name)


def _make(cache: PrivateFolder) -> _Own:
    while True:
        with cache.folder(_PREFIX + secrets.token_hex(8)) as folder:
            lock = os.open(_LOCK, _LOCK_FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.descriptor)
            own = _Own(folder.path, lock)
        # Whoever removes leftovers may have had the lock in between, and the folder is gone or about to be.
        if _takes(lock) and own.is_there:
            return own
        os.close(lock)


def _takes(lock: int) -> bool:
    """Whether a lock could be had; where the file system has none, it counts as had."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove_leftovers(cache: PrivateFolder) -> None:
    for name in os.listdir(cache.descriptor):
        if name.startswith(_PREFIX):
            with contextlib.suppress(OSError):
                _remove_leftover(cache, name)


def _remove_leftover(cache: PrivateFolder, name: str) -> None:
    """Remove a process's folder, unless that lives; OSError where it cannot be told, or the folder is not ours."""
    import fcntl

    with cache.folder(name) as folder:
        try:
            lock = os.open(_LOCK, _LOCK_FLAGS, dir_fd=folder.descriptor)
        except FileNotFoundError:
            if time.time() - os.fstat(folder.descriptor).st_mtime > _BEING_MADE:
                shutil.rmtree(name, ignore_errors=True, dir_fd=cache.descriptor)
            return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(name, ignore_errors=True, dir_fd=cache.descriptor)
    finally:
        os.close(lock)


@atexit.register
def _remove_own() -> None:
    for own in _own.values():
        shutil.rmtree(own.path, ignore_errors=True)


def _forget() -> None:
    """A process that was forked leaves its parent's folder alone, and does not keep it from being removed."""
    global _MAKING
    for own in _own.values():
        os.close(own.lock)
    _own.clear()
    _MAKING = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
