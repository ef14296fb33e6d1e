"""Triton's compiled kernels in our store: its cache manager, over files that are checked before they are used.

Triton asks for paths and reads what lies there, machine code as well as the libraries by which it launches. So the
bytes that were checked are laid out, each time that Triton asks, in a folder of this process, which nobody else can
read and no other process looks for, and which is removed when the process ends.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..cache.folder import open_cache, process_directory, process_folder, unusable
from ..cache.store import KernelStore
from ..failure import KernelFailure

STORE = KernelStore("triton")


class CheckedCache:
    """What `triton.knobs.cache.manager_class` takes; `key` names one compilation.

    Raises: KernelFailure where a file cannot be laid out, as on a full disk.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    def get_file(self, filename: str) -> str | None:
        with failures_told():
            content = STORE.get(f"{self.key}/{filename}")
        return self._lay_out(filename, content) if content is not None else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        content = data if isinstance(data, bytes) else str(data).encode()
        with failures_told():
            STORE.put(f"{self.key}/{filename}", content)
        return self._lay_out(filename, content)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """All files of a compilation, or None: one that is missing or altered makes all of them be compiled again."""
        with failures_told():
            listed = STORE.get(f"{self.key}/group/{filename}")
        if listed is None:
            return None
        found: dict[str, str] = {}
        for name in json.loads(listed):
            path = self.get_file(name)
            if path is None:
                return None
            found[name] = path
        return found

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        with failures_told():
            STORE.put(f"{self.key}/group/{filename}", json.dumps(sorted(group)).encode())
        return filename

    def _lay_out(self, filename: str, content: bytes) -> str:
        name = Path(filename).name
        with failures_told(), open_cache() as cache, process_folder(cache) as own, own.folder(self.key) as folder:
            folder.write(name, content, own)
            return str(folder.path / name)


@contextlib.contextmanager
def failures_told() -> Iterator[None]:
    """Have what the system says of a folder or a file be a KernelFailure, which says what to do."""
    try:
        yield
    except OSError as error:
        raise KernelFailure(f"no file can be written for a compiled kernel: {unusable(error)}") from error


@contextlib.contextmanager
def checked_cache() -> Iterator[None]:
    """Have Triton keep what it compiles meanwhile in our store; the user's own kernels go where they went.

    Raises: KernelFailure where there is no folder that can be used.
    """
    from triton import knobs

    with failures_told():
        _ = STORE.directory
        own = process_directory()
    with knobs.cache.scope():
        knobs.cache.manager_class = CheckedCache
        knobs.cache.dir = str(own)
        yield
