"""Units in files, and the files that they take functions from."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ....lang.diagnostics import Diagnostics, did_you_mean
from ....lang.imports import Import, relative_imports
from ....lang.source import Source
from ....lang.trampoline import Walk, run
from .unit import CompilationUnit, constants_of

SUFFIXES = (".grad", ".gs")
_MAX_BYTES = 1 << 26


def load(path: str | PathLike[str], *, scope: Mapping[str, Any] | None = None) -> CompilationUnit:
    """The unit in a file of UTF-8 text, with what it imports from files beside it: `from .norms import rms_norm`.

    `scope` is what this file may use beside that. OSError for a file that does not read, which says what to give
    instead, CompileError for bad source in whichever file it stands.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"gs.load takes the path of a file, not {type(path).__name__}")
    if scope is not None and not isinstance(scope, Mapping):
        raise TypeError(f"scope is a dict of names, not {type(scope).__name__}")
    unit: CompilationUnit = run(_Loading().load(Path(path), fspath(path), scope))
    return unit


class _Loading:
    """The files met on the way of one load: each is compiled once, and none imports itself."""

    def __init__(self) -> None:
        self._units: dict[Path, CompilationUnit] = {}
        self._open: dict[Path, str] = {}
        self._constants: dict[Path, Mapping[str, Any]] = {}
        """Those of each file, by name."""

    def load(self, path: Path, shown: str, scope: Mapping[str, Any] | None) -> Walk:
        # What is no UTF-8 becomes lone surrogates, which the lexer reports in place.
        text = _bytes_of(path, shown).decode("utf-8", "surrogateescape")
        source = Source(text, shown)
        taken: dict[str, Any] = {}
        self._open[path.resolve()] = shown
        for line in relative_imports(source):
            taken.update((yield self._taken(line, path)))
        del self._open[path.resolve()]
        names = {**(scope or {}), **taken} if taken or scope is not None else None
        unit = CompilationUnit(text, shown, scope=names)
        self._constants[path.resolve()] = constants_of(source, names)
        return unit

    def _taken(self, line: Import, path: Path) -> Walk:
        """What the names of one import mean."""
        folder = path.parent.joinpath(*[".."] * line.up)
        taken: dict[str, Any] = {}
        stem = folder.joinpath(*line.path)
        if not line.path or _is_of_files(stem, line, path.suffix):
            for imported in line.names:
                taken[imported.called] = yield self._unit(line, stem / imported.name, path)
            return taken
        unit: CompilationUnit = yield self._unit(line, stem, path)
        constants = next(self._constants[known] for known, loaded in self._units.items() if loaded is unit)
        diagnostics = Diagnostics()
        for imported in line.names:
            if imported.name in unit:
                taken[imported.called] = unit[imported.name]
            elif imported.name in constants:
                taken[imported.called] = constants[imported.name]
            else:
                known = (*unit, *constants)
                notes = did_you_mean(imported.name, known) or (f"it has {', '.join(known) or 'none'}",)
                message = f"'{line.text}' has no function and no constant '{imported.name}'"
                diagnostics.report("E201", message, imported.span, *notes)
        diagnostics.raise_if_any()
        return taken

    def _unit(self, line: Import, stem: Path, path: Path) -> Walk:
        """The unit in the file of an import."""
        found = _file(stem, path.suffix)
        diagnostics = Diagnostics()
        if found is None:
            note = f"there is no {stem.name}{path.suffix or SUFFIXES[0]} in {stem.parent}"
            diagnostics.report("E201", f"no file for the import of '{line.text}'", line.span, note)
            diagnostics.raise_if_any()
        assert found is not None
        known = found.resolve()
        if known in self._open:
            shown = list(self._open.values())[list(self._open).index(known) :]
            circle = " → ".join(Path(name).name for name in [*shown, found.name])
            note = "move what both need into a third file"
            diagnostics.report("E407", f"files import each other: {circle}", line.span, note)
            diagnostics.raise_if_any()
        if known not in self._units:
            self._units[known] = yield self.load(found, str(found), None)
        return self._units[known]


def _bytes_of(path: Path, shown: str) -> bytes:
    """What is in a file. OSError that says what is wrong with it, or what to give instead."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, f"{error.strerror}{_beside(path)}", shown) from None
    except ValueError as error:
        raise OSError(errno.EINVAL, f"this is no path of a file: {error}", ascii(shown)) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            files = ", ".join(sorted(each.name for each in path.iterdir() if each.suffix in SUFFIXES)[:5])
            raise IsADirectoryError(errno.EISDIR, f"a folder, not a file; it holds {files or 'no source'}", shown)
        first = b""
        if stat.S_ISFIFO(mode):
            # Where nobody writes there is nothing to wait for; else what is written is waited for.
            with suppress(BlockingIOError):
                first = os.read(descriptor, 1)
                if not first:
                    raise OSError(errno.EPIPE, "a pipe that nothing is written into", shown)
            os.set_blocking(descriptor, True)
        with open(descriptor, "rb", closefd=False) as file:
            found = first + file.read(_MAX_BYTES)
    finally:
        os.close(descriptor)
    if len(found) >= _MAX_BYTES:
        raise OSError(errno.EFBIG, f"more than the {_MAX_BYTES:,} bytes that source may have", shown)
    return found


def _beside(path: Path) -> str:
    """The name that was meant, of the files in the same folder; what they end in makes none like another."""
    from difflib import get_close_matches

    with suppress(OSError):
        names = {each.stem: each.name for each in path.parent.iterdir() if each.name != path.name}
        near = get_close_matches(path.stem, names, n=1, cutoff=0.7)
        return f"; did you mean '{names[near[0]]}'?" if near else ""
    return ""


def _is_of_files(stem: Path, line: Import, suffix: str) -> bool:
    """Whether a path is that of a folder, in which the names are files."""
    return _file(stem, suffix) is None and any(_file(stem / imported.name, suffix) for imported in line.names)


def _file(stem: Path, suffix: str) -> Path | None:
    """The file of a module: with the suffix of the file that imports it, or another of source."""
    names = (stem.with_name(stem.name + each) for each in dict.fromkeys((suffix, *SUFFIXES)))
    return next((name for name in names if name.is_file()), None)
