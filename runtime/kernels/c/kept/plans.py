"""What was planned, from one process to the next: plain data, in the cache beside the libraries that it runs.

A plan is found by all that it follows from: the text of the graph, what calls depend on of their arguments, the files
of this package, the compiler and the processor.

Where a process has formulas, passes or sums of its own, what it plans is not kept, and what was kept is not for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .....compiler.ops.meta import UnknownType
from .....compiler.types.dtypes import DType
from ....execution.function_executor import FORGETTING
from ...cache.private_files import UnsafeFolder
from ...cache.store import KernelStore
from ..compiler import compiler

MOST_KEPT = 32
"""Plans of one graph that a process keeps."""
MOST_MISSED = 16
"""Of one graph, after which a process looks for no more."""
_FOLDERS = ("lang", "compiler", "runtime", "stdlib_grads")
_STORE = KernelStore("plans")
_PLAIN = (int, bool, str, type(None))
JsonValue = Any
"""What JSON has."""


class Unkept(Exception):
    """There is something in a plan that is not kept."""


class KeptPlans:
    """The plans of one graph, of which `text` says all; `kind` says what they are of it."""

    stopped = False
    """Whether this process plans by what others do not have."""

    def __init__(self, kind: str, text: Callable[[], str], *, keeps: bool = True) -> None:
        self._kind = kind
        self._text = text
        self._name = ""
        self._left = MOST_KEPT if keeps else 0
        self._missed = 0 if keeps else MOST_MISSED

    def get(self, key: Hashable) -> JsonValue | None:
        """What is kept for what `program_key` gives; None where nothing is."""
        if self._missed >= MOST_MISSED or KeptPlans.stopped or not _is_plain(key):
            return None
        name = self._named(key)
        try:
            found = None if name is None else _STORE.get(name)
        except UnsafeFolder:
            found = None
        self._missed += found is None
        return None if found is None else json.loads(found)

    def put(self, key: Hashable, data: Callable[[], JsonValue]) -> None:
        """Keep what `data` gives, which may raise Unkept."""
        if not self._left or KeptPlans.stopped or not _is_plain(key):
            return
        self._left -= 1
        name = self._named(key)
        try:
            if name is not None:
                _STORE.put(name, json.dumps(data(), separators=(",", ":")).encode())
        except (Unkept, UnsafeFolder):
            return

    def _named(self, key: Hashable) -> str | None:
        made_by = compiler()
        if made_by is None:
            return None
        if not self._name:
            parts = (package_state(), sys.version, np.__version__, self._kind, self._text())
            self._name = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"{self._name}\0{made_by.identity}\0{key!r}"


def _stop() -> None:
    KeptPlans.stopped = True


FORGETTING.add(_stop)


def _is_plain(key: Any) -> bool:
    """Whether a key says by its text what it is."""
    if isinstance(key, tuple):
        return all(map(_is_plain, key))
    return isinstance(key, (*_PLAIN, np.dtype, DType, UnknownType, type))


@cache
def package_state() -> str:
    """What changes when a file of this package does."""
    root = Path(__file__).parents[4]
    try:
        found = sorted(entry for folder in _FOLDERS for entry in _files(str(root / folder)))
    except OSError:
        # It lies in a file itself, such as a zip.
        archive = next((path for path in root.parents if path.is_file()), None)
        stat = archive.stat() if archive is not None else None
        found = [(str(root), 0, 0) if stat is None else (str(archive), stat.st_size, stat.st_mtime_ns)]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """The files in a folder and in those in it: path, size, and when it was written last."""
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending += [entry.path] if entry.name != "__pycache__" else []
                else:
                    stat = entry.stat()
                    yield entry.path, stat.st_size, stat.st_mtime_ns
