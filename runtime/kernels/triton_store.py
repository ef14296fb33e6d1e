"""Triton's compiled kernels in our store: its cache manager, over files that are checked before they are used.

Triton asks for paths, so a stored file that is found whole is laid out as a plain one in a directory of this process,
which is removed when the process ends.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .store import KernelStore, process_directory, write_atomically

STORE = KernelStore("triton")
_laid_out = process_directory


class CheckedCache:
    """What `triton.knobs.cache.manager_class` takes; `key` names one compilation."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    def get_file(self, filename: str) -> str | None:
        content = STORE.get(f"{self.key}/{filename}")
        return self._lay_out(filename, content) if content is not None else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        content = data if isinstance(data, bytes) else str(data).encode()
        STORE.put(f"{self.key}/{filename}", content)
        return self._lay_out(filename, content)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """All files of a compilation, or None: one that is missing or altered makes all of them be compiled again."""
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
        STORE.put(f"{self.key}/group/{filename}", json.dumps(sorted(group)).encode())
        return filename

    def _lay_out(self, filename: str, content: bytes) -> str:
        directory = _laid_out() / self.key
        directory.mkdir(exist_ok=True)
        path = directory / Path(filename).name
        write_atomically(path, content)
        return str(path)


@contextlib.contextmanager
def checked_cache() -> Iterator[None]:
    """Have Triton keep what it compiles meanwhile in our store; the user's own kernels go where they went."""
    from triton import knobs

    with knobs.cache.scope():
        knobs.cache.manager_class = CheckedCache
        knobs.cache.dir = str(_laid_out())
        yield
