"""Files kept from one process to the next, each checked before it is used.

A file is named by what it is for and carries the digest of its name and content, so one that was truncated, altered or
put in the place of another is not found, and made again. Who gets something gets the bytes that were checked, and runs
these; nothing that is kept is imported or loaded by its path. Nothing but bytes and JSON is kept.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .folder import open_cache, process_folder
from .private_files import UnsafeFolder

_DIGEST = 32
"""Bytes of a SHA-256 digest, which a stored file begins with."""


class KernelStore:
    """Stored files of one kind, in a folder of their own.

    Everything raises UnsafeFolder where others may have made that folder or the cache's, or can write to it.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @property
    def directory(self) -> Path:
        """Where the files lie. OSError where there is no cache."""
        with open_cache() as cache, cache.folder(self._kind) as folder:
            return folder.path

    def get(self, name: str) -> bytes | None:
        """What was stored under a name; None if there is nothing, or not what was put there."""
        try:
            with open_cache() as cache, cache.folder(self._kind) as folder:
                stored = folder.read(_file_name(name))
        except UnsafeFolder:
            raise
        except OSError:
            return None
        digest, content = stored[:_DIGEST], stored[_DIGEST:]
        return content if digest == self._digest(name, content) else None

    def put(self, name: str, content: bytes) -> None:
        """Store something: a reader sees all of it or nothing. A full disk is no error: it is made again next time."""
        try:
            with open_cache() as cache, cache.folder(self._kind) as folder, process_folder(cache) as unfinished:
                folder.write(_file_name(name), self._digest(name, content) + content, unfinished)
        except UnsafeFolder:
            raise
        except OSError:
            return

    def _digest(self, name: str, content: bytes) -> bytes:
        return hashlib.sha256(b"\0".join((self._kind.encode(), name.encode(), content))).digest()


def _file_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
