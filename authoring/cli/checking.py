"""`gradscript check` on files and folders: which functions, on how many processes, and what came of each file."""

from __future__ import annotations

import json
import os
import selectors
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ...lang.diagnostics import CompileError, Diagnostic
from ...lang.light_dataclasses import dataclass, field
from ...runtime.face.function import Function
from ..check import Checker
from ..trials.arguments.examples import SUFFIX
from .loading import CliError, find_function, load_functions

SUFFIXES = (".grad", ".gs")
"""What files of source end in: those of a folder are checked."""

Done = Callable[[int], None]
"""Called with the number of functions checked so far."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The report of one function: for people, and as data."""

    name: str
    ok: bool
    text: str
    data: dict[str, Any]


@dataclass(slots=True)
class CheckedFile:
    """What came of one file. It could not be run if there are diagnostics or a problem."""

    path: str
    checked: list[Checked] = field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()
    problem: str = ""

    @property
    def could_run(self) -> bool:
        return not self.diagnostics and not self.problem

    @property
    def ok(self) -> bool:
        return self.could_run and all(one.ok for one in self.checked)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"file": self.path, "ok": self.ok, "functions": [one.data for one in self.checked]}
        if self.diagnostics:
            found["diagnostics"] = [diagnostic_dict(d) for d in self.diagnostics]
        if self.problem:
            found["error"] = self.problem
        return found


def diagnostic_dict(diagnostic: Diagnostic) -> dict[str, Any]:
    """A finding of the compiler as data."""
    span = diagnostic.span
    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        "file": span.source.filename,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "notes": list(diagnostic.notes),
    }


def exit_code(files: Sequence[CheckedFile]) -> int:
    """0: all is right; 1: there are findings; 2: something could not be run."""
    if not all(one.could_run for one in files):
        return 2
    return 0 if all(one.ok for one in files) else 1


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Paths, and the names of functions behind them: what is no file and could be a name is one."""
    paths = list(arguments)
    names: list[str] = []
    while len(paths) > 1 and paths[-1].isidentifier() and not os.path.exists(paths[-1]):
        names.insert(0, paths.pop())
    return paths, names


def files_of(paths: Sequence[str]) -> Iterator[str]:
    """The files named, and those of source in the folders named and below, each once."""
    seen: set[str] = set()
    for path in paths:
        inside = _inside(path) if os.path.isdir(path) else [path]
        if not inside:
            raise CliError(f"{path} holds no file that ends in {' or '.join(SUFFIXES)}")
        for found in inside:
            if found not in seen:
                seen.add(found)
                yield found


def _inside(folder: str) -> list[str]:
    """The files of source in a folder and below, and what folders cannot be read: whoever reads them says why."""
    errors: list[OSError] = []
    read = [
        os.path.normpath(os.path.join(place, name))
        for place, _, names in os.walk(folder, onerror=errors.append)
        for name in names
        if name.endswith(SUFFIXES)
    ]
    return sorted([*read, *(str(error.filename) for error in errors)])


def check_files(
    paths: Sequence[str], names: Sequence[str], jobs: int, started: Callable[[int], Done | None]
) -> list[CheckedFile]:
    """Check the functions of those names, or all that have a backward, in every file."""
    files = [CheckedFile(path) for path in files_of(paths)]
    work: list[tuple[int, Function]] = []
    for number, file in enumerate(files):
        try:
            found = load_functions(file.path)
            work += [(number, function) for function in _wanted(found, names, alone=len(files) == 1)]
        except CompileError as error:
            file.diagnostics = error.diagnostics
        except CliError as problem:
            file.problem = problem.format_message()
    if names and not work and all(file.could_run for file in files):
        raise CliError(f"there is no function {' or '.join(map(repr, names))} in these files")
    reports = _checked([function for _, function in work], jobs, started(len(work)))
    for (number, _), report in zip(work, reports, strict=True):
        files[number].checked.append(report)
    return files


def _wanted(found: Mapping[str, Function], names: Sequence[str], *, alone: bool) -> list[Function]:
    if names:
        return [find_function(found, name) for name in names if alone or name in found]
    return [f for f in found.values() if f.pair is not None and not f.name.endswith(SUFFIX)]


# --- one process, or several ---


def _checked(functions: Sequence[Function], jobs: int, done: Done | None) -> list[Checked]:
    jobs = min(jobs, len(functions))
    if jobs > 1 and hasattr(os, "fork"):
        return _in_processes(functions, jobs, done)
    found = []
    for number, function in enumerate(functions):
        found.append(_check_one(function))
        if done is not None:
            done(number + 1)
    return found


def _check_one(function: Function) -> Checked:
    report = Checker(function).run()
    return Checked(function.name, report.ok, str(report), report.to_dict())


def _in_processes(functions: Sequence[Function], jobs: int, done: Done | None) -> list[Checked]:
    """Each process takes the next function that none has, and tells of it in a line of JSON on a pipe of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    tickets, put = os.pipe()
    os.write(put, b"".join(number.to_bytes(2, "big") for number in range(len(functions))))
    os.close(put)
    children = {}
    for _ in range(jobs):
        heard, said = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(heard)
            _work(functions, tickets, said)
        os.close(said)
        children[child] = heard
    os.close(tickets)
    found = {}
    for number, checked in _heard(functions, list(children.values())):
        found[number] = checked
        if done is not None:
            done(len(found))
    for child in children:
        os.waitpid(child, 0)
    # What a process that was killed did not tell is done here.
    return [found.get(number) or _check_one(function) for number, function in enumerate(functions)]


def _heard(functions: Sequence[Function], pipes: Sequence[int]) -> Iterator[tuple[int, Checked]]:
    """What the processes tell, as it comes."""
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ, bytearray())
        while selector.get_map():
            for key, _ in selector.select():
                read = os.read(key.fd, 1 << 16)
                if not read:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    continue
                key.data.extend(read)
                *lines, rest = bytes(key.data).split(b"\n")
                key.data[:] = rest
                for line in lines:
                    number, ok, text, data = json.loads(line)
                    yield number, Checked(functions[number].name, ok, text, data)


def _work(functions: Sequence[Function], tickets: int, said: int) -> NoReturn:
    """A child's life, which ends here."""
    status = 1
    try:
        while ticket := os.read(tickets, 2):
            number = int.from_bytes(ticket, "big")
            checked = _check_one(functions[number])
            line = json.dumps([number, checked.ok, checked.text, checked.data]).encode() + b"\n"
            view = memoryview(line)
            while view:
                view = view[os.write(said, view) :]
        status = 0
    finally:
        os._exit(status)
