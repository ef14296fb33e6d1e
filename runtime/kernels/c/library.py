"""Modules of C as libraries of this process: from the cache, where what is there is what was put there, else built."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import count
from pathlib import Path
from threading import Event, RLock
from typing import Any

import numpy as np

from ....lang.light_dataclasses import dataclass
from ..cache.folder import process_directory, unusable
from ..cache.private_files import UnsafeFolder
from ..cache.store import KernelStore
from ..failure import KernelFailure
from .compiler import WITHOUT, Compiler, OnStart, compiler, end, processors

_STORE = KernelStore("c")
_LOADED: dict[str, Library] = {}
_BY_NAME: dict[str, Library] = {}
_LOADING = RLock()
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Library:
    """A library of this process, and the name under which the cache may have it."""

    name: str
    handle: ctypes.CDLL

    def address(self, function: str) -> int:
        """Where a function is."""
        return ctypes.cast(getattr(self.handle, function), ctypes.c_void_p).value or 0


def load_module(text: str, functions: Sequence[str], include: Sequence[str] = ()) -> ctypes.CDLL:
    """The library of a module's text, loaded once, with these functions. KernelFailure where it cannot be built.

    It is kept by the text alone, which is to name the versions of what it includes from the folders of `include`.
    """
    return load_library(text, functions, include).handle


def extension(texts: Sequence[str], *functions: str) -> list[Callable[..., Any]] | None:
    """Functions of one module, of texts in `text`, that take objects of Python and give one, such as a type. None where
    it cannot be built, for want of a compiler or of headers."""
    if missing_headers():
        return None
    try:
        built = load_module(_joined(texts), functions, _include_folders())
    except KernelFailure:
        return None
    of_python = ctypes.PyDLL(None, handle=built._handle)
    return [_on_objects(getattr(of_python, name)) for name in functions]


def build_extensions(modules: Mapping[Sequence[str], Sequence[str]]) -> None:
    """Have modules that `extension` is about to be asked for built side by side, each by its texts and functions."""
    if not missing_headers():
        with suppress(KernelFailure):
            load_libraries({_joined(texts): functions for texts, functions in modules.items()}, _include_folders())


def _joined(texts: Sequence[str]) -> str:
    folder = files(__package__).joinpath("text")
    # What the text compiles to depends on these as well, and a module is kept by its text.
    versions = f"/* {sys.version}, {sysconfig.get_config_var('SOABI')}, NumPy {np.__version__} */\n"
    return "".join([versions, *[folder.joinpath(name).read_text(encoding="utf-8") for name in texts]])


def _on_objects(function: Any) -> Callable[..., Any]:
    function.restype = ctypes.py_object
    return lambda *given: function(*map(ctypes.py_object, given))


def _include_folders() -> tuple[str, ...]:
    """Where the headers of Python and NumPy are, or would be."""
    return (sysconfig.get_path("include"), sysconfig.get_path("platinclude"), np.get_include())


def missing_headers() -> str:
    """The first header that is not there; "" where all are."""
    python, _, numpy = _include_folders()
    wanted = [Path(python) / "Python.h", Path(numpy) / "numpy" / "arrayobject.h"]
    return next((str(path) for path in wanted if not path.is_file()), "")


def load_library(text: str, functions: Sequence[str], include: Sequence[str] = ()) -> Library:
    """As `load_module`, with the name that the library goes by."""
    found = _LOADED.get(text)
    if found is not None:
        return found
    with _LOADING:
        if text not in _LOADED:
            made_by = _compiler()
            kept = _kept(_name_of(made_by, text), functions)
            _keep(text, kept or _built(made_by, text, functions, include))
        return _LOADED[text]


def load_libraries(wanted: Mapping[str, Sequence[str]], include: Sequence[str] = ()) -> None:
    """Load the libraries of texts, each with these functions: what has to be built is built side by side, by as many
    compilers as this process has processors. KernelFailure for the first text of which there is none to be had."""
    with _LOADING:
        missing = {text: functions for text, functions in wanted.items() if text not in _LOADED}
        if len(missing) < 2:
            return
        made_by = _compiler()
        for text, functions in [*missing.items()]:
            kept = _kept(_name_of(made_by, text), functions)
            if kept is not None:
                _keep(text, kept)
                del missing[text]
        for text, made in zip(missing, _built_side_by_side(made_by, missing, include), strict=True):
            if isinstance(made, KernelFailure):
                raise made
            _keep(text, made)


def _built_side_by_side(
    made_by: Compiler, wanted: Mapping[str, Sequence[str]], include: Sequence[str]
) -> list[Library | KernelFailure]:
    """Libraries built, or why one is not, in their order."""
    from concurrent.futures import ThreadPoolExecutor

    running: list[Any] = []
    is_interrupted = Event()

    def started(process: Any) -> None:
        running.append(process)
        if is_interrupted.is_set():
            end(process)

    def build(text: str) -> Library | KernelFailure:
        try:
            return _built(made_by, text, wanted[text], include, started)
        except KernelFailure as failure:
            return failure

    with ThreadPoolExecutor(max(1, min(len(wanted), processors()))) as pool:
        try:
            return [*pool.map(build, wanted)]
        except BaseException:
            # Nobody waits for what was interrupted.
            is_interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                end(process)
            raise


def kept_library(name: str, functions: Sequence[str]) -> Library | None:
    """The library of a name, where it is loaded or in the cache, with these functions; else None."""
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    with _LOADING, suppress(KernelFailure, UnsafeFolder):
        kept = None if name in _BY_NAME else _STORE.get(name)
        if kept is not None:
            _BY_NAME[name] = Library(name, _loaded(kept, functions))
    return _BY_NAME.get(name)


def _keep(text: str, made: Library) -> None:
    _LOADED[text] = _BY_NAME[made.name] = made


def _compiler() -> Compiler:
    found = compiler()
    if found is None:
        raise KernelFailure(f"there is no compiler of C: {WITHOUT}")
    return found


def _name_of(made_by: Compiler, text: str) -> str:
    return hashlib.sha256(f"{made_by.identity}\0{text}".encode()).hexdigest()


def _kept(name: str, functions: Sequence[str]) -> Library | None:
    """From the cache; None where it is not there, or cannot be loaded."""
    try:
        kept = _STORE.get(name)
    except UnsafeFolder as error:
        raise KernelFailure(unusable(error)) from error
    # What was built on another machine of the same home may need what is not here.
    with suppress(KernelFailure):
        if kept is not None:
            return Library(name, _loaded(kept, functions))
    return None


def _built(
    made_by: Compiler,
    text: str,
    functions: Sequence[str],
    include: Sequence[str] = (),
    started: OnStart | None = None,
) -> Library:
    """Built and, once it has shown that it loads, put into the cache."""
    name = _name_of(made_by, text)
    try:
        built = made_by.build(text, include, started)
        library = _loaded(built, functions)
        _STORE.put(name, built)
    except UnsafeFolder as error:
        raise KernelFailure(unusable(error)) from error
    return Library(name, library)


def _loaded(binary: bytes, functions: Sequence[str]) -> ctypes.CDLL:
    """A library from bytes that were checked: from a file in memory, or else one of this process alone."""
    if _is_cut_off(binary):
        raise KernelFailure("a kernel could not be loaded: the compiler made a part of a library")
    try:
        library = _loaded_from_memory(binary) or _loaded_from_file(binary)
    except OSError as error:
        raise KernelFailure(f"a kernel could not be loaded: {error}") from error
    missing = next((name for name in functions if not hasattr(library, name)), None)
    if missing is not None:
        raise KernelFailure(f"a kernel could not be loaded: the compiler made a library without {missing}")
    return library


def _is_cut_off(binary: bytes) -> bool:
    """Whether it is an ELF file of 64 bits that ends before its table of sections does, of which a process dies."""
    if binary[:5] != b"\x7fELF\x02":
        return False
    order = "<" if binary[5:6] == b"\x01" else ">"
    try:
        (start,) = struct.unpack_from(f"{order}Q", binary, 40)
        size, count = struct.unpack_from(f"{order}HH", binary, 58)
    except struct.error:
        return True
    return bool(start + size * count > len(binary))


def _loaded_from_memory(binary: bytes) -> ctypes.CDLL | None:
    """None where there are no files in memory, or no paths to them."""
    try:
        descriptor = os.memfd_create("gradscript", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return None
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(binary)
        return ctypes.CDLL(_own_path(descriptor))
    except OSError:
        return None
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
    except OSError:
        path.unlink(missing_ok=True)
        raise
