"""The system's compiler of C: which one there is, and shared libraries made by it."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ....compiler.codegen.c.math import EXACT, IN_STAGES
from ....lang.light_dataclasses import dataclass
from ..cache.folder import process_directory, unusable
from ..failure import KernelFailure
from ..notices import tell

if TYPE_CHECKING:
    from subprocess import Popen

OnStart: TypeAlias = "Callable[[Popen[bytes]], object]"

_FLAGS = (
    *("-std=gnu11", "-O2", "-march=native", "-fopenmp-simd", "-fPIC", "-shared", "-pipe", "-w"),
    # Every operation is rounded by itself, and NaN, infinities and signed zeros are what they are.
    *(*EXACT, "-fwrapv"),
)
_OF_GCC = ("-fno-thread-jumps", "-fno-tree-pre", "-fpeel-loops", "-fno-tree-loop-distribute-patterns")
"""gcc makes branches of choices between constants and values, and numbers of comparisons that two ways lead to, which
then are not made side by side: a relu of what a mask lets pass took eighteen times as long. zig refuses these options.
Short loops are written out: of -O3, nothing else makes these texts quicker."""
_OF_STAGES = ("--param=vect-epilogues-nomask=0", "--param=max-completely-peeled-insns=60")
"""Of modules that have many long loops and no others. gcc writes what is behind the last vector of each in vectors of
half the length, and what is behind those written out for each point: a third of what it took, and as quick without."""
_ZIG = "ziglang"
WITHOUT = "apt-get install gcc (Debian, Ubuntu), xcode-select --install (macOS), or pip install ziglang"
"""How to get a compiler."""
SECONDS = 120
"""After which a compiler counts as hanging."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler: its command, and what identifies it and what it makes."""

    command: tuple[str, ...]
    identity: str

    def build(self, text: str, include: Sequence[str] = (), started: OnStart | None = None) -> bytes:
        """A shared library of a text, whose headers are in the folders of `include`; `started` is given the process,
        while it runs, to be ended from elsewhere. Raises: KernelFailure."""
        try:
            folder = Path(process_directory())
        except OSError as error:
            raise KernelFailure(unusable(error)) from error
        target = folder / f"{secrets.token_hex(8)}.so"
        try:
            self._run(text, include, target, folder, started)
            return self._made(target)
        finally:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)

    def _run(self, text: str, include: Sequence[str], target: Path, folder: Path, started: OnStart | None) -> None:
        folders = [f"-I{path}" for path in include]
        options = [option for option in flags() if option not in _OF_GCC or _ZIG not in self.command]
        options += _OF_STAGES if _ZIG not in self.command and text.startswith(IN_STAGES) else ()
        command = [*self.command, *options, *folders, "-x", "c", "-", "-o", str(target), "-lm"]
        environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
        import signal
        import subprocess

        try:
            status, said = _ended(command, text, environment, started)
        except subprocess.TimeoutExpired as error:
            raise KernelFailure(f"{self.command[0]} took more than {SECONDS} seconds") from error
        except OSError as error:
            raise KernelFailure(f"{self.command[0]} could not be run: {error}") from error
        if status < 0:
            raise KernelFailure(f"{self.command[0]} was killed: {signal.strsignal(-status) or -status}")
        if status:
            errors = [line for line in said if "error:" in line] or [*said, f"exit status {status}"]
            raise KernelFailure(f"{self.command[0]} failed: {errors[0]}")

    def _made(self, target: Path) -> bytes:
        try:
            return target.read_bytes()
        except OSError as error:
            raise KernelFailure(f"{self.command[0]} made no library: {error.strerror}") from error


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end(process: Popen[bytes]) -> None:
    """End a compiler with all that it has started."""
    import signal

    with contextlib.suppress(OSError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _ended(
    command: Sequence[str], text: str, environment: dict[str, str], started: OnStart | None
) -> tuple[int, list[str]]:
    """How a command ended that was given a text, and the lines of what it said. Raises: TimeoutExpired, OSError.

    It is waited for with all that it has started, and so is it ended where it takes too long or we are interrupted.
    """
    import subprocess

    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, env=environment, start_new_session=True
    ) as process:
        try:
            if started is not None:
                started(process)
            _, said = process.communicate(text.encode(), timeout=SECONDS)
        except BaseException:
            end(process)
            raise
    return process.returncode, said.decode(errors="replace").strip().splitlines()


@cache
def find_compiler(path: str | None, chosen: str | None) -> Compiler | None:
    """The compiler that $CC names, or the first of cc, gcc, clang and the one of ziglang; None where there is none."""
    for name, *arguments in [_words(chosen)] if chosen else [["cc"], ["gcc"], ["clang"]]:
        found = shutil.which(name, path=path)
        if found is not None:
            return Compiler((found, *arguments), "\n".join([_identity(found), *arguments]))
    zig = None if chosen else find_spec(_ZIG)
    if zig is not None and zig.origin is not None:
        return Compiler((sys.executable, "-m", _ZIG, "cc"), _identity(zig.origin))
    return None


def _words(command: str) -> list[str]:
    """A command and its arguments, as $CC has them, `ccache gcc`; or a path, which may have spaces in it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return words if words and not os.path.exists(command) else [command]


def compiler() -> Compiler | None:
    """The compiler of this process."""
    return find_compiler(os.environ.get("PATH"), os.environ.get("CC"))


def has_compiler() -> bool:
    """Whether kernels can be built; where not, one notice says what is missing."""
    if compiler() is None:
        tell(f"there is no compiler of C, so functions run op by op: {WITHOUT}")
        return False
    return True


def _identity(path: str) -> str:
    """What changes when a compiler or the processor does, for which it compiles."""
    real = os.path.realpath(path)
    found = os.stat(real)
    return "\n".join([real, str(found.st_size), str(found.st_mtime_ns), *flags(), *_OF_STAGES, _processor()])


@cache
def flags() -> tuple[str, ...]:
    """What every text is compiled with on this processor."""
    # gcc takes half of what a register of 512 bits holds on most of Intel's, and then goes point by point where bools
    # choose between numbers of 8 bytes.
    all_of_them = ("-mprefer-vector-width=512",) if " avx512f " in _processor() else ()
    return (*_FLAGS, *_OF_GCC, *all_of_them)


@cache
def _processor() -> str:
    """The kind of processor, with all that it can do."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = {line for line in file if line.startswith(("flags", "Features", "model name", "CPU part"))}
    except OSError:
        lines = set()
    # Where the system says nothing, a command is run to ask.
    return "\n".join([platform.machine(), *sorted(lines or {platform.processor()})])
