"""Files kept from one process to the next: generated text and compiled kernels, each checked before it is used.

A file is named by what it is for and carries the digest of its name and content, so one that was truncated, altered or
put in the place of another is not found, and made again. Nothing but bytes and JSON is kept; nothing is written outside
the directory: $GRADSCRIPT_CACHE, else `gradscript` in the user's cache directory.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

_DIGEST = 32
"""Bytes of a SHA-256 digest, which a stored file begins with."""


def cache_directory() -> Path:
    """The directory, made if need be, readable by its owner only.

    OSError where it cannot be made; PermissionError where it belongs to somebody else: what lies there is run.
    """
    given = os.environ.get("GRADSCRIPT_CACHE")
    base = Path(given) if given else _user_cache() / "gradscript"
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(base)
    return base


def _user_cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError as error:
        raise FileNotFoundError("there is no home directory for a cache") from error


def _require_private(directory: Path) -> None:
    if os.name != "posix":
        return
    found = directory.stat()
    if found.st_uid != os.getuid():
        raise PermissionError(f"the cache directory {directory} belongs to another user; set GRADSCRIPT_CACHE")
    if stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(0o700)


@cache
def process_directory() -> Path:
    """A directory in the cache for this process alone, removed when it ends, for what Triton has to find by path.

    OSError where the cache cannot be written to.
    """
    made = tempfile.mkdtemp(dir=cache_directory(), prefix="process-")
    atexit.register(_remove, made, os.getpid())
    return Path(made)


def _remove(directory: str, process: int) -> None:
    """A process that was forked meanwhile leaves it alone."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_directory.cache_clear)


class KernelStore:
    """Stored files of one kind, in a directory of their own."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @property
    def directory(self) -> Path:
        found = cache_directory() / self._kind
        found.mkdir(mode=0o700, exist_ok=True)
        return found

    def get(self, name: str) -> bytes | None:
        """What was stored under a name; None if there is nothing, or not what was put there."""
        try:
            stored = self._path(name).read_bytes()
        except OSError:
            return None
        digest, content = stored[:_DIGEST], stored[_DIGEST:]
        return content if digest == self._digest(name, content) else None

    def put(self, name: str, content: bytes) -> None:
        """Store something: a reader sees all of it or nothing. A full disk is no error: it is made again next time."""
        with contextlib.suppress(OSError):
            write_atomically(self._path(name), self._digest(name, content) + content)

    def text_file(self, suffix: str, text: str) -> Path:
        """A file that holds just this text, named by its digest, for what has to read it by path.

        It is compared before each use and written again where it differs; one of this process alone where that fails.
        """
        content = text.encode()
        name = f"k{hashlib.sha256(content).hexdigest()[:40]}{suffix}"
        try:
            return _with_content(self.directory / name, content)
        except OSError:
            return _with_content(process_directory() / name, content)

    def _path(self, name: str) -> Path:
        return self.directory / hashlib.sha256(name.encode()).hexdigest()

    def _digest(self, name: str, content: bytes) -> bytes:
        return hashlib.sha256(b"\0".join((self._kind.encode(), name.encode(), content))).digest()


def _with_content(path: Path, content: bytes) -> Path:
    try:
        if path.read_bytes() == content:
            return path
    except OSError:
        pass
    write_atomically(path, content)
    return path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there, so that nobody sees half of it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
