"""Modules of C as libraries of this process: from the cache, where what is there is what was put there, else built."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from threading import RLock

from ..cache.folder import process_directory, unusable
from ..cache.private_files import UnsafeFolder
from ..cache.store import KernelStore
from ..failure import KernelFailure
from .compiler import WITHOUT, compiler

_STORE = KernelStore("c")
_LOADED: dict[str, ctypes.CDLL] = {}
_LOADING = RLock()
_NUMBERS = count()


def load_module(text: str, include: Sequence[str] = ()) -> ctypes.CDLL:
    """The library of a module's text, loaded once. Raises: KernelFailure where it cannot be built.

    It is kept by the text alone, which is to name the versions of what it includes from the folders of `include`.
    """
    found = _LOADED.get(text)
    if found is not None:
        return found
    with _LOADING:
        if text not in _LOADED:
            _LOADED[text] = _loaded(_binary(text, include))
        return _LOADED[text]


def _binary(text: str, include: Sequence[str]) -> bytes:
    made_by = compiler()
    if made_by is None:
        raise KernelFailure(f"there is no compiler of C: {WITHOUT}")
    name = hashlib.sha256(f"{made_by.identity}\0{text}".encode()).hexdigest()
    try:
        found = _STORE.get(name)
        if found is None:
            found = made_by.build(text, include)
            _STORE.put(name, found)
    except UnsafeFolder as error:
        raise KernelFailure(unusable(error)) from error
    return found


def _loaded(binary: bytes) -> ctypes.CDLL:
    """A library from bytes that were checked: from a file in memory, or else one of this process alone."""
    if not hasattr(os, "memfd_create"):
        return _loaded_from_file(binary)
    descriptor = os.memfd_create("gradscript", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(binary)
        return ctypes.CDLL(_own_path(descriptor))
    except OSError as error:
        raise KernelFailure(f"a kernel could not be loaded: {error}") from error
    finally:
        os.close(descriptor)


def _own_path(descriptor: int) -> str:
    """A path to a file in memory that no other had: libraries count as the same where their paths are spelled alike.

    `/./` and `//` in it are the bits of a number.
    """
    bits = "".join("/." if bit == "1" else "/" for bit in f"{next(_NUMBERS):b}")
    return f"/proc/self{bits}/fd/{descriptor}"


def _loaded_from_file(binary: bytes) -> ctypes.CDLL:
    path = Path(process_directory()) / f"loaded-{next(_NUMBERS)}.so"
    try:
        path.write_bytes(binary)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelFailure(f"a kernel could not be loaded: {error}") from error
